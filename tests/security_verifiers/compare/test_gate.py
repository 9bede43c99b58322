"""The gate on real runs: margins, directions, refusals; the decision itself is tested in stats."""

import pytest

from security_verifiers.compare.gate import gate
from security_verifiers.reports.gate import gate_json, gate_table
from security_verifiers.stats.noninferiority import Verdict
from sv_shared.answer_policies import answer_json
from sv_shared.errors import UsageError
from sv_shared.policies import PolicyKind, text_policy
from sv_test_quick import QUICK
from tests.security_verifiers.evals.doubles import Double, follow

from .conftest import ROWS, RunOf, wrong_every


@pytest.mark.parametrize(
    ("step", "verdict"),
    [
        (0, Verdict.PASS),
        (400, Verdict.PASS),
        (10, Verdict.FAIL),
        (3, Verdict.FAIL),
        (57, Verdict.INCONCLUSIVE),
    ],
)
def test_verdicts_of_planted_drops(run_of: RunOf, step: int, verdict: Verdict) -> None:
    """No drop, 0.25, 10, 33 and 2 points of accuracy, with margins of 3."""
    report = gate(run_of(wrong_every(0)), run_of(wrong_every(step)))
    accuracy = next(metric for metric in report.metrics if metric.metric == "accuracy")
    assert accuracy.verdict is verdict
    if verdict is Verdict.FAIL:
        assert report.verdict is verdict


def test_the_rewards_margin_is_a_share_of_its_span(run_of: RunOf) -> None:
    run = run_of(wrong_every(0))
    report = gate(run, run, margin=0.1)
    declared = run.metadata["reward"]
    margins = {m.metric: m.decision.margin for m in report.metrics if m.decision}
    assert margins == pytest.approx(
        {"reward": 0.1 * (declared["reference"] - declared["chance"]), "accuracy": 0.1}
    )


def test_a_loss_that_rises_fails(run_of: RunOf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(QUICK), "core_metrics", ("brier",))
    base, candidate = run_of(wrong_every(0, confidence=0.95)), run_of(wrong_every(0, confidence=0.6))
    brier = gate(base, candidate).metrics[1]
    assert (brier.verdict, brier.lower_is_better) == (Verdict.FAIL, True)
    assert gate(candidate, base).metrics[1].verdict is Verdict.PASS
    row = gate_table(gate(base, candidate)).rows[1]
    assert row[0] == "brier ↓"
    assert row[3].startswith("+0.1")


@pytest.mark.parametrize("both", [True, False])
def test_a_metric_that_is_not_defined(run_of: RunOf, monkeypatch: pytest.MonkeyPatch, both: bool) -> None:
    """Who states no probability has no Brier score: it can't have fallen, or can't be compared."""
    monkeypatch.setattr(type(QUICK), "core_metrics", ("brier",))
    silent = text_policy("silent", PolicyKind.CONSTANT, "abstains", lambda *_: answer_json("Abstain", None))
    abstaining = run_of(silent)
    report = gate(abstaining if both else run_of(wrong_every(0)), abstaining)
    assert report.metrics[1].decision is None
    assert report.metrics[1].verdict is (Verdict.PASS if both else Verdict.INCONCLUSIVE)
    if both:
        assert report.verdict is Verdict.PASS
    else:
        assert report.verdict is not Verdict.PASS
        assert "brier: one of the runs does not define it." in gate_table(report).notes


def test_a_core_metric_that_nobody_carries_is_refused(run_of: RunOf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(QUICK), "core_metrics", ("acuracy",))
    run = run_of(wrong_every(0))
    with pytest.raises(UsageError, match="no rollout carries: acuracy"):
        gate(run, run)


def test_few_sampled_pairs_prove_nothing(run_of: RunOf) -> None:
    few = {**ROWS, "rows": 40, "clusters": 40}
    sampled, scripted = run_of(Double(follow), few), run_of(wrong_every(0), few)
    assert gate(sampled, sampled).verdict is Verdict.INCONCLUSIVE
    assert gate(scripted, scripted).verdict is Verdict.PASS
    told = gate_json(gate(sampled, sampled))
    assert told["verdict"] == "inconclusive"
    assert told["further_pairs"] > 0
    assert not told["deterministic"]


def test_a_pass_that_lost_pairs_could_undo_is_none(run_of: RunOf) -> None:
    """1 % of the rollouts failed through us: for the reward, with its range of 5.5, that is too many."""
    config = {**ROWS, "scripts": [*["right"] * 99, "provider 500"]}
    report = gate(run_of(wrong_every(0), config), run_of(Double(follow), config), margin=0.07)
    reward, accuracy = report.metrics
    assert reward.decision is not None
    assert reward.worst == pytest.approx(4 * -5.5 / 400)
    assert accuracy.worst == pytest.approx(4 * -1.0 / 400)
    assert (reward.hidden, reward.verdict) == (True, Verdict.INCONCLUSIVE)
    assert not accuracy.hidden
    assert report.verdict is Verdict.INCONCLUSIVE
    assert any("left out could hide a change of -0.055" in note for note in gate_table(report).notes)


def test_power_drift_and_relative_change_are_printed(run_of: RunOf) -> None:
    base, candidate = run_of(wrong_every(0)), run_of(wrong_every(20))
    report = gate(base, candidate)
    table = gate_table(report)
    assert any(note.startswith("Power with these pairs") for note in table.notes)
    assert any(base.metadata["run_id"] in note for note in table.notes)
    accuracy = next(row for row in table.rows if row[0] == "accuracy")
    assert "-5.0 %" in accuracy
