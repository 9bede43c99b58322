"""Long-lived child processes: started once, gone with us, and with their last words kept."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Sequence
from pathlib import Path

from sv_shared.tools import BASE_ENV, Tool, ToolMissing

_LEASH = """exec 3<&0
"$@" </dev/null 3<&- >&2 & child=$!
{ cat <&3; kill -9 $child; } >/dev/null 2>&1 &
wait $child"""
"""Ends a program when our end of the pipe closes, however we end: a server does not read its input itself."""

_TAIL_BYTES = 4000


class Child:
    """A running child process in a group of its own. `start` makes one.

    Attributes:
        process: the process, with pipes where they were asked for.
    """

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self._said = bytearray()
        self._listener = asyncio.create_task(self._listen(), name=f"errors of {process.pid}")

    @classmethod
    async def start(
        cls, tool: Tool, args: Sequence[str | Path], *, talks: bool, max_line: int = 1 << 16
    ) -> "Child":
        """Start a tool that stays.

        Args:
            tool: which one; its time limit is for the caller to keep.
            args: its arguments.
            talks: whether it reads requests and writes answers through pipes. One that does must end when its
                input does; one that does not is ended by us.
            max_line: bytes that one line of an answer may hold.

        Raises:
            ToolMissing: it can't be started.
        """
        command = [str(tool.binary), *map(str, args)]
        if not talks:
            command = ["/bin/sh", "-c", _LEASH, "sh", *command]
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE if talks else asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
                cwd="/",
                env={**BASE_ENV, **tool.env},
                start_new_session=True,
                limit=max_line,
            )
        except OSError as error:
            raise ToolMissing(
                f"{tool.name} can't be started: {error.strerror}", where=str(tool.binary)
            ) from error
        return cls(process)

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self.process.returncode is None

    def last_words(self) -> str:
        """The end of what it wrote to its standard error."""
        return self._said.decode("utf-8", "replace").strip()[-400:]

    async def heard(self, timeout_s: float = 1.0) -> str:
        """Its last words, once it has said them all or `timeout_s` seconds have passed."""
        await asyncio.wait([self._listener], timeout=timeout_s)
        return self.last_words()

    async def stop(self) -> None:
        """Kill it and all that it started. A second call does nothing."""
        if self.process.stdin is not None:
            self.process.stdin.close()
        with contextlib.suppress(ProcessLookupError):  # all of them have ended
            os.killpg(self.process.pid, signal.SIGKILL)
        await self.process.wait()
        self._listener.cancel()
        await asyncio.gather(self._listener, return_exceptions=True)

    async def _listen(self) -> None:
        assert self.process.stderr is not None
        while chunk := await self.process.stderr.read(4096):
            self._said += chunk
            del self._said[:-_TAIL_BYTES]
