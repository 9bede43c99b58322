"""From a request ("these models, that environment") to finished runs."""

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from security_verifiers.evals.casting import Casting, Player, check_players
from security_verifiers.evals.config import read_config
from security_verifiers.evals.engine import Engine
from security_verifiers.evals.evaluate import Observer, Run, RunLimits, evaluate
from security_verifiers.evals.plan import DEFAULT_SEED, Plan, make_plan
from security_verifiers.evals.seats import Seat
from security_verifiers.models.base import Sampling
from sv_shared.environment import find
from sv_shared.errors import UsageError
from sv_shared.policies import PolicySpec


class Watcher(Observer, Protocol):
    """An observer that can also be told a line of text."""

    def say(self, text: str) -> None:
        """Show one line."""
        ...


@dataclass(frozen=True, slots=True)
class EvalRequest:
    """What `sv eval` was asked to do; the names are those of its options."""

    environment: str
    models: tuple[str, ...]
    config: Mapping[str, Any] = field(default_factory=dict)
    tasks: int | None = None
    samples: int = 1
    seed: int = DEFAULT_SEED
    tools: bool | None = None
    opponent: str | None = None
    concurrency: int = 8
    time_limit_s: float = 300.0
    temperature: float | None = None
    max_tokens: int | None = None
    output_dir: Path = Path("outputs")

    @property
    def limits(self) -> RunLimits:
        """Concurrency and time limit."""
        return RunLimits(self.concurrency, self.time_limit_s)


async def run_models(request: EvalRequest, watcher: Watcher) -> list[Run]:
    """Evaluate each model of the request on the same tasks, one after the other.

    All names are resolved before anything is played, so that a misspelt last model costs nothing.
    """
    environment = find(request.environment)
    if not request.models:
        raise UsageError("no model was named", hint="Name one with --model")
    casting = Casting(os.environ, watcher.say)
    wishes = {environment.evaluated_seat: Sampling(request.temperature, max_tokens=request.max_tokens)}
    casts = [casting.fill(environment, name, request.opponent, wishes) for name in request.models]
    plan = make_plan(
        environment, _with_tools(request), tasks=request.tasks, samples=request.samples, seed=request.seed
    )
    for cast in casts:
        check_players(cast, plan)
    runs = []
    async with Engine(environment, plan.env, seed=plan.seed, time_limit_s=request.time_limit_s) as engine:
        for cast in casts:
            async with _seated(cast, plan) as seats:
                run = await evaluate(
                    engine, plan, seats, request.output_dir, limits=request.limits, observer=watcher
                )
                runs.append(run)
    return runs


async def resume_run(folder: Path, watcher: Watcher, *, concurrency: int | None = None) -> Run:
    """Play what is missing from a run's folder, by the config.toml in it.

    Args:
        folder: the run's folder.
        watcher: is told of the progress.
        concurrency: rollouts in flight; None keeps the run's own.
    """
    config = read_config(folder)
    environment = find(config["environment"])
    casting = Casting(os.environ, watcher.say)
    cast = {
        name: casting.player(environment, name, seat["model"], Sampling(**seat["sampling"]))
        for name, seat in config["seats"].items()
    }
    plan = make_plan(
        environment, config["dataset"], tasks=config["tasks"], samples=config["rollouts"], seed=config["seed"]
    )
    limits = RunLimits(concurrency or config["concurrency"], config["time_limit_s"])
    async with (
        Engine(environment, plan.env, seed=plan.seed, time_limit_s=limits.time_limit_s) as engine,
        _seated(cast, plan) as seats,
    ):
        return await evaluate(engine, plan, seats, folder, limits=limits, observer=watcher, resume=folder)


def _with_tools(request: EvalRequest) -> Mapping[str, Any]:
    return request.config if request.tools is None else {**request.config, "tools": request.tools}


@asynccontextmanager
async def _seated(cast: Mapping[str, Player], plan: Plan) -> AsyncIterator[dict[str, Seat]]:
    """The players in their seats, models started before and closed after."""
    async with AsyncExitStack() as stack:
        for one in cast.values():
            if not isinstance(one.player, PolicySpec):
                stack.push_async_callback(one.player.close)
                await one.player.start()
        evaluated, form = plan.environment.evaluated_seat, plan.environment.answer_schema(plan.settings)
        yield {name: one.seat(name, form if name == evaluated else None) for name, one in cast.items()}
