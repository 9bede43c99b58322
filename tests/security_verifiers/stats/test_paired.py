"""The paired cluster bootstrap against a plain loop, t intervals and simulation."""

import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from security_verifiers.stats.arrays import cluster_sums
from security_verifiers.stats.estimates import jackknife_se, linearised
from security_verifiers.stats.multiple import holm
from security_verifiers.stats.paired import MAX_KINDS, TAIL_RESAMPLES, paired_difference, resampled_means


def clustered_differences(rng: np.random.Generator, groups: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    labels = np.repeat(np.arange(groups), size)
    return rng.choice([-1.0, 0.0, 1.0], p=[0.15, 0.7, 0.15], size=groups * size) + 0.3 * rng.standard_normal(
        groups
    )[labels], labels


def test_resampled_means_have_the_distribution_of_drawing_clusters_one_by_one() -> None:
    rng = np.random.default_rng(1)
    values = rng.exponential(size=60)
    labels = np.repeat(np.arange(12), rng.multinomial(48, np.full(12, 1 / 12)) + 1)
    by_label = [values[labels == g] for g in range(12)]
    plain = np.array(
        [np.concatenate([by_label[g] for g in rng.integers(0, 12, 12)]).mean() for _ in range(10_000)]
    )
    fast = resampled_means(cluster_sums(values, labels), 2)
    assert stats.ks_2samp(plain, fast).pvalue > 0.01
    assert fast.std() == pytest.approx(plain.std(), rel=0.03)


def test_equal_clusters_share_a_kind_without_changing_the_distribution() -> None:
    outcomes = np.repeat([0.0, 1.0], [70, 30])
    means = resampled_means(cluster_sums(outcomes, np.arange(100)), 3, 20_000)
    exact = stats.binom(100, 0.3)
    for k in (20, 25, 30, 35, 40):
        assert np.mean(means <= k / 100 + 1e-9) == pytest.approx(exact.cdf(k), abs=0.015)


def test_many_different_clusters_keep_centre_and_spread() -> None:
    rng = np.random.default_rng(4)
    values = rng.standard_t(3, size=20 * MAX_KINDS) + 5.0
    means = resampled_means(cluster_sums(values, np.arange(len(values))), 5, 20_000)
    exact = values.std() / np.sqrt(len(values))
    assert means.std() == pytest.approx(exact, rel=0.02)
    assert means.mean() == pytest.approx(values.mean(), abs=4 * exact / np.sqrt(20_000))


def test_many_clusters_of_different_sizes_without_any_residual() -> None:
    sizes = np.arange(1, 2 * MAX_KINDS)
    labels = np.repeat(np.arange(len(sizes)), sizes)
    with np.errstate(all="raise"):
        means = resampled_means(cluster_sums(np.full(len(labels), 0.25), labels), 6, 100)
    assert means == pytest.approx(np.full(100, 0.25), abs=1e-12)


def test_interval_is_the_t_interval_for_normal_data() -> None:
    base, shift = np.random.default_rng(7).normal(size=(2, 400))
    got = paired_difference(base, base + 0.1 + shift, np.arange(400), 8, resamples=50_000)
    expected = stats.ttest_1samp(0.1 + shift, 0.0)
    low, high = expected.confidence_interval(0.95)
    assert (got.lower, got.upper) == pytest.approx((low, high), abs=0.04 * (high - low))
    assert got.p_value == pytest.approx(expected.pvalue, abs=0.01)


def test_p_value_is_that_of_the_t_test_at_twelve_normal_clusters() -> None:
    values = stats.norm.ppf((np.arange(12) + 0.5) / 12)
    for shift in (0.3, 0.6):
        got = paired_difference(np.zeros(12), values + shift, np.arange(12), 1, resamples=100_000)
        assert got.p_value == pytest.approx(stats.ttest_1samp(values + shift, 0.0).pvalue, rel=0.04)


def test_few_clusters_use_the_t_test_and_say_so() -> None:
    values = np.array([0.1, 0.4, -0.2, 0.3, 0.25])
    got = paired_difference(np.zeros(5), values, list("abcde"), 1)
    expected = stats.ttest_1samp(values, 0.0)
    assert got.p_value == pytest.approx(expected.pvalue)
    assert got.upper == pytest.approx(expected.confidence_interval().high)
    assert " t (4 df" in got.method


def test_false_alarms_and_coverage_at_thirty_clusters() -> None:
    rng, alarms, hits = np.random.default_rng(9), 0, 0
    for seed in range(600):
        difference, labels = clustered_differences(rng, 30, 8)
        got = paired_difference(np.zeros(240), difference, labels, seed, resamples=1_000)
        assert got.lower is not None
        assert got.upper is not None
        assert got.p_value is not None
        hits += got.lower <= 0.0 <= got.upper
        alarms += got.p_value < 0.05
    assert 0.93 <= hits / 600 <= 0.97
    assert alarms / 600 <= 0.07


@given(seed=st.integers(0, 10_000), groups=st.integers(2, 40))
@settings(max_examples=40, deadline=None)
def test_p_value_and_interval_tell_the_same(seed: int, groups: int) -> None:
    difference, labels = clustered_differences(np.random.default_rng(seed), groups, 5)
    got = paired_difference(np.zeros(len(difference)), difference, labels, seed, resamples=2_000)
    assert got.lower is not None
    assert got.upper is not None
    assert got.p_value is not None
    if not 0.045 < got.p_value < 0.055:  # at the edge, quantiles between two resamples may differ
        assert (got.p_value < 0.05) == (not got.lower <= 0.0 <= got.upper)


def test_seeded_and_blind_to_the_order_of_pairs() -> None:
    rng = np.random.default_rng(10)
    difference, labels = clustered_differences(rng, 25, 4)
    base, order = rng.random(100), rng.permutation(100)
    first = paired_difference(base, base + difference, labels, 42)
    again = paired_difference(base, base + difference, labels, np.random.default_rng(42))
    shuffled = paired_difference(base[order], (base + difference)[order], labels[order], 42)
    assert first == again
    assert (shuffled.lower, shuffled.upper) == pytest.approx((first.lower, first.upper), abs=0.02)
    assert paired_difference(base, base + difference, labels, 43) != first


def test_edges() -> None:
    single = paired_difference([0.0, 0.0], [1.0, 0.0], ["a", "a"], 1)
    assert (single.delta, single.lower, single.p_value) == (0.5, None, None)
    same = paired_difference(np.ones(20), np.ones(20), np.arange(20), 1)
    assert (same.delta, same.lower, same.upper, same.p_value) == (0.0, 0.0, 0.0, 1.0)
    shifted = paired_difference(np.zeros(20), np.ones(20), np.arange(20), 1)
    assert (shifted.lower, shifted.upper) == (1.0, 1.0)
    assert shifted.p_value is not None
    assert shifted.p_value < 0.01
    assert paired_difference(np.zeros(3), np.ones(3), np.arange(3), 1).p_value is None
    assert paired_difference(np.ones(3), np.ones(3), np.arange(3), 1).p_value == 1.0


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="lengths differ"):
        paired_difference([1.0], [1.0, 2.0], [1], 1)
    with pytest.raises(ValueError, match="candidate"):
        paired_difference([1.0], [np.inf], [1], 1)
    with pytest.raises(ValueError, match="no mean"):
        paired_difference([], [], [], 1)
    with pytest.raises(ValueError, match="too few"):
        paired_difference(np.ones(20), np.ones(20), np.arange(20), 1, resamples=10)


