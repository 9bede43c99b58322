"""The reward is bounded, its detection part is an F-score over sets, and no degenerate answer wins."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from sklearn.metrics import f1_score

from sv_env_config_verification.answers import Answer, Claim
from sv_env_config_verification.catalogue import load_catalogue
from sv_env_config_verification.rewards import (
    DETECTION_METRICS,
    SEVERITY_WEIGHT,
    Weights,
    components,
    detection_metrics,
    detection_score,
    no_detection,
)
from sv_env_config_verification.rows import Violation
from sv_shared.findings import Severity
from tests.sv_env_config_verification.audit_rows import row

KNOWN = load_catalogue().weaknesses
IDS = ["privileged-container", "host-pid", "root-user", "no-cpu-request"]
PAIRS = [(identity, name) for identity in IDS for name in ("Pod/a/x", "Pod/a/y")]
SETS = st.sets(st.sampled_from(PAIRS))


def violation(pair: tuple[str, str]) -> Violation:
    return Violation(id=pair[0], object=pair[1], severity=KNOWN[pair[0]].severity)


def answer(*pairs: tuple[str, str], severity: Severity | None = None) -> Answer:
    return Answer(frozenset(Claim(*pair, severity or KNOWN[pair[0]].severity) for pair in pairs), None)


@given(SETS, SETS.filter(bool))
def test_detection_is_a_weighted_f1(claimed: set[tuple[str, str]], truth: set[tuple[str, str]]) -> None:
    weights = [SEVERITY_WEIGHT[KNOWN[pair[0]].severity] for pair in PAIRS]
    expected = f1_score(
        [pair in truth for pair in PAIRS],
        [pair in claimed for pair in PAIRS],
        sample_weight=weights,
        zero_division=0.0,
    )
    assert detection_score(claimed, truth) == pytest.approx(expected)


@given(SETS)
def test_a_clean_row_pays_for_silence_only(claimed: set[tuple[str, str]]) -> None:
    assert detection_score(claimed, ()) == float(not claimed)


@given(SETS, SETS)
def test_the_truth_is_the_best_claim(claimed: set[tuple[str, str]], truth: set[tuple[str, str]]) -> None:
    assert 0.0 <= detection_score(claimed, truth) <= detection_score(truth, truth) == 1.0
    assert (detection_score(claimed, truth) == 1.0) is (claimed == truth)


@given(SETS, SETS)
def test_a_made_up_claim_never_helps(claimed: set[tuple[str, str]], truth: set[tuple[str, str]]) -> None:
    more = {*claimed, ("made-up", "Pod/a/x")}
    before = detection_score(claimed, truth)
    assert detection_score(more, truth) < before or before == 0.0


@given(SETS, SETS)
def test_metrics_agree_with_each_other(claimed: set[tuple[str, str]], truth: set[tuple[str, str]]) -> None:
    metrics = detection_metrics(answer(*claimed), [violation(pair) for pair in sorted(truth)])
    assert tuple(metrics) == DETECTION_METRICS
    assert all(value >= 0.0 for value in metrics.values())
    precision, recall = metrics["precision"], metrics["recall"]
    if truth:
        harmonic = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
        assert metrics["detection"] == pytest.approx(harmonic)
        assert metrics["severity_accuracy"] == pytest.approx(len(claimed & truth) / len(truth))
    else:
        assert {metrics[name] for name in ("precision", "recall", "severity_accuracy")} == {
            float(not claimed)
        }
    assert metrics["exact"] == float(claimed == truth)


def test_a_severity_counts_if_it_is_the_only_one_stated() -> None:
    pair = PAIRS[0]
    truth = [violation(pair)]
    assert detection_metrics(answer(pair), truth)["severity_accuracy"] == 1.0
    assert detection_metrics(answer(pair, severity=Severity.LOW), truth)["severity_accuracy"] == 0.0
    both = Answer(answer(pair).claims | answer(pair, severity=Severity.LOW).claims, None)
    assert detection_metrics(both, truth)["severity_accuracy"] == 0.0
    assert detection_metrics(both, truth)["detection"] == 1.0


def test_a_stated_severity_does_not_change_what_a_claim_weighs() -> None:
    claimed = answer(PAIRS[0], PAIRS[2], severity=Severity.LOW)
    truth = [violation(PAIRS[0])]
    assert detection_metrics(claimed, truth)["detection"] == pytest.approx(2 * 8 / (8 + 4 + 8))


@given(st.booleans(), st.floats(0, 1), st.booleans(), st.floats(0, 0.3), st.floats(0, 1))
def test_the_reward_is_bounded(tools: bool, score: float, repaired: bool, a: float, b: float) -> None:
    weights = Weights(detection_with_tools=a, detection_without_tools=b)
    total = sum(components(weights, tools=tools, detection=score, repaired=repaired).values())
    assert -1e-12 <= total <= 1.0 + 1e-12


@pytest.mark.parametrize(("tools", "found", "mended"), [(True, 0.3, 0.7), (False, 0.6, 0.4)])
def test_the_default_weights(tools: bool, found: float, mended: float) -> None:
    terms = components(Weights(), tools=tools, detection=1.0, repaired=True)
    assert terms == pytest.approx({"detection": found, "repair": mended})


@pytest.mark.parametrize("value", [0.31, -0.1, float("nan"), float("inf")])
def test_with_tools_detection_weighs_no_more_than_three_tenths(value: float) -> None:
    with pytest.raises(ValidationError):
        Weights(detection_with_tools=value)


def test_no_answer_has_the_same_metrics() -> None:
    metrics = no_detection(row())
    assert set(metrics) == set(DETECTION_METRICS)
    assert metrics["violations"] == 2.0
    assert metrics["detection"] == 0.0
