"""Rankings against scikit-learn and brute force, and the rules on missing and abstained items."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics

from security_verifiers.stats import ranking as rk
from security_verifiers.stats.bootstrap import Statistic, plain

SCORES = (0.0, 0.2, 0.5, 0.8, 1.0)
SCORED = st.tuples(st.sampled_from(SCORES), st.booleans())
ITEMS = st.lists(SCORED, min_size=1, max_size=12)
FEW = st.integers(0, 3)
FACTORIES = {
    "auroc": rk.auroc_statistic,
    "auprc": rk.auprc_statistic,
    "recall": lambda score, positive, lost=None: rk.recall_at_fpr_statistic(score, positive, 0.3, lost),
}


def arrays(items: list[tuple[float, bool]]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([s for s, _ in items]), np.array([p for _, p in items])


def with_worst_scores(
    items: list[tuple[float, bool]], lost_positive: int, lost_negative: int
) -> tuple[np.ndarray, np.ndarray]:
    """The items with missing ones put where they do most harm: the oracle for what is missing."""
    return arrays([*items, *[(-9.0, True)] * lost_positive, *[(9.0, False)] * lost_negative])


@given(ITEMS, FEW, FEW)
def test_auroc_and_average_precision_agree_with_scikit_learn(
    items: list[tuple[float, bool]], lost_positive: int, lost_negative: int
) -> None:
    score, positive = arrays(items)
    worst, truth = with_worst_scores(items, lost_positive, lost_negative)
    area = rk.auroc(score, positive, lost_positive, lost_negative)
    average = rk.auprc(score, positive, lost_positive, lost_negative)
    if truth.all() or not truth.any():
        assert area is None
    else:
        assert area == pytest.approx(metrics.roc_auc_score(truth, worst), abs=1e-12)
    if not truth.any():
        assert average is None
    else:
        # scikit-learn retrieves the missing positives at the end; they are never retrieved here.
        last = lost_positive / truth.sum() * truth.mean() if lost_positive else 0.0
        expected = metrics.average_precision_score(truth, worst) - last
        assert average == pytest.approx(expected, abs=1e-12)


@given(ITEMS, FEW, FEW, st.sampled_from([0.01, 0.25, 1 / 3, 0.5, 0.9]))
def test_recall_at_a_bound_is_the_best_of_all_thresholds(
    items: list[tuple[float, bool]], lost_positive: int, lost_negative: int, bound: float
) -> None:
    score, positive = arrays(items)
    p, n = positive.sum() + lost_positive, (~positive).sum() + lost_negative
    got = rk.recall_at_fpr(score, positive, bound, lost_positive, lost_negative)
    if not p or not n:
        assert got is None
        return
    best = 0.0
    for threshold in (*SCORES, 2.0):
        called = score >= threshold
        if ((called & ~positive).sum() + lost_negative) / n <= bound:
            best = max(best, (called & positive).sum() / p)
    assert got == pytest.approx(best)


def test_a_rate_that_meets_the_bound_exactly_keeps_it() -> None:
    """0.29 * 100 is 28.999... in binary; 29 of 100 negatives are a rate of 0.29 all the same."""
    score = np.r_[0.5, np.full(29, 0.5), np.zeros(71)]
    assert rk.recall_at_fpr(score, np.arange(101) == 0, 0.29) == 1.0
    assert rk.recall_at_fpr(score, np.arange(101) == 0, 0.28) == 0.0


@pytest.mark.parametrize("name", list(FACTORIES))
@given(items=st.lists(st.tuples(SCORED, st.integers(0, 3), st.sampled_from("slx")), min_size=1, max_size=12))
def test_a_weight_is_a_number_of_copies(name: str, items: list[tuple[tuple[float, bool], int, str]]) -> None:
    """Items that are scored, lost or left out (abstained), weighted, against the same items repeated."""
    score, positive = arrays([item for item, _, _ in items])
    weights = np.array([w for _, w, _ in items])
    kind = np.array([k for _, _, k in items])
    score = np.where(kind == "s", score, np.nan)
    statistic: Statistic = FACTORIES[name](score, positive, kind == "l")
    got = statistic(np.stack([weights, np.ones_like(weights)]).astype(float))
    for row, counts in enumerate((weights, np.ones_like(weights))):
        counts = np.where(kind == "x", 0, counts)
        repeated = [np.repeat(a, counts) for a in (score, positive, kind == "l")]
        expected = plain(FACTORIES[name](*repeated), len(repeated[0]))
        assert got[row] == pytest.approx(np.nan if expected is None else expected, nan_ok=True, abs=1e-12)


@given(ITEMS, st.data())
def test_losing_an_answer_never_improves_a_ranking(
    items: list[tuple[float, bool]], data: st.DataObject
) -> None:
    score, positive = arrays(items)
    lost = np.arange(len(items)) == data.draw(st.integers(0, len(items) - 1))
    for factory in FACTORIES.values():
        before = plain(factory(score, positive), len(score))
        after = plain(factory(np.where(lost, np.nan, score), positive, lost), len(score))
        assert (before is None) == (after is None)
        if before is not None and after is not None:
            assert after <= before + 1e-12


def test_by_hand() -> None:
    assert rk.auroc([0.9, 0.1], [True, False], missing_positive=1, missing_negative=1) == 0.25
    assert rk.auroc([0.5] * 4, [1, 0, 0, 1]) == 0.5
    assert rk.auprc([0.9, 0.8, 0.7], [True, False, True]) == pytest.approx(0.5 + 0.5 * 2 / 3)
    assert rk.auprc([0.9], [True], missing_positive=1) == 0.5
    assert rk.auprc([0.9], [True], missing_negative=1) == 0.5
    assert rk.auprc([0.5, 0.5, 0.5, 0.5], [1, 0, 0, 0]) == 0.25
    assert rk.auprc([0.3, 0.2], [True, True]) == 1.0
    assert rk.recall_at_fpr([0.9, 0.8, 0.7], [True, False, True], 0.5) == 0.5
    assert rk.recall_at_fpr([0.9, 0.1], [True, False], 0.5, missing_negative=1) == 1.0
    assert rk.recall_at_fpr([0.9, 0.1], [True, False], 0.5, missing_negative=2) == 0.0


def test_what_one_class_or_no_item_does_not_define() -> None:
    for score, positive in (([], []), ([0.1], [False])):
        assert rk.auroc(score, positive) is None
        assert rk.auprc(score, positive) is None
        assert rk.recall_at_fpr(score, positive, 0.1) is None
    assert rk.auroc([0.1, 0.2], [True, True]) is None
    assert rk.recall_at_fpr([0.1, 0.2], [True, True], 0.1) is None


def test_misuse_is_refused() -> None:
    for use, why in (
        (lambda: rk.auroc([1.1], [True]), "outside"),
        (lambda: rk.auroc([np.nan], [True]), "finite"),
        (lambda: rk.auprc([0.5], [True, False]), "lengths"),
        (lambda: rk.auroc([0.5], [2]), "True and False"),
        (lambda: rk.auroc([0.5], [True], missing_negative=-1), "missing"),
        (lambda: rk.recall_at_fpr([0.5], [True], 0.0), "bound"),
        (lambda: rk.recall_at_fpr([0.5], [True], 1.0), "bound"),
        (lambda: rk.auroc_statistic([0.5], [True], [True]), "lost"),
        (lambda: rk.auroc_statistic([0.5], [True], [True, False]), "lengths"),
    ):
        with pytest.raises(ValueError, match=why):
            use()