def test_small_p_values_continue_with_the_t_test() -> None:
    values = stats.norm.ppf((np.arange(15) + 0.5) / 15)
    for shift in (1.5, 2.0, 4.0):
        got = paired_difference(np.zeros(15), values + shift, np.arange(15), 1)
        expected = stats.ttest_1samp(values + shift, 0.0).pvalue
        assert expected < 1e-4  # less than 10,000 resamples can tell
        assert got.p_value == pytest.approx(expected)


def test_a_report_of_thirty_lines_over_fifteen_clusters_can_be_significant() -> None:
    rng = np.random.default_rng(12)
    labels = np.repeat(np.arange(15), 20)
    differences = 0.3 + 0.1 * rng.standard_normal(15)[labels] + 0.3 * rng.standard_normal((30, 300))
    p = [paired_difference(np.zeros(300), d, labels, 1).p_value for d in differences]
    assert max(holm(p)) < 0.001


@given(seed=st.integers(0, 10_000), groups=st.integers(10, 40), resamples=st.sampled_from([500, 2_000]))
@settings(max_examples=15, deadline=None)
def test_p_value_never_rises_with_the_difference(seed: int, groups: int, resamples: int) -> None:
    difference, labels = clustered_differences(np.random.default_rng(seed), groups, 5)
    away, zeros = difference - difference.mean(), np.zeros(len(difference))
    spread = jackknife_se(cluster_sums(away, labels))
    p = [
        paired_difference(zeros, away + t * spread, labels, seed, resamples=resamples).p_value
        for t in np.linspace(0.2, 8.0, 20)
    ]
    assert all(later <= earlier for earlier, later in pairwise(p))
    assert 0 < p[-1] < 1e-4


