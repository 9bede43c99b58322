"""Engine: plays one rollout of an environment with given seats and turns it into a Record.

It drives verifiers' own `Env.run_episode`, so tasks, tools, several seats and rewards work here as under
verifiers' commands and prime-rl; only the model's side and the transport are ours.
"""

import json
import math
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import verifiers.v1 as vf
from verifiers.v1.dialects.chat import message_to_wire
from verifiers.v1.errors import ToolsetError
from verifiers.v1.utils.loaders import load_environment, resolve_env_config

from security_verifiers.evals.record import Record, RecordError, RolloutKey, SeatRecord, SeatTokens
from security_verifiers.evals.seats import Seat, SeatCalls, SeatClient, rollout_seed
from sv_shared.environment import Environment
from sv_shared.errors import ToolError, UsageError
from sv_shared.grading import Grade
from sv_shared.interception import LocalInterception, SeatClientConfig
from sv_shared.outcomes import Outcome
from sv_shared.task import GRADE_KEY, PROVIDER_KEY, GradedTask

_WHERE = {
    "PlayerError": "player",
    "ProviderError": "provider",
    "ToolsetError": "tools",
    "TaskError": "grader",
}


ROUNDING = 1e-9
"""How far a sum of components may stray from the declared range."""

LONGEST_WORLD = 1 << 20
"""Characters of JSON that a result line keeps of a rollout's state."""


def load_env(environment: Environment, config: Mapping[str, Any]) -> vf.Env:
    """The verifiers environment with its dataset configured.

    Args:
        environment: which one.
        config: settings of the taskset (dataset, split, view ...); unknown names are refused.

    Raises:
        UsageError: a setting does not exist or has a bad value.
    """
    from pydantic import ValidationError

    try:
        return load_environment(resolve_env_config({"taskset": {"id": environment.id, **config}}))
    except ValidationError as error:
        problem = error.errors()[0]
        place = ".".join(str(part) for part in problem["loc"] if part != "taskset")
        raise UsageError(f"{environment.alias} has no valid setting {place!r}: {problem['msg']}") from error


@dataclass(frozen=True, slots=True)
class Played:
    """An episode with what its seats' clients noted, by seat, and its wall time."""

    episode: vf.Episode
    traces: Mapping[str, vf.Trace]
    calls: Mapping[str, SeatCalls]
    seconds: float


