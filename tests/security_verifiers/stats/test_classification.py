"""Two-class metrics against scikit-learn, and the rules on abstentions and missing answers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics

from security_verifiers.stats import classification as cl
from security_verifiers.stats.classification import Decision

ITEMS = st.lists(st.tuples(st.booleans(), st.sampled_from(list(Decision))), min_size=1, max_size=40)


def answers(seed: int, n: int = 200) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """truth, decision and the stated probability of the positive class, rounded so that there are ties."""
    rng = np.random.default_rng(seed)
    truth = rng.random(n) < 0.4
    probability = np.clip(np.round(0.3 * truth + rng.random(n) * 0.7, 1), 0, 1)
    return truth, (probability > 0.5).astype(int), probability


@pytest.mark.parametrize("seed", range(3))
def test_agreement_with_scikit_learn(seed: int) -> None:
    truth, decision, probability = answers(seed)
    assert cl.accuracy(truth, decision) == pytest.approx(metrics.accuracy_score(truth, decision))
    assert cl.false_negative_rate(truth, decision) == pytest.approx(1 - metrics.recall_score(truth, decision))
    assert cl.false_positive_rate(truth, decision) == pytest.approx(
        1 - metrics.recall_score(~truth, 1 - decision)
    )
    assert cl.brier(probability, truth) == pytest.approx(metrics.brier_score_loss(truth, probability))
    assert cl.auroc(probability, truth) == pytest.approx(metrics.roc_auc_score(truth, probability))


def test_brier_is_the_same_from_confidence_in_the_label() -> None:
    truth, decision, probability = answers(7)
    confidence = np.where(decision == 1, probability, 1 - probability)
    assert cl.brier(confidence, decision == truth) == pytest.approx(cl.brier(probability, truth))


@given(items=ITEMS, data=st.data())
def test_losing_an_answer_never_improves_a_number(
    items: list[tuple[bool, Decision]], data: st.DataObject
) -> None:
    truth = np.array([t for t, _ in items])
    before = np.array([d for _, d in items])
    after = before.copy()
    after[data.draw(st.integers(0, len(items) - 1))] = Decision.NONE
    assert (cl.accuracy(truth, after) or 0) <= (cl.accuracy(truth, before) or 0)
    assert (cl.coverage(after) or 0) <= (cl.coverage(before) or 0)
    for worse_up in (cl.false_negative_rate, cl.false_positive_rate):
        assert (worse_up(truth, after) or 0) >= (worse_up(truth, before) or 0)
    prices = {"false_negative": 5.0, "abstention": 0.5}
    assert (cl.cost_per_item(truth, after, **prices) or 0) >= (cl.cost_per_item(truth, before, **prices) or 0)


def test_ninety_nine_garbage_answers_and_a_right_one() -> None:
    truth = np.arange(100) % 2 == 0
    decision = np.full(100, Decision.NONE)
    decision[0] = Decision.POSITIVE
    assert cl.accuracy(truth, decision) == 0.01
    assert cl.false_negative_rate(truth, decision) == 0.98
    assert cl.false_positive_rate(truth, decision) == 1.0
    assert cl.coverage(decision) == 0.01


def test_cost_and_coverage_by_hand() -> None:
    D = Decision
    truth = [True, True, True, False, False, False]
    decision = [D.NEGATIVE, D.POSITIVE, D.ABSTAIN, D.POSITIVE, D.NONE, D.NEGATIVE]
    assert cl.cost_per_item(truth, decision, false_negative=5, abstention=0.5) == pytest.approx(7.5 / 6)
    assert cl.coverage(decision) == pytest.approx(4 / 6)
    assert cl.false_negative_rate(truth, decision) == pytest.approx(1 / 3)
    with pytest.raises(ValueError, match="negative"):
        cl.cost_per_item(truth, decision, false_negative=-1, abstention=0)


def test_items_without_a_probability_count_the_worst() -> None:
    assert cl.brier([1.0], [True], missing=3) == 0.75
    assert cl.auroc([0.9, 0.1], [True, False], missing_positive=1, missing_negative=1) == 0.25
    with pytest.raises(ValueError, match="missing"):
        cl.brier([1.0], [True], missing=-1)


def test_single_class_and_empty_sets_have_no_number() -> None:
    assert cl.auroc([0.1, 0.2], [True, True]) is None
    assert cl.false_positive_rate([True], [Decision.POSITIVE]) is None
    assert cl.false_negative_rate([False], [Decision.POSITIVE]) is None
    for empty in (
        cl.accuracy([], []),
        cl.coverage([]),
        cl.brier([], []),
        cl.auroc([], []),
        cl.ece([], []),
        cl.cost_per_item([], [], false_negative=5, abstention=1),
    ):
        assert empty is None
    assert cl.distinct([]) == 0


@pytest.mark.parametrize("bad", [[0.5, np.nan], [1.1, 0.0], [-0.1, 0.0]])
def test_confidences_outside_the_unit_interval_are_refused(bad: list[float]) -> None:
    for use in (lambda: cl.brier(bad, [1, 0]), lambda: cl.ece(bad, [1, 0]), lambda: cl.distinct(bad)):
        with pytest.raises(ValueError, match=r"finite|outside"):
            use()


def test_codes_and_truths_of_another_kind_are_refused() -> None:
    with pytest.raises(ValueError, match="Decision"):
        cl.accuracy([True], [4])
    with pytest.raises(ValueError, match="True and False"):
        cl.accuracy([2], [1])
    with pytest.raises(ValueError, match="lengths"):
        cl.accuracy([True, False], [1])


def test_distinct_counts_values() -> None:
    assert cl.distinct([0.9, 0.9, 0.5]) == 2


def test_ece_of_a_constant_by_hand() -> None:
    """One bin, 70 of 100 right at confidence 0.9: the gap 0.2 is 6.7 standard errors, so hardly any bias."""
    correct = np.arange(100) < 70
    assert cl.ece(np.full(100, 0.9), correct) == pytest.approx(0.2, abs=1e-9)
    assert cl.ece(np.full(100, 1.0), np.zeros(100)) == pytest.approx(1.0)
    assert cl.ece([1.0], [True]) == 0.0


def test_ece_bias_term_agrees_with_simulation() -> None:
    rng = np.random.default_rng(1)
    gaps, sigmas = np.array([0.0, 0.01, 0.05, 0.2]), np.array([0.05, 0.05, 0.05, 0.0])
    simulated = np.abs(gaps + sigmas * rng.standard_normal((400_000, 4))).mean(axis=0)
    assert cl._folded_normal_mean(gaps, sigmas) == pytest.approx(simulated, abs=3e-4)


def test_ece_does_not_depend_on_the_order_of_tied_items() -> None:
    rng = np.random.default_rng(2)
    confidence = rng.choice([0.6, 0.8, 0.9, 0.95], size=300)
    correct = rng.random(300) < confidence - 0.1
    order = rng.permutation(300)
    assert cl.ece(confidence, correct) == pytest.approx(cl.ece(confidence[order], correct[order]), abs=1e-12)


@given(st.lists(st.sampled_from([0.0, 0.5, 0.7, 0.9, 1.0]), min_size=1, max_size=60), st.integers(1, 15))
@settings(max_examples=60)
def test_bins_never_split_ties_and_are_never_empty(values: list[float], bins: int) -> None:
    codes = cl._equal_mass(np.array(values), bins)
    assert set(codes) == set(range(codes.max() + 1))
    assert codes.max() < bins
    for value in set(values):
        assert len({c for c, v in zip(codes, values, strict=True) if v == value}) == 1


def test_bins_hold_equally_many_distinct_values() -> None:
    codes = cl._equal_mass(np.random.default_rng(4).permutation(30) / 30, 3)
    assert np.bincount(codes).tolist() == [10, 10, 10]


@pytest.mark.parametrize(("shift", "low", "high"), [(0.0, 0.0, 0.05), (0.15, 0.12, 0.17)])
def test_ece_is_closer_to_the_truth_than_the_plain_estimate(shift: float, low: float, high: float) -> None:
    rng, ours, plain = np.random.default_rng(3), [], []
    for _ in range(300):
        confidence = rng.uniform(0.6, 1.0, 150)
        correct = rng.random(150) < confidence - shift
        ours.append(cl.ece(confidence, correct))
        chunks = np.array_split(np.argsort(confidence), 10)
        plain.append(np.mean([abs(correct[i].mean() - confidence[i].mean()) for i in chunks]))
    assert low <= np.mean(ours) <= high
    assert abs(np.mean(ours) - shift) < abs(np.mean(plain) - shift)
