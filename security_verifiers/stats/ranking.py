"""How well a score ranks positive items above negative ones: AUROC, average precision, recall at a bound on
false alarms.

Every metric is defined once, as a `Statistic` of weighted items, and the plain function is that statistic at
weights of 1. One rule for all of them: an item without a usable answer ("lost", "missing") is ranked the
worst way, a positive one below all others and a negative one above; an abstained item is left out.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

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


def auroc(
    score: ArrayLike, positive: ArrayLike, missing_positive: int = 0, missing_negative: int = 0
) -> float | None:
    """Probability that a random positive item scores above a random negative one, ties counted half.

        (pairs of a positive and a negative item that are won, ties half) / (P * N)

    P and N include the missing items, each of whose pairs counts as lost. Source: Hanley and McNeil,
    Radiology 143 (1982); Mann and Whitney's U.

    Args:
        score: float[n] in [0, 1], the stated probability of the positive class.
        positive: bool[n].
        missing_positive, missing_negative: items of each class without a usable score.

    Returns: None where a class has no item. All scores equal and none missing: 0.5.

    Raises:
        ValueError: different lengths, scores outside [0, 1], negative numbers of missing items.
    """
    items = _with_missing(score, positive, missing_positive, missing_negative)
    return plain(auroc_statistic(*items), len(items[0]))


def auprc(
    score: ArrayLike, positive: ArrayLike, missing_positive: int = 0, missing_negative: int = 0
) -> float | None:
    """Average precision, the area under the precision-recall curve read as steps.

        sum_k (recall_k - recall_{k-1}) * precision_k    k over the distinct scores, from high to low

    Items of one score enter together, and there is no interpolation, which would be too kind here. A missing
    positive item is never retrieved, a missing negative one is retrieved before all others. A score without
    any information gives about P / (P + N), so read the number beside the share of positives. Source: Davis
    and Goadrich, "The relationship between precision-recall and ROC curves", ICML 2006.

    Args:
        score: float[n] in [0, 1], the stated probability of the positive class.
        positive: bool[n].
        missing_positive, missing_negative: items of each class without a usable score.

    Returns: None where there is no positive item; 1 where all items are positive and none is missing.

    Raises:
        ValueError: as `auroc`.
    """
    items = _with_missing(score, positive, missing_positive, missing_negative)
    return plain(auprc_statistic(*items), len(items[0]))


def recall_at_fpr(
    score: ArrayLike,
    positive: ArrayLike,
    bound: float,
    missing_positive: int = 0,
    missing_negative: int = 0,
) -> float | None:
    """The largest recall that any threshold on the score reaches at a false positive rate up to `bound`.

        max TP(t) / P    over thresholds t with FP(t) / N <= bound; items with score >= t are called positive

    Only thresholds that the scores themselves make, without interpolation: a detector that states three
    distinct scores has three settings. A missing positive item is missed, and a missing negative one is a
    false alarm, at every threshold. The threshold is chosen on these very items, so the number is an upper
    bound of what a threshold fixed before would reach.

    Args:
        score: float[n] in [0, 1], the stated probability of the positive class.
        positive: bool[n].
        bound: largest false positive rate, in (0, 1).
        missing_positive, missing_negative: items of each class without a usable score.

    Returns: None where a class has no item; 0 where no threshold keeps the bound.

    Raises:
        ValueError: as `auroc`, or a bound outside (0, 1).
    """
    items = _with_missing(score, positive, missing_positive, missing_negative)
    return plain(recall_at_fpr_statistic(*items[:2], bound, items[2]), len(items[0]))


def auroc_statistic(score: ArrayLike, positive: ArrayLike, lost: ArrayLike | None = None) -> Statistic:
    """`auroc` of weighted items.

    Args:
        score: float[n] in [0, 1]; NaN where none was stated. Such an item is left out unless it is lost.
        positive: bool[n].
        lost: bool[n], items without a usable answer; None: there are none.

    Raises:
        ValueError: different lengths, scores outside [0, 1], or a lost item with a score.
    """
    ranking = _Ranking.of(score, positive, lost)

    def statistic(weights: Floats) -> Floats:
        tally = ranking.tally(weights)
        beaten = tally.negatives[:, None] - (tally.alarms[:, 1:] + tally.alarms[:, :-1]) / 2
        won = (np.diff(tally.hits, axis=1) * beaten).sum(axis=1)
        return over(won, tally.positives * tally.negatives)

    return statistic


def auprc_statistic(score: ArrayLike, positive: ArrayLike, lost: ArrayLike | None = None) -> Statistic:
    """`auprc` of weighted items; arguments and errors as in `auroc_statistic`."""
    ranking = _Ranking.of(score, positive, lost)

    def statistic(weights: Floats) -> Floats:
        tally = ranking.tally(weights)
        hits, alarms = tally.hits[:, 1:], tally.alarms[:, 1:]
        # Where nothing is retrieved yet, nothing was gained either, so any precision will do.
        precision = hits / np.maximum(hits + alarms, np.finfo(float).tiny)
        return over((np.diff(tally.hits, axis=1) * precision).sum(axis=1), tally.positives)

    return statistic


def recall_at_fpr_statistic(
    score: ArrayLike, positive: ArrayLike, bound: float, lost: ArrayLike | None = None
) -> Statistic:
    """`recall_at_fpr` of weighted items; arguments and errors as in `auroc_statistic` and `recall_at_fpr`."""
    if not 0 < bound < 1:
        raise ValueError(f"the bound on the false positive rate must lie in (0, 1), not {bound}")
    ranking = _Ranking.of(score, positive, lost)

    def statistic(weights: Floats) -> Floats:
        tally = ranking.tally(weights)
        # The slack is for products like 0.29 * 100, which come out below the whole number that they are.
        kept = tally.alarms <= (bound * tally.negatives * (1 + 1e-12))[:, None]
        best = np.where(kept, tally.hits, 0.0).max(axis=1)
        return np.where(tally.negatives > 0, over(best, tally.positives), np.nan)

    return statistic


@dataclass(frozen=True, slots=True)
class _Tally:
    """Weights retrieved at each of K thresholds, the first of which retrieves nothing: hits, alarms [b, K];
    and of each class in all: positives, negatives [b]."""

    hits: Floats
    alarms: Floats
    positives: Floats
    negatives: Floats


@dataclass(frozen=True, slots=True)
class _Ranking:
    """Items sorted once by falling score: row numbers of each class, and how many of them each threshold
    retrieves; the lost ones apart."""

    positives: Codes
    negatives: Codes
    lost_positives: Codes
    lost_negatives: Codes
    hits_at: Codes
    alarms_at: Codes

    @classmethod
    def of(cls, score: ArrayLike, positive: ArrayLike, lost: ArrayLike | None) -> "_Ranking":
        scores, is_positive = stated_vector(score, "score"), truth_vector(positive, "positive")
        same_length(score=scores, positive=is_positive)
        is_lost = lost_mask(lost, scores)
        order = np.argsort(-scores, kind="stable")
        order = order[~np.isnan(scores[order])]
        positives, negatives = order[is_positive[order]], order[~is_positive[order]]
        thresholds = np.concatenate([[-np.inf], np.unique(-scores[order])])
        return cls(
            positives,
            negatives,
            np.flatnonzero(is_lost & is_positive),
            np.flatnonzero(is_lost & ~is_positive),
            np.searchsorted(-scores[positives], thresholds, side="right"),
            np.searchsorted(-scores[negatives], thresholds, side="right"),
        )

    def tally(self, weights: Floats) -> _Tally:
        hits, alarms = _running(weights, self.positives), _running(weights, self.negatives)
        alarms += np.take(weights, self.lost_negatives, axis=1).sum(axis=1, keepdims=True)
        positives = hits[:, -1] + np.take(weights, self.lost_positives, axis=1).sum(axis=1)
        return _Tally(
            np.take(hits, self.hits_at, axis=1),
            np.take(alarms, self.alarms_at, axis=1),
            positives,
            alarms[:, -1],
        )


def _running(weights: Floats, rows: Codes) -> Floats:
    """float64[b, len(rows) + 1]: sums of the weights of the first 0, 1, ... of these rows."""
    sums = np.zeros((len(weights), len(rows) + 1))
    np.cumsum(np.take(weights, rows, axis=1), axis=1, out=sums[:, 1:])
    return sums


def _with_missing(
    score: ArrayLike, positive: ArrayLike, missing_positive: int, missing_negative: int
) -> tuple[Floats, Bools, Bools]:
    """score, positive and lost of scored items followed by missing ones."""
    scores, is_positive = unit_vector(score, "score"), truth_vector(positive, "positive")
    n = same_length(score=scores, positive=is_positive)
    missing = np.repeat([True, False], [missing_count(missing_positive), missing_count(missing_negative)])
    return (
        np.append(scores, np.full(len(missing), np.nan)),
        np.append(is_positive, missing),
        np.arange(n + len(missing)) >= n,
    )
