"""Grade: what an environment says of one answer, before any engine or file sees it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sv_shared.outcomes import Outcome


@dataclass(frozen=True, slots=True)
class Grade:
    """The verdict on one seat's answer.

    Attributes:
        outcome: scored, abstained, parse_fail or refused; the two error outcomes are set by the runner only.
        components: weighted reward terms by name; their sum is the reward.
        metrics: numbers that earn nothing, by name; the same names for every task of an environment.
        parsed: the parsed answer as plain JSON types, or None.
        truth: the truth it was compared with, as plain JSON types.
        cause: why there is no parsed answer, or why the floor was scored ("" otherwise).
        flags: remarks that do not change the outcome, such as "tampering".
    """

    outcome: Outcome
    components: Mapping[str, float]
    metrics: Mapping[str, float] = field(default_factory=dict)
    parsed: Mapping[str, Any] | None = None
    truth: Any = None
    cause: str = ""
    flags: tuple[str, ...] = ()

    @property
    def reward(self) -> float:
        """The sum of the components."""
        return sum(self.components.values())
