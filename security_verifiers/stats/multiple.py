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
