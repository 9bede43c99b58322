"""Where tools lie, and what a Go program says of itself."""

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sv_shared.errors import ToolError
from sv_shared.tool_folder import find_installed, go_build, tool_bin, tools_folder
from tests.security_verifiers.toolchain.doubles import CHECKSUM, PACKAGE, go_program, script

NAMES = st.from_regex(r"[a-z][a-z0-9./-]{0,200}", fullmatch=True)


@pytest.mark.parametrize(
    ("env", "folder"),
    [
        ({"SV_TOOLS_DIR": "/t", "XDG_CACHE_HOME": "/c"}, Path("/t")),
        ({"XDG_CACHE_HOME": "/c"}, Path("/c/security-verifiers/tools")),
        ({"XDG_CACHE_HOME": "relative"}, Path.home() / ".cache/security-verifiers/tools"),
        ({}, Path.home() / ".cache/security-verifiers/tools"),
        ({"SV_TOOLS_DIR": ""}, Path.home() / ".cache/security-verifiers/tools"),
        ({"SV_TOOLS_DIR": "~/t"}, Path.home() / "t"),
        ({"SV_TOOLS_DIR": "here"}, Path.cwd() / "here"),
    ],
    ids=["own", "xdg", "xdg-relative", "default", "empty", "home", "relative"],
)
def test_folder(env: dict[str, str], folder: Path) -> None:
    assert tools_folder(env) == folder
    assert tool_bin("opa", env) == folder / "opa" / "current" / "bin"


@given(
    package=NAMES, version=st.from_regex(r"v[0-9]\.[0-9]+\.[0-9]", fullmatch=True), padding=st.integers(0, 9)
)
def test_build_info_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, package: str, version: str, padding: int
) -> None:
    place = tmp_path_factory.mktemp("go") / "program"
    place.write_bytes(go_program(package=package, version=version, padding=padding))
    found = go_build(place)
    assert found is not None
    assert found == ("go1.26.8", package, version[1:], CHECKSUM)


def test_the_magic_as_a_constant_is_passed_over(tmp_path: Path) -> None:
    program = go_program()
    start = program.index(b"\xff Go buildinf:")
    decoys = b"\xff Go buildinf:".ljust(48, b"\x00") + b"x\xff Go buildinf:".ljust(48, b"\x02")
    (tmp_path / "program").write_bytes(program[:start] + decoys + program[start:])
    found = go_build(tmp_path / "program")
    assert found is not None
    assert found.package == PACKAGE


def test_the_format_before_go_1_18_is_not_read(tmp_path: Path) -> None:
    program = bytearray(go_program())
    program[program.index(b"\xff Go buildinf:") + 15] = 0
    (tmp_path / "program").write_bytes(program)
    assert go_build(tmp_path / "program") is None


@pytest.mark.parametrize("length", [40, 200, 20_000], ids=["one-byte", "two-bytes", "three-bytes"])
def test_what_lies_behind_the_text_is_not_read(tmp_path: Path, length: int) -> None:
    package = "p" * length
    (tmp_path / "program").write_bytes(go_program(package=package, version=""))
    assert go_build(tmp_path / "program") == ("go1.26.8", package, None, "")


def test_a_build_from_a_work_tree_has_no_version(tmp_path: Path) -> None:
    (tmp_path / "program").write_bytes(go_program(version="(devel)", checksum=""))
    found = go_build(tmp_path / "program")
    assert found is not None
    assert (found.version, found.checksum) == (None, "")


@given(cut=st.integers(0, 400), noise=st.binary(max_size=60), at=st.integers(0, 400))
def test_broken_programs_never_raise(
    tmp_path_factory: pytest.TempPathFactory, cut: int, noise: bytes, at: int
) -> None:
    program = bytearray(go_program())
    program[at : at + len(noise)] = noise
    place = tmp_path_factory.mktemp("go") / "program"
    place.write_bytes(program[:cut])
    go_build(place)


def test_against_go_itself(tmp_path: Path) -> None:
    go = shutil.which("go")
    if go is None:
        pytest.skip("no Go on PATH to compare with")
    said = subprocess.run([go, "version", "-m", go], capture_output=True, text=True, check=True).stdout
    found = go_build(Path(go).resolve())
    assert found is not None
    assert f": {found.go}\n" in said
    assert f"\tpath\t{found.package}\n" in said


async def test_a_go_program_is_believed_over_what_it_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SV_TOOLS_DIR", str(tmp_path))
    script(tmp_path / "gadget/current/bin/gadget", "").write_bytes(go_program(shell="echo version 9.9.9"))
    tool = await find_installed("gadget")
    assert (tool.name, tool.version) == ("gadget", "1.5.0")
    assert tool.binary == tmp_path / "gadget/current/bin/gadget"


async def test_others_are_asked_and_the_tools_folder_comes_before_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SV_TOOLS_DIR", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    script(tmp_path / "path/sv-wdg", "#!/bin/sh\necho widget 1.0.0\n")
    assert (await find_installed("widget", binary="sv-wdg")).version == "1.0.0"
    script(tmp_path / "widget/current/bin/sv-wdg", "#!/bin/sh\necho widget 2.0.0\n")
    assert (await find_installed("widget", binary="sv-wdg")).version == "2.0.0"


async def test_missing_tells_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SV_TOOLS_DIR", str(tmp_path))
    with pytest.raises(ToolError, match="sv tools install no-such-tool"):
        await find_installed("no-such-tool")
