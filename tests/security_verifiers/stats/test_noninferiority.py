"""The gate's decision against scipy, statsmodels, plain rules and simulation."""

import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.multitest import multipletests

from security_verifiers.stats.arrays import cluster_sums
from security_verifiers.stats.estimates import jackknife_se
from security_verifiers.stats.noninferiority import GateDecision, MetricDecision, Verdict, decide
from security_verifiers.stats.power import needed, power_of


def gate(rows: Any, clusters: Any = None, margins: Any = 0.03, **given: Any) -> GateDecision:
    """`decide` with names a, b, ..., a cluster a pair and spans of 1 unless told otherwise."""
    rows = np.atleast_2d(rows)
    arguments = {"spans": np.ones(len(rows)), "deterministic": False, "draws": 200} | given
    labels = np.arange(rows.shape[1]) if clusters is None else clusters
    return decide("abcdef"[: len(rows)], rows, labels, np.broadcast_to(margins, len(rows)), **arguments)


def only(decision: GateDecision) -> MetricDecision:
    (metric,) = decision.metrics
    return metric


def discordant(better: int, worse: int, n: int) -> np.ndarray:
    return np.repeat([1.0, -1.0, 0.0], [better, worse, n - better - worse])


@pytest.mark.parametrize("shift", [-0.4, -0.1, 0.2])
def test_one_metric_without_a_floor_is_the_t_test(shift: float) -> None:
    values = np.random.default_rng(1).normal(shift, 0.5, size=25)
    got = only(gate(values, margins=0.15, deterministic=True, level=0.9))
    two_sided = stats.ttest_1samp(values, 0.0).confidence_interval(0.9)
    assert (got.lower, got.upper) == pytest.approx(tuple(two_sided))
    assert got.p_pass == pytest.approx(stats.ttest_1samp(values, -0.15, alternative="greater").pvalue)
    assert got.p_fail == pytest.approx(stats.ttest_1samp(values, 0.0, alternative="less").pvalue)
    assert (got.delta, got.df, got.pairs, got.clusters) == (pytest.approx(values.mean()), 24, 25, 25)


def test_clusters_and_the_floor_make_the_error() -> None:
    rng = np.random.default_rng(2)
    labels = np.repeat(np.arange(9), rng.integers(1, 9, 9))
    rows = rng.choice([-1.0, 0.0, 1.0], size=(2, len(labels)))
    exact = gate(rows, labels, deterministic=True)
    sampled = gate(rows, labels, spans=[1.0, 4.0])
    for row, span, plain, floored in zip(rows, (1, 4), exact.metrics, sampled.metrics, strict=True):
        se = jackknife_se(cluster_sums(row, labels))
        assert plain.se == pytest.approx(se)
        assert floored.se == pytest.approx(np.hypot(se, span / len(labels)))
        assert floored.df == 8


@given(
    seed=st.integers(0, 10_000), m=st.integers(1, 5), n=st.integers(3, 60), level=st.sampled_from([0.8, 0.95])
)
@settings(max_examples=40, deadline=None)
def test_verdicts_follow_the_printed_rule(seed: int, m: int, n: int, level: float) -> None:
    rng = np.random.default_rng(seed)
    margins = rng.uniform(0.05, 1.0, size=m)
    rows = rng.normal(rng.choice([-1, 0, 0.7], size=(m, 1)), 0.4, size=(m, n))
    got = gate(rows, margins=margins, level=level)
    alpha = (1 - level) / 2
    for kind in ("p_pass", "p_fail"):
        raw = [getattr(metric, kind) for metric in got.metrics]
        adjusted = [getattr(metric, f"{kind}_holm") for metric in got.metrics]
        assert adjusted == pytest.approx(multipletests(raw, method="holm")[1])
    for metric in got.metrics:
        expected = Verdict.INCONCLUSIVE
        if metric.p_pass_holm <= alpha:
            expected = Verdict.PASS
        elif metric.delta < -metric.margin and metric.p_fail_holm <= alpha:
            expected = Verdict.FAIL
        assert metric.verdict is expected
        assert (metric.lower > -metric.margin) == (metric.p_pass < alpha)
        assert (metric.upper < 0) == (metric.p_fail < alpha)
        assert metric.significantly_worse == (expected is Verdict.PASS and metric.upper < 0)
    verdicts = [metric.verdict for metric in got.metrics]
    if Verdict.FAIL in verdicts:
        assert got.verdict is Verdict.FAIL
    else:
        assert (got.verdict is Verdict.PASS) == all(verdict is Verdict.PASS for verdict in verdicts)


