"""Total accounting: what our own failures could have done to a metric, and when they spoil a run."""

from collections.abc import Mapping
from dataclasses import dataclass

from numpy.typing import ArrayLike

from security_verifiers.stats.arrays import finite_vector
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


def bounds(values: ArrayLike, n_ours: int, low: float, high: float) -> Bounds:
    """Bounds of a mean when `n_ours` further rollouts could have had any value in [low, high].

        worst = (sum(values) + n_ours * low) / (n + n_ours);  best alike with high

    These are Manski's no-assumption bounds (American Economic Review 80, 1990): no guess is made about the
    rollouts that the grader or the infrastructure lost.

    Args:
        values: float[n], the metric of every rollout that is the model's own result.
        n_ours: number of rollouts that ended as grader_error or infra_error.
        low, high: the metric's declared range.

    Edge cases: n_ours = 0 gives worst = best = measured; no rollouts at all give None throughout.

    Raises:
        ValueError: a value outside [low, high], low > high, or n_ours < 0.
    """
    measured = finite_vector(values, "values")
    if n_ours < 0 or not low <= high:
        raise ValueError(f"n_ours = {n_ours}, range [{low}, {high}]")
    if len(measured) and not (low <= measured.min() and measured.max() <= high):
        raise ValueError(
            f"values span [{measured.min()}, {measured.max()}], outside the declared range [{low}, {high}]"
        )
    n, total = len(measured), float(measured.sum())
    if n + n_ours == 0:
        return Bounds(None, None, None, 0, 0)
    mean = total / n if n else None
    if n_ours == 0:
        return Bounds(mean, mean, mean, n, 0)
    worst, best = ((total + n_ours * end) / (n + n_ours) for end in (low, high))
    return Bounds(mean, worst, best, n, n_ours)


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
