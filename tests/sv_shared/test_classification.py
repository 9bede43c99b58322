"""Grading a classification reply: total, bounded, and accounted for under every outcome."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sv_shared.classification import CAUSES, METRICS, grade_classification
from sv_shared.errors import DataError, UsageError
from sv_shared.grading import Grade
from sv_shared.outcomes import Outcome
from sv_shared.parsers import JsonClassificationParser
from sv_shared.rewards import ClassificationWeights, reward_bounds

PARSER = JsonClassificationParser(["Benign", "Malicious"])
WEIGHTS = ClassificationWeights()


def grade(reply: str, truth: str = "Malicious", **options: Any) -> Grade:
    arguments: dict[str, Any] = {"parser": PARSER, "weights": WEIGHTS, "positive": "Malicious"} | options
    return grade_classification(reply, truth, **arguments)


def reply(label: str, confidence: Any = 0.9) -> str:
    return json.dumps({"label": label, "confidence": confidence, "rationale": "r"})


def ones(result: Grade) -> set[str]:
    """The metrics that are 1; all others must be 0."""
    assert tuple(result.metrics) == METRICS
    assert set(result.metrics.values()) <= {0.0, 1.0}
    return {name for name, value in result.metrics.items() if value == 1.0}


@pytest.mark.parametrize(
    ("label", "truth", "reward", "metrics"),
    [
        ("Malicious", "Malicious", 1 + 0.5 * 0.99, {"correct", "answered", "truth_positive", "flagged"}),
        ("benign", "Benign", 1 + 0.5 * 0.99, {"correct", "answered"}),
        ("Malicious", "Benign", 0.5 * 0.19, {"answered", "flagged", "false_positive"}),
        ("Benign", "Malicious", 0.5 * 0.19 - 4, {"answered", "truth_positive", "false_negative"}),
    ],
)
def test_decisions(label: str, truth: str, reward: float, metrics: set[str]) -> None:
    result = grade(reply(label), truth)
    assert result.outcome is Outcome.SCORED
    assert result.reward == pytest.approx(reward)
    assert set(result.components) == {"accuracy", "calibration", "cost"}
    assert ones(result) == metrics
    assert (result.truth, result.cause) == (truth, "")


def test_parsed_carries_the_stated_probability_of_the_positive_label() -> None:
    assert grade(reply("malicious", 0.7)).parsed == {
        "label": "Malicious",
        "confidence": 0.7,
        "p_positive": 0.7,
        "rationale": "r",
    }
    parsed = grade(reply("Benign", 0.7)).parsed
    assert parsed is not None
    assert parsed["p_positive"] == pytest.approx(0.3)


@pytest.mark.parametrize("confidence", ["", ', "confidence": 0.2'])
def test_abstaining_pays_its_value_whatever_the_truth(confidence: str) -> None:
    text = f'{{"label": "Abstain"{confidence}, "rationale": ""}}'
    for truth in PARSER.labels:
        result = grade(text, truth)
        assert result.outcome is Outcome.ABSTAINED
        assert result.components == {"abstain": 0.875}
        assert ones(result) - {"truth_positive"} == {"abstained"}
        assert result.parsed is not None
        assert result.parsed["p_positive"] is None


@pytest.mark.parametrize(
    ("text", "options", "outcome", "cause"),
    [
        ("it is bad", {}, Outcome.PARSE_FAIL, "no_object"),
        ("", {}, Outcome.PARSE_FAIL, "empty"),
        (reply("Malicious", "0.9"), {}, Outcome.PARSE_FAIL, "bad_confidence"),
        (reply("Malicious")[:20], {"finish_reason": "length"}, Outcome.PARSE_FAIL, "truncated"),
        ("I'm sorry, I can't help with that.", {}, Outcome.REFUSED, "refusal_text"),
        ("", {"refusal": "I can't help with that."}, Outcome.REFUSED, "provider_refusal"),
        ("", {"finish_reason": "content_filter"}, Outcome.REFUSED, "content_filter"),
    ],
)
def test_no_answer_scores_the_floor(text: str, options: dict[str, Any], outcome: Outcome, cause: str) -> None:
    for truth in PARSER.labels:
        result = grade(text, truth, **options)
        assert result.outcome is outcome
        assert result.components == {"floor": -4.0}
        assert result.cause == f"{cause}: {CAUSES[cause]}"
        assert result.parsed is None
        assert ones(result) - {"truth_positive"} == {outcome.value}


def test_an_answer_counts_even_where_the_filter_stepped_in() -> None:
    assert grade(reply("Malicious"), finish_reason="content_filter").outcome is Outcome.SCORED
    assert grade(reply("Malicious"), refusal="").outcome is Outcome.SCORED


def test_the_providers_refusal_outweighs_the_text() -> None:
    assert grade(reply("Malicious"), refusal="no").outcome is Outcome.REFUSED


def test_no_answer_is_paid_less_than_the_floor_of_its_weights() -> None:
    weights = ClassificationWeights(cost_ratio=11, cost=2.0)
    assert grade("?", weights=weights).reward == reward_bounds(weights)[0] == -20.0


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"truth": "malicious"}, DataError),
        ({"truth": "Abstain"}, DataError),
        ({"positive": "Evil"}, UsageError),
        ({"parser": JsonClassificationParser(["A", "B", "Malicious"])}, UsageError),
        ({"parser": JsonClassificationParser(["Benign", "Malicious"], None)}, UsageError),
        ({"weights": ClassificationWeights(abstain=None)}, UsageError),
    ],
)
def test_what_does_not_fit_together_is_refused(options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        grade(reply("Benign"), **options)


def test_grading_without_abstention() -> None:
    options: dict[str, Any] = {
        "parser": JsonClassificationParser(["Benign", "Malicious"], None),
        "weights": ClassificationWeights(abstain=None),
    }
    assert grade(reply("Abstain"), **options).outcome is Outcome.PARSE_FAIL
    assert grade(reply("Malicious"), **options).outcome is Outcome.SCORED


ANY_REPLY = (
    st.text(st.characters(codec=None, exclude_categories=[]))
    | st.builds(
        reply,
        st.sampled_from(["Benign", "malicious", "Abstain", "x"]),
        st.floats() | st.floats(0, 1) | st.text() | st.none() | st.booleans(),
    )
    | st.sampled_from(["I can't help with that.", "<think>", "```", "{" * 50])
)
ANY_WEIGHTS = st.builds(
    ClassificationWeights,
    accuracy=st.floats(0, 1e6),
    calibration=st.floats(0, 1e6),
    cost=st.floats(0, 1e6),
    cost_ratio=st.floats(1, 1e6),
    abstain=st.just("auto") | st.floats(-1e6, 1e6),
)


@settings(deadline=None, max_examples=200)
@given(
    ANY_REPLY,
    st.sampled_from(PARSER.labels),
    ANY_WEIGHTS,
    st.sampled_from([None, "length", "content_filter", "stop"]),
    st.sampled_from([None, "", "no"]),
)
def test_any_string_gets_one_outcome_and_a_bounded_reward(
    text: str, truth: str, weights: ClassificationWeights, finish_reason: str | None, refusal: str | None
) -> None:
    result = grade(text, truth, weights=weights, finish_reason=finish_reason, refusal=refusal)
    floor, maximum = reward_bounds(weights)
    assert floor <= result.reward <= maximum * (1 + 1e-12)
    assert sum(result.metrics[name] for name in ("answered", "abstained", "parse_fail", "refused")) == 1.0
    assert (result.parsed is None) == (result.cause != "") == (not result.outcome.has_answer)
    assert result.metrics["truth_positive"] == float(truth == "Malicious")
    json.dumps({"parsed": result.parsed, "metrics": dict(result.metrics)}, allow_nan=False)
    ones(result)
