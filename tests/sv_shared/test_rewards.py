"""The classification reward: its terms, its published figures, and what is derived from its weights."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from sv_shared.errors import UsageError
from sv_shared.rewards import (
    Call,
    ClassificationWeights,
    abstain_region,
    abstain_value,
    bayes_reward,
    best_constant,
    classification_components,
    expected_reward,
    interval_below_zero,
    optimal_answer,
    reward_accuracy,
    reward_asymmetric_cost,
    reward_bounds,
    reward_calibration,
)

E1 = ClassificationWeights()
E4 = ClassificationWeights(cost_ratio=2, abstain_risk=0.4)
LINEAR = ClassificationWeights(calibration_form="linear")

quick = settings(deadline=None, max_examples=100)
PROBABILITY = st.floats(0, 1)
SMALL = st.floats(0, 10)
WEIGHTS = st.builds(
    ClassificationWeights,
    accuracy=SMALL,
    calibration=SMALL,
    cost=SMALL,
    cost_ratio=st.floats(1, 50),
    abstain=st.just("auto") | st.none() | st.floats(-50, 50),
    abstain_risk=PROBABILITY,
    calibration_form=st.sampled_from(["brier", "linear"]),
)
CONFIDENCES = np.linspace(0, 1, 101)


def searched(weights: ClassificationWeights, p: float) -> float:
    """The best expected reward at belief p by trying every answer: what the closed forms must agree with."""
    calls = [Call.POSITIVE, Call.NEGATIVE]
    values = [expected_reward(weights, call, float(c), p) for call in calls for c in CONFIDENCES]
    if weights.abstain is not None:
        values.append(expected_reward(weights, Call.ABSTAIN, None, p))
    return max(values)


# Terms


def test_terms_on_the_four_cells() -> None:
    def terms(label: str, truth: str) -> list[float]:
        return list(
            classification_components(E1, label=label, confidence=0.8, truth=truth, positive="M").values()
        )

    assert terms("M", "M") == pytest.approx([1.0, 0.5 * (1 - 0.04), 0.0])
    assert terms("B", "B") == pytest.approx([1.0, 0.5 * (1 - 0.04), 0.0])
    assert terms("M", "B") == pytest.approx([0.0, 0.5 * (1 - 0.64), 0.0])
    assert terms("B", "M") == pytest.approx([0.0, 0.5 * (1 - 0.64), -4.0])


def test_terms_by_themselves() -> None:
    assert (reward_accuracy("a", "a"), reward_accuracy("a", "b")) == (1.0, 0.0)
    assert reward_calibration(0.9, True, "linear") == pytest.approx(0.9)
    assert reward_calibration(0.9, False, "linear") == pytest.approx(0.1)
    assert reward_calibration(0.9, False) == pytest.approx(0.19)
    assert reward_asymmetric_cost("B", "M", positive="M", cost_ratio=5) == -4.0
    assert reward_asymmetric_cost("M", "B", positive="M", cost_ratio=5) == 0.0
    assert reward_asymmetric_cost("B", "M", positive="M", cost_ratio=1) == 0.0


@pytest.mark.parametrize("confidence", [1.1, -0.1, float("nan"), float("inf")])
def test_no_term_is_computed_from_what_is_no_probability(confidence: float) -> None:
    with pytest.raises(UsageError, match="not a probability"):
        reward_calibration(confidence, True)
    with pytest.raises(UsageError, match="not a probability"):
        optimal_answer(E1, confidence)
    with pytest.raises(UsageError, match="not a probability"):
        bayes_reward(E1, [0.5, confidence])


@pytest.mark.parametrize(
    "field", ["accuracy", "calibration", "cost", "cost_ratio", "abstain", "abstain_risk"]
)
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1e9, "much"])
def test_weights_out_of_range_are_refused(field: str, value: object) -> None:
    with pytest.raises(ValidationError):
        ClassificationWeights.model_validate({field: value})


def test_unknown_weights_are_refused() -> None:
    with pytest.raises(ValidationError, match="brevity"):
        ClassificationWeights.model_validate({"brevity": 1})


# Published figures


def test_figures_of_e1_and_e4() -> None:
    assert abstain_value(E1) == pytest.approx(0.875)
    assert abstain_value(E4) == pytest.approx(0.98)
    assert abstain_region(E1) == pytest.approx((0.115, 0.50), abs=5e-4)
    assert abstain_region(E4) == pytest.approx((0.218, 0.60), abs=6e-4)
    assert reward_bounds(E1) == (-4.0, 1.5)
    assert reward_bounds(E4) == (-1.0, 1.5)


@pytest.mark.parametrize("weights", [E1, E4])
def test_abstain_region_solves_its_equation(weights: ClassificationWeights) -> None:
    """Below: 1 - (1 + k) p ... from the negative call; above: exactly 1 - a from the positive one."""
    region, price, k = abstain_region(weights), abstain_value(weights), weights.cost_ratio
    assert region is not None
    assert price is not None
    # 0.5 p^2 - (k + 0.5) p + (1.5 - A) = 0, the lower root
    linear = k + 0.5
    assert region[0] == pytest.approx(linear - np.sqrt(linear**2 - 2 * (1.5 - price)), abs=1e-9)
    assert region[1] == pytest.approx(1 - weights.abstain_risk, abs=1e-9)


def test_abstain_value_as_configured() -> None:
    assert abstain_value(ClassificationWeights(abstain=0.3)) == 0.3
    assert abstain_region(ClassificationWeights(abstain=0.3)) is None
    assert abstain_region(ClassificationWeights(abstain=2.0)) == (0.0, 1.0)
    none = ClassificationWeights(abstain=None)
    assert abstain_value(none) is None
    assert abstain_region(none) is None
    assert reward_bounds(none) == (-4.0, 1.5)
    with pytest.raises(UsageError, match="not on offer"):
        expected_reward(none, Call.ABSTAIN, None, 0.5)


def test_best_constants_of_e1() -> None:
    assert best_constant(E1, 0.5).reward == pytest.approx(0.875)
    assert best_constant(E1, 0.01)[1:] == (Call.NEGATIVE, 0.99)
    assert best_constant(E1, 0.3)[1:] == (Call.ABSTAIN, None)
    assert best_constant(E1, 0.9)[1:] == (Call.POSITIVE, 0.9)
    assert best_constant(LINEAR, 0.9)[1:] == (Call.POSITIVE, 1.0)


def test_a_decision_without_a_confidence_has_no_expectation() -> None:
    with pytest.raises(UsageError, match="needs a confidence"):
        expected_reward(E1, Call.POSITIVE, None, 0.5)


# Properties


@quick
@given(WEIGHTS, PROBABILITY, st.sampled_from(["M", "B"]), st.sampled_from(["M", "B"]))
def test_every_answer_is_paid_within_the_bounds(
    weights: ClassificationWeights, confidence: float, label: str, truth: str
) -> None:
    floor, maximum = reward_bounds(weights)
    parts = classification_components(weights, label=label, confidence=confidence, truth=truth, positive="M")
    assert floor <= sum(parts.values()) <= maximum
    price = abstain_value(weights)
    assert price is None or floor <= price <= maximum + 1e-9


@quick
@given(WEIGHTS)
def test_the_bounds_are_reached(weights: ClassificationWeights) -> None:
    cells = [
        sum(classification_components(weights, label=a, confidence=c, truth=t, positive="M").values())
        for a in "MB"
        for t in "MB"
        for c in (0.0, 1.0)
    ]
    price = abstain_value(weights)
    cells += [] if price is None else [price]
    assert (min(cells), max(cells)) == pytest.approx(reward_bounds(weights))


@quick
@given(WEIGHTS, PROBABILITY)
def test_no_answer_beats_the_optimal_one(weights: ClassificationWeights, p: float) -> None:
    call, confidence = optimal_answer(weights, p)
    best = expected_reward(weights, call, confidence, p)
    assert best >= searched(weights, p) - 1e-9
    assert best == pytest.approx(float(bayes_reward(weights, p)), abs=1e-9)
    assert best_constant(weights, p) == (best, call, confidence)


@quick
@given(st.floats(0.1, 10), st.floats(1, 50), PROBABILITY)
def test_the_labels_switch_at_one_over_one_plus_k(accuracy: float, k: float, p: float) -> None:
    weights = ClassificationWeights(accuracy=accuracy, cost=accuracy, cost_ratio=k, abstain=None)
    call, confidence = optimal_answer(weights, p)
    if abs(p - 1 / (1 + k)) > 1e-9:
        assert call is (Call.POSITIVE if p > 1 / (1 + k) else Call.NEGATIVE)
    assert confidence == (p if call is Call.POSITIVE else 1 - p)


@quick
@given(WEIGHTS.filter(lambda weights: weights.abstain is not None), PROBABILITY)
def test_the_region_is_where_abstaining_is_optimal(weights: ClassificationWeights, p: float) -> None:
    region = abstain_region(weights)
    low, high = region if region is not None else (2.0, 2.0)
    if min(abs(p - low), abs(p - high)) > 1e-4:
        decided = weights.model_copy(update={"abstain": None})
        price = abstain_value(weights)
        assert price is not None
        lead = price - float(bayes_reward(decided, p))
        assert lead >= -1e-6 if low < p < high else lead <= 1e-6


@quick
@given(st.floats(0, 10), st.floats(0, 10), PROBABILITY, st.sampled_from(["brier", "linear"]))
def test_auto_makes_a_positive_call_as_good_as_abstaining_at_risk_a(
    accuracy: float, calibration: float, a: float, form: str
) -> None:
    weights = ClassificationWeights(
        accuracy=accuracy, calibration=calibration, abstain_risk=a, calibration_form=form
    )
    best = max(expected_reward(weights, Call.POSITIVE, float(c), 1 - a) for c in [*CONFIDENCES, 1 - a])
    assert abstain_value(weights) == pytest.approx(best, abs=1e-9)


def test_linear_calibration_pays_overconfidence() -> None:
    """The improper form: certainty beats the honest 0.7, which under the Brier form it does not."""
    honest, certain = (expected_reward(LINEAR, Call.POSITIVE, c, 0.7) for c in (0.7, 1.0))
    assert certain > honest
    honest, certain = (expected_reward(E1, Call.POSITIVE, c, 0.7) for c in (0.7, 1.0))
    assert honest > certain


def test_bayes_reward_keeps_the_shape() -> None:
    posteriors = np.array([[0.0, 0.1, 0.3], [0.6, 0.9, 1.0]])
    values = bayes_reward(E1, posteriors)
    assert values.shape == (2, 3)
    assert values == pytest.approx(np.array([[1.5, 0.955, 0.875], [0.98, 0.9 + 0.5 * 0.91, 1.5]]))


def test_bayes_reward_is_at_least_the_best_constant() -> None:
    posteriors = np.random.default_rng(7).beta(0.4, 0.8, 10_000)
    assert bayes_reward(E1, posteriors).mean() > best_constant(E1, float(posteriors.mean())).reward


@pytest.mark.parametrize(("low", "high"), [(0.25, 0.75), (0.0, 0.5), (0.5, 1.0), (0.499, 0.501), (0.9, 0.95)])
def test_interval_of_a_parabola(low: float, high: float) -> None:
    assert interval_below_zero(lambda x: (x - low) * (x - high)) == pytest.approx((low, high), abs=1e-9)
    assert interval_below_zero(lambda x: (x - low) * (x - high) + 1) is None