@given(seed=st.integers(0, 10_000), scale=st.sampled_from([0.01, 7.0, 1000.0]), groups=st.integers(3, 20))
@settings(max_examples=30, deadline=None)
def test_units_and_orders_do_not_matter(seed: int, scale: float, groups: int) -> None:
    rng = np.random.default_rng(seed)
    rows, labels = rng.normal(-0.05, 0.2, size=(3, 60)), rng.integers(0, groups, 60)
    labels[:3] = range(3)
    first = gate(rows, labels, margins=0.1)
    scaled = gate(rows * scale, labels, margins=0.1 * scale, spans=np.full(3, scale))
    order = rng.permutation(60)
    shuffled = gate(rows[:, order], labels[order], margins=0.1)
    turned = gate(rows[::-1], labels, margins=0.1)
    for other in (scaled, shuffled):
        assert [m.verdict for m in other.metrics] == [m.verdict for m in first.metrics]
        assert [m.further for m in other.metrics] == pytest.approx([m.further for m in first.metrics], abs=1)
    assert [m.verdict for m in turned.metrics] == [m.verdict for m in first.metrics][::-1]
    assert turned.pass_if_unchanged == pytest.approx(first.pass_if_unchanged, abs=0.15)


@given(seed=st.integers(0, 10_000), gain=st.floats(0.001, 0.5))
@settings(max_examples=40, deadline=None)
def test_a_better_candidate_never_gets_a_worse_verdict(seed: int, gain: float) -> None:
    rows = np.random.default_rng(seed).normal(-0.1, 0.2, size=(2, 30))
    rank = [Verdict.FAIL, Verdict.INCONCLUSIVE, Verdict.PASS]
    before, after = gate(rows, margins=0.1), gate(rows + gain, margins=0.1)
    for old, new in zip(before.metrics, after.metrics, strict=True):
        assert rank.index(new.verdict) >= rank.index(old.verdict)
    assert rank.index(after.verdict) >= rank.index(before.verdict)


@pytest.mark.parametrize(
    ("better", "worse", "n", "verdict", "words"),
    [
        (10, 10, 1000, Verdict.PASS, "no fall by the margin of 0.03"),
        (2, 16, 2000, Verdict.PASS, "significantly worse, by 0.007 (0.002736 to 0.01126)"),
        (5, 60, 1000, Verdict.FAIL, "not by chance"),
        (3, 9, 100, Verdict.INCONCLUSIVE, "chance may have done it"),
        (10, 35, 1000, Verdict.INCONCLUSIVE, "more than the margin of 0.03 is open"),
        (8, 8, 100, Verdict.INCONCLUSIVE, "neither shown nor ruled out"),
    ],
)
def test_verdicts_in_words(better: int, worse: int, n: int, verdict: Verdict, words: str) -> None:
    decision = gate(discordant(better, worse, n))
    assert (decision.verdict, only(decision).verdict) == (verdict, verdict)
    assert words in only(decision).reason


