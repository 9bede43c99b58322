"""Running an external tool: a time limit, an output limit, nothing of our own environment, and plain errors.

This is for tools that we trust to be tools (opa, kube-linter, semgrep, git). Code written by a model belongs
into the sandbox: a process that leaves its group (setsid) outlives the limits here.
"""

import asyncio
import os
import re
import shutil
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType

from sv_shared.errors import ToolError

BASE_ENV: Mapping[str, str] = MappingProxyType(
    {"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C.UTF-8", "TZ": "UTC"}
)
"""All that a tool's environment holds besides its `Tool.env`: no key of ours, no user's settings."""

_TAIL = 400
"""Characters of a tool's last words that an error message quotes."""


@dataclass(frozen=True, slots=True)
class Tool:
    """An external tool, found and identified.

    Attributes:
        name: what it is called in messages, findings and cache keys.
        binary: path of its executable.
        version: what it said of itself; recorded with every result.
        env: environment variables besides `BASE_ENV`.
        timeout_s: wall time that one call may take, in seconds.
        max_output: bytes that each of stdout and stderr may hold.
    """

    name: str
    binary: Path
    version: str
    env: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float = 30.0
    max_output: int = 16 << 20


class Ending(StrEnum):
    """How a tool's process ended."""

    EXITED = "exited"
    TIMED_OUT = "timed out"
    FLOODED = "wrote too much"
    SIGNALLED = "crashed"


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What one call of a tool left behind.

    Attributes:
        returncode: exit status; negative: the number of the signal that ended it.
        stdout, stderr: what it wrote, at most `Tool.max_output` bytes each.
        duration_s: wall time in seconds, of the original call where the result comes from a cache.
        ending: how it ended; a result that is returned and not raised has `Ending.EXITED`.
        tool, version: which tool it was.
    """

    returncode: int
    stdout: bytes
    stderr: bytes
    duration_s: float
    ending: Ending
    tool: str
    version: str


class ToolMissing(ToolError):
    """The tool is not installed, or can't be started. Says nothing about the input."""


class ToolFailed(ToolError):
    """The tool was killed by a limit or crashed. Whether the input is the cause, a known-good input tells.

    Attributes:
        result: what it left behind.
    """

    def __init__(self, what: str, result: ToolResult, *, where: str = "", hint: str = "") -> None:
        super().__init__(what, where=where, hint=hint)
        self.result = result


def find_binary(name: str, *, install: str, folders: Sequence[Path] = ()) -> Path:
    """The executable of a tool: from `folders` first, then from BASE_ENV's and the user's PATH.

    Args:
        name: the executable's name.
        install: what to tell a user who lacks it, as a sentence without a full stop.
        folders: folders of our own to look in first.

    Raises:
        ToolMissing: it is nowhere.
    """
    path = os.pathsep.join([*map(str, folders), BASE_ENV["PATH"], os.environ.get("PATH", "")])
    found = shutil.which(name, path=path)
    if found is None:
        raise ToolMissing(f"{name} is not installed", hint=install)
    return Path(found)


async def find_tool(
    name: str,
    *,
    install: str,
    version_args: Sequence[str] = ("--version",),
    version_pattern: str = r"\d+\.\d+(?:\.\d+)?\S*",
    folders: Sequence[Path] = (),
    env: Mapping[str, str] | None = None,
    timeout_s: float = 30.0,
    max_output: int = 16 << 20,
) -> Tool:
    """Find a tool and ask for its version.

    Args:
        name: its executable's name.
        install: what to tell a user who lacks it.
        version_args: arguments that make it print its version.
        version_pattern: regular expression of the version in what it prints.
        folders: folders of our own to look in first.
        env, timeout_s, max_output: as in `Tool`.

    Raises:
        ToolMissing: it is not installed, or can't be started.
        ToolError: it prints no version, or fails when asked for it.
    """
    binary = find_binary(name, install=install, folders=folders)
    unknown = Tool(name, binary, "", dict(env or {}), timeout_s, max_output)
    result = await run_tool(unknown, version_args)
    said = (result.stdout + b"\n" + result.stderr).decode("utf-8", "replace")
    version = re.search(version_pattern, said)
    if result.returncode != 0 or version is None:
        raise ToolError(
            f"{name} does not tell its version: exit {result.returncode}, {_tail(result)!r}",
            where=f"{binary} {' '.join(version_args)}",
            hint=install,
        )
    return Tool(name, binary, version[0], dict(env or {}), timeout_s, max_output)


