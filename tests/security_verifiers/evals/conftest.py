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
from security_verifiers.evals.results import Results
from security_verifiers.evals.seats import Seat, policy_seats
from sv_shared.environment import Environment
from sv_shared.policies import PolicySpec

from .doubles import Double


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
    """Runs a policy or a model's double through `evaluate` and returns the finished Run."""

    def __call__(
        self,
        environment: Environment,
        player: PolicySpec | Double,
        root: Path,
        *,
        config: Mapping[str, Any] | None = None,
        tasks: int | None = None,
        samples: int = 1,
        seed: int = 42,
        resume: Path | None = None,
        watching: Watching | None = None,
        concurrency: int = 4,
        time_limit_s: float = 60.0,
    ) -> Run:
        async def main() -> Run:
            plan = make_plan(environment, config or {}, tasks=tasks, samples=samples, seed=seed)
            async with Engine(environment, plan.env, seed=seed, time_limit_s=time_limit_s) as engine:
                return await evaluate(
                    engine,
                    plan,
                    seats_of(environment, player),
                    root,
                    limits=RunLimits(concurrency, time_limit_s),
                    observer=watching or Watching(),
                    resume=resume,
                )

        return asyncio.run(main())


def seats_of(environment: Environment, player: PolicySpec | Double, **budget: int) -> dict[str, Seat]:
    """The player in the evaluated seat of an environment."""
    if isinstance(player, PolicySpec):
        return policy_seats(environment, player)
    return {"agent": Seat("agent", "double", player, **budget)}  # type: ignore[arg-type]


def bare(line: Mapping[str, Any]) -> dict[str, Any]:
    """A result line without what differs between two equal runs: the time that it took."""
    return {name: value for name, value in line.items() if name != "seconds"}


def bare_lines(folder: Path) -> list[dict[str, Any]]:
    """All result lines of a run, in key order, without times."""
    return [bare(line) for line in Results(folder)]


@pytest.fixture
def play() -> Play:
    """Runs a policy on an environment, files included."""
    return Play()
