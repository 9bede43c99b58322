"""Intervals for statistics that are no mean: the BCa bootstrap and the jackknife, over clusters."""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from security_verifiers.stats.arrays import Codes, Floats, cluster_codes
from security_verifiers.stats.estimates import Estimate, check_level
from security_verifiers.stats.paired import FEW_CLUSTERS, RESAMPLES

Statistic = Callable[[Floats], Floats]
"""A statistic of n items that may count more or less than once: weights float64[b, n], at least 0, to
float64[b], NaN where the weighted items do not define it. The statistic of the items themselves is that of
weights of 1. The difference of two runs over the same items is `lambda w: candidate(w) - base(w)`."""

MAX_WORK = 200_000_000
"""Fewer resamples are drawn where resamples times items would be more than this..."""

MIN_RESAMPLES = 1_000
"""... but not fewer than this, or than were asked for."""

MAX_UNDEFINED = 0.05
"""No interval where a larger share of the resamples does not define the statistic."""

JACKKNIFE_GROUPS = 500
"""With more clusters than this, the jackknife leaves out one of as many random groups of them at a time."""

_CHUNK = 30_000
"""Weights handed to a statistic at once, or those of one resample. With arrays so small memory is reused and
stays in the cache: AUROC takes a third of the time that it takes with eight times as many."""


def plain(statistic: Statistic, n: int) -> float | None:
    """The statistic of the n items themselves; None where they do not define it."""
    value = float(statistic(np.ones((1, n)))[0])
    return None if np.isnan(value) else value


def bca(
    statistic: Statistic,
    clusters: ArrayLike,
    rng: np.random.Generator | int,
    *,
    level: float = 0.95,
    resamples: int = RESAMPLES,
) -> Estimate | None:
    """Cluster bootstrap of any statistic, with a bias-corrected and accelerated (BCa) interval.

    G whole clusters are drawn with replacement out of G. The interval's ends are the quantiles of the
    resampled statistics at

        Phi(b + (b + z) / (1 - a (b + z)))    z = -+ sqrt(G / (G - 1)) * t((1 + level) / 2, G - 1 df)
        b = Phi^-1(share of resamples below the estimate, those equal to it counted half)
        a = sum_g d_g^3 / (6 (sum_g d_g^2)^1.5)    d_g = mean of the jackknife - the statistic without g

    The normal quantile of the textbook's z is stretched as in `paired_difference`, since resamples of G
    clusters spread by sqrt((G - 1) / G) too little: over 1,000 simulated sets of 12 clusters of 10 items it
    lifts the coverage of AUROC from 92.7 to 96.0 % (94.6 % over 2,000 others). At 60 clusters of 5, AUROC is
    covered 95.2 and 95.6 %, a skewed loss such as Brier's 93.7 and 94.5 %, recall at 10 % false alarms
    95.4 %, average precision 93.1 %, and with errors that cluster AURC 92.4 % and E-AURC 93.2 %. Not for
    `ece_statistic`: see `jackknife_t`.

    Source: Efron, "Better bootstrap confidence intervals", JASA 82 (1987); for the stretch Hesterberg
    (arXiv:1411.5279); for clusters Davison and Hinkley, "Bootstrap methods and their application" (1997).

    Args:
        statistic: what to estimate, by weights of the items.
        clusters: labels [n], strings or integers, of the items' clusters.
        rng: a generator, or a seed for one.
        level: two-sided confidence level in (0, 1).
        resamples: number of bootstrap resamples, at least 100. MAX_WORK may lower it to no less than
            MIN_RESAMPLES; `method` names the number drawn.

    Returns: None where the items themselves do not define the statistic.

    Edge cases: fewer than FEW_CLUSTERS give `jackknife_t`, and one gives no interval. Resamples that do not
    define the statistic are left out and counted in `method`; more than MAX_UNDEFINED of them, and there is
    no interval. A statistic that is the same in all resamples has an interval of zero width. Memory stays
    under 100 MB for up to a million items, if the statistic needs a few arrays as large as its weights.

    Raises:
        ValueError: no items, level or resamples out of range.
    """
    if resamples < 100:
        raise ValueError(f"{resamples} resamples are too few for an interval; ask for at least 100")
    codes, generator = _checked(clusters, level), np.random.default_rng(rng)
    n, groups, value = len(codes), int(codes.max()) + 1, plain(statistic, len(codes))
    if groups < FEW_CLUSTERS or value is None:
        return jackknife_t(statistic, codes, generator, level=level)
    drawn = np.concatenate([statistic(w) for w in _resamples(codes, generator, _affordable(resamples, n))])
    defined = drawn[~np.isnan(drawn)]
    undefined = len(drawn) - len(defined)
    if undefined > MAX_UNDEFINED * len(drawn):
        why = f"no interval: not defined in {undefined} of {len(drawn)} resamples"
        return Estimate(value, None, None, n, groups, why)
    acceleration = _acceleration(_jackknife(statistic, codes, generator))
    stretch = np.sqrt(groups / (groups - 1)) * float(stats.t.ppf((1 + level) / 2, groups - 1))
    tails = _bca_tails(value, defined, acceleration, stretch)
    lower, upper = np.quantile(defined, tails)
    method = f"{level:.0%} BCa cluster bootstrap ({len(drawn)} resamples"
    method += f", {undefined} of them undefined and left out)" if undefined else ")"
    return Estimate(value, float(lower), float(upper), n, groups, method)