async def run_tool(
    tool: Tool, args: Sequence[str | Path], *, stdin: bytes = b"", cwd: Path | None = None
) -> ToolResult:
    """Call a tool once. Any exit status is a result; what it means is the caller's to say.

    When the call ends, however it ends (a limit, an error, cancellation), every process of the tool's group
    is killed, so grandchildren do not survive.

    Args:
        tool: which one.
        args: its arguments; no shell is involved.
        stdin: what it reads; a tool that does not read it is no error.
        cwd: its working folder; None: the root folder, so that no file of ours is picked up by chance.

    Raises:
        ToolMissing: the executable is gone or can't be started.
        ToolFailed: it ran longer than `tool.timeout_s`, wrote more than `tool.max_output` bytes, or crashed.
    """
    loop = asyncio.get_running_loop()
    started = loop.time()
    call = f"{tool.name} {' '.join(map(str, args))}"
    folder = Path("/") if cwd is None else cwd
    if not folder.is_dir():
        raise ToolError(f"the working folder of {tool.name} does not exist", where=str(folder))
    try:
        transport, process = await loop.subprocess_exec(
            lambda: _Process(loop, tool.max_output),
            str(tool.binary),
            *map(str, args),
            cwd=folder,
            env={**BASE_ENV, **tool.env},
            start_new_session=True,
        )
    except OSError as error:
        raise ToolMissing(
            f"{tool.name} can't be started: {error.strerror}", where=str(tool.binary)
        ) from error
    try:
        process.feed(stdin)
        async with asyncio.timeout(tool.timeout_s):
            await process.done
    except TimeoutError:
        process.ending = Ending.TIMED_OUT
    finally:
        process.kill_group()
        transport.close()
        await process.exited
    returncode = transport.get_returncode()
    assert returncode is not None, "the process has exited"
    if returncode < 0 and process.ending is Ending.EXITED:
        process.ending = Ending.SIGNALLED
    seconds = loop.time() - started
    out, err = (bytes(process.output[fd]) for fd in (1, 2))
    result = ToolResult(returncode, out, err, seconds, process.ending, tool.name, tool.version)
    if process.ending is not Ending.EXITED:
        raise ToolFailed(_why(tool, result), result, where=call)
    return result


class _Process(asyncio.SubprocessProtocol):
    """Gathers what a process writes, and kills its whole group when it floods or when its first process ends.

    We do not use asyncio's own streams because they end only when every holder of the pipes has let go: a
    grandchild left behind would keep a finished tool waiting until the time limit.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, max_output: int) -> None:
        self.output = {1: bytearray(), 2: bytearray()}
        self.ending = Ending.EXITED
        self.exited: asyncio.Future[None] = loop.create_future()
        self.done: asyncio.Future[None] = loop.create_future()
        self._max_output = max_output
        self._group: int | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.SubprocessTransport)
        self._transport = transport
        self._group = transport.get_pid()

    def feed(self, stdin: bytes) -> None:
        """Hand over what the process reads, then its end."""
        pipe = self._transport.get_pipe_transport(0)
        assert isinstance(pipe, asyncio.WriteTransport)
        if not pipe.is_closing():
            pipe.write(stdin)
            pipe.write_eof()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        held = self.output[fd]
        room = self._max_output - len(held)
        held += data[: max(0, room)]
        if len(data) > room and self.ending is Ending.EXITED:
            self.ending = Ending.FLOODED
            self.kill_group()

    def process_exited(self) -> None:
        self.kill_group()
        self._group = None  # the number may be given to another process from now on
        if not self.exited.done():
            self.exited.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_result(None)

    def kill_group(self) -> None:
        """End every process of the group at once; a tool has nothing to tidy up that we keep."""
        if self._group is None:
            return
        try:
            os.killpg(self._group, signal.SIGKILL)
        except ProcessLookupError:
            return  # all of them have ended


def _why(tool: Tool, result: ToolResult) -> str:
    match result.ending:
        case Ending.TIMED_OUT:
            return f"{tool.name} {tool.version} did not end within {tool.timeout_s:g} s and was killed"
        case Ending.FLOODED:
            return f"{tool.name} {tool.version} wrote more than {tool.max_output:,} bytes and was killed"
        case _:
            name = signal.Signals(-result.returncode).name
            return f"{tool.name} {tool.version} crashed with {name}: {_tail(result)!r}"


def _tail(result: ToolResult) -> str:
    said = (result.stderr or result.stdout).decode("utf-8", "replace").strip()
    return said[-_TAIL:]
