"""Ratio: a metric that is a mean, or a ratio of two sums, over items."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from security_verifiers.stats.accounting import Bounds
from security_verifiers.stats.arrays import Floats, finite_vector, same_length
from security_verifiers.stats.estimates import Estimate, cluster_mean, linearised
from security_verifiers.stats.proportions import cluster_proportion


@dataclass(frozen=True, slots=True)
class Ratio:
    """sum(numerator) / sum(denominator) over the items of a run.

    Accuracy has a denominator of ones; a false negative rate counts only the positive items in both. Kept by
    item, so that intervals, paired differences and bounds are all made of the same numbers.

    Attributes:
        numerator: float[n].
        denominator: float[n], at least 0; an item with 0 takes no part and has a numerator of 0.
    """

    numerator: Floats
    denominator: Floats

    @classmethod
    def of(cls, numerator: ArrayLike, denominator: ArrayLike | None = None) -> "Ratio":
        """A ratio of checked arrays; without a denominator the mean of the numerator.

        Raises:
            ValueError: different lengths, values that are not finite, a negative denominator, or a numerator
                where the denominator is 0.
        """
        above = finite_vector(numerator, "numerator")
        below = np.ones(len(above)) if denominator is None else finite_vector(denominator, "denominator")
        same_length(numerator=above, denominator=below)
        if (below < 0).any() or above[below == 0].any():
            raise ValueError("an item with a numerator needs a denominator above 0")
        return cls(above, below)

    @property
    def value(self) -> float | None:
        """The ratio; None where no item takes part."""
        total = float(self.denominator.sum())
        return float(self.numerator.sum()) / total if total else None

    @property
    def values(self) -> Floats | None:
        """float[n] whose mean is the ratio (`linearised`); None where no item takes part."""
        return linearised(self.numerator, self.denominator)

    @property
    def is_proportion(self) -> bool:
        """Whether every item counts 0 or 1, above and below."""
        return bool(np.isin(self.numerator, (0.0, 1.0)).all() and np.isin(self.denominator, (0.0, 1.0)).all())

    def estimate(self, clusters: ArrayLike, level: float = 0.95) -> Estimate | None:
        """The ratio with its interval: Wilson's by cluster for a proportion, else Student's t by cluster.

        Args:
            clusters: labels [n].
            level: two-sided confidence level.

        Returns: None where no item takes part.
        """
        labels, part = np.asarray(clusters), self.denominator > 0
        if self.is_proportion:
            return cluster_proportion(self.numerator[part], labels[part], level) if part.any() else None
        values = self.values
        return None if values is None else cluster_mean(values, labels, level)

    def bounds(self, n_ours: int, low: float, high: float) -> Bounds:
        """Between what `n_ours` unmeasured items could have made of the ratio, were they all to take part.

            worst = (sum(numerator) + n_ours * w * low) / (sum(denominator) + n_ours * w);  best with high

        with w the largest denominator of an item: an unmeasured one can't weigh more. These are Manski's
        no-assumption bounds (American Economic Review 80, 1990): nothing is guessed of what was lost.

        Args:
            n_ours: items that failed through us.
            low, high: range of an item's numerator over its denominator.
        """
        heaviest = float(self.denominator.max(initial=0.0)) or 1.0
        above, below = float(self.numerator.sum()), float(self.denominator.sum())
        n = int((self.denominator > 0).sum())
        if not n_ours or not below + n_ours:
            return Bounds(self.value, self.value, self.value, n, n_ours)
        whole = below + n_ours * heaviest
        worst, best = ((above + n_ours * heaviest * end) / whole for end in (low, high))
        return Bounds(self.value, worst, best, n, n_ours)
