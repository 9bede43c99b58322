"""Answering only where confident: the risk-coverage curve and the area under it.

One rule: an item without a usable answer ("lost", "missing") is wrong and kept before all others, since it
states nothing by which to reject it. (Kept last, garbage would improve the curve of whoever answers wrongly
and knows it.) An abstained item is left out, so read these numbers beside `coverage`, which counts it.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import digamma

from security_verifiers.stats.arrays import (
    Bools,
    Codes,
    Floats,
    lost_mask,
    missing_count,
    over,
    same_length,
    stated_vector,
    truth_vector,
    unit_vector,
)
from security_verifiers.stats.bootstrap import Statistic, plain


@dataclass(frozen=True, slots=True)
class RiskCoverage:
    """The points of a risk-coverage curve: that of the missing items, if there are any, then one for each
    distinct confidence, from high to low.

    Attributes:
        threshold: float[k], answers at least as confident are kept; NaN for the point of the missing items.
        coverage: float[k], share of all items that are kept; ends at 1.
        risk: float[k], share of the kept items that are wrong; ends at 1 - accuracy.
    """

    threshold: Floats
    coverage: Floats
    risk: Floats


def risk_coverage(confidence: ArrayLike, correct: ArrayLike, missing: int = 0) -> RiskCoverage | None:
    """The share of wrong answers among the most confident ones, by how many of them are kept.

    Items of one confidence enter together. Source: El-Yaniv and Wiener, "On the foundations of noise-free
    selective classification", JMLR 11 (2010).

    Args:
        confidence: float[n] in [0, 1], the stated probability that the label is right.
        correct: bool[n], whether it is.
        missing: items without a usable answer: wrong, and kept first.

    Returns: None where n + missing = 0.

    Raises:
        ValueError: different lengths, confidences outside [0, 1], a negative number of missing items.
    """
    items = _with_missing(confidence, correct, missing)
    curve, n = _Curve.of(*items), len(items[0])
    if not n:
        return None
    kept, wrong = (sums[0] for sums in curve.running(np.ones((1, n))))
    return RiskCoverage(curve.thresholds, kept / n, wrong / kept)


def aurc(confidence: ArrayLike, correct: ArrayLike, missing: int = 0) -> float | None:
    """Area under the risk-coverage curve: the mean risk over all numbers of kept answers; lower is better.

        (1 / n) sum_{k = 1..n} (wrong among the k most confident) / k

    Items of one confidence enter in random order, and the mean over all orders is taken, so the order of the
    items never matters; a constant confidence gives the share of wrong answers. With M items of which E are
    wrong before a group of m of which e are wrong, that mean is, with H the harmonic numbers,

        sum_{j = 1..m} (E + e j / m) / (M + j) = e + (E - e M / m) (H(M + m) - H(M))

    Source: Geifman, Uziel, El-Yaniv, "Bias-reduced uncertainty estimation for deep neural classifiers", ICLR
    2019 (arXiv:1805.08206), who break ties as they come.

    Args:
        confidence: float[n] in [0, 1], the stated probability that the label is right.
        correct: bool[n], whether it is.
        missing: items without a usable answer: wrong, and kept first.

    Returns: None where n + missing = 0.

    Raises:
        ValueError: as `risk_coverage`.
    """
    items = _with_missing(confidence, correct, missing)
    return plain(aurc_statistic(*items), len(items[0]))


def e_aurc(confidence: ArrayLike, correct: ArrayLike, missing: int = 0) -> float | None:
    """`aurc` beyond that of the best order of the same answers, all right ones first; at least 0.

        aurc - (W - R (H(n) - H(R))) / n    W wrong and R right answers, H the harmonic numbers

    so that it tells how well confidence sorts, whatever the accuracy. Who loses all answers sorts nothing and
    gets 0 too: it says nothing without `aurc`. Source: as `aurc`; they approximate the
    subtracted area by r + (1 - r) ln(1 - r), r = W / n; we take the exact sum.

    Args, returns, errors: as `aurc`. All answers right, or all wrong: 0.
    """
    items = _with_missing(confidence, correct, missing)
    return plain(e_aurc_statistic(*items), len(items[0]))


def aurc_statistic(confidence: ArrayLike, correct: ArrayLike, lost: ArrayLike | None = None) -> Statistic:
    """`aurc` of weighted items.

    Args:
        confidence: float[n] in [0, 1]; NaN where none was stated. Such an item is left out unless it is lost.
        correct: bool[n]; what it says of an item without a confidence does not matter.
        lost: bool[n], items without a usable answer; None: there are none.

    Raises:
        ValueError: different lengths, confidences outside [0, 1], or a lost item with a confidence.
    """
    curve = _Curve.of(confidence, correct, lost)
    return lambda weights: _area(*curve.running(weights))


def e_aurc_statistic(confidence: ArrayLike, correct: ArrayLike, lost: ArrayLike | None = None) -> Statistic:
    """`e_aurc` of weighted items; arguments and errors as in `aurc_statistic`."""
    curve = _Curve.of(confidence, correct, lost)

    def statistic(weights: Floats) -> Floats:
        kept, wrong = curve.running(weights)
        if not kept.shape[1]:
            return np.full(len(weights), np.nan)
        # The best order is a curve of two groups: what is right, then what is wrong.
        right = kept[:, -1] - wrong[:, -1]
        best = np.column_stack([right, kept[:, -1]]), np.column_stack([np.zeros_like(right), wrong[:, -1]])
        return np.maximum(_area(kept, wrong) - _area(*best), 0.0)  # rounding must not make it negative

    return statistic


@dataclass(frozen=True, slots=True)
class _Curve:
    """Items sorted once by falling confidence, the lost ones first: their row numbers, which are wrong, where
    each group of ties ends (as a number of items), and its confidence."""

    rows: Codes
    wrong: Floats
    ends: Codes
    thresholds: Floats

    @classmethod
    def of(cls, confidence: ArrayLike, correct: ArrayLike, lost: ArrayLike | None) -> "_Curve":
        stated, right = stated_vector(confidence, "confidence"), truth_vector(correct, "correct")
        same_length(confidence=stated, correct=right)
        is_lost = lost_mask(lost, stated)
        place = np.where(is_lost, -2.0, -stated)
        rows = np.argsort(place, kind="stable")
        rows = rows[~np.isnan(place[rows])]
        groups, sizes = np.unique(place[rows], return_counts=True)
        return cls(
            rows,
            (is_lost | ~right)[rows].astype(np.float64),
            np.cumsum(sizes),
            np.where(groups < -1, np.nan, -groups),
        )

    def running(self, weights: Floats) -> tuple[Floats, Floats]:
        """float64[b, k] each: the weights kept, and the wrong ones among them, at the end of each group."""
        ranked = np.take(weights, self.rows, axis=1)
        kept = np.take(np.cumsum(ranked, axis=1), self.ends - 1, axis=1)
        return kept, np.take(np.cumsum(ranked * self.wrong, axis=1), self.ends - 1, axis=1)


def _area(kept: Floats, wrong: Floats) -> Floats:
    """float64[b]: the area under curves through these points, by the formula in `aurc`; NaN where nothing is
    kept."""
    if not kept.shape[1]:
        return np.full(len(kept), np.nan)
    before, wrong_before = (np.pad(sums[:, :-1], ((0, 0), (1, 0))) for sums in (kept, wrong))
    size, errors = kept - before, wrong - wrong_before
    rate = np.divide(errors, size, out=np.zeros_like(size), where=size > 0)
    total = kept[:, -1]
    harmonic = digamma(np.column_stack([np.zeros_like(total), kept]) + 1)
    area = (errors + (wrong_before - rate * before) * np.diff(harmonic, axis=1)).sum(axis=1)
    return over(area, total)


def _with_missing(confidence: ArrayLike, correct: ArrayLike, missing: int) -> tuple[Floats, Bools, Bools]:
    """confidence, correct and lost of answered items followed by missing ones."""
    stated, right = unit_vector(confidence, "confidence"), truth_vector(correct, "correct")
    n = same_length(confidence=stated, correct=right)
    lost = np.arange(n + missing_count(missing)) >= n
    return np.append(stated, np.full(missing, np.nan)), np.append(right, np.zeros(missing, np.bool_)), lost