def test_holm_makes_the_difference_and_the_reason_says_so() -> None:
    near, far = discordant(24, 24, 1000), discordant(200, 200, 1000)
    assert only(gate(near)).verdict is Verdict.PASS
    # p = 0.015 and 0.07: alone the first is under 0.025, and among two it is not.
    both = gate([near, far], margins=[0.015, 0.03])
    assert "ruled out here, but not after Holm" in both.metrics[0].reason
    down = gate([discordant(14, 27, 400), discordant(50, 50, 400)])
    assert "though not after Holm" in down.metrics[0].reason
    assert both.verdict is down.verdict is Verdict.INCONCLUSIVE


def test_no_difference_among_few_proves_nothing_unless_answers_are_exact() -> None:
    assert gate(np.zeros(10)).verdict is Verdict.INCONCLUSIVE
    assert gate(np.zeros(1000)).verdict is Verdict.PASS
    assert gate(np.zeros(100), spans=[5.0]).verdict is Verdict.INCONCLUSIVE
    exact = gate(np.zeros(10), deterministic=True)
    assert exact.verdict is Verdict.PASS
    assert exact.pass_if_unchanged == 1.0
    assert (only(exact).se, only(exact).further, exact.further, only(exact).detectable) == (0.0, 0, 0, 0.0)


@pytest.mark.parametrize(
    ("change", "verdict"),
    [(0.0, Verdict.PASS), (-0.25, Verdict.PASS), (-0.5, Verdict.INCONCLUSIVE), (-0.75, Verdict.FAIL)],
)
def test_without_any_spread_the_comparison_is_exact(change: float, verdict: Verdict) -> None:
    got = only(gate(np.full(8, change), margins=0.5, deterministic=True))
    assert (got.verdict, got.lower, got.upper) == (verdict, change, change)


@pytest.mark.parametrize(
    ("values", "deterministic", "verdict"),
    [
        ([0.0, 0.0], True, Verdict.PASS),
        ([0.0, 0.0], False, Verdict.INCONCLUSIVE),
        ([1.0, 0.0], True, Verdict.INCONCLUSIVE),
        ([-1.0, -1.0], True, Verdict.INCONCLUSIVE),
    ],
)
def test_a_single_cluster(values: list[float], deterministic: bool, verdict: Verdict) -> None:
    decision = gate(values, ["x", "x"], deterministic=deterministic)
    metric = only(decision)
    assert (decision.verdict, metric.clusters, metric.delta) == (verdict, 1, np.mean(values))
    assert {metric.lower, metric.se, metric.df, metric.p_pass_holm, metric.further, decision.further} == {
        None
    }
    assert (decision.pass_if_unchanged, decision.fail_if_dropped) == (None, None)
    assert ("single cluster" in metric.reason) == (verdict is Verdict.INCONCLUSIVE)


def test_one_metric_of_a_single_cluster_that_differs_blocks_the_pass() -> None:
    assert gate([[0.0, 0.0], [0.5, 0.0]], [1, 1], deterministic=True).verdict is Verdict.INCONCLUSIVE


def test_two_clusters_decide_but_print_no_power() -> None:
    decision = gate([0.0, 0.1, 0.0, 0.2], [1, 1, 2, 2], margins=5.0, deterministic=True)
    assert decision.verdict is Verdict.PASS
    assert (decision.pass_if_unchanged, decision.fail_if_dropped, decision.further) == (None, None, None)


# The printed power ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("half", "n"), [(20, 400), (150, 1000), (400, 3000)])
def test_one_metric_prints_the_power_of_its_t_test(half: int, n: int) -> None:
    got = gate(discordant(half, half, n), draws=10_000)
    se, df = only(got).se, only(got).df
    assert se is not None
    assert df is not None
    assert got.pass_if_unchanged == pytest.approx(power_of(se, df, 0.03), abs=0.03)
    assert got.fail_if_dropped == pytest.approx(power_of(se, df, 0.06), abs=0.03)
    assert only(got).further == max(0, needed(n, se, df, 0.03) - n)


