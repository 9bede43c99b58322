"""Whether stated probabilities are true: the parts of the Brier score, and the expected calibration error."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from security_verifiers.stats.arrays import (
    Codes,
    Floats,
    over,
    same_length,
    stated_vector,
    truth_vector,
    unit_vector,
)
from security_verifiers.stats.bootstrap import Statistic, jackknife_t, plain
from security_verifiers.stats.estimates import Estimate, cut_to_unit

ECE_BINS = 10
"""Default number of confidence bins."""

ECE_MIN_PER_BIN = 10
"""Fewer bins are used where bins would hold fewer items than this: an emptier bin shows mostly noise."""

CALIBRATED_BELOW = 0.05
"""Who is called calibrated has an ECE whose interval ends below this."""

_CHUNK = 250_000
"""Simulated numbers held at once."""


@dataclass(frozen=True, slots=True)
class BrierParts:
    """The Brier score taken apart: brier = reliability - resolution + uncertainty + within.

    Attributes:
        reliability: mean squared gap between a bin's mean probability and the share that happened in it; 0
            is best.
        resolution: variance between the bins of the share that happened: how far answers tell items apart;
            higher is better, at most `uncertainty`.
        uncertainty: o (1 - o), o the share that happened: the score of always stating o.
        within: what differences of probability within bins add; 0 where every bin holds one value.
    """

    reliability: float
    resolution: float
    uncertainty: float
    within: float


def brier_parts(probability: ArrayLike, outcome: ArrayLike, bins: int = ECE_BINS) -> BrierParts | None:
    """The parts of the Brier score, which add up to it exactly.

        reliability = sum_k w_k (p_k - o_k)^2    resolution = sum_k w_k (o_k - o)^2    w_k = n_k / n
        within = mean_i (p_i - p_k(i))^2 - 2 mean_i (o_i - o_k(i)) (p_i - p_k(i))

    with p_k, o_k the mean probability and the share that happened in bin k. Resolution grows with the number
    of bins by noise alone: compare it with `resolution_null`. Source: Murphy, Journal of Applied Meteorology
    12 (1973); the terms within bins: Stephenson, Coelho and Jolliffe, Weather and Forecasting 23 (2008).

    Args:
        probability: float[n] in [0, 1].
        outcome: bool[n], whether the event happened.
        bins: with at most so many distinct probabilities every one is a bin; else that many of equal mass.

    Returns: None where n = 0. One item, or one probability: no resolution.
    """
    stated, happened = unit_vector(probability, "probability"), truth_vector(outcome, "outcome")
    n = same_length(probability=stated, outcome=happened)
    if not n:
        return None
    codes = _bins_of(stated, bins)
    sizes = np.bincount(codes)
    p, o = np.bincount(codes, stated) / sizes, np.bincount(codes, happened) / sizes
    base, off = float(happened.mean()), stated - p[codes]
    within = np.square(off).mean() - 2 * ((happened - o[codes]) * off).mean()
    return BrierParts(
        reliability=float(sizes @ np.square(p - o) / n),
        resolution=float(sizes @ np.square(o - base) / n),
        uncertainty=base * (1 - base),
        within=float(within),
    )


def resolution_null(
    probability: ArrayLike,
    outcome: ArrayLike,
    rng: np.random.Generator | int,
    bins: int = ECE_BINS,
    permutations: int = 2_000,
) -> float | None:
    """95th percentile of the resolution that probabilities without any information would show.

    The outcomes are permuted over the items, the bins stay: the numbers that happened by bin are then
    multivariate hypergeometric and are drawn as such. Items count as independent; where outcomes cluster, the
    true null lies higher.

    Args:
        probability, outcome, bins: as in `brier_parts`.
        rng: a generator, or a seed for one.
        permutations: number of them, at least 100.

    Returns: None where n = 0; 0 where there is one bin, or one kind of outcome.
    """
    if permutations < 100:
        raise ValueError(f"{permutations} permutations are too few for a percentile")
    stated, happened = unit_vector(probability, "probability"), truth_vector(outcome, "outcome")
    n = same_length(probability=stated, outcome=happened)
    if not n:
        return None
    sizes = np.bincount(_bins_of(stated, bins))
    total = int(happened.sum())
    drawn = np.random.default_rng(rng).multivariate_hypergeometric(
        sizes, total, size=permutations, method="marginals"
    )
    return float(np.quantile(np.square(drawn / sizes - total / n) @ sizes / n, 0.95))


def ece(confidence: ArrayLike, correct: ArrayLike, bins: int = ECE_BINS) -> float | None:
    """Expected calibration error, equal-mass bins, with most of its small-sample bias taken off; in [0, 1].

        plain = sum_b n_b / n * d_b,    d_b = |share correct - mean confidence| in bin b
        ece   = max(0, plain - (sum_b n_b / n * E|d_b + s_b Z| - plain))
        s_b^2 = c_b (1 - c_b) / n_b,    Z standard normal, c_b = mean confidence in bin b

    The bracket is the bias that noise adds to the plain estimate, in closed form (mean of a folded normal).
    Source: Kumar, Liang, Ma, "Verified uncertainty calibration" (arXiv:1909.10155), whose 1-norm estimator
    finds the bracket by simulation; equal-mass bins after Roelofs et al. (arXiv:2012.08668). We deviate in
    s_b, which they take from the share correct: that is 0 in a bin that is all right, where confident models
    live. About half of the bias at perfect calibration remains: read the number beside its null band.

    Args:
        confidence: float[n] in [0, 1], the stated probability that the label is right.
        correct: bool[n], whether it is. Items without a usable answer state no confidence and stay out;
            `coverage` tells how many they are.
        bins: upper limit of the number of bins; at most n // ECE_MIN_PER_BIN are used (at least one). Equal
            confidences never fall into different bins, so the result does not depend on the items' order.

    Returns: None where n = 0.
    """
    stated = unit_vector(confidence, "confidence")
    return plain(ece_statistic(stated, correct, bins), len(stated))


def ece_statistic(confidence: ArrayLike, correct: ArrayLike, bins: int = ECE_BINS) -> Statistic:
    """`ece` of weighted items; the bins are those of the items at weights of 1.

    Make intervals with `jackknife_t`, which tells their coverage, not with `bca`. Items count as independent
    in the term that takes off the bias; where they cluster, more of the bias remains.

    Args:
        confidence: float[n] in [0, 1]; NaN where none was stated, and the item stays out.
        correct: bool[n]; what it says of an item that stays out does not matter.
        bins: as in `ece`.
    """
    stated, right = stated_vector(confidence, "confidence"), truth_vector(correct, "correct")
    same_length(confidence=stated, correct=right)
    if bins < 1:
        raise ValueError(f"{bins} bins")
    rows = np.argsort(stated, kind="stable")[: int((~np.isnan(stated)).sum())]
    codes = _equal_mass(stated[rows], _ece_bins(len(rows), bins))
    starts = np.flatnonzero(np.diff(codes, prepend=-1))
    sure, hit = stated[rows], right[rows].astype(np.float64)

    def statistic(weights: Floats) -> Floats:
        if not len(rows):
            return np.full(len(weights), np.nan)
        drawn = np.take(weights, rows, axis=1)
        columns = (drawn, drawn * sure, drawn * hit)
        return _debiased(*(np.add.reduceat(column, starts, axis=1) for column in columns))

    return statistic


def ece_null_band(
    confidence: ArrayLike, rng: np.random.Generator | int, bins: int = ECE_BINS, draws: int = 2_000
) -> tuple[float, float] | None:
    """What `ece` shows of a perfectly calibrated predictor: its central 95 % over simulated outcomes.

    Each draw makes every item right with its own stated confidence, items being independent.

    Args:
        confidence: float[n] in [0, 1].
        rng: a generator, or a seed for one.
        bins: as in `ece`.
        draws: number of simulated outcomes, at least 100.

    Returns: (2.5th, 97.5th percentile); None where n = 0.
    """
    stated = unit_vector(confidence, "confidence")
    if draws < 100:
        raise ValueError(f"{draws} draws are too few for a percentile")
    if not len(stated):
        return None
    codes = _equal_mass(stated, _ece_bins(len(stated), bins))
    values, first, counts = np.unique(stated, return_index=True, return_counts=True)
    starts = np.flatnonzero(np.diff(codes[first], prepend=-1))
    sizes = np.bincount(codes).astype(np.float64)
    confident = np.bincount(codes, stated)
    generator, found = np.random.default_rng(rng), []
    step = max(1, _CHUNK // len(values))
    for start in range(0, draws, step):
        right = generator.binomial(counts, values, (min(step, draws - start), len(values)))
        hits = np.add.reduceat(right, starts, axis=1)
        found.append(_debiased(*np.broadcast_arrays(sizes, confident, hits)))
    low, high = np.quantile(np.concatenate(found), (0.025, 0.975))
    return float(low), float(high)


@dataclass(frozen=True, slots=True)
class Calibration:
    """All that is said of a run's calibration.

    Attributes:
        ece: debiased expected calibration error with its interval, cut to [0, 1].
        null_band: where the ECE of a perfectly calibrated predictor with these confidences lies 95 % of the
            time.
        parts: the parts of the Brier score of the confidences.
        resolution_null: 95th percentile of `parts.resolution` without any information.
        calibrated: whether the ECE's interval ends below CALIBRATED_BELOW and the resolution is above its
            null (who always states the base rate has no gap either); None where there is no interval.
    """

    ece: Estimate
    null_band: tuple[float, float]
    parts: BrierParts
    resolution_null: float
    calibrated: bool | None


def calibration(
    confidence: ArrayLike,
    correct: ArrayLike,
    clusters: ArrayLike,
    rng: np.random.Generator | int,
    *,
    bins: int = ECE_BINS,
) -> Calibration | None:
    """The ECE with its 95 % interval and null band, the parts of the Brier score, and the verdict.

    Who has an ECE of CALIBRATED_BELOW is called calibrated at most 2.8 % of the time in the simulations that
    `jackknife_t` quotes. A perfectly calibrated predictor of confidences evenly in [0.5, 1] needs about 1,500
    items for an even chance; fewer do if its confidences lie nearer to 1.

    Args:
        confidence: float[n] in [0, 1]; items that state none are the caller's to leave out.
        correct: bool[n].
        clusters: labels [n], strings or integers.
        rng: a generator, or a seed for one.
        bins: as in `ece`.

    Returns: None where n = 0.
    """
    generator = np.random.default_rng(rng)
    stated, right = unit_vector(confidence, "confidence"), truth_vector(correct, "correct")
    null_band, parts = ece_null_band(stated, generator, bins), brier_parts(stated, right, bins)
    null = resolution_null(stated, right, generator, bins)
    if null_band is None or parts is None or null is None:
        return None
    gap = jackknife_t(ece_statistic(stated, right, bins), clusters, generator)
    assert gap is not None, "an ECE is defined wherever there are items"
    calibrated = None
    if gap.upper is not None:
        calibrated = gap.upper < CALIBRATED_BELOW and parts.resolution > null
    return Calibration(cut_to_unit(gap), null_band, parts, null, calibrated)


def distinct(confidence: ArrayLike) -> int:
    """Number of different confidence values in use; 1 means that confidence carries no information.

    Args:
        confidence: float[n] in [0, 1].
    """
    return len(np.unique(unit_vector(confidence, "confidence")))


def _debiased(sizes: Floats, confident: Floats, hits: Floats) -> Floats:
    """`ece` of each row of bin sums float64[b, K]: weights, confidences, right answers; NaN without any."""
    there = np.where(sizes > 0, sizes, 1.0)  # an empty bin has no gap and no weight
    mean = confident / there
    gap = np.abs(hits / there - mean)
    noisy = _folded_normal_mean(gap, np.sqrt(np.maximum(mean * (1 - mean), 0.0) / there))
    total = sizes.sum(axis=1)
    loss = (sizes * (2 * gap - noisy)).sum(axis=1)
    return over(np.maximum(loss, 0.0), total)


def _bins_of(values: Floats, bins: int) -> Codes:
    """Every distinct value as a bin where there are at most `bins` of them, else `_equal_mass`."""
    if bins < 1:
        raise ValueError(f"{bins} bins")
    codes = np.unique(values, return_inverse=True)[1]
    return codes if codes.max() < bins else _equal_mass(values, bins)


def _ece_bins(n: int, bins: int) -> int:
    return min(bins, max(1, n // ECE_MIN_PER_BIN))


def _equal_mass(values: NDArray[np.float64], bins: int) -> Codes:
    """Codes 0, 1, ... [n] of at most `bins` bins of about equal size; ties share one, and none is empty."""
    ordered = np.sort(values)
    starts = ordered[np.arange(1, bins) * len(values) // bins]
    codes = np.searchsorted(np.unique(starts), values, side="right")
    return np.unique(codes, return_inverse=True)[1]


def _folded_normal_mean(mu: NDArray[np.float64], sigma: NDArray[np.float64]) -> NDArray[np.float64]:
    """E|mu + sigma Z| for mu >= 0, element by element; |mu| where sigma = 0."""
    ratio = np.divide(mu, sigma, out=np.full_like(mu, np.inf), where=sigma > 0)
    spread = sigma * np.sqrt(2 / np.pi) * np.exp(-np.square(ratio) / 2)
    return np.asarray(spread + mu * (1 - 2 * stats.norm.cdf(-ratio)), dtype=np.float64)
