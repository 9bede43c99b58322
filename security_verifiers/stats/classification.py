"""Metrics of two-class answers that may abstain, each as a `Ratio` over the items.

One rule for all of them: an item without a usable answer (parse failure, refusal) counts as answered
wrongly, so that no garbage improves a number; an abstained item stays in the denominator and is neither right
nor wrong, except where a stated probability is scored: an abstention states none.

Arguments, everywhere: `truth` bool[n], True for the positive class; `decision` Decision codes [n];
`p_positive` float[n] in [0, 1], the stated probability of the positive class, NaN where no label was given.
All raise ValueError for different lengths, a truth that is not boolean, or an unknown code.
"""

from enum import IntEnum

import numpy as np
from numpy.typing import ArrayLike

from security_verifiers.stats.arrays import Bools, Codes, Floats, same_length, stated_vector, truth_vector
from security_verifiers.stats.ratio import Ratio

LOG_CLIP = 1e-6
"""Stated probabilities are moved this far from 0 and 1 before their logarithm is taken."""

LONGEST_LOG_LOSS = float(-np.log(LOG_CLIP))
"""The log loss of a certain and wrong answer, and of no answer: about 13.8."""


class Decision(IntEnum):
    """What an answer says of an item, as the code that the arrays below hold."""

    NEGATIVE = 0
    POSITIVE = 1
    ABSTAIN = 2
    NONE = 3
    """No usable answer."""


def accuracy(truth: ArrayLike, decision: ArrayLike) -> Ratio:
    """Share of all items that are labelled rightly: #(decision = truth) / n."""
    positive, codes = _pair(truth, decision)
    return Ratio.of(codes == positive)


def precision(truth: ArrayLike, decision: ArrayLike) -> Ratio:
    """Share of the items called positive that are: TP / (TP + FP); not defined where none is called so."""
    positive, codes = _pair(truth, decision)
    called = codes == Decision.POSITIVE
    return Ratio.of(called & positive, called)


def f1(truth: ArrayLike, decision: ArrayLike) -> Ratio:
    """Harmonic mean of precision and recall: 2 TP / (2 TP + FP + FN).

    An abstained positive item is not found and counts among FN; an item without a usable answer is a FN or a
    FP by its class. Not defined where there is no positive item and none is called so.
    """
    positive, codes = _pair(truth, decision)
    hit = positive & (codes == Decision.POSITIVE)
    missed = positive & ~hit
    alarm = ~positive & np.isin(codes, (Decision.POSITIVE, Decision.NONE))
    return Ratio.of(2.0 * hit, 2.0 * hit + missed + alarm)


def false_negative_rate(truth: ArrayLike, decision: ArrayLike) -> Ratio:
    """Share of the positive items that are called negative or have no usable answer: FN / P."""
    positive, codes = _pair(truth, decision)
    return Ratio.of(positive & np.isin(codes, (Decision.NEGATIVE, Decision.NONE)), positive)


def false_positive_rate(truth: ArrayLike, decision: ArrayLike) -> Ratio:
    """Share of the negative items that are called positive or have no usable answer: FP / N."""
    positive, codes = _pair(truth, decision)
    return Ratio.of(~positive & np.isin(codes, (Decision.POSITIVE, Decision.NONE)), ~positive)


def coverage(decision: ArrayLike) -> Ratio:
    """Share of all items that got a label, right or wrong (neither an abstention nor nothing)."""
    return Ratio.of(_codes(decision) <= Decision.POSITIVE)


def cost_per_item(
    truth: ArrayLike,
    decision: ArrayLike,
    *,
    false_negative: float,
    abstention: float,
    false_positive: float = 1.0,
) -> Ratio:
    """Mean cost of the decisions, in units of one false positive by default.

        (false_negative * FN + false_positive * FP + abstention * abstained) / n

    The costs must be those of the reward in force; then the decision rule that is best for the reward is best
    here too (Elkan, "The foundations of cost-sensitive learning", IJCAI 2001; Chow's rule for abstention).

    Args:
        truth, decision: as everywhere.
        false_negative, false_positive, abstention: cost of one such item, at least 0.
    """
    positive, codes = _pair(truth, decision)
    # Columns by Decision code; an item without a usable answer costs what its wrong label costs.
    price = np.array(
        [
            [0.0, false_positive, abstention, false_positive],
            [false_negative, 0.0, abstention, false_negative],
        ]
    )
    if (price < 0).any():
        raise ValueError("costs must not be negative")
    return Ratio.of(price[positive.astype(np.intp), codes])


def brier(truth: ArrayLike, decision: ArrayLike, p_positive: ArrayLike) -> Ratio:
    """Mean squared distance between the stated probability and what is true, in [0, 1]; lower is better.

        sum (p_positive - truth)^2 / #(not abstained), 1 for an item without a usable answer

    With two classes the probability of the positive class and that of the label being right give the same
    number. Source: Brier, Monthly Weather Review 78 (1950), in the one-sided form.

    Raises:
        ValueError: also where a labelled item states no probability, or another one does.
    """
    positive, codes = _pair(truth, decision)
    loss = np.square(_stated(p_positive, codes) - positive)
    return _scored(loss, codes, worst=1.0)


def log_loss(truth: ArrayLike, decision: ArrayLike, p_positive: ArrayLike) -> Ratio:
    """Mean negative logarithm of the probability that was stated for what is true, in nats; lower is better.

        sum -ln(p if truth else 1 - p) / #(not abstained), p = p_positive clipped to [LOG_CLIP, 1 - LOG_CLIP]

    An item without a usable answer counts LONGEST_LOG_LOSS. The clip makes the score finite, and with
    that only nearly proper; Brier is the score that decides. Source: Good, J. Royal Statistical Society B 14
    (1952).

    Raises:
        ValueError: as `brier`.
    """
    positive, codes = _pair(truth, decision)
    p = np.clip(_stated(p_positive, codes), LOG_CLIP, 1 - LOG_CLIP)
    return _scored(-np.log(np.where(positive, p, 1 - p)), codes, worst=LONGEST_LOG_LOSS)


def _scored(loss: Floats, codes: Codes, worst: float) -> Ratio:
    """The mean loss over items that did not abstain; `worst` for those without a usable answer."""
    loss = np.where(codes == Decision.NONE, worst, loss)
    answered = codes != Decision.ABSTAIN
    return Ratio.of(np.where(answered, loss, 0.0), answered)


def _stated(p_positive: ArrayLike, codes: Codes) -> Floats:
    stated = stated_vector(p_positive, "p_positive")
    same_length(p_positive=stated, decision=codes)
    if (np.isnan(stated) != (codes > Decision.POSITIVE)).any():
        raise ValueError("exactly the labelled items state a probability")
    return stated


def _pair(truth: ArrayLike, decision: ArrayLike) -> tuple[Bools, Codes]:
    positive, codes = truth_vector(truth, "truth"), _codes(decision)
    same_length(truth=positive, decision=codes)
    return positive, codes


def _codes(decision: ArrayLike) -> Codes:
    codes = np.asarray(decision)
    if codes.ndim != 1 or not np.isin(codes, list(Decision)).all():
        raise ValueError("decision must be a one-dimensional array of Decision codes")
    return codes.astype(np.intp)
