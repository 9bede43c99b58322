"""Record: everything a rollout leaves behind, one JSON line in results.jsonl."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sv_shared.outcomes import Outcome
from sv_shared.storage import Storage

SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class RolloutKey:
    """What makes a planned rollout that one: results, resume and pairing all go by it."""

    task: str
    """The task's content hash."""
    sample: int
    """0 .. samples - 1."""
    seed: int
    """The run's seed."""


@dataclass(frozen=True, slots=True)
class SeatTokens:
    """Token counts of one seat, summed over its model calls. None: the model never said."""

    prompt: int | None = None
    completion: int | None = None
    cached: int | None = None
    """Part of `prompt` that the provider read from its cache."""

    def plus(self, other: "SeatTokens") -> "SeatTokens":
        """The sum, where what one side does not know counts as nothing."""
        return SeatTokens(
            _plus(self.prompt, other.prompt),
            _plus(self.completion, other.completion),
            _plus(self.cached, other.cached),
        )

    def as_dict(self) -> dict[str, int | None]:
        """As a JSON object."""
        return {"prompt": self.prompt, "completion": self.completion, "cached": self.cached}


def _plus(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else a + b


@dataclass(frozen=True, slots=True)
class SeatRecord:
    """One seat's side of a rollout.

    Attributes:
        model: the player's name.
        prompt: the messages before its first answer, in wire shape.
        completion: everything from its first answer on, in wire shape.
        finish_reason: of its last model call.
        turns: model calls that were answered.
        tool_calls: tool calls that the seat made.
        tokens: token counts.
        attempts: provider requests, retries included.
        grade: the seat's own reward, components and metrics in a game of several seats; empty elsewhere.
        token_ids, logprobs: sampled tokens by turn, where the model gives them.
        refusal: the provider's refusal text with the last answer.
        world: what a grader may read of the rollout besides its messages, as plain JSON types: "state" and
            "info" of its trace, or "lacking" with the reason why they can't be stored; empty where there is
            nothing of the kind.
    """

    model: str
    prompt: list[Mapping[str, Any]]
    completion: list[Mapping[str, Any]]
    finish_reason: str | None = None
    turns: int = 0
    tool_calls: int = 0
    tokens: SeatTokens = SeatTokens()
    attempts: int = 0
    grade: Mapping[str, Any] = field(default_factory=dict)
    token_ids: list[list[int]] | None = None
    logprobs: list[list[float]] | None = None
    refusal: str | None = None
    world: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RecordError:
    """Why a rollout has no answer to grade.

    Attributes:
        where: "provider", "player", "tools", "environment", "grader" or "time limit".
        type: the exception's class.
        message: one line.
    """

    where: str
    type: str
    message: str


@dataclass(frozen=True, slots=True)
class Record:
    """One finished rollout, from the evaluated seat's point of view."""

    key: RolloutKey
    task_id: str
    cluster: str
    difficulty: str
    storage: Storage
    seat: str
    seats: Mapping[str, SeatRecord]
    outcome: Outcome
    reward: float | None
    """None exactly where the outcome is a grader or infrastructure error."""
    components: Mapping[str, float]
    metrics: Mapping[str, float]
    parsed: Mapping[str, Any] | None
    truth: Any
    cause: str
    flags: tuple[str, ...]
    error: RecordError | None
    seconds: Mapping[str, float]
    """Wall time: "total", and "model", "scoring" where they were measured."""

    def to_json(self) -> dict[str, Any]:
        """The result line, before any storage rule is applied to it."""
        return {
            "schema_version": SCHEMA_VERSION,
            "key": {"task": self.key.task, "sample": self.key.sample, "seed": self.key.seed},
            "task_id": self.task_id,
            "cluster": self.cluster,
            "difficulty": self.difficulty,
            "storage": str(self.storage),
            "seat": self.seat,
            "outcome": str(self.outcome),
            "reward": self.reward,
            "components": dict(self.components),
            "metrics": dict(self.metrics),
            "parsed": self.parsed,
            "truth": self.truth,
            "cause": self.cause,
            "flags": list(self.flags),
            "error": None
            if self.error is None
            else {"where": self.error.where, "type": self.error.type, "message": self.error.message},
            "seconds": dict(self.seconds),
            "seats": {name: _seat_json(seat) for name, seat in self.seats.items()},
        }


def _seat_json(seat: SeatRecord) -> dict[str, Any]:
    line: dict[str, Any] = {
        "model": seat.model,
        "prompt": seat.prompt,
        "completion": seat.completion,
        "finish_reason": seat.finish_reason,
        "turns": seat.turns,
        "tool_calls": seat.tool_calls,
        "tokens": seat.tokens.as_dict(),
        "attempts": seat.attempts,
    }
    if seat.grade:
        line["grade"] = dict(seat.grade)
    if seat.token_ids is not None:
        line["token_ids"], line["logprobs"] = seat.token_ids, seat.logprobs
    if seat.refusal is not None:
        line["refusal"] = seat.refusal
    if seat.world:
        line["world"] = dict(seat.world)
    return line
