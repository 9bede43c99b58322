"""ToolCache: results of external tools by content, in one SQLite file that several processes may share.

The folder must be on a local disk: SQLite's write-ahead log does not work over a network file system.
"""

import asyncio
import hashlib
import logging
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from sv_shared.errors import ToolError
from sv_shared.tool_store import DAY_S, GIB, ToolStore
from sv_shared.tools import ToolResult

T = TypeVar("T")

_log = logging.getLogger(__name__)

_PRUNE_EVERY = 64
"""Results stored between two looks at the file's size."""


@dataclass(frozen=True, slots=True)
class CacheKey:
    """What a result depends on; the same four always give the same result.

    Attributes:
        tool: the tool's name, with the engine where there are several.
        version: what it says of itself.
        rules: hash of its rules, configuration and arguments (`content_hash`).
        input: hash of all it reads, file names included where they matter (`content_hash`).
    """

    tool: str
    version: str
    rules: str
    input: str

    @property
    def digest(self) -> str:
        """SHA-256 over the four parts."""
        return content_hash(self.tool, self.version, self.rules, self.input)


def content_hash(*parts: str | bytes) -> str:
    """SHA-256 over the parts, each led by its length: ("ab", "c") and ("a", "bc") differ."""
    total = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        total.update(len(data).to_bytes(8, "big") + data)
    return total.hexdigest()


@dataclass(slots=True)
class CacheStats:
    """What a cache did since it was opened by this process.

    Attributes:
        hits: results found.
        misses: results that had to be computed.
        joined: callers who waited for a result that another one was computing.
        rejected: stored results that were damaged or that the caller's parser refused; computed again.
        errors: reads and writes that failed (disk full, locked too long); the result was used unstored.
    """

    hits: int = 0
    misses: int = 0
    joined: int = 0
    rejected: int = 0
    errors: int = 0

    @property
    def hit_rate(self) -> float | None:
        """Share of lookups that needed no call of their own; None where there was no lookup."""
        total = self.hits + self.misses + self.joined
        return (self.hits + self.joined) / total if total else None


@dataclass(slots=True)
class _Flight:
    """A result on its way, and how many wait for it."""

    task: asyncio.Task[Any]
    waiting: int = 0


class ToolCache:
    """Finds the result of a tool call, or makes it, once.

    The cache only ever saves time. A damaged file is left where it is and a new one begun, a damaged entry is
    made again, and what can't be read or stored (disk full) is used unstored: all of it is counted in `stats`
    and told to `warn`, none of it ends a rollout. One event loop uses an instance; SQLite runs in a thread of
    its own, so the loop never waits for a disk or a lock.

    Args:
        folder: where the file lies; made if missing.
        max_bytes: size above which the oldest results go.
        max_age_s: age above which a result goes, in seconds.
        clock: seconds since the epoch.
        warn: takes one line about anything out of order.

    Raises:
        ToolError: the folder can't be written.
    """

    def __init__(
        self,
        folder: Path,
        *,
        max_bytes: int = GIB,
        max_age_s: float = 90 * DAY_S,
        clock: Callable[[], float] = time.time,
        warn: Callable[[str], None] = _log.warning,
    ) -> None:
        self.stats = CacheStats()
        self._warn, self._told = warn, False
        self._flights: dict[str, _Flight] = {}
        self._puts = 0
        self._store = ToolStore(folder, max_bytes=max_bytes, max_age_s=max_age_s, clock=clock, warn=warn)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="tool-cache")

    async def result(
        self,
        key: CacheKey,
        call: Callable[[], Awaitable[ToolResult]],
        parse: Callable[[ToolResult], T],
    ) -> T:
        """The parsed result for `key`, from the cache or from a call.

        While a call for a key runs, others who ask for it wait for that one; it is cancelled when the last
        of them is. What is stored is the raw result, and only once `parse` has taken it, so that a tool that
        ends well and writes garbage is asked again next time.

        Args:
            key: what the result depends on.
            call: runs the tool (`run_tool`).
            parse: turns the raw result into findings; raises ToolError where it is not what the tool writes.
                Called on hits too, so that a mended parser needs no new cache. One key has one parser.

        Raises:
            ToolError: from `call` or `parse`.
        """
        digest = key.digest
        flight = self._flights.get(digest)
        if flight is None:
            task = asyncio.create_task(
                self._find_or_make(digest, call, parse), name=f"{key.tool} {digest[:8]}"
            )
            flight = self._flights[digest] = _Flight(task)
            task.add_done_callback(lambda done: self._land(digest, done))
        else:
            self.stats.joined += 1
        flight.waiting += 1
        try:
            result: T = await asyncio.shield(flight.task)
        finally:
            flight.waiting -= 1
            if not flight.waiting and not flight.task.done():
                self._flights.pop(digest, None)
                flight.task.cancel()
        return result

    async def prune(self) -> None:
        """Remove results that are too old, then the oldest until the file is within its size."""
        await self._try(self._store.prune)

    async def clear(self) -> None:
        """Remove every result, and the damaged files that were set aside.

        Raises:
            ToolError: the file can't be changed.
        """
        await self._run(self._store.clear)

    def close(self) -> None:
        """Let go of the file. A second call does nothing."""
        self._thread.submit(self._store.close)
        self._thread.shutdown()

    async def _find_or_make(
        self, digest: str, call: Callable[[], Awaitable[ToolResult]], parse: Callable[[ToolResult], T]
    ) -> T:
        stored, damaged = await self._try(self._store.get, digest) or (None, False)
        if stored is not None:
            try:
                parsed = parse(stored)
            except ToolError:
                damaged = True
            else:
                self.stats.hits += 1
                return parsed
        self.stats.misses += 1
        self.stats.rejected += damaged
        made = await call()
        parsed = parse(made)
        await self._try(self._store.put, digest, made)
        self._puts += 1
        if self._puts % _PRUNE_EVERY == 0:
            await self.prune()
        return parsed

    def _land(self, digest: str, task: asyncio.Task[Any]) -> None:
        flight = self._flights.get(digest)
        if flight is not None and flight.task is task:
            del self._flights[digest]
        if not task.cancelled():
            task.exception()  # looked at here, because everyone who waited may have been cancelled

    async def _run(self, action: Callable[..., T], *args: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, action, *args)

    async def _try(self, action: Callable[..., T], *args: Any) -> T | None:
        """The action's result, or None where the file failed, which is counted and told once."""
        try:
            return await self._run(action, *args)
        except ToolError as error:
            self.stats.errors += 1
            if not self._told:
                self._told = True
                self._warn(f"the tool cache is out of use: {error}; results are computed and not stored")
            return None
