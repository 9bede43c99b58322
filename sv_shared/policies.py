"""Scripted policies: players without weights, that play through the same engine as any model.

A policy is `act(task, messages, tools) -> message`. It is made anew for each rollout from a seed, so that it
may keep state over the turns of one rollout and never sees another one's.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

Message = Mapping[str, Any]
"""A chat message in OpenAI's wire shape: role, content, and tool_calls where there are any."""

ToolSpec = Mapping[str, Any]
"""A tool in OpenAI's wire shape: {"type": "function", "function": {name, description, parameters}}."""


class Policy(Protocol):
    """Plays one seat of one rollout."""

    def act(self, task: Any, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> Message:
        """The next assistant message.

        Args:
            task: the task's data row (truth included: that is what a reference policy reads).
            messages: the conversation so far.
            tools: the tools on offer in this turn.
        """
        ...


class PolicyKind(StrEnum):
    """What a policy stands for; tables are ordered by it."""

    CONSTANT = "constant"
    DEGENERATE = "degenerate"
    EXPLOIT = "exploit"
    SHALLOW = "shallow"
    HEURISTIC = "heuristic"
    TOOL_ONLY = "tool-only"
    CEILING = "ceiling"
    """The best honest play, where the generating process is known exactly."""
    REFERENCE = "reference"

    @property
    def must_not_win(self) -> bool:
        """True where rule 8 of the reward rules caps the normalised score at 0.05."""
        return self in (PolicyKind.CONSTANT, PolicyKind.DEGENERATE, PolicyKind.EXPLOIT)

    @property
    def is_honest_baseline(self) -> bool:
        """True where a policy tries to solve the task from what the prompt shows."""
        return self in (PolicyKind.SHALLOW, PolicyKind.HEURISTIC, PolicyKind.TOOL_ONLY)


@dataclass(frozen=True, slots=True)
class PolicySpec:
    """A policy under its public name: `policy:<name>` on the command line."""

    name: str
    kind: PolicyKind
    summary: str
    make: Callable[[int], Policy]
    """A fresh policy for one rollout, from the rollout's seed."""
    can_play: Callable[[Any], bool] = lambda task: True
    """Whether it can play a task (its data row); a ceiling needs a known posterior."""


class TextPolicy:
    """A policy that answers with a text computed from the task, the conversation and the rollout's seed.

    Args:
        answer: (task, messages, seed) -> the assistant's text.
        seed: the rollout's seed.
    """

    def __init__(self, answer: Callable[[Any, Sequence[Message], int], str], seed: int) -> None:
        self._answer, self._seed = answer, seed

    def act(self, task: Any, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> Message:
        return {"role": "assistant", "content": self._answer(task, messages, self._seed)}


def text_policy(
    name: str, kind: PolicyKind, summary: str, answer: Callable[[Any, Sequence[Message], int], str]
) -> PolicySpec:
    """A `PolicySpec` around a function that returns the assistant's text."""
    return PolicySpec(name, kind, summary, lambda seed: TextPolicy(answer, seed))


def last_user_text(messages: Sequence[Message]) -> str:
    """The text of the last user message ("" where there is none)."""
    for message in reversed(messages):
        if message.get("role") == "user":
            return str(message.get("content") or "")
    return ""
