"""Comparison: numbers against plain arithmetic on the same lines, and verdicts in the right direction."""

from collections.abc import Mapping

import numpy as np
import pytest

from security_verifiers.compare.comparison import Comparison, MetricDifference, compare
from security_verifiers.evals.results import Results
from security_verifiers.reports.comparison import comparison_json, comparison_tables
from security_verifiers.stats.multiple import holm
from sv_test_quick import LABELS
from tests.security_verifiers.evals.doubles import Double, follow

from .conftest import ROWS, RunOf, wrong_every


def by_name(comparison: Comparison) -> Mapping[str, MetricDifference]:
    return {metric.metric: metric for metric in comparison.metrics}


def test_differences_are_those_of_the_lines(run_of: RunOf) -> None:
    base, candidate = run_of(wrong_every(10)), run_of(wrong_every(4, confidence=0.8))
    (comparison,) = compare(base, [candidate])
    metrics = by_name(comparison)
    before, after = ({line["key"]["task"]: line for line in Results(run.folder)} for run in (base, candidate))
    rewards = np.array([after[task]["reward"] - before[task]["reward"] for task in before])
    reward = metrics["reward"].difference
    assert reward is not None
    assert reward.delta == pytest.approx(rewards.mean())
    assert reward.lower is not None
    assert reward.upper is not None
    assert reward.lower < rewards.mean() < reward.upper
    assert reward.n == ROWS["rows"]
    assert reward.clusters == ROWS["clusters"]
    correct = {name: line["metrics"]["correct"] for name, line in after.items()}
    assert metrics["accuracy"].candidate == pytest.approx(np.mean(list(correct.values())))
    mcnemar = metrics["accuracy"].mcnemar
    assert mcnemar is not None
    # Rows divisible by 4 but not by 10 are lost, those divisible by 10 but not by 4 gained: 80 and 20 of 400.
    assert (mcnemar.gained, mcnemar.lost) == (20, 80)
    assert metrics["brier"].difference is not None
    loss = [
        np.mean(
            [(line["parsed"]["p_positive"] - (line["truth"] == LABELS[0])) ** 2 for line in lines.values()]
        )
        for lines in (before, after)
    ]
    assert metrics["brier"].difference.delta == pytest.approx(loss[1] - loss[0])


def test_verdicts_know_which_way_is_better(run_of: RunOf) -> None:
    good, bad = run_of(wrong_every(0)), run_of(wrong_every(3))
    worse, better = (by_name(compare(a, [b])[0]) for a, b in ((good, bad), (bad, good)))
    for metric in ("reward", "accuracy", "brier"):
        assert (worse[metric].verdict, better[metric].verdict) == ("worse", "better"), metric


def test_a_run_against_itself_is_a_tie(run_of: RunOf) -> None:
    run = run_of(wrong_every(5))
    (comparison,) = compare(run, [run])
    assert {metric.verdict for metric in comparison.metrics} == {"tie"}
    assert all(m.difference and m.difference.delta == 0 for m in comparison.metrics)


def test_coverage_is_neither_good_nor_bad(run_of: RunOf) -> None:
    scripts = {**ROWS, "scripts": ["right", "right", "right", "abstain"]}
    (comparison,) = compare(run_of(wrong_every(0), scripts), [run_of(Double(follow), scripts)])
    assert by_name(comparison)["coverage"].verdict == "lower"


def test_holm_runs_over_all_candidates_of_a_report(run_of: RunOf) -> None:
    base, one, two = (run_of(wrong_every(step)) for step in (0, 90, 60))
    together = compare(base, [one, two])
    p = [m.difference.p_value for c in together for m in c.metrics if m.difference]
    corrected = [m.corrected for c in together for m in c.metrics]
    assert corrected == pytest.approx(holm([value for value in p if value is not None]))
    alone = by_name(compare(base, [one])[0])["reward"].corrected
    within = by_name(together[0])["reward"].corrected
    assert alone is not None
    assert within is not None
    assert alone < within


def test_left_out_pairs_widen_the_difference(run_of: RunOf) -> None:
    config = {**ROWS, "scripts": [*["right"] * 99, "provider 500"]}
    (comparison,) = compare(run_of(wrong_every(0), config), [run_of(Double(follow), config)])
    bounds = by_name(comparison)["reward"].bounds
    assert bounds is not None
    assert bounds.worst == pytest.approx(4 * -5.5 / 400)
    assert bounds.best == pytest.approx(4 * 5.5 / 400)
    assert any("4 pairs left out" in note for note in comparison_tables([comparison])[0].notes)


def test_sampled_pairs_that_all_agree_do_not_detect_everything(run_of: RunOf) -> None:
    scripted, sampled = run_of(wrong_every(0)), run_of(Double(follow))
    exact, open_ = (by_name(compare(run, [run])[0])["accuracy"].detectable for run in (scripted, sampled))
    assert exact == 0
    assert open_ is not None
    assert open_ > 2 / ROWS["rows"]
    assert "Both are the same run." in comparison_tables(compare(sampled, [sampled]))[0].notes


def test_the_report_carries_every_number_that_the_rules_ask_for(run_of: RunOf) -> None:
    comparisons = compare(run_of(wrong_every(0)), [run_of(wrong_every(4))])
    (table,) = comparison_tables(comparisons)
    text = table.markdown()
    assert "400 pairs" in text
    assert "100 clusters" in text
    reward = next(row for row in table.rows if row[0] == "reward")
    assert all(cell != "-" for cell in reward)
    (told,) = comparison_json(comparisons)
    assert told["pairs"] == 400
    first = told["metrics"][0]
    assert first["metric"] == "reward"
    assert first["detectable"] > 0
    assert first["difference"]["lower"] < first["difference"]["delta"] < first["difference"]["upper"]
