"""Metrics of two-class answers that carry a confidence and may abstain.

One rule for all of them: an item without a usable answer (parse failure, refusal) counts as answered
wrongly, so that no garbage improves a number; an abstained item stays in the denominator and is neither right
nor wrong.
"""

from enum import IntEnum

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from security_verifiers.stats.arrays import Bools, Codes, same_length, truth_vector, unit_vector

ECE_BINS = 10
"""Default number of confidence bins."""

ECE_MIN_PER_BIN = 10
"""Fewer bins are used where bins would hold fewer items than this: an emptier bin shows mostly noise."""


class Decision(IntEnum):
    """What an answer says of an item, as the code that the arrays below hold."""

    NEGATIVE = 0
    POSITIVE = 1
    ABSTAIN = 2
    NONE = 3
    """No usable answer."""


def accuracy(truth: ArrayLike, decision: ArrayLike) -> float | None:
    """Share of all items that are labelled rightly: #(decision = truth) / n.

    Args:
        truth: bool[n], True for the positive class.
        decision: Decision codes [n].

    Returns: None where n = 0.

    Raises:
        ValueError: different lengths, a truth that is not boolean, an unknown code.
    """
    positive, codes = _pair(truth, decision)
    return _share(codes == positive)


def false_negative_rate(truth: ArrayLike, decision: ArrayLike) -> float | None:
    """Share of the positive items that are called negative or have no usable answer: FN / P.

    Args:
        truth: bool[n], True for the positive class.
        decision: Decision codes [n].

    Returns: None where there is no positive item.
    """
    positive, codes = _pair(truth, decision)
    return _share(np.isin(codes[positive], (Decision.NEGATIVE, Decision.NONE)))


def false_positive_rate(truth: ArrayLike, decision: ArrayLike) -> float | None:
    """Share of the negative items that are called positive or have no usable answer: FP / N.

    Args:
        truth: bool[n], True for the positive class.
        decision: Decision codes [n].

    Returns: None where there is no negative item.
    """
    positive, codes = _pair(truth, decision)
    return _share(np.isin(codes[~positive], (Decision.POSITIVE, Decision.NONE)))


def coverage(decision: ArrayLike) -> float | None:
    """Share of all items that got a label, right or wrong (neither an abstention nor nothing).

    Args:
        decision: Decision codes [n].

    Returns: None where n = 0.
    """
    return _share(_codes(decision) <= Decision.POSITIVE)


def cost_per_item(
    truth: ArrayLike,
    decision: ArrayLike,
    *,
    false_negative: float,
    abstention: float,
    false_positive: float = 1.0,
) -> float | None:
    """Mean cost of the decisions, in units of one false positive by default.

        (false_negative * FN + false_positive * FP + abstention * abstained) / n

    The costs must be those of the reward in force; then the decision rule that is best for the reward is best
    here too (Elkan, "The foundations of cost-sensitive learning", IJCAI 2001; Chow's rule for abstention).

    Args:
        truth: bool[n], True for the positive class.
        decision: Decision codes [n].
        false_negative, false_positive, abstention: cost of one such item, at least 0.

    Returns: None where n = 0.
    """
    positive, codes = _pair(truth, decision)
    if not len(codes):
        return None
    # Columns by Decision code; an item without a usable answer costs what its wrong label costs.
    price = np.array(
        [
            [0.0, false_positive, abstention, false_positive],
            [false_negative, 0.0, abstention, false_negative],
        ]
    )
    if (price < 0).any():
        raise ValueError("costs must not be negative")
    return float(price[positive.astype(np.intp), codes].mean())


def brier(probability: ArrayLike, outcome: ArrayLike, missing: int = 0) -> float | None:
    """Mean squared distance between a stated probability and what happened, in [0, 1]; lower is better.

        (sum_i (probability_i - outcome_i)^2 + missing) / (n + missing)

    With two classes the probability of the positive class and that of the label being right give the same
    number. Source: Brier, Monthly Weather Review 78 (1950), in the one-sided form.

    Args:
        probability: float[n] in [0, 1].
        outcome: bool[n], whether the event happened.
        missing: items without a usable answer; each counts the worst loss, 1.

    Returns: None where n + missing = 0.
    """
    stated, happened = unit_vector(probability, "probability"), truth_vector(outcome, "outcome")
    n = same_length(probability=stated, outcome=happened) + _count(missing)
    return float((np.square(stated - happened).sum() + missing) / n) if n else None


def auroc(
    score: ArrayLike, positive: ArrayLike, missing_positive: int = 0, missing_negative: int = 0
) -> float | None:
    """Probability that a random positive item scores above a random negative one, ties counted half.

        (R - p (p + 1) / 2) / (P * N)    R = sum of the midranks of the p scored positive items

    P and N include the missing items, each of whose pairs counts as lost. Source: Hanley and McNeil,
    Radiology 143 (1982); Mann and Whitney's U.

    Args:
        score: float[n] in [0, 1], the stated probability of the positive class.
        positive: bool[n].
        missing_positive, missing_negative: items of each class without a usable score.

    Returns: None where a class has no item.
    """
    scores, is_positive = unit_vector(score, "score"), truth_vector(positive, "positive")
    same_length(score=scores, positive=is_positive)
    p = int(is_positive.sum())
    pairs = (p + _count(missing_positive)) * (len(scores) - p + _count(missing_negative))
    if not pairs:
        return None
    won = float(stats.rankdata(scores)[is_positive].sum()) - p * (p + 1) / 2
    return won / pairs


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
    stated, right = unit_vector(confidence, "confidence"), truth_vector(correct, "correct")
    n = same_length(confidence=stated, correct=right)
    if bins < 1:
        raise ValueError(f"{bins} bins")
    if not n:
        return None
    codes = _equal_mass(stated, min(bins, max(1, n // ECE_MIN_PER_BIN)))
    sizes = np.bincount(codes)
    mean = np.bincount(codes, stated) / sizes
    gap = np.abs(np.bincount(codes, right) / sizes - mean)
    noisy = _folded_normal_mean(gap, np.sqrt(np.maximum(mean * (1 - mean), 0.0) / sizes))
    weights = sizes / n
    return max(0.0, float(weights @ (2 * gap - noisy)))


def distinct(confidence: ArrayLike) -> int:
    """Number of different confidence values in use; 1 means that confidence carries no information.

    Args:
        confidence: float[n] in [0, 1].
    """
    return len(np.unique(unit_vector(confidence, "confidence")))


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


def _pair(truth: ArrayLike, decision: ArrayLike) -> tuple[Bools, Codes]:
    positive, codes = truth_vector(truth, "truth"), _codes(decision)
    same_length(truth=positive, decision=codes)
    return positive, codes


def _codes(decision: ArrayLike) -> Codes:
    codes = np.asarray(decision)
    if codes.ndim != 1 or not np.isin(codes, list(Decision)).all():
        raise ValueError("decision must be a one-dimensional array of Decision codes")
    return codes.astype(np.intp)


def _share(hits: NDArray[np.bool_]) -> float | None:
    return float(hits.mean()) if hits.size else None


def _count(missing: int) -> int:
    if missing < 0:
        raise ValueError(f"{missing} missing items")
    return missing
