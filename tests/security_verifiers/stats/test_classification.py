"""Two-class metrics against scikit-learn, and the rules on abstentions and missing answers."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics

from security_verifiers.stats import classification as cl
from security_verifiers.stats.classification import Decision
from security_verifiers.stats.ratio import Ratio

D = Decision
ITEMS = st.lists(st.tuples(st.booleans(), st.sampled_from(list(Decision))), min_size=1, max_size=40)
PRICES = {"false_negative": 5.0, "abstention": 0.5}


def answers(seed: int, n: int = 200) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """truth, decision and the stated probability of the positive class, rounded so that there are ties."""
    rng = np.random.default_rng(seed)
    truth = rng.random(n) < 0.4
    probability = np.clip(np.round(0.3 * truth + rng.random(n) * 0.7, 1), 0, 1)
    return truth, (probability > 0.5).astype(int), probability


@pytest.mark.parametrize("seed", range(3))
def test_agreement_with_scikit_learn(seed: int) -> None:
    truth, decision, p = answers(seed)
    assert cl.accuracy(truth, decision).value == pytest.approx(metrics.accuracy_score(truth, decision))
    assert cl.precision(truth, decision).value == pytest.approx(metrics.precision_score(truth, decision))
    assert cl.f1(truth, decision).value == pytest.approx(metrics.f1_score(truth, decision))
    recall, specificity = metrics.recall_score(truth, decision), metrics.recall_score(~truth, 1 - decision)
    assert cl.false_negative_rate(truth, decision).value == pytest.approx(1 - recall)
    assert cl.false_positive_rate(truth, decision).value == pytest.approx(1 - specificity)
    assert cl.brier(truth, decision, p).value == pytest.approx(metrics.brier_score_loss(truth, p))
    clipped = np.clip(p, cl.LOG_CLIP, 1 - cl.LOG_CLIP)
    assert cl.log_loss(truth, decision, p).value == pytest.approx(metrics.log_loss(truth, clipped))


@given(items=ITEMS, data=st.data())
def test_losing_an_answer_never_improves_a_number(
    items: list[tuple[bool, Decision]], data: st.DataObject
) -> None:
    truth = np.array([t for t, _ in items])
    before = np.array([d for _, d in items])
    after = before.copy()
    after[data.draw(st.integers(0, len(items) - 1))] = Decision.NONE
    p_before, p_after = (np.where(codes <= D.POSITIVE, 0.7, np.nan) for codes in (before, after))

    def never_better(metric: Callable[..., Ratio], higher_is_better: bool, *, scored: bool = False) -> None:
        was, now = (
            metric(truth, codes, p) if scored else metric(truth, codes)
            for codes, p in ((before, p_before), (after, p_after))
        )
        if was.value is not None and now.value is not None:
            assert (now.value <= was.value + 1e-12) if higher_is_better else (now.value >= was.value - 1e-12)

    never_better(cl.accuracy, True)
    never_better(cl.f1, True)
    never_better(lambda _, codes: cl.coverage(codes), True)
    never_better(cl.false_negative_rate, False)
    never_better(cl.false_positive_rate, False)
    never_better(lambda t, codes: cl.cost_per_item(t, codes, **PRICES), False)
    never_better(cl.brier, False, scored=True)
    never_better(cl.log_loss, False, scored=True)


def test_ninety_nine_garbage_answers_and_a_right_one() -> None:
    truth = np.arange(100) % 2 == 0
    decision = np.full(100, Decision.NONE)
    decision[0] = Decision.POSITIVE
    assert cl.accuracy(truth, decision).value == 0.01
    assert cl.false_negative_rate(truth, decision).value == 0.98
    assert cl.false_positive_rate(truth, decision).value == 1.0
    assert cl.coverage(decision).value == 0.01
    assert cl.f1(truth, decision).value == pytest.approx(2 / (2 + 49 + 50))


def test_all_numbers_by_hand() -> None:
    truth = [True, True, True, False, False, False]
    decision = [D.NEGATIVE, D.POSITIVE, D.ABSTAIN, D.POSITIVE, D.NONE, D.NEGATIVE]
    p = [0.2, 0.9, np.nan, 0.6, np.nan, 0.0]
    assert cl.cost_per_item(truth, decision, **PRICES).value == pytest.approx(7.5 / 6)
    assert cl.coverage(decision).value == pytest.approx(4 / 6)
    assert cl.false_negative_rate(truth, decision).value == pytest.approx(1 / 3)
    assert cl.precision(truth, decision).value == pytest.approx(1 / 2)
    assert cl.f1(truth, decision).value == pytest.approx(2 / (2 + 2 + 2))
    assert cl.brier(truth, decision, p).value == pytest.approx((0.64 + 0.01 + 0.36 + 1.0 + 0.0) / 5)
    logs = -np.log([0.2, 0.9, 0.4, cl.LOG_CLIP, 1 - cl.LOG_CLIP])
    assert cl.log_loss(truth, decision, p).value == pytest.approx(logs.mean())
    with pytest.raises(ValueError, match="negative"):
        cl.cost_per_item(truth, decision, false_negative=-1, abstention=0)


def test_what_the_items_do_not_define_has_no_number() -> None:
    assert cl.false_positive_rate([True], [D.POSITIVE]).value is None
    assert cl.false_negative_rate([False], [D.POSITIVE]).value is None
    assert cl.precision([True], [D.NEGATIVE]).value is None
    assert cl.f1([False], [D.NEGATIVE]).value is None
    assert cl.brier([True], [D.ABSTAIN], [np.nan]).value is None
    for empty in (
        cl.accuracy([], []),
        cl.coverage([]),
        cl.brier([], [], []),
        cl.log_loss([], [], []),
        cl.cost_per_item([], [], false_negative=5, abstention=1),
    ):
        assert empty.value is None


def test_malformed_arrays_are_refused() -> None:
    with pytest.raises(ValueError, match="Decision"):
        cl.accuracy([True], [4])
    with pytest.raises(ValueError, match="True and False"):
        cl.accuracy([2], [1])
    with pytest.raises(ValueError, match="lengths"):
        cl.accuracy([True, False], [1])
    with pytest.raises(ValueError, match="outside"):
        cl.brier([True], [1], [1.5])
    for decision, p in ((D.POSITIVE, np.nan), (D.ABSTAIN, 0.5), (D.NONE, 0.5)):
        with pytest.raises(ValueError, match="state a probability"):
            cl.brier([True], [decision], [p])
