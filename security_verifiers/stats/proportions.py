"""Proportions with Wilson's interval, for independent trials and for clusters of them."""

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from security_verifiers.stats.arrays import ClusterSums, cluster_sums, truth_vector
from security_verifiers.stats.estimates import Estimate, check_level, jackknife_se


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
    check_level(level)
    if n < 1 or not 0 <= successes <= n:
        raise ValueError(f"{successes} successes in {n} trials")
    lower, upper = _score_interval(successes / n, n, level)
    return Estimate(successes / n, lower, upper, n, None, f"{level:.0%} Wilson")


def cluster_proportion(hits: ArrayLike, clusters: ArrayLike, level: float = 0.95) -> Estimate:
    """A proportion over clustered trials: Wilson's interval at the effective number of trials.

        deff  = CR3 variance of p / (p (1 - p) / (n - 1))
        n_eff = n / max(1, deff) * (t(n - 1) / t(f))^2, at least n^2 / sum_g n_g^2
        f     = 2 (sum_g s_g^2)^2 / (sum_g s_g^4 - (sum_g s_g^2)^2 / G), at most G - 1

    with `jackknife_se` for the variance, s_g its shifts, t(df) the (1 + level) / 2 quantile of Student's t.
    Unlike the interval of `cluster_mean` it stays inside [0, 1], and is not of zero width where all trials
    ended alike. With clusters of one item each it is `wilson`. The lower limit of n_eff is its value when a
    cluster's trials always end alike. Where p is 0 or 1 nothing is known of deff, and that case is assumed:
    G clusters, all alike, so n_eff = G.

    Source: Korn and Graubard, Survey Methodology 24 (1998), for n_eff with f = G - 1, there with the
    interval of Clopper and Pearson; Franco et al., J. Survey Stat. and Methodology 7 (2019), for Wilson's.
    We deviate in f, by Satterthwaite's moments (Biometrics Bulletin 2, 1946): where the few misses
    sit in a few clusters, the variance is known far worse than from G clusters.

    Coverage of 95 % intervals, simulated with beta-binomial clusters (G = 10, 20, 60; sizes 5, 20, 100;
    intra-cluster correlation 0.02 and 0.3): 0.91 to 0.98 at p = 0.5 and 0.9; 0.94 to 0.98 at p = 0.98, but
    0.86 for 10 or 20 clusters of 100 items with correlation 0.3, where most runs see one cluster with misses.
    With f = G - 1 that is 0.79; a plain t interval covers 0.57.

    Args:
        hits: bool[n].
        clusters: labels [n], strings or integers; trials that share a label may depend on each other.
        level: two-sided confidence level in (0, 1).

    Edge cases: one cluster gives the proportion without an interval, so a single trial does.

    Raises:
        ValueError: no trials, hits that are not boolean, arrays of different lengths, level outside (0, 1).
    """
    check_level(level)
    sums = cluster_sums(truth_vector(hits, "hits").astype(np.float64), clusters)
    n, groups = int(sums.sizes.sum()), len(sums.sizes)
    if n == 0:
        raise ValueError("there is no proportion of no trials")
    if groups == 1:
        return Estimate(sums.mean, None, None, n, 1, "no interval: a single cluster")
    effective = _trials(sums, level)
    lower, upper = _score_interval(sums.mean, effective, level)
    method = f"{level:.0%} Wilson at {effective:.4g} effective trials ({groups} clusters)"
    return Estimate(sums.mean, lower, upper, n, groups, method)


def effective_trials(hits: ArrayLike, clusters: ArrayLike, level: float = 0.95) -> float | None:
    """n_eff of `cluster_proportion`: so many independent trials would tell as much; in [1, n].

    Arguments and errors as there. Returns: None for one cluster, and for no trials.
    """
    check_level(level)
    sums = cluster_sums(truth_vector(hits, "hits").astype(np.float64), clusters)
    return _trials(sums, level) if len(sums.sizes) > 1 else None


def _trials(sums: ClusterSums, level: float) -> float:
    n, groups, p = float(sums.sizes.sum()), len(sums.sizes), sums.mean
    if p in (0.0, 1.0):
        return float(groups)
    deff = jackknife_se(sums) ** 2 / (p * (1 - p) / (n - 1))
    quantiles = stats.t.ppf((1 + level) / 2, (n - 1, _freedom(sums)))
    trials = n / max(1.0, deff) * float(quantiles[0] / quantiles[1]) ** 2
    return max(trials, float(n**2 / np.square(sums.sizes).sum()))


def _freedom(sums: ClusterSums) -> float:
    """Degrees of freedom of the jackknife variance, by the spread of the squared shifts; at most G - 1."""
    squares = np.square(sums.residuals / (sums.sizes.sum() - sums.sizes))
    groups = len(squares)
    if not squares.any():
        return groups - 1.0  # every cluster has the same share
    squares /= squares.max()
    spread = float(np.square(squares).sum() - squares.sum() ** 2 / groups)
    # Shifts that are all of one size show no spread but rounding.
    return min(groups - 1.0, 2 * float(squares.sum()) ** 2 / spread) if spread > 1e-12 else groups - 1.0


def _score_interval(p: float, n: float, level: float) -> tuple[float, float]:
    """Wilson's interval around `p` for `n` trials, which need not be a whole number."""
    z = float(stats.norm.ppf((1 + level) / 2))
    spread = z * z / n
    centre = (p + spread / 2) / (1 + spread)
    half = z / (1 + spread) * float(np.sqrt(p * (1 - p) / n + spread / (4 * n)))
    # At p = 0 and p = 1 one end is the point itself; rounding must not push it past.
    return max(0.0, min(p, centre - half)), min(1.0, max(p, centre + half))
