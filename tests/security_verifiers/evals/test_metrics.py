"""Metrics of stored lines: intervals and bounds of every one, and storage rules that do not change them."""

from pathlib import Path

import numpy as np
import pytest
from sklearn import metrics as sk

from security_verifiers.evals.items import load_items
from security_verifiers.evals.metrics import item_metrics
from security_verifiers.evals.results import Results
from sv_test_duel import DUEL
from sv_test_quick import QUICK, follower
from sv_test_toolbox import TOOLBOX

from .conftest import Play
from .doubles import Double, follow

MIXED = {"scripts": ["right", "wrong", "right", "abstain", "garbage", "right"], "rows": 120, "clusters": 24}


def test_every_metric_stands_with_interval_method_and_bounds(play: Play, tmp_path: Path) -> None:
    run = play(QUICK, follower(), tmp_path, config=MIXED)
    for name, metric in run.summary["metrics"].items():
        assert set(metric) == {"value", "lower", "upper", "n", "clusters", "method", "worst", "best"}, name
        if metric["lower"] is not None:
            assert metric["lower"] <= metric["value"] <= metric["upper"], name
        if metric["worst"] is not None:
            assert metric["worst"] == pytest.approx(metric["value"]) == pytest.approx(metric["best"]), name
    expected = {"accuracy", "f1", "precision", "brier", "log_loss", "cost", "coverage", "auroc", "auprc"}
    expected |= {"recall_at_fpr_1e-2", "recall_at_fpr_1e-3", "aurc", "e_aurc", "correct"}
    assert expected <= set(run.summary["metrics"])
    calibration = run.summary["calibration"]
    assert calibration["ece"]["lower"] < calibration["ece"]["value"] < calibration["ece"]["upper"]
    assert calibration["distinct_confidences"] == 2
    low, high = calibration["null_band"]
    assert 0 <= low <= high


def test_unmeasured_rollouts_widen_every_item_metric_and_bound_no_curve(play: Play, tmp_path: Path) -> None:
    config = {"scripts": [*["right"] * 98, "provider 500", "grader crash"], "rows": 100, "clusters": 20}
    run = play(QUICK, Double(follow), tmp_path, config=config)
    accuracy, auroc = run.summary["metrics"]["accuracy"], run.summary["metrics"]["auroc"]
    assert (accuracy["value"], accuracy["worst"], accuracy["best"], accuracy["n"]) == (1.0, 0.98, 1.0, 98)
    assert (auroc["value"], auroc["worst"], auroc["best"]) == (1.0, None, None)


def test_values_agree_with_scikit_learn_on_the_lines(play: Play, tmp_path: Path) -> None:
    run = play(QUICK, follower(), tmp_path, config={**MIXED, "scripts": ["right", "wrong", "right"]})
    lines = list(Results(run.folder))
    truth = np.array([line["truth"] == "Risky" for line in lines])
    said = np.array([line["parsed"]["label"] == "Risky" for line in lines])
    p = np.array([line["parsed"]["p_positive"] for line in lines])
    told = {name: metric["value"] for name, metric in run.summary["metrics"].items()}
    assert told["accuracy"] == pytest.approx(sk.accuracy_score(truth, said))
    assert told["f1"] == pytest.approx(sk.f1_score(truth, said))
    assert told["precision"] == pytest.approx(sk.precision_score(truth, said))
    assert told["brier"] == pytest.approx(sk.brier_score_loss(truth, p))
    assert told["log_loss"] == pytest.approx(sk.log_loss(truth, p))
    assert told["auroc"] == pytest.approx(sk.roc_auc_score(truth, p))
    assert told["auprc"] == pytest.approx(sk.average_precision_score(truth, p))


def test_hashed_labels_give_the_same_numbers(play: Play, tmp_path: Path) -> None:
    plain = play(QUICK, follower(), tmp_path, config=MIXED)
    hashed = play(QUICK, follower(), tmp_path, config={**MIXED, "storage": "hash_only"})
    for name, metric in plain.summary["metrics"].items():
        other = hashed.summary["metrics"][name]
        assert (other["value"], other["n"]) == (pytest.approx(metric["value"]), metric["n"]), name


@pytest.mark.parametrize("environment", [DUEL, TOOLBOX])
def test_other_environments_have_the_means_of_their_grades(
    play: Play, tmp_path: Path, environment: object
) -> None:
    spec = next(iter(environment.policies(environment.evaluated_seat).values()))  # type: ignore[attr-defined]
    run = play(environment, spec, tmp_path)  # type: ignore[arg-type]
    lines = list(Results(run.folder))
    items, _ = load_items(lines, None)
    told = item_metrics(environment, items, run.metadata["settings"])  # type: ignore[arg-type]
    assert run.summary["calibration"] is None
    assert set(told) == set(run.summary["metrics"]) == {name for line in lines for name in line["metrics"]}
    for name, metric in told.items():
        values = [line["metrics"][name] for line in lines if name in line["metrics"]]
        assert metric.ratio.value == pytest.approx(np.mean(values))


def test_a_metric_that_a_line_lacks_is_not_invented(play: Play, tmp_path: Path) -> None:
    run = play(QUICK, follower(), tmp_path, config=MIXED)
    lines = list(Results(run.folder))
    for line in lines[:30]:
        del line["metrics"]["answered"]
    items, _ = load_items(lines, QUICK.classification)
    answered = item_metrics(QUICK, items, run.metadata["settings"])["answered"]
    assert answered.ratio.denominator.sum() == 90
    assert answered.ratio.value == pytest.approx(
        np.mean([line["metrics"]["answered"] for line in lines[30:]])
    )
