"""From a request ("these models, that environment") to finished runs."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from security_verifiers.evals.config import read_config
from security_verifiers.evals.engine import Engine
from security_verifiers.evals.evaluate import Observer, Run, RunLimits, evaluate
from security_verifiers.evals.plan import DEFAULT_SEED, Plan, make_plan
from security_verifiers.evals.seats import Seat
from security_verifiers.models.base import Model
from security_verifiers.models.factory import make_model
from sv_shared.environment import Environment, find
from sv_shared.errors import ModelError, UsageError
from sv_shared.policies import PolicySpec

POLICY_PREFIX = "policy:"


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
    fillings = [_players(environment, name, request.opponent) for name in request.models]
    plan = make_plan(
        environment, _with_tools(request), tasks=request.tasks, samples=request.samples, seed=request.seed
    )
    for players in fillings:
        _check_players(players, plan)
    runs = []
    async with Engine(environment, plan.env, seed=plan.seed, time_limit_s=request.time_limit_s) as engine:
        for players in fillings:
            async with _seated(players, request, watcher) as seats:
                run = await evaluate(
                    engine, plan, seats, request.output_dir, limits=request.limits, observer=watcher
                )
                runs.append(run)
    return runs


async def resume_run(folder: Path, watcher: Watcher, *, concurrency: int | None = None) -> Run:
    """Play what is missing from a run's folder."""
    config = read_config(folder)
    environment = find(config["environment"])
    request = EvalRequest(
        environment=config["environment"],
        models=(),
        config=config["dataset"],
        tasks=config["tasks"],
        samples=config["rollouts"],
        seed=config["seed"],
        concurrency=concurrency or config["concurrency"],
        time_limit_s=config["time_limit_s"],
    )
    plan = make_plan(
        environment, request.config, tasks=request.tasks, samples=request.samples, seed=request.seed
    )
    players = {name: _player(environment, name, seat["model"]) for name, seat in config["seats"].items()}
    samplings = {name: seat["sampling"] for name, seat in config["seats"].items()}
    async with (
        Engine(environment, plan.env, seed=plan.seed, time_limit_s=request.time_limit_s) as engine,
        _seated(players, request, watcher, samplings) as seats,
    ):
        return await evaluate(
            engine, plan, seats, folder, limits=request.limits, observer=watcher, resume=folder
        )


def _with_tools(request: EvalRequest) -> Mapping[str, Any]:
    return request.config if request.tools is None else {**request.config, "tools": request.tools}


def _players(
    environment: Environment, name: str, opponent: str | None
) -> dict[str, tuple[str, Model | PolicySpec]]:
    """Who sits where: the named player in the evaluated seat, the opponent in the others."""
    others = [seat for seat in environment.seats if seat != environment.evaluated_seat]
    if opponent is not None and not others:
        raise UsageError(f"{environment.alias} has one seat; --opponent has none to fill")
    players = {environment.evaluated_seat: _player(environment, environment.evaluated_seat, name)}
    for seat in others:
        default = f"{POLICY_PREFIX}{environment.default_opponents[seat]}"
        players[seat] = _player(environment, seat, opponent or default)
    return players


def _player(environment: Environment, seat: str, name: str) -> tuple[str, Model | PolicySpec]:
    if not name.startswith(POLICY_PREFIX):
        return name, make_model(name)
    known = environment.policies(seat)
    policy = known.get(name.removeprefix(POLICY_PREFIX))
    if policy is None:
        listed = ", ".join(sorted(known))
        raise ModelError(f"{environment.alias} has no {name} for the seat {seat}", hint=f"It has {listed}")
    return name, policy


def _check_players(players: Mapping[str, tuple[str, Model | PolicySpec]], plan: Plan) -> None:
    for name, player in players.values():
        if isinstance(player, PolicySpec):
            lacking = sum(not player.can_play(task.data) for task in plan.tasks)
            if lacking:
                raise UsageError(
                    f"{name} can't play {lacking} of the {len(plan.tasks)} tasks of {plan.info.id}"
                )


@asynccontextmanager
async def _seated(
    players: Mapping[str, tuple[str, Model | PolicySpec]],
    request: EvalRequest,
    watcher: Watcher,
    samplings: Mapping[str, Mapping[str, Any]] | None = None,
) -> AsyncIterator[dict[str, Seat]]:
    """The players in their seats, models started before and closed after."""
    seats = {}
    async with AsyncExitStack() as stack:
        for seat, (name, player) in players.items():
            if isinstance(player, PolicySpec):
                seats[seat] = Seat(seat, name, player)
                continue
            await player.start(watcher.say)
            stack.push_async_callback(player.close)
            sampling = player.info.sampling
            if samplings is not None:
                sampling = replace(sampling, **samplings[seat])
            if request.temperature is not None:
                sampling = replace(sampling, temperature=request.temperature)
            if request.max_tokens is not None:
                sampling = replace(sampling, max_tokens=request.max_tokens)
            seats[seat] = Seat(seat, name, player, sampling)
        yield seats
