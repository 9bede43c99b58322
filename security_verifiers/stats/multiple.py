"""Several tests at once."""

import numpy as np
from numpy.typing import ArrayLike

from security_verifiers.stats.arrays import unit_vector


def holm(p_values: ArrayLike) -> list[float]:
    """p-values adjusted for the family-wise error rate, in the order given.

        adjusted_(i) = max over j <= i of min(1, (m - j + 1) p_(j))      p_(1) <= ... <= p_(m)

    Source: Holm, "A simple sequentially rejective multiple test procedure", Scand. J. Statistics 6 (1979).

    Args:
        p_values: float[m] in [0, 1]. None at all give an empty list; equal ones get equal results.

    Raises:
        ValueError: a value outside [0, 1].
    """
    p = unit_vector(p_values, "p_values")
    order = np.argsort(p, kind="stable")
    factors = len(p) - np.arange(len(p))
    adjusted = np.empty(len(p))
    adjusted[order] = np.maximum.accumulate(np.minimum(1.0, factors * p[order]))
    return [float(value) for value in adjusted]


def benjamini_hochberg(p_values: ArrayLike) -> list[float]:
    """p-values adjusted for the false discovery rate, in the order given.

        adjusted_(i) = min over j >= i of min(1, m / j * p_(j))      p_(1) <= ... <= p_(m)

    Among the tests whose adjusted value is at most q, a share of at most q is expected to be false, if the
    tests are independent or positively dependent. Weaker than `holm`, which allows at most a chance q of any
    false one: for screening many items, not for the few lines of a report.

    Source: Benjamini and Hochberg, "Controlling the false discovery rate", J. Royal Statistical Society B 57
    (1995); dependence: Benjamini and Yekutieli, Annals of Statistics 29 (2001).

    Args:
        p_values: float[m] in [0, 1]. None at all give an empty list; equal ones get equal results.

    Raises:
        ValueError: a value outside [0, 1].
    """
    p = unit_vector(p_values, "p_values")
    order = np.argsort(p, kind="stable")
    ranks = np.arange(1, len(p) + 1)
    adjusted = np.empty(len(p))
    from_largest = (len(p) / ranks * p[order])[::-1]
    adjusted[order] = np.minimum.accumulate(np.minimum(1.0, from_largest))[::-1]
    return [float(value) for value in adjusted]
