"""rollouts(): the runner as a library. `sv eval`, tournaments and RL all call it."""

import asyncio
from collections.abc import AsyncGenerator, Iterable

from security_verifiers.evals.engine import Engine
from security_verifiers.evals.record import Record
from sv_shared.task import GradedTask

Planned = tuple[GradedTask, int]
"""A task and the number of one of its samples."""


async def rollouts(
    engine: Engine, planned: Iterable[Planned], *, concurrency: int
) -> AsyncGenerator[Record, None]:
    """Play the planned rollouts, `concurrency` at a time, and yield each Record as it ends.

    Memory is bounded by the concurrency: the plan is read lazily and finished records wait for their reader.
    Closing the iterator cancels the rollouts in flight. A consumer that may stop early wraps it in
    `contextlib.aclosing`: an iterator that is merely dropped is closed by the garbage collector, some time.

    Args:
        engine: an entered engine.
        planned: the rollouts to play, in any order.
        concurrency: rollouts in flight, at least 1.
    """
    plan = iter(planned)
    finished: asyncio.Queue[Record | None] = asyncio.Queue()
    # Held from the start of a rollout until its record is consumed.
    slots = asyncio.Semaphore(2 * concurrency)

    async def worker() -> None:
        for task, sample in plan:
            await slots.acquire()
            finished.put_nowait(await engine.play(task, sample))

    async def all_workers() -> None:
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(concurrency):
                    group.create_task(worker())
        except BaseExceptionGroup as failures:
            raise failures.exceptions[0] from failures
        finally:
            finished.put_nowait(None)

    runner = asyncio.create_task(all_workers())
    try:
        while (record := await finished.get()) is not None:
            yield record
            slots.release()
        await runner
    finally:
        runner.cancel()
        await asyncio.gather(runner, return_exceptions=True)
