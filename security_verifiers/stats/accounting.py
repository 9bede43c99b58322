"""Total accounting: what our own failures could have done to a metric, and when they spoil a run."""

from collections.abc import Mapping
from dataclasses import dataclass

from sv_shared.outcomes import INVALID_ABOVE, Outcome


@dataclass(frozen=True, slots=True)
class Bounds:
    """A mean metric between the worst and the best that the unmeasured rollouts could have made of it.

    Attributes:
        measured: the mean over the rollouts that were measured; None where none was.
        worst: the mean when every rollout that failed through us counts as the lowest value.
        best: the mean when each of them counts as the highest value.
        n: rollouts measured.
        n_ours: rollouts that failed through us.
    """

    measured: float | None
    worst: float | None
    best: float | None
    n: int
    n_ours: int


def ours(counts: Mapping[str, int]) -> int:
    """Number of rollouts that failed through us.

    Args:
        counts: rollouts by outcome; outcomes that did not occur may be absent.

    Raises:
        ValueError: a key is not an Outcome, or a count is negative.
    """
    if any(count < 0 for count in counts.values()):
        raise ValueError(f"negative count in {dict(counts)}")
    return sum(count for outcome, count in counts.items() if Outcome(outcome).is_ours)


def is_invalid(counts: Mapping[str, int]) -> bool:
    """True where more than INVALID_ABOVE of the rollouts failed through us, or where there are none at all.

    Args:
        counts: rollouts by outcome, as for `ours`.
    """
    failed, total = ours(counts), sum(counts.values())
    return total == 0 or failed > INVALID_ABOVE * total
