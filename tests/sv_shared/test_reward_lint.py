"""The lint of a reward: sound rewards pass, and each planted fault is caught by the check meant for it."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sv_shared.classification import grade_classification
from sv_shared.errors import UsageError
from sv_shared.grading import Grade
from sv_shared.parsers import JsonClassificationParser
from sv_shared.reward_lint import (
    AnswerReward,
    LintResult,
    StatedTerms,
    check_abstain,
    check_bounds,
    check_cost_consistent,
    check_proper,
    formula_reward,
    graded_reward,
    lint_reward,
    observed_abstain_region,
    stated_terms,
)
from sv_shared.rewards import ClassificationWeights, abstain_region, reward_bounds

E1 = ClassificationWeights()
E4 = ClassificationWeights(cost_ratio=2, abstain_risk=0.4)


def terms(weights: ClassificationWeights) -> StatedTerms:
    return stated_terms(weights, positive="Malicious", negative="Benign", abstain_label="Abstain")


def through_grader(weights: ClassificationWeights) -> AnswerReward:
    """The reward that text, parser and grader pay together."""
    parser = JsonClassificationParser(["Benign", "Malicious"], None if weights.abstain is None else "Abstain")

    def grade(reply: str, truth: str) -> Grade:
        return grade_classification(reply, truth, parser=parser, weights=weights, positive="Malicious")

    return graded_reward(grade, {"rationale": ""})


def lint(weights: ClassificationWeights, reward: AnswerReward | None = None) -> dict[str, LintResult]:
    bounds = reward_bounds(weights)
    results = lint_reward(reward or through_grader(weights), terms(weights), bounds, no_answer=bounds[0])
    return {result.check: result for result in results}


def failed(results: dict[str, LintResult]) -> set[str]:
    return {name for name, result in results.items() if not result.passed}


def planted(weights: ClassificationWeights, fault: Any) -> AnswerReward:
    """The formula with a fault on top: fault(label, confidence, truth, reward) -> reward."""
    base = formula_reward(weights, terms(weights))
    return lambda label, confidence, truth: fault(label, confidence, truth, base(label, confidence, truth))


# Sound rewards


@pytest.mark.parametrize(
    "weights", [E1, E4, ClassificationWeights(abstain=None), ClassificationWeights(abstain=0.3)]
)
def test_sound_rewards_pass(weights: ClassificationWeights) -> None:
    assert failed(lint(weights)) == set()
    assert failed(lint(weights, formula_reward(weights, terms(weights)))) == set()


@settings(deadline=None, max_examples=15)
@given(
    accuracy=st.floats(0.2, 5),
    share=st.floats(0.05, 1),
    k=st.floats(1, 20),
    a=st.floats(0.5, 0.9),
)
def test_consistent_weights_are_proper(accuracy: float, share: float, k: float, a: float) -> None:
    weights = ClassificationWeights(
        accuracy=accuracy, calibration=accuracy * share, cost=accuracy, cost_ratio=k, abstain_risk=a
    )
    results = lint(weights, formula_reward(weights, terms(weights)))
    assert failed(results) == set(), results


def test_the_figures_are_those_of_the_formula() -> None:
    for weights, low, high in ((E1, 0.115, 0.5), (E4, 0.218, 0.6)):
        figures = lint(weights)["abstain"].figures
        assert (figures["from"], figures["to"]) == pytest.approx((low, high), abs=1e-3)
        observed = observed_abstain_region(through_grader(weights), terms(weights))
        assert observed == pytest.approx(abstain_region(weights), abs=1e-4)
    figures = lint(E1)["cost"].figures
    assert figures == pytest.approx(
        {"miss": 5.0, "false_alarm": 1.0, "switch": 1 / 6, "stated_switch": 1 / 6}
    )


# Planted faults: properness


def test_linear_calibration_is_caught() -> None:
    results = lint(ClassificationWeights(calibration_form="linear"))
    assert failed(results) == {"proper"}
    assert "the honest" in results["proper"].detail


def test_unpaid_confidence_is_caught() -> None:
    assert failed(lint(ClassificationWeights(calibration=0))) == {"proper"}


@pytest.mark.parametrize("bonus", [0.01, -0.01])
def test_a_bonus_for_sounding_sure_or_unsure_is_caught(bonus: float) -> None:
    reward = planted(E1, lambda label, c, truth, paid: paid + bonus * (c or 0.0))
    assert not check_proper(reward, terms(E1)).passed


def test_a_fault_at_one_label_only_is_caught() -> None:
    reward = planted(E1, lambda label, c, truth, paid: paid - (0.02 * c if label == "Benign" else 0.0))
    result = check_proper(reward, terms(E1))
    assert not result.passed
    assert "Benign" in result.detail


def test_not_a_number_is_caught() -> None:
    reward = planted(E1, lambda label, c, truth, paid: float("nan") if c == 0.5 else paid)
    assert {"bounds", "proper"} <= failed(lint(E1, reward))


def test_a_coarse_grid_is_refused() -> None:
    with pytest.raises(UsageError, match="too coarse"):
        check_proper(through_grader(E1), terms(E1), 101)


# Planted faults: costs


def test_a_ratio_other_than_the_stated_one_is_caught() -> None:
    told = replace(terms(E1), cost_ratio=4.0)
    assert not check_cost_consistent(through_grader(E1), told).passed
    assert not check_proper(through_grader(E1), told).passed


@pytest.mark.parametrize("k", [4.999, 5.001])
def test_a_ratio_that_is_slightly_off_is_caught(k: float) -> None:
    assert not check_cost_consistent(through_grader(E1), replace(terms(E1), cost_ratio=k)).passed


@pytest.mark.parametrize("change", [{"cost": 0.5}, {"accuracy": 2.0}, {"cost": 0.0}])
def test_weights_that_break_their_own_ratio_are_caught(change: dict[str, float]) -> None:
    results = lint(ClassificationWeights(**change))
    assert "cost" in failed(results)
    assert "not the stated ratio" in results["cost"].detail


def test_a_cost_that_depends_on_the_confidence_is_caught() -> None:
    """The losses at 0.5 look right; the labels switch at the wrong belief."""

    def fault(label: str, c: float | None, truth: str, paid: float) -> float:
        return paid + (0.3 if label == "Benign" and c != 0.5 else 0.0)

    result = check_cost_consistent(planted(E1, fault), terms(E1))
    assert not result.passed
    assert "better label at" in result.detail


# Planted faults: abstention


@pytest.mark.parametrize("value", [1.0, 1.2, 1.4, 1.49])
def test_an_abstention_value_that_is_too_high_is_caught(value: float) -> None:
    results = lint(ClassificationWeights(abstain=value))
    assert failed(results) == {"abstain"}
    assert "pays too much" in results["abstain"].detail


@pytest.mark.parametrize("value", [1.5, 1.6])
def test_an_abstention_that_dominates_is_caught(value: float) -> None:
    results = lint(ClassificationWeights(abstain=value))
    assert "abstain" in failed(results)
    assert "no less than the truth" in results["abstain"].detail


def test_a_risk_that_makes_abstaining_free_is_caught() -> None:
    assert "abstain" in failed(lint(ClassificationWeights(abstain_risk=0.05)))


def test_an_abstention_paid_otherwise_than_stated_is_caught() -> None:
    for shift in (0.2, -0.2, 1e-6):
        reward = planted(E1, lambda label, c, truth, paid, d=shift: paid + d * (label == "Abstain"))
        result = check_abstain(reward, terms(E1))
        assert not result.passed
        assert "off the stated" in result.detail
    assert not check_proper(planted(E1, lambda *a: 1.2 if a[0] == "Abstain" else a[3]), terms(E1)).passed


@pytest.mark.parametrize("when", [("truth", "Malicious"), ("confidence", 1.0)])
def test_an_abstention_whose_pay_is_not_fixed_is_caught(when: tuple[str, Any]) -> None:
    def fault(label: str, c: float | None, truth: str, paid: float) -> float:
        return paid + 0.1 * (label == "Abstain" and when[1] in (c, truth))

    assert not check_abstain(planted(E1, fault), terms(E1)).passed


def test_beliefs_that_know_nothing_leave_nothing_to_gain() -> None:
    """With every belief at the base rate the honest policy is the best constant."""
    result = check_abstain(through_grader(E1), terms(E1), np.full(500, 0.05))
    assert not result.passed
    assert result.figures["gain"] == pytest.approx(0.0)


def test_beliefs_inside_the_region_are_caught_and_sharp_ones_pass() -> None:
    sharp = np.array([0.01, 0.02, 0.9, 0.99])
    assert check_abstain(through_grader(E1), terms(E1), sharp).passed
    result = check_abstain(through_grader(E1), terms(E1), np.array([0.2, 0.3, 0.4, 0.99]))
    assert not result.passed
    assert result.figures["share"] == 0.75


def test_a_datasets_worth_of_beliefs_fits_in_memory() -> None:
    beliefs = np.random.default_rng(3).beta(0.2, 0.2, 20_000)
    figures = check_abstain(through_grader(E1), terms(E1), beliefs).figures
    inside = (beliefs > 0.11484) & (beliefs < 0.5)
    assert figures["share"] == pytest.approx(inside.mean(), abs=1e-3)


@pytest.mark.parametrize("beliefs", [[], [0.5, 1.5], [float("nan")]])
def test_beliefs_must_be_probabilities(beliefs: list[float]) -> None:
    with pytest.raises(UsageError, match="beliefs"):
        check_abstain(through_grader(E1), terms(E1), beliefs)


# Planted faults: bounds


@pytest.mark.parametrize(
    ("bounds", "no_answer", "words"),
    [
        ((-3.0, 1.5), -3.0, "outside the declared"),
        ((-4.0, 1.4), -4.0, "outside the declared"),
        ((-4.0, 1.5), 0.0, "instead of the floor"),
        ((-4.0, 1.5), float("nan"), "instead of the floor"),
        ((-4.0, 2.0), -4.0, "of at most 2"),
    ],
)
def test_bounds_that_do_not_hold_are_caught(
    bounds: tuple[float, float], no_answer: float, words: str
) -> None:
    result = check_bounds(through_grader(E1), terms(E1), bounds, no_answer=no_answer)
    assert not result.passed
    assert words in result.detail


def test_an_infinite_payment_is_caught() -> None:
    reward = planted(E1, lambda label, c, truth, paid: float("inf") if c == 1.0 else paid)
    result = check_bounds(reward, terms(E1), (-4.0, 1.5), no_answer=-4.0)
    assert not result.passed
    assert "finite" in result.detail
    assert all(np.isfinite(list(result.figures.values())))


def test_a_reference_that_is_paid_too_little_is_caught() -> None:
    reward = planted(E1, lambda label, c, truth, paid: paid - 0.1 * (label == truth == "Benign"))
    assert not check_bounds(reward, terms(E1), (-4.0, 1.5), no_answer=-4.0).passed