class Engine:
    """Plays rollouts of one environment. Enter it once: tool servers start then and serve every player.

    Args:
        environment: what is played.
        env: the verifiers environment with its dataset, from `load_env`.
        seed: the run's seed.
        time_limit_s: longest wall time of one rollout, in seconds.
    """

    def __init__(self, environment: Environment, env: vf.Env, *, seed: int, time_limit_s: float) -> None:
        self.environment = environment
        self.seed = seed
        self.time_limit_s = time_limit_s
        self._env = env
        self._declared: dict[str, vf.AgentConfig] = {
            name: getattr(env.config, name) for name in environment.seats
        }
        self._clients: dict[str, SeatClient] = {}
        self._stack = AsyncExitStack()
        self._context = vf.ModelContext(
            model="unused", client=SeatClientConfig(seat=environment.evaluated_seat)
        )

    def take_seats(self, seats: Mapping[str, Seat]) -> None:
        """Put players in the seats, in place of earlier ones; no rollout may be in flight.

        Raises:
            UsageError: not exactly the seats that the environment declares.
        """
        if set(seats) != set(self.environment.seats):
            raise UsageError(
                f"{self.environment.alias} has the seats {', '.join(self.environment.seats)}; "
                f"the run fills {', '.join(seats) or 'none'}"
            )
        agents = {}
        for name, seat in seats.items():
            self._clients[name] = SeatClient(seat)
            spec = self._declared[name]
            agents[name] = spec.model_copy(
                update={
                    "model": seat.model,
                    "client": SeatClientConfig(seat=name),
                    "max_turns": seat.max_turns or spec.max_turns,
                    "max_output_tokens": seat.max_output_tokens or spec.max_output_tokens,
                    "timeout": spec.timeout.model_copy(update={"rollout": self.time_limit_s}),
                }
            )
        self._env.config = self._env.config.model_copy(update=agents)

    async def __aenter__(self) -> Self:
        """Start shared tool servers and the interception server (verifiers' `serving`, with ours in place).

        Raises:
            ToolError: a tool server does not start.
        """
        env = self._env
        async with AsyncExitStack() as stack:
            try:
                shared = await stack.enter_async_context(env.shared_tools())
            except ToolsetError as error:
                raise ToolError(f"the tools of {self.environment.alias} don't start: {error}") from error
            interception = LocalInterception(
                self._clients,
                with_tools=bool(shared) or bool(env._task_cls.toolsets(env.taskset.config.task)),
                state_service_secrets=tuple(s.state_secret for s in shared.values() if s.state_secret),
            )
            env._shared_tools = shared
            env._interception = await stack.enter_async_context(interception)
            stack.push_async_callback(env.stop)
            await env.start()
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def play(self, task: GradedTask, sample: int) -> Record:
        """One rollout, whatever happens in it: a failure is a record with its outcome, never an exception."""
        key = RolloutKey(task.hash, sample, self.seed)
        return self._record(task, key, await self.episode(task, rollout_seed(self.seed, key.task, sample)))

    async def episode(self, task: GradedTask, seed: int) -> Played:
        """One rollout as verifiers sees it, without the Record."""
        traces: dict[str, vf.Trace] = {}

        def opened(trace: vf.Trace) -> None:
            name = trace.agent.name
            traces[name] = trace
            self._clients[name].open(trace, seed)

        started = time.perf_counter()
        try:
            episode = await self._env.run_episode(task, self._context, on_trace=opened)
        finally:
            calls = {name: self._clients[name].close_rollout(trace.id) for name, trace in traces.items()}
        return Played(episode, traces, calls, time.perf_counter() - started)

    def _record(self, task: GradedTask, key: RolloutKey, played: Played) -> Record:
        traces, calls = played.traces, played.calls
        seat = self.environment.evaluated_seat
        trace = traces.get(seat)
        grade = trace.info.get(GRADE_KEY) if trace is not None else None
        error = _error(played.episode, traces)
        if error is None:
            error = grade_error(task, grade)
        if error is not None:
            ours = Outcome.GRADER_ERROR if error.where == "grader" else Outcome.INFRA_ERROR
            grade = Grade(ours, {}, truth=task.data.truth)
        assert grade is not None
        seconds = {"total": played.seconds, "model": sum(c.seconds for c in calls.values())}
        if trace is not None and trace.timing.scoring.end:
            seconds["scoring"] = trace.timing.scoring.end - trace.timing.scoring.start
        return Record(
            key=key,
            task_id=task.data.id or "",
            cluster=task.data.cluster,
            difficulty=task.data.difficulty,
            storage=task.data.storage,
            seat=seat,
            seats={
                name: _seat_record(
                    self._clients[name].seat, traces[name], calls[name], single=len(traces) == 1
                )
                for name in traces
            },
            outcome=grade.outcome,
            reward=None if error is not None else grade.reward,
            components=grade.components,
            metrics=grade.metrics,
            parsed=grade.parsed,
            truth=grade.truth,
            cause=grade.cause,
            flags=grade.flags,
            error=error,
            seconds={name: round(value, 6) for name, value in seconds.items()},
        )


