"""Seats: who plays which side of a rollout, and how verifiers reaches them."""

import hashlib
import itertools
import json
import logging
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import verifiers.v1 as vf
from verifiers.v1.dialects import Dialect
from verifiers.v1.errors import RolloutError, model_error
from verifiers.v1.graph import PendingTurn

from security_verifiers.evals.record import SeatTokens
from security_verifiers.models.base import Completion, Model, ModelCallError, Sampling, Usage
from security_verifiers.models.pricing import cost
from sv_shared.environment import Environment
from sv_shared.policies import Policy, PolicySpec
from sv_shared.task import PROVIDER_KEY
from sv_shared.text import mend_surrogates, nests_too_deep

logger = logging.getLogger(__name__)

_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class Seat:
    """One side of a rollout.

    Attributes:
        name: the seat's name in the environment ("agent", "attacker", "defender").
        model: its public name, as given on the command line.
        player: a model, or a scripted policy.
        sampling: how the model samples.
        max_turns: most model calls in a rollout.
        max_output_tokens: most tokens that the model may write in a rollout.
    """

    name: str
    model: str
    player: Model | PolicySpec
    sampling: Sampling = field(default_factory=Sampling)
    max_turns: int | None = None
    max_output_tokens: int | None = None

    @property
    def sampling_set(self) -> dict[str, Any]:
        """The sampling settings that were set, as a JSON object."""
        return {name: value for name, value in asdict(self.sampling).items() if value is not None}

    def cost_usd(self, tokens: SeatTokens) -> float | None:
        """US dollars of these tokens; 0 for a policy, None where price or counts are unknown."""
        if isinstance(self.player, PolicySpec):
            return 0.0
        if tokens.prompt is None or tokens.completion is None:
            return None
        usage = Usage(tokens.prompt, tokens.completion, cached_tokens=tokens.cached)
        return cost(usage, self.player.info.price)


def policy_seats(environment: Environment, spec: PolicySpec) -> dict[str, Seat]:
    """A policy in the evaluated seat, the environment's default opponents in the others."""
    players = {environment.evaluated_seat: spec}
    for seat, name in environment.default_opponents.items():
        players[seat] = environment.policies(seat)[name]
    return {seat: Seat(seat, f"policy:{player.name}", player) for seat, player in players.items()}


def rollout_seed(run_seed: int, task: str, sample: int) -> int:
    """The seed of one rollout, 0 .. 2**31 - 1: the same whatever ran before it or runs beside it."""
    digest = hashlib.sha256(f"{run_seed}:{task}:{sample}".encode()).digest()
    return int.from_bytes(digest[:4], "big") >> 1


@dataclass(slots=True)
class SeatCalls:
    """What a seat's client noted of one rollout's model calls."""

    seed: int
    trace: vf.Trace
    policy: Policy | None = None
    completions: list[Completion] = field(default_factory=list)
    seconds: float = 0.0
    attempts: int = 0


class PlayerError(RolloutError):
    """A policy or a model's client raised something that is no answer of a provider: a defect in it."""


class SeatClient(vf.Client):
    """Answers the model calls of one seat, for all rollouts at once.

    verifiers hands over the trace's id with every call; `open` ties that id to its rollout.
    """

    def __init__(self, seat: Seat) -> None:
        self.seat = seat
        self._calls: dict[str, SeatCalls] = {}

    def open(self, trace: vf.Trace, seed: int) -> None:
        """Expect calls from this trace."""
        self._calls[trace.id] = SeatCalls(seed, trace)

    def close_rollout(self, trace_id: str) -> SeatCalls:
        """Forget the trace and return what was noted of it."""
        return self._calls.pop(trace_id)

    async def get_response(
        self,
        dialect: Dialect,
        body: dict[str, Any],
        sampling: vf.SamplingConfig,
        session_id: str | None = None,
        turn: PendingTurn | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> vf.Response:
        assert session_id is not None
        calls = self._calls[session_id]
        started = time.perf_counter()
        try:
            completion = await self._complete(calls, body)
            completion = replace(completion, message=_sound(completion.message))
            response = _response(completion)
        except ModelCallError as error:
            calls.attempts += error.attempts
            raise model_error(str(error), status_code=error.status) from error
        except Exception as error:
            logger.info("%s raised", self.seat.model, exc_info=error)
            raise PlayerError(f"{self.seat.model} raised {type(error).__name__}: {error}") from error
        finally:
            calls.seconds += time.perf_counter() - started
        calls.completions.append(completion)
        calls.attempts += completion.attempts
        # verifiers keeps three finish reasons and no refusal field; graders may need the provider's words.
        calls.trace.info[PROVIDER_KEY] = {
            "finish_reason": completion.finish_reason,
            "refusal": completion.message.get("refusal"),
        }
        return response

    async def _complete(self, calls: SeatCalls, body: Mapping[str, Any]) -> Completion:
        messages, tools = body["messages"], body.get("tools") or []
        player = self.seat.player
        if not isinstance(player, PolicySpec):
            return await player.complete(messages, tools, replace(self.seat.sampling, seed=calls.seed))
        if calls.policy is None:
            calls.policy = player.make(calls.seed)
        message = dict(calls.policy.act(calls.trace.task.data, messages, tools))
        reason = "tool_calls" if message.get("tool_calls") else "stop"
        return Completion(
            message=message,
            finish_reason=reason,
            usage=None,
            model=self.seat.model,
            token_ids=None,
            logprobs=None,
            attempts=1,
            latency_s=0.0,
        )


def _arguments(text: str) -> str:
    """A tool call's arguments, as a JSON string of themselves where they would break a decoder.

    verifiers decodes them for its graph of messages; the harness tells the model what is wrong with them.
    """
    return json.dumps(text) if nests_too_deep(text) else text


def _sound(message: Mapping[str, Any]) -> dict[str, Any]:
    """A message that the way to its grade can carry, whatever a model wrote into it."""
    mended: dict[str, Any] = mend_surrogates(message)
    for call in mended.get("tool_calls") or []:
        call["function"]["arguments"] = _arguments(call["function"]["arguments"])
    return mended


def _response(completion: Completion) -> vf.Response:
    """A completion in verifiers' terms, and in OpenAI's wire shape for the harness."""
    message = completion.message
    calls = message.get("tool_calls") or None
    usage = completion.usage
    identifier = f"sv-{next(_numbers)}"
    reason = completion.finish_reason
    raw = {
        "id": identifier,
        "object": "chat.completion",
        "created": 0,
        "model": completion.model,
        "choices": [{"index": 0, "finish_reason": reason, "message": message}],
    }
    return vf.Response(
        id=identifier,
        created=0,
        model=completion.model,
        message=vf.AssistantMessage(
            content=message.get("content"),
            reasoning_content=message.get("reasoning_content"),
            tool_calls=[
                vf.ToolCall(
                    id=call["id"], name=call["function"]["name"], arguments=call["function"]["arguments"]
                )
                for call in calls
            ]
            if calls
            else None,
        ),
        # verifiers knows three reasons; the full word is kept in our own record.
        finish_reason=reason if reason in ("stop", "length", "tool_calls") else None,
        usage=None
        if usage is None
        else vf.Usage(prompt_tokens=usage.prompt_tokens, completion_tokens=usage.completion_tokens),
        raw=raw,
    )