def test_two_correlated_metrics_print_what_repetitions_do() -> None:
    rng, covariance = np.random.default_rng(5), np.array([[1.0, 0.7], [0.7, 4.0]]) * 0.01
    margins = [0.03, 0.06]

    def played(shift: float) -> list[GateDecision]:
        means = shift * np.array(margins)
        return [
            gate(rng.multivariate_normal(means, covariance, 80).T, margins=margins, power_target=None, seed=k)
            for k in range(500)
        ]

    same, fell = played(0.0), played(-2.0)
    passed = np.mean([decision.verdict is Verdict.PASS for decision in same])
    failed = np.mean([decision.verdict is Verdict.FAIL for decision in fell])
    assert 0.2 < passed < 0.9
    assert np.mean([d.pass_if_unchanged for d in same]) == pytest.approx(passed, abs=0.065)
    assert np.mean([d.fail_if_dropped for d in fell]) == pytest.approx(failed, abs=0.065)


def test_further_pairs_are_what_the_power_takes() -> None:
    rng = np.random.default_rng(6)
    rows = rng.choice([-1.0, 0.0, 1.0], p=[0.1, 0.8, 0.1], size=(3, 500))
    rows -= rows.mean(axis=1, keepdims=True)
    now = gate(rows, draws=4000)
    assert now.further is not None
    assert now.further > max(metric.further or 0 for metric in now.metrics) > 0
    times = 1 + now.further / 500
    more = gate(rows / np.sqrt(times), draws=4000, spans=np.full(3, 1e-9))
    assert more.pass_if_unchanged == pytest.approx(0.8, abs=0.03)


def test_a_fall_needs_pairs_that_differ() -> None:
    same = gate(np.zeros(20), deterministic=True, draws=4000)
    # 1.2 of 20 pairs are expected to fall; a t test needs at least four.
    assert same.fail_if_dropped is not None
    assert same.fail_if_dropped < 0.5
    assert gate(np.zeros(2000), deterministic=True).fail_if_dropped == 1.0


def test_power_target_none_leaves_the_planning_out() -> None:
    values = discordant(8, 8, 100)
    quick, full = gate(values, power_target=None), gate(values)
    assert (quick.further, only(quick).further, only(quick).detectable) == (None, None, None)
    assert (quick.verdict, quick.pass_if_unchanged) == (full.verdict, full.pass_if_unchanged)
    assert full.further is not None
    assert full.further > 0


def test_seeded() -> None:
    values = discordant(8, 8, 300)
    assert gate(values) == gate(values)
    assert gate(values, seed=1).pass_if_unchanged != gate(values, seed=2).pass_if_unchanged


def test_four_metrics_are_decided_in_fifty_milliseconds() -> None:
    rows = np.random.default_rng(7).choice([-1.0, 0.0, 1.0], p=[0.15, 0.7, 0.15], size=(4, 3000))
    took = []
    for _ in range(5):
        start = time.process_time()
        gate(rows, draws=2000)
        took.append(time.process_time() - start)
    assert min(took) < 0.05


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"rows": np.zeros((1, 0))}, "shape"),
        ({"rows": np.zeros((7, 3))}, "shape"),
        ({"rows": [[0.0, np.nan]]}, "differences of a"),
        ({"clusters": [1]}, "lengths"),
        ({"margins": 0.0}, "above 0"),
        ({"spans": [0.0]}, "above 0"),
        ({"spans": [1.0, 1.0]}, "lengths"),
        ({"level": 1.0}, "level"),
        ({"draws": 50}, "draws"),
        ({"power_target": 1.0}, "power"),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(value),
)
def test_bad_arguments_are_refused(change: dict[str, Any], words: str) -> None:
    arguments: dict[str, Any] = {"rows": [[0.0, 1.0]]} | change
    with pytest.raises(ValueError, match=words):
        gate(**arguments)


def test_a_name_may_not_come_twice() -> None:
    with pytest.raises(ValueError, match="metrics"):
        decide(["a", "a"], np.zeros((2, 3)), range(3), [1, 1], spans=[1, 1], deterministic=True)