def grade_error(task: GradedTask, grade: Grade | None) -> RecordError | None:
    """Why a grade can't stand in a record, or None where it can."""
    name = type(task).__name__
    if grade is None:
        return RecordError("grader", "MissingGrade", f"{name} left no grade on its trace")
    odd = [
        n
        for n, value in {**grade.components, **grade.metrics}.items()
        if isinstance(value, bool) or not math.isfinite(value)
    ]
    if odd:
        return RecordError(
            "grader", "NotFinite", f"{name} graded without a finite number for {', '.join(odd)}"
        )
    floor, maximum = task.bounds()
    if not floor - ROUNDING <= grade.reward <= maximum + ROUNDING:
        said = f"{name} paid {grade.reward:g}, outside its declared range {floor:g} to {maximum:g}"
        return RecordError("grader", "OutOfRange", said)
    return None


def _error(episode: vf.Episode, traces: Mapping[str, vf.Trace]) -> RecordError | None:
    """The failure that left this rollout without a grade, or None.

    A rollout that ran out of wall time is ours: the model was still being waited for.
    """
    for name, trace in traces.items():
        if trace.is_timeout and trace.stop_condition in ("agent_timeout", "rollout_timeout", "setup_timeout"):
            return RecordError("time limit", "TimeoutError", f"seat {name} did not finish in time")
    if episode.ok:
        return None
    for trace in traces.values():
        if not trace.ok and trace.errors:
            return _record_error(trace.errors[-1], trace)
    if episode.errors:
        last = episode.errors[-1]
        return RecordError("environment", last.type, _one_line(last.message))
    return RecordError("environment", "Unknown", "the episode failed without an error")


def _record_error(error: vf.Error, trace: vf.Trace) -> RecordError:
    where = _WHERE.get(error.type, "environment")
    if where == "grader" and not trace.timing.scoring.start:
        where = "environment"  # the task's set-up failed, not its grading
    return RecordError(where, error.type, _one_line(error.message))


def _one_line(text: str, limit: int = 500) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[:limit]} [{len(line) - limit} more characters]"


def _seat_record(seat: Seat, trace: vf.Trace, calls: SeatCalls, *, single: bool) -> SeatRecord:
    messages = [message_to_wire(node.message) for node in trace.nodes]
    first = next((i for i, message in enumerate(messages) if message["role"] == "assistant"), len(messages))
    done = calls.completions
    tokens = SeatTokens()
    for usage in (c.usage for c in done if c.usage is not None):
        tokens = tokens.plus(SeatTokens(usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens))
    grade: Grade | None = None if single else trace.info.get(GRADE_KEY)
    return SeatRecord(
        model=seat.model,
        prompt=messages[:first],
        completion=messages[first:],
        finish_reason=done[-1].finish_reason if done else None,
        turns=len(done),
        tool_calls=sum(len(c.message.get("tool_calls") or []) for c in done),
        tokens=tokens,
        attempts=calls.attempts,
        grade={}
        if grade is None
        else {
            "outcome": str(grade.outcome),
            "reward": grade.reward,
            "components": dict(grade.components),
            "metrics": dict(grade.metrics),
        },
        token_ids=[c.token_ids for c in done if c.token_ids is not None] or None,
        logprobs=[c.logprobs for c in done if c.logprobs is not None] or None,
        refusal=trace.info.get(PROVIDER_KEY, {}).get("refusal"),
        world=_world(trace),
    )


def _world(trace: vf.Trace) -> dict[str, Any]:
    """What a grader may read of a trace besides its messages; a later grading starts from it."""
    if trace.state.artifacts:
        return {"lacking": "files from the rollout's box are not stored"}
    own = type(trace.state).model_fields.keys() - vf.State.model_fields.keys()
    info = {name: value for name, value in trace.info.items() if name not in (GRADE_KEY, PROVIDER_KEY)}
    if not own and not info:
        return {}
    try:
        world = {"state": trace.state.model_dump(mode="json", include=own), "info": info}
        size = len(json.dumps(world, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        return {"lacking": f"the rollout's state is not JSON ({type(error).__name__})"}
    return world if size <= LONGEST_WORLD else {"lacking": f"the rollout's state has {size} characters"}