def test_a_continued_p_value_is_at_most_that_of_a_tail_just_full() -> None:
    # 12 of 100 pairs differ, all one way: no t test, but 0.88^100 of the resamples, 3 in a million, lie at 0.
    got = paired_difference(np.zeros(100), np.repeat([0.0, 1.0], [88, 12]), np.arange(100), 1)
    assert got.p_value is not None
    assert got.p_value == pytest.approx(
        stats.ttest_1samp(np.repeat([0.0, 1.0], [88, 12]), 0.0).pvalue, rel=1e-9
    )
    few = paired_difference(np.zeros(100), np.repeat([0.0, 1.0], [92, 8]), np.arange(100), 1)
    z = stats.norm.ppf((1 + TAIL_RESAMPLES) / 10_001)
    full = 2 * stats.t.cdf(z / np.sqrt(100 / 99), 99)
    assert few.p_value == pytest.approx(full)
    assert stats.ttest_1samp(np.repeat([0.0, 1.0], [92, 8]), 0.0).pvalue > full


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["normal", "three-valued"])
@pytest.mark.parametrize("groups", [15, 100])
def test_false_alarms_at_the_level_of_one_line_in_thirty(kind: str, groups: int) -> None:
    rng, alarms, runs = np.random.default_rng(13), 0, 4_000
    for seed in range(runs):
        values = rng.standard_normal(groups)
        if kind == "three-valued":
            values = rng.choice([-1.0, 0.0, 1.0], p=[0.1, 0.8, 0.1], size=(groups, 8)).mean(1) + 0.2 * values
        got = paired_difference(np.zeros(groups), values, np.arange(groups), seed, resamples=1_000)
        assert got.p_value is not None
        alarms += got.p_value <= 0.05 / 30
    assert alarms / runs < 0.004  # expected 0.0017, standard error 0.0006


def test_standard_error_is_that_of_the_jackknife() -> None:
    for groups in (2, 9, 10, 25):
        difference, labels = clustered_differences(np.random.default_rng(14), groups, 4)
        got = paired_difference(np.zeros(len(labels)), difference, labels, 1, resamples=1_000)
        assert got.se == jackknife_se(cluster_sums(difference, labels))
    assert paired_difference([0.0, 0.0], [1.0, 0.0], ["a", "a"], 1).se is None
    assert paired_difference(np.ones(20), np.ones(20), np.arange(20), 1).se == 0.0


def test_linearised_values_compare_ratios() -> None:
    rng = np.random.default_rng(15)
    truth, base, candidate = rng.random(900) < 0.3, rng.random(900) < 0.8, rng.random(900) < 0.6
    labels = np.repeat(np.arange(90), 10)
    runs = [linearised(truth & found, truth) for found in (base, candidate)]
    assert runs[0] is not None
    assert runs[1] is not None
    got = paired_difference(*runs, labels, 1)
    assert got.delta == pytest.approx(candidate[truth].mean() - base[truth].mean())
    assert got.upper is not None
    assert got.upper < 0


def test_ten_thousand_resamples_of_a_hundred_thousand_pairs_are_quick_and_small() -> None:
    said = subprocess.run([sys.executable, "-c", MEASURED], capture_output=True, text=True, check=True).stdout
    for line in said.splitlines():  # 1,000 clusters, then 100,000
        seconds, peak_mb, grown_mb = map(float, line.split())
        assert seconds < 2.0  # 0.4 s where it was measured
        assert peak_mb < 500.0  # of the whole process, with numpy and scipy
        assert grown_mb < 100.0
    assert len(said.splitlines()) == 2


MEASURED = """
import re, time
from pathlib import Path
import numpy as np
from security_verifiers.stats.paired import paired_difference
def peak():
    # Of this process image alone: what getrusage tells may be the parent's, from before the exec.
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) / 1e3
rng = np.random.default_rng(11)
base, candidate = rng.normal(size=(2, 100_000))
for groups in (1_000, 100_000):
    labels = np.arange(100_000) % groups
    before, started = peak(), time.process_time()
    paired_difference(base, candidate, labels, 1)
    print(time.process_time() - started, peak(), peak() - before)
"""
