"""Running external tools, against tools that misbehave."""

import asyncio
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sv_shared.errors import ToolError
from sv_shared.tools import Ending, Tool, ToolFailed, ToolMissing, ToolResult, find_tool, run_tool

MakeTool = Callable[..., Tool]


@pytest.fixture
def make_tool(tmp_path: Path) -> MakeTool:
    """Makes a tool out of the body of a shell script."""

    def make(body: str, *, timeout_s: float = 20.0, max_output: int = 1 << 20, **env: str) -> Tool:
        path = tmp_path / "tool"
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)
        return Tool("tool", path, "1.2.3", env, timeout_s, max_output)

    return make


def is_alive(pid: int) -> bool:
    """Whether a process exists and is not a zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


async def gone(pid: int) -> bool:
    """Whether a process ends within two seconds."""
    for _ in range(100):
        if not is_alive(pid):
            return True
        await asyncio.sleep(0.02)
    return False


def content(path: Path) -> str:
    """The text of a file, "" where there is none."""
    return path.read_text() if path.exists() else ""


async def written_pid(path: Path) -> int:
    """The process id that a script writes to a file."""
    for _ in range(500):
        if (text := content(path)).endswith("\n"):
            return int(text)
        await asyncio.sleep(0.01)
    raise AssertionError(f"nothing was written to {path}")


async def test_result_holds_what_the_tool_did(make_tool: MakeTool, tmp_path: Path) -> None:
    tool = make_tool('cat; echo "args $1" >&2; pwd >&2; exit 3')
    got = await run_tool(tool, ["a b;c"], stdin=b"in\x00put", cwd=tmp_path)
    assert (got.returncode, got.stdout) == (3, b"in\x00put")
    assert got.stderr.decode() == f"args a b;c\n{tmp_path}\n"
    assert (got.tool, got.version, got.ending) == ("tool", "1.2.3", Ending.EXITED)
    assert 0 < got.duration_s < 20


async def test_environment_is_ours_to_give(make_tool: MakeTool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("HOME", "/somewhere")
    got = await run_tool(make_tool("/usr/bin/env", SEMGREP_SEND_METRICS="off"), [])
    names = {line.split("=")[0] for line in got.stdout.decode().splitlines()}
    assert "SEMGREP_SEND_METRICS" in names
    assert names <= {"SEMGREP_SEND_METRICS", "PATH", "LC_ALL", "TZ", "PWD", "OLDPWD", "SHLVL", "_"}


async def test_tool_that_does_not_read_its_input(make_tool: MakeTool) -> None:
    got = await run_tool(make_tool("echo done"), [], stdin=b"x" * 10_000_000)
    assert got.stdout == b"done\n"


async def test_large_input_and_output_pass_at_the_same_time(make_tool: MakeTool) -> None:
    data = os.urandom(3_000_000)
    got = await run_tool(make_tool("cat", max_output=3_000_000), [], stdin=data)
    assert got.stdout == data


@pytest.mark.parametrize("body", ["sleep 60", "trap '' TERM INT HUP; while :; do sleep 60; done"])
async def test_hung_tool_is_killed_even_if_it_ignores_requests(make_tool: MakeTool, body: str) -> None:
    started = time.monotonic()
    with pytest.raises(ToolFailed, match=r"tool 1\.2\.3 did not end within 0\.3 s") as caught:
        await run_tool(make_tool(f"echo early; {body}", timeout_s=0.3), ["scan"])
    assert time.monotonic() - started < 5
    assert caught.value.result.ending is Ending.TIMED_OUT
    assert caught.value.result.stdout == b"early\n"
    assert caught.value.where == "tool scan"


async def test_grandchildren_of_a_hung_tool_are_killed(make_tool: MakeTool, tmp_path: Path) -> None:
    tool = make_tool(f"(trap '' TERM; sh -c 'echo $$ > {tmp_path}/pid; exec sleep 60') & wait", timeout_s=1.0)
    with pytest.raises(ToolFailed):
        await run_tool(tool, [])
    assert await gone(await written_pid(tmp_path / "pid"))


async def test_grandchild_that_holds_the_pipes_does_not_delay_a_finished_tool(
    make_tool: MakeTool, tmp_path: Path
) -> None:
    started = time.monotonic()
    tool = make_tool(f"sh -c 'echo $$ > {tmp_path}/pid; exec sleep 60' & echo done", timeout_s=30.0)
    got = await run_tool(tool, [])
    assert (got.returncode, got.stdout) == (0, b"done\n")
    assert time.monotonic() - started < 10
    if pid := content(tmp_path / "pid").strip():  # killed before it could write, or after
        assert await gone(int(pid))


async def test_flood_is_cut_and_killed(make_tool: MakeTool) -> None:
    tool = make_tool("exec dd if=/dev/zero bs=65536 count=1600 2>/dev/null", max_output=100_000)
    with pytest.raises(ToolFailed, match="wrote more than 100,000 bytes") as caught:
        await run_tool(tool, [])
    assert caught.value.result.ending is Ending.FLOODED
    assert len(caught.value.result.stdout) == 100_000


async def test_crash_names_signal_and_last_words(make_tool: MakeTool) -> None:
    with pytest.raises(ToolFailed, match=r"crashed with SIGSEGV: 'out of luck'") as caught:
        await run_tool(make_tool("echo out of luck >&2; kill -SEGV $$"), [])
    assert caught.value.result.returncode == -signal.SIGSEGV


async def test_cancellation_kills_the_tool(make_tool: MakeTool, tmp_path: Path) -> None:
    tool = make_tool(f"echo $$ > {tmp_path}/pid; exec sleep 60")
    call = asyncio.create_task(run_tool(tool, []))
    pid = await written_pid(tmp_path / "pid")
    assert is_alive(pid)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert not is_alive(pid)


async def test_loop_goes_on_while_tools_run(make_tool: MakeTool) -> None:
    tool = make_tool("sleep 0.5")
    started = time.monotonic()
    await asyncio.gather(*(run_tool(tool, []) for _ in range(8)))
    assert time.monotonic() - started < 3


async def test_missing_tool_says_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(ToolMissing, match=r"no-such-tool is not installed\. Run `sv tools install`"):
        await find_tool("no-such-tool", install="Run `sv tools install`")
    with pytest.raises(ToolMissing, match="can't be started"):
        await run_tool(Tool("gone", tmp_path / "gone", "1"), [])
    (tmp_path / "plain").write_text("not executable")
    with pytest.raises(ToolMissing, match="Permission denied"):
        await run_tool(Tool("plain", tmp_path / "plain", "1"), [])


async def test_missing_working_folder_is_named(make_tool: MakeTool, tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="nowhere"):
        await run_tool(make_tool("true"), [], cwd=tmp_path / "nowhere")


async def test_version_is_asked_for(make_tool: MakeTool, tmp_path: Path) -> None:
    make_tool('[ "$1" = version ] && echo "Tool v0.68.1-rc2 (built with go1.24)"')
    found = await find_tool("tool", install="", version_args=("version",), folders=[tmp_path])
    assert (found.version, found.binary) == ("0.68.1-rc2", tmp_path / "tool")
    make_tool("echo no number here")
    with pytest.raises(ToolError, match="does not tell its version"):
        await find_tool("tool", install="", folders=[tmp_path])
    make_tool("echo 1.2.3; exit 1")
    with pytest.raises(ToolError, match="exit 1"):
        await find_tool("tool", install="", folders=[tmp_path])


async def test_no_file_descriptors_are_left(make_tool: MakeTool) -> None:
    tool = make_tool("echo x")
    await run_tool(tool, [])
    await asyncio.sleep(0.05)
    before = len(os.listdir("/proc/self/fd"))
    results: list[ToolResult] = [await run_tool(tool, []) for _ in range(20)]
    await asyncio.sleep(0.05)
    assert {result.stdout for result in results} == {b"x\n"}
    assert len(os.listdir("/proc/self/fd")) <= before + 1
