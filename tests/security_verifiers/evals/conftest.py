"""What the tests of the runner share: quiet observers and whole runs in a line."""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from security_verifiers.evals.engine import Engine
from security_verifiers.evals.evaluate import Run, RunLimits, Tally, evaluate
from security_verifiers.evals.plan import make_plan
from security_verifiers.evals.record import Record
from security_verifiers.evals.seats import policy_seats
from sv_shared.environment import Environment
from sv_shared.policies import PolicySpec


class Watching:
    """An observer that keeps records and may stop the run from within."""

    def __init__(self, on_record: Callable[[int], None] = lambda count: None) -> None:
        self.records: list[Record] = []
        self.started: list[tuple[str, int, int]] = []
        self.finished = 0
        self._on_record = on_record

    def start(self, label: str, planned: int, done: int) -> None:
        self.started.append((label, planned, done))

    def advance(self, record: Record, tally: Tally) -> None:
        self.records.append(record)
        self._on_record(len(self.records))

    def finish(self) -> None:
        self.finished += 1

    def say(self, text: str) -> None:
        pass


class Play:
    """Runs a policy through `evaluate` and returns the finished Run."""

    def __call__(
        self,
        environment: Environment,
        spec: PolicySpec,
        root: Path,
        *,
        config: Mapping[str, Any] | None = None,
        samples: int = 1,
        seed: int = 42,
        resume: Path | None = None,
        watching: Watching | None = None,
        concurrency: int = 4,
        time_limit_s: float = 60.0,
    ) -> Run:
        async def main() -> Run:
            plan = make_plan(environment, config or {}, samples=samples, seed=seed)
            seats = policy_seats(environment, spec)
            async with Engine(environment, plan.env, seed=seed, time_limit_s=time_limit_s) as engine:
                return await evaluate(
                    engine,
                    plan,
                    seats,
                    root,
                    limits=RunLimits(concurrency, time_limit_s),
                    observer=watching or Watching(),
                    resume=resume,
                )

        return asyncio.run(main())


@pytest.fixture
def play() -> Play:
    """Runs a policy on an environment, files included."""
    return Play()
