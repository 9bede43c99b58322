"""Several processes at once, and processes that are killed."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from security_verifiers.toolchain.folder import ToolFolder
from sv_shared.errors import ToolError
from tests.security_verifiers.toolchain.doubles import World

ROOT = Path(__file__).resolve().parents[3]

INSTALL = """
import asyncio, os, signal, sys
from pathlib import Path
from security_verifiers.toolchain.folder import ToolFolder
from security_verifiers.toolchain.install import install
from tests.security_verifiers.toolchain.doubles import Watcher, pins
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job of a shell ignores it
folder = ToolFolder(Path(sys.argv[1]), Path(sys.argv[2]))
outcomes = asyncio.run(install(pins(), (), folder, watcher=Watcher(), env=dict(os.environ)))
print(*(outcome.state for outcome in outcomes))
"""


def start(world: World, **steer: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", INSTALL, str(world.root), str(world.requirements)],
        cwd=ROOT,
        env={**world.env, **steer, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )


def wait_for(place: Path) -> None:
    deadline = time.monotonic() + 20
    while not (place.is_file() and place.read_text()):
        assert time.monotonic() < deadline, f"{place} did not appear"
        time.sleep(0.02)


def test_of_two_at_once_only_one_builds(world: World) -> None:
    both = [start(world, FAKE_SECONDS="0.5") for _ in range(2)]
    said = sorted(process.communicate(timeout=40)[0].strip() for process in both)
    assert said == ["installed installed", "present present"]
    assert world.calls("gadget") == 1
    assert world.calls("uv pip") == 1


def test_killed_in_the_middle_leaves_no_half_tool_and_no_lock(world: World) -> None:
    first = start(world, FAKE_GO="hang")
    builder = world.folder / "pid"
    try:
        wait_for(builder)
    finally:
        first.kill()
        first.communicate()
        if builder.is_file():
            os.kill(int(builder.read_text()), signal.SIGKILL)
    assert not (world.root / "gadget").exists()
    second = start(world)
    assert "installed" in second.communicate(timeout=40)[0].split()[0]
    assert os.readlink(world.root / "gadget/current") == "1.5.0"
    assert not (world.root / ".build").exists()


def test_interrupted_ends_the_build_too(world: World) -> None:
    process = start(world, FAKE_GO="hang")
    builder = world.folder / "pid"
    try:
        wait_for(builder)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)
    finally:
        process.kill()
    with pytest.raises(ProcessLookupError):
        os.kill(int(builder.read_text()), 0)
    assert [p.name for p in (world.root / ".build").iterdir() if p.name != "go_gadget"] == []


async def test_waiting_for_the_lock_has_a_limit(world: World) -> None:
    folder = ToolFolder(world.root, world.requirements)
    waits: list[bool] = []
    async with folder.lock(lambda: None, 1):
        with pytest.raises(ToolError, match="another process"):
            async with folder.lock(lambda: waits.append(True), 0.3):
                pass
    assert waits == [True]
    async with asyncio.timeout(1), folder.lock(lambda: None, 1):
        pass
