"""Python tools with the real venv and pip: pins with hashes, and a folder that is moved afterwards."""

import hashlib
import sys
import zipfile
from pathlib import Path

import pytest

from security_verifiers.toolchain import python
from security_verifiers.toolchain.python import find_uv, make_venv, rebase_scripts
from sv_shared.errors import ToolError
from sv_shared.tools import Tool, run_tool
from tests.security_verifiers.toolchain.doubles import World

WHEEL = "sv_probe_pkg-1.0-py3-none-any.whl"
INFO = "sv_probe_pkg-1.0.dist-info"


@pytest.fixture
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """An environment in which pip knows one wheel, which has one script, and no network."""
    # A private uv of this checkout must not take the place of pip.
    monkeypatch.setattr(python, "_CHECKOUT", tmp_path / "nowhere")
    with zipfile.ZipFile(tmp_path / WHEEL, "w") as wheel:
        wheel.writestr("sv_probe_pkg.py", "def main():\n    print('probe 1.0')\n")
        wheel.writestr(f"{INFO}/METADATA", "Metadata-Version: 2.1\nName: sv-probe-pkg\nVersion: 1.0\n")
        wheel.writestr(
            f"{INFO}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{INFO}/entry_points.txt", "[console_scripts]\nsv-probe = sv_probe_pkg:main\n")
        names = ("sv_probe_pkg.py", *(f"{INFO}/{n}" for n in ("METADATA", "WHEEL", "entry_points.txt")))
        wheel.writestr(f"{INFO}/RECORD", "".join(f"{name},,\n" for name in (*names, f"{INFO}/RECORD")))
    return {
        "PATH": "/usr/bin:/bin",
        "HOME": str(tmp_path),
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(tmp_path),
    }


def requirements(folder: Path, digest: str) -> Path:
    file = folder / "probe.txt"
    file.write_text(f"sv-probe-pkg==1.0 --hash=sha256:{digest}\n", encoding="utf-8")
    return file


@pytest.mark.slow
async def test_only_the_pinned_hash_is_installed_and_it_runs_after_the_move(
    tmp_path: Path, offline: dict[str, str]
) -> None:
    digest = hashlib.sha256((tmp_path / WHEEL).read_bytes()).hexdigest()
    made, final = tmp_path / "made", tmp_path / "final"
    with pytest.raises(ToolError, match="other than what is pinned"):
        await make_venv(made, requirements(tmp_path, "0" * 64), env=offline, timeout_s=60)
    assert not list(made.glob("lib/python*/site-packages/sv_probe_pkg.py"))
    how = await make_venv(made, requirements(tmp_path, digest), env=offline, timeout_s=60)
    assert how == "pip"
    rebase_scripts(made, final)
    made.rename(final)
    said = await run_tool(Tool("sv-probe", final / "bin" / "sv-probe", ""), ())
    assert said.stdout == b"probe 1.0\n"


def test_uv_is_found_on_path_then_in_the_checkout(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(python, "_CHECKOUT", tmp_path)
    assert find_uv(world.env) == world.folder / "bin" / "uv"
    assert find_uv({"PATH": "/nowhere"}) is None
    private = tmp_path / ".tools/uv/bin/uv"
    private.parent.mkdir(parents=True)
    private.symlink_to(sys.executable)
    assert find_uv({"PATH": "/nowhere"}) == private


def test_scripts_of_other_kinds_are_left_as_they_are(tmp_path: Path) -> None:
    venv = tmp_path / "made"
    (venv / "bin").mkdir(parents=True)
    binary = b"\x7fELF" + bytes(venv)
    (venv / "bin" / "core").write_bytes(binary)
    (venv / "bin" / "python").symlink_to(sys.executable)
    rebase_scripts(venv, tmp_path / "final")
    assert (venv / "bin" / "core").read_bytes() == binary
    assert (venv / "bin" / "python").is_symlink()