def jackknife_t(
    statistic: Statistic,
    clusters: ArrayLike,
    rng: np.random.Generator | int,
    *,
    level: float = 0.95,
) -> Estimate | None:
    """Student's t interval of any smooth statistic, with the error of the jackknife over clusters (CR3).

        T -+ t(G - 1) SE    SE^2 = (G - 1) / G sum_g (T without cluster g - T)^2

    For a mean this is `cluster_mean`. We take it for few clusters, and for `ece_statistic` with any number of
    them: resamples are noisier than the sample, an absolute value turns noise into bias, and BCa shifts by
    twice that. Simulated at 60 clusters of 5 and a true ECE of 0.05, BCa covers 78 % and says "below 0.05"
    21 % of the time; this interval covers 96 to 98 % and says so at most 2.8 % of the time, over six kinds of
    confidences. At a true ECE of 0, the end of its range, it covers 92 to 95 %, and all misses lie above.

    Source: as in `jackknife_se`; Efron and Stein, Annals of Statistics 9 (1981): the jackknife's variance is
    too large rather than too small.

    Args:
        statistic: what to estimate, by weights of the items.
        clusters: labels [n], strings or integers, of the items' clusters.
        rng: a generator, or a seed for one; of use with more than JACKKNIFE_GROUPS clusters, which are then
            left out by random groups of as many (and G is the number of groups).
        level: two-sided confidence level in (0, 1).

    Returns: None where the items themselves do not define the statistic.

    Edge cases: no interval with one cluster, nor where the statistic is not defined without one of them.
    The interval is not cut to the range of the statistic.

    Raises:
        ValueError: no items, or level out of range.
    """
    codes = _checked(clusters, level)
    n, clustered, value = len(codes), int(codes.max()) + 1, plain(statistic, len(codes))
    if value is None:
        return None
    if clustered == 1:
        return Estimate(value, None, None, n, 1, "no interval: a single cluster")
    without = _jackknife(statistic, codes, np.random.default_rng(rng))
    groups = len(without)
    if np.isnan(without).any():
        return Estimate(
            value, None, None, n, clustered, "no interval: not defined without one of the clusters"
        )
    se = np.sqrt((groups - 1) / groups * np.square(without - value).sum())
    half = float(stats.t.ppf((1 + level) / 2, groups - 1) * se)
    method = f"{level:.0%} cluster jackknife t ({groups - 1} df)"
    return Estimate(value, value - half, value + half, n, clustered, method)


def _checked(clusters: ArrayLike, level: float) -> Codes:
    """The clusters' codes [n], n above 0."""
    check_level(level)
    n = len(np.asarray(clusters))
    if n == 0:
        raise ValueError("there are no items to resample")
    return cluster_codes(clusters, n)


def _affordable(resamples: int, n: int) -> int:
    """The number of resamples to draw of n items."""
    return min(resamples, max(MIN_RESAMPLES, MAX_WORK // n))


def _resamples(codes: Codes, rng: np.random.Generator, resamples: int) -> Iterator[Floats]:
    """Weights float64[b, n] of the items, chunk by chunk: how often each one's cluster is drawn."""
    groups, step = int(codes.max()) + 1, max(1, _CHUNK // len(codes))
    for start in range(0, resamples, step):
        rows = min(step, resamples - start)
        picks = rng.integers(0, groups, (rows, groups)) + groups * np.arange(rows)[:, None]
        counts = np.bincount(picks.ravel(), minlength=rows * groups).reshape(rows, groups)
        yield np.take(counts.astype(np.float64), codes, axis=1)


def _jackknife(statistic: Statistic, codes: Codes, rng: np.random.Generator) -> Floats:
    """float64[G]: the statistic without each cluster in turn, or each of JACKKNIFE_GROUPS groups of them."""
    groups = int(codes.max()) + 1
    if groups > JACKKNIFE_GROUPS:
        codes = rng.permutation(np.arange(groups) % JACKKNIFE_GROUPS)[codes]
        groups = JACKKNIFE_GROUPS
    step = max(1, _CHUNK // len(codes))
    left_out = (np.arange(groups)[i : i + step, None] for i in range(0, groups, step))
    return np.concatenate([statistic((codes != group).astype(np.float64)) for group in left_out])


def _acceleration(without: Floats) -> float:
    """A sixth of the skewness of the clusters' influence; deletions that leave nothing defined stay out.

    Influences add up, so those of random groups of clusters have the same sums of squares and cubes in
    expectation.
    """
    without = without[~np.isnan(without)]
    deviations = without.mean() - without if len(without) else without
    squares = float(np.square(deviations).sum())
    return float((deviations**3).sum()) / (6 * squares**1.5) if squares > 0 else 0.0


def _bca_tails(value: float, drawn: Floats, acceleration: float, stretch: float) -> NDArray[np.float64]:
    """float64[2]: the two levels at which to read the resampled distribution."""
    below = np.count_nonzero(drawn < value) + np.count_nonzero(drawn == value) / 2
    # All resamples on one side say only that the bias is at least as large as so many can show.
    share = np.clip(below / len(drawn), 1 / (len(drawn) + 1), len(drawn) / (len(drawn) + 1))
    bias = stats.norm.ppf(share)
    shifted = bias + np.array([-stretch, stretch])
    # Beyond the pole the map would turn back: there the end is that of the distribution.
    room = np.maximum(1 - acceleration * shifted, 1e-9)
    return np.asarray(stats.norm.cdf(bias + shifted / room), dtype=np.float64)
