"""Rollouts a second of an environment with a zero-latency model, against the bare engine in turns."""

import asyncio
import resource
import statistics
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import cycle, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from security_verifiers.bench.bare import BARE
from security_verifiers.evals.engine import Engine
from security_verifiers.evals.plan import Plan, make_plan
from security_verifiers.evals.run import rollouts
from security_verifiers.evals.seats import policy_seats
from sv_shared.environment import Environment
from sv_shared.errors import ModelError
from sv_shared.policies import PolicySpec
from sv_shared.rollout_logging import JsonlSink, RolloutLogger
from sv_shared.task import GradedTask

CONCURRENCY = 16
TIME_LIMIT_S = 60.0


@dataclass(frozen=True, slots=True)
class Throughput:
    """What was measured; medians over the rounds.

    Attributes:
        rollouts: rollouts a round and side.
        rounds: how often both sides took their turn.
        per_second: rollouts a second with grading, records and artifacts.
        bare_per_second: rollouts a second of the bare engine.
        ratio: median of the rounds' ratios.
        cpu_ms, bare_cpu_ms: CPU milliseconds a rollout, all threads of the process.
        line_bytes: mean size of a result line.
    """

    rollouts: int
    rounds: int
    per_second: float
    bare_per_second: float
    ratio: float
    cpu_ms: float
    bare_cpu_ms: float
    line_bytes: float

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class _Lap:
    per_second: float
    cpu_ms: float


async def measure(
    environment: Environment, config: Mapping[str, Any], policy: str, *, count: int, rounds: int
) -> Throughput:
    """Let the bare engine and the environment take turns, after a warm-up of each.

    Args:
        environment: what is measured.
        config: the dataset's settings.
        policy: the scripted player of the evaluated seat.
        count: rollouts a turn.
        rounds: turns of each side.

    Raises:
        ModelError: no policy of that name.
        SVError: the dataset can't be loaded.
    """
    known = environment.policies(environment.evaluated_seat)
    if policy not in known:
        raise ModelError(
            f"{environment.alias} has no policy {policy!r}", hint=f"It has {', '.join(sorted(known))}"
        )
    spec = known[policy]
    plan, bare = make_plan(environment, config), make_plan(BARE, {})
    constant = BARE.policies(BARE.evaluated_seat)["constant"]
    pairs: list[tuple[_Lap, _Lap]] = []
    with TemporaryDirectory(prefix="sv-bench-") as folder:
        path = Path(folder) / "results.jsonl"
        for turn in range(-1, rounds):
            size = count if turn >= 0 else max(64, count // 10)
            pair = (await _bare_lap(bare, constant, size), await _lap(plan, spec, size, path))
            if turn >= 0:
                pairs.append(pair)
        line_bytes = path.stat().st_size / (rounds * count + max(64, count // 10))
    return Throughput(
        rollouts=count,
        rounds=rounds,
        per_second=statistics.median(ours.per_second for _, ours in pairs),
        bare_per_second=statistics.median(bare_lap.per_second for bare_lap, _ in pairs),
        ratio=statistics.median(ours.per_second / bare_lap.per_second for bare_lap, ours in pairs),
        cpu_ms=statistics.median(ours.cpu_ms for _, ours in pairs),
        bare_cpu_ms=statistics.median(bare_lap.cpu_ms for bare_lap, _ in pairs),
        line_bytes=line_bytes,
    )


def _endless(plan: Plan) -> Iterator[tuple[GradedTask, int]]:
    for sample, task in enumerate(cycle(plan.tasks)):
        yield task, sample


def _engine(plan: Plan, spec: PolicySpec) -> Engine:
    engine = Engine(plan.environment, plan.env, seed=plan.seed, time_limit_s=TIME_LIMIT_S)
    engine.take_seats(policy_seats(plan.environment, spec))
    return engine


async def _lap(plan: Plan, spec: PolicySpec, count: int, path: Path) -> _Lap:
    """The whole way of `sv eval`: play, grade, record, write."""
    logger = RolloutLogger([JsonlSink(path)])
    async with _engine(plan, spec) as engine:
        started, cpu = time.perf_counter(), time.process_time()
        async for record in rollouts(engine, islice(_endless(plan), count), concurrency=CONCURRENCY):
            logger.rollout(record.to_json(), record.storage)
        logger.close()
        return _lap_of(count, started, cpu)


async def _bare_lap(plan: Plan, spec: PolicySpec, count: int) -> _Lap:
    """Episodes only: no record, no file."""
    async with _engine(plan, spec) as engine:
        todo = islice(_endless(plan), count)

        async def worker() -> None:
            for task, sample in todo:
                await engine.episode(task, sample)

        started, cpu = time.perf_counter(), time.process_time()
        async with asyncio.TaskGroup() as group:
            for _ in range(CONCURRENCY):
                group.create_task(worker())
        return _lap_of(count, started, cpu)


def _lap_of(count: int, started: float, cpu: float) -> _Lap:
    seconds = time.perf_counter() - started
    return _Lap(count / seconds, 1000 * (time.process_time() - cpu) / count)


def peak_memory_mb() -> float:
    """Largest resident size of this process so far, in MB (10^6 bytes)."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
