"""Many requests, one call of a tool: what start-up costs is paid once."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from sv_shared.errors import ToolError
from sv_shared.tools import ToolFailed, ToolResult

Q = TypeVar("Q")


@dataclass(slots=True)
class BatchStats:
    """What a batcher did.

    Attributes:
        requests: requests answered or failed.
        calls: calls of the tool, those of single requests after a failed batch included.
    """

    requests: int = 0
    calls: int = 0


class Batcher(Generic[Q]):
    """Gathers requests for a moment and answers them with one call. One event loop uses an instance.

    A call that fails with ToolFailed (killed by a limit, crashed) is made again for each of its requests
    alone, so that the request that is the cause takes no other one with it.

    Args:
        call: answers requests, in their order.
        linger_s: how long the first request waits for others, in seconds.
        most: most requests of one call.
        parallel: most calls at a time; requests that wait for a turn gather meanwhile.
    """

    def __init__(
        self,
        call: Callable[[Sequence[Q]], Awaitable[Sequence[ToolResult]]],
        *,
        linger_s: float,
        most: int,
        parallel: int = 2,
    ) -> None:
        self.stats = BatchStats()
        self._call, self._linger_s, self._most = call, linger_s, most
        self._turns = asyncio.Semaphore(parallel)
        self._waiting: list[tuple[Q, asyncio.Future[ToolResult]]] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def submit(self, request: Q) -> ToolResult:
        """The answer to one request.

        Raises:
            ToolError: from the call; ToolFailed only where the request failed alone.
        """
        future: asyncio.Future[ToolResult] = asyncio.get_running_loop().create_future()
        self._waiting.append((request, future))
        if len(self._waiting) == 1:
            task = asyncio.create_task(self._run(), name="tool batch")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return await future

    async def close(self) -> None:
        """Cancel what is under way; whoever waits for it is cancelled, too."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for _, future in self._waiting:
            future.cancel()
        self._waiting.clear()

    async def _run(self) -> None:
        await asyncio.sleep(self._linger_s)
        async with self._turns:
            # Whoever gave up meanwhile is not served.
            live = [(request, future) for request, future in self._waiting if not future.done()]
            batch, self._waiting = live[: self._most], live[self._most :]
            if self._waiting:
                task = asyncio.create_task(self._run(), name="tool batch")
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            if batch:
                await self._serve(batch)

    async def _serve(self, batch: Sequence[tuple[Q, "asyncio.Future[ToolResult]"]]) -> None:
        self.stats.requests += len(batch)
        try:
            await self._answer(batch)
        except ToolFailed as error:
            if len(batch) == 1:
                _fail(batch, error)
                return
            for one in batch:
                try:
                    await self._answer([one])
                except ToolError as alone:
                    _fail([one], alone)
        except ToolError as error:
            _fail(batch, error)
        except asyncio.CancelledError:
            for _, future in batch:
                future.cancel()
            raise
        except Exception as error:
            _fail(batch, error)  # a defect: whoever waits sees it
            raise

    async def _answer(self, batch: Sequence[tuple[Q, "asyncio.Future[ToolResult]"]]) -> None:
        self.stats.calls += 1
        results = await self._call([request for request, _ in batch])
        for (_, future), result in zip(batch, results, strict=True):
            if not future.done():
                future.set_result(result)


def _fail(batch: Sequence[tuple[Q, "asyncio.Future[ToolResult]"]], error: Exception) -> None:
    for _, future in batch:
        if not future.done():
            future.set_exception(error)
