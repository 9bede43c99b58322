"""Means and proportions with their intervals."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from security_verifiers.stats.arrays import ClusterSums, cluster_sums, finite_vector


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with its uncertainty.

    Attributes:
        value: the point estimate.
        lower, upper: the interval's ends; both None where no interval can be given (`method` says why).
        n: number of observations.
        clusters: number of independent clusters; None where the method knows none.
        method: how the interval was made, or why there is none; fit to stand under a table.
    """

    value: float
    lower: float | None
    upper: float | None
    n: int
    clusters: int | None
    method: str


def jackknife_se(sums: ClusterSums) -> float:
    """Standard error of the overall mean by leaving out one cluster at a time (CR3).

        SE^2 = (G - 1) / G * sum_g (mean without cluster g - mean)^2

    where (mean without g - mean) = -residual_g / (N - n_g). The factor (G - 1) / G is the small-sample
    correction. With clusters of one size this is the usual CR1 error, i.e. that of Miller (arXiv:2411.00640)
    times sqrt(G / (G - 1)); with clusters of one item it is s / sqrt(N). We take CR3 because one capture may
    hold most of a dataset: with 30 clusters of which one holds half of the items, and an intra-cluster
    correlation of 0.3, simulated 95 % intervals cover 72 % with CR1 and 93 % with CR3.

    Source: MacKinnon, Nielsen, Webb, "Cluster-robust inference: a guide to empirical practice", Journal of
    Econometrics 232 (2023).

    Args:
        sums: sums of at least two clusters.

    Raises:
        ValueError: fewer than two clusters.
    """
    groups = len(sums.sizes)
    if groups < 2:
        raise ValueError(f"a jackknife over clusters needs at least two of them, not {groups}")
    shifts = sums.residuals / (sums.sizes.sum() - sums.sizes)
    return float(np.sqrt((groups - 1) / groups * np.square(shifts).sum()))


def cluster_mean(values: ArrayLike, clusters: ArrayLike, level: float = 0.95) -> Estimate:
    """Mean of `values` with a cluster-robust interval: mean -+ t(G - 1) * SE, SE as in `jackknife_se`.

    Args:
        values: float[n], finite.
        clusters: labels [n], strings or integers; values that share a label may depend on each other.
        level: two-sided confidence level in (0, 1).

    Edge cases: one cluster gives the mean without an interval; all values equal give an interval of zero
    width; clusters of one item each give the ordinary t interval. The interval is not cut to the range of
    the values.

    Raises:
        ValueError: no values, arrays of different lengths, values that are not finite, level outside (0, 1).
    """
    _check_level(level)
    sums = cluster_sums(finite_vector(values, "values"), clusters)
    n, groups = int(sums.sizes.sum()), len(sums.sizes)
    if n == 0:
        raise ValueError("there is no mean of no values")
    mean = sums.mean
    if groups == 1:
        return Estimate(mean, None, None, n, 1, "no interval: a single cluster")
    half = float(stats.t.ppf((1 + level) / 2, groups - 1)) * jackknife_se(sums)
    method = f"{level:.0%} cluster-robust t ({groups - 1} df, CR3)"
    return Estimate(mean, mean - half, mean + half, n, groups, method)


def wilson(successes: int, n: int, level: float = 0.95) -> Estimate:
    """A proportion with Wilson's score interval, for independent trials.

        centre = (p + z^2 / 2n) / (1 + z^2 / n)
        half   = z / (1 + z^2 / n) * sqrt(p (1 - p) / n + z^2 / 4n^2)

    Source: Wilson, JASA 22 (1927); recommended by Brown, Cai, DasGupta, Statistical Science 16 (2001).

    Args:
        successes: number of successes, 0 <= successes <= n.
        n: number of trials, at least 1.
        level: two-sided confidence level in (0, 1).

    Raises:
        ValueError: no trials, successes outside [0, n], or level outside (0, 1).
    """
    _check_level(level)
    if n < 1 or not 0 <= successes <= n:
        raise ValueError(f"{successes} successes in {n} trials")
    z = float(stats.norm.ppf((1 + level) / 2))
    p, spread = successes / n, z * z / n
    centre = (p + spread / 2) / (1 + spread)
    half = z / (1 + spread) * np.sqrt(p * (1 - p) / n + spread / (4 * n))
    # At p = 0 and p = 1 one end is the point itself; rounding must not push it past.
    lower, upper = min(p, float(centre - half)), max(p, float(centre + half))
    return Estimate(p, max(0.0, lower), min(1.0, upper), n, None, f"{level:.0%} Wilson")


def _check_level(level: float) -> None:
    if not 0 < level < 1:
        raise ValueError(f"level must lie in (0, 1), not {level}")
