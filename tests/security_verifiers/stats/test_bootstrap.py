"""The BCa cluster bootstrap and the jackknife against scipy, plain loops and simulation."""

import time
import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from security_verifiers.stats import bootstrap as bs
from security_verifiers.stats.arrays import Floats
from security_verifiers.stats.bootstrap import Statistic, bca, jackknife_t, plain
from security_verifiers.stats.calibration import ece_statistic
from security_verifiers.stats.estimates import cluster_mean
from security_verifiers.stats.ranking import auroc_statistic

Sample = tuple[Statistic, np.ndarray]


def mean_of(values: np.ndarray) -> Statistic:
    def statistic(weights: Floats) -> Floats:
        with np.errstate(invalid="ignore"):
            return np.asarray(weights @ values / weights.sum(axis=1))

    return statistic


def ranked(rng: np.random.Generator, groups: int, size: int) -> Sample:
    """AUROC of normal scores, whose level and whose share of positives depend on the cluster."""
    labels, n = np.repeat(np.arange(groups), size), groups * size
    positive = rng.random(n) < stats.norm.cdf(0.5 * rng.standard_normal(groups)[labels] - 0.3)
    score = positive + 0.7 * rng.standard_normal(groups)[labels] + rng.standard_normal(n)
    return auroc_statistic(stats.norm.cdf(score), positive), labels


def squared(rng: np.random.Generator, groups: int, size: int) -> Sample:
    """A mean of skewed losses in [0, 1], as a Brier score is, shifted by cluster."""
    labels, n = np.repeat(np.arange(groups), size), groups * size
    loss = stats.norm.cdf(0.4 * rng.standard_normal(groups)[labels] + rng.standard_normal(n)) ** 2
    return mean_of(loss), labels


def gapped(rng: np.random.Generator, groups: int, size: int) -> Sample:
    """ECE of a predictor that is 0.05 too sure of itself."""
    n = groups * size
    confidence = rng.choice([0.6, 0.7, 0.8, 0.9, 0.95, 0.99], n)
    return ece_statistic(confidence, rng.random(n) < confidence - 0.05), np.repeat(np.arange(groups), size)


def covered(
    sample: Callable[[np.random.Generator, int, int], Sample],
    truth: float,
    groups: int,
    size: int,
    simulations: int,
    *,
    jackknife: bool = False,
) -> tuple[float, float]:
    """Shares of intervals whose lower end, and whose upper end, lies on the right side of the truth."""
    rng, low, high = np.random.default_rng(groups), 0, 0
    for seed in range(simulations):
        statistic, labels = sample(rng, groups, size)
        got = (
            jackknife_t(statistic, labels, seed)
            if jackknife
            else bca(statistic, labels, seed, resamples=1_000)
        )
        assert got is not None
        assert got.lower is not None
        assert got.upper is not None
        low += got.lower <= truth
        high += truth <= got.upper
    return low / simulations, high / simulations


def value_of(sample: Callable[[np.random.Generator, int, int], Sample]) -> float:
    """The statistic of a sample so large that it counts as the truth."""
    statistic, labels = sample(np.random.default_rng(99), 20_000, 5)
    value = plain(statistic, len(labels))
    assert value is not None
    return value


def test_intervals_agree_with_scipy_for_independent_items() -> None:
    """BCa as scipy makes it, at so many clusters that the stretch does not show."""
    values = np.random.default_rng(1).exponential(size=300)
    got = bca(mean_of(values), np.arange(300), 2, resamples=40_000)
    expected = stats.bootstrap((values,), np.mean, n_resamples=40_000, rng=3).confidence_interval
    assert got is not None
    assert got.value == pytest.approx(values.mean())
    assert (got.lower, got.upper) == pytest.approx((expected.low, expected.high), abs=0.008)
    assert expected.high - values.mean() > 1.1 * (
        values.mean() - expected.low
    )  # so it is no plain t interval


def test_whole_clusters_are_drawn_with_their_sizes() -> None:
    codes = np.array([0, 1, 1, 2, 2, 2, 2])
    weights = np.concatenate(list(bs._resamples(codes, np.random.default_rng(4), 30_000)))
    assert weights.shape == (30_000, 7)
    counts = weights[:, [0, 1, 3]]
    assert (counts[:, codes] == weights).all()
    assert (counts.sum(axis=1) == 3).all()
    for drawn in counts.T:
        shares = np.bincount(drawn.astype(int), minlength=4) / 30_000
        assert shares == pytest.approx(stats.binom.pmf(range(4), 3, 1 / 3), abs=0.012)
    assert counts[:, 0] @ counts[:, 1] / 30_000 == pytest.approx(2 / 3, abs=0.02)


def test_acceleration_and_bias_by_the_textbook() -> None:
    values = np.random.default_rng(5).exponential(size=50)
    centred = values - values.mean()
    expected = (centred**3).sum() / (6 * (centred**2).sum() ** 1.5)
    without = bs._jackknife(mean_of(values), np.arange(50), np.random.default_rng(1))
    assert without == pytest.approx((values.sum() - values) / 49)
    assert bs._acceleration(without) == pytest.approx(expected)
    drawn = np.r_[np.full(30, -1.0), np.full(20, 0.0), np.full(50, 1.0)]
    bias = stats.norm.ppf(0.4)
    z = bias + np.array([-1.96, 1.96])
    assert bs._bca_tails(0.0, drawn, 0.1, 1.96) == pytest.approx(stats.norm.cdf(bias + z / (1 - 0.1 * z)))


@pytest.mark.parametrize("acceleration", [-0.9, 0.0, 0.9])
def test_ends_stay_in_order_however_far_the_estimate_lies_off(acceleration: float) -> None:
    drawn = np.linspace(0, 1, 1_001)
    for value in (-1.0, 0.0, 0.5, 1.0, 2.0):
        low, high = bs._bca_tails(value, drawn, acceleration, 2.0)
        assert 0 <= low <= high <= 1


def test_groups_of_clusters_stand_for_many_clusters() -> None:
    rng = np.random.default_rng(6)
    values, labels = rng.standard_normal(4_000) + 1.0, np.arange(4_000) // 2
    got, exact = jackknife_t(mean_of(values), labels, 1), cluster_mean(values, labels)
    assert got is not None
    assert got.clusters == 2_000
    assert (got.lower, got.upper) == pytest.approx((exact.lower, exact.upper), abs=0.006)


@given(seed=st.integers(0, 1_000), groups=st.integers(2, 9))
def test_few_clusters_use_the_t_interval_of_the_mean(seed: int, groups: int) -> None:
    rng = np.random.default_rng(seed)
    labels = np.r_[np.arange(groups), rng.integers(0, groups, 20)]
    values = rng.random(len(labels))
    got, exact = bca(mean_of(values), labels, 1), cluster_mean(values, labels)
    assert got is not None
    assert (got.value, got.lower, got.upper) == pytest.approx((exact.value, exact.lower, exact.upper))
    assert (got.n, got.clusters) == (len(labels), groups)
    assert "jackknife t" in got.method


def test_difference_of_two_runs_over_the_same_items() -> None:
    rng = np.random.default_rng(7)
    base, shift, labels = rng.random(200), rng.normal(0.1, 0.05, 200), np.arange(200) // 4
    before, after = mean_of(base), mean_of(base + shift)
    got, direct = (
        bca(statistic, labels, 8, resamples=2_000)
        for statistic in (lambda w: after(w) - before(w), mean_of(shift))
    )
    assert got is not None
    assert direct is not None
    assert (got.value, got.lower, got.upper) == pytest.approx((direct.value, direct.lower, direct.upper))


def test_undefined_resamples_are_left_out_counted_and_limited() -> None:
    n = 40
    score = np.linspace(0, 1, n)
    got = bca(auroc_statistic(score, np.arange(n) >= n - 4), np.arange(n), 1, resamples=2_000)
    assert got is not None
    assert got.lower is not None
    assert " of them undefined and left out" in got.method
    one = bca(auroc_statistic(score, np.arange(n) == n - 1), np.arange(n), 1, resamples=2_000)
    assert one is not None
    assert (one.value, one.lower, one.upper) == (1.0, None, None)
    assert "not defined in" in one.method
    eight_per_cent = bca(lambda w: np.where(w[:, 0] >= 3, np.nan, 1.0), np.arange(n), 1, resamples=2_000)
    assert eight_per_cent is not None
    assert eight_per_cent.lower is None
    few = bca(auroc_statistic([0.9, 0.1, 0.2], [True, False, False]), [1, 2, 3], 1)
    assert few is not None
    assert (few.value, few.lower) == (1.0, None)
    assert "not defined without" in few.method


def test_edges() -> None:
    flat = bca(mean_of(np.full(30, 0.25)), np.arange(30), 1)
    assert flat is not None
    assert (flat.value, flat.lower, flat.upper) == (0.25, 0.25, 0.25)
    alone = bca(mean_of(np.arange(3.0)), ["a", "a", "a"], 1)
    assert alone is not None
    assert (alone.value, alone.lower, alone.clusters) == (1.0, None, 1)
    assert bca(auroc_statistic([0.5] * 20, [True] * 20), np.arange(20), 1) is None
    assert jackknife_t(auroc_statistic([0.5], [True]), ["a"], 1) is None
    statistic, labels = ranked(np.random.default_rng(9), 30, 4)
    assert bca(statistic, labels, 5) == bca(statistic, labels, np.random.default_rng(5))
    assert bca(statistic, labels, 5) != bca(statistic, labels, 6)


def test_work_is_bounded_and_the_method_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [bs._affordable(10_000, n) for n in (20_000, 100_000, 10**6)] == [10_000, 2_000, 1_000]
    assert bs._affordable(500, 10**6) == 500
    monkeypatch.setattr(bs, "MAX_WORK", 200_000)
    got = bca(mean_of(np.random.default_rng(10).random(100)), np.arange(100), 1)
    assert got is not None
    assert "(2000 resamples)" in got.method


def test_misuse_is_refused() -> None:
    statistic = mean_of(np.ones(3))
    for use, why in (
        (lambda: bca(statistic, [], 1), "no items"),
        (lambda: bca(statistic, [1, 2, 3], 1, resamples=10), "too few"),
        (lambda: bca(statistic, [1, 2, 3], 1, level=1.0), "level"),
        (lambda: jackknife_t(statistic, [1.5, 2.0, 3.0], 1), "clusters"),
    ):
        with pytest.raises(ValueError, match=why):
            use()


def test_coverage_of_auroc_and_of_the_mean_in_short() -> None:
    """120 simulations, so the bound is 3.6 standard errors below 95 %."""
    for sample in (ranked, squared):
        low, high = covered(sample, value_of(sample), 60, 5, 120)
        assert low + high - 1 >= 0.88


@pytest.mark.slow
@pytest.mark.parametrize("sample", [ranked, squared], ids=["auroc", "mean"])
@pytest.mark.parametrize(("groups", "size", "least"), [(60, 5, 0.93), (12, 10, 0.92)])
def test_coverage_of_auroc_and_of_the_mean(
    sample: Callable[[np.random.Generator, int, int], Sample], groups: int, size: int, least: float
) -> None:
    low, high = covered(sample, value_of(sample), groups, size, 1_000)
    assert least <= round(low + high - 1, 6) <= 0.97


def test_ece_of_five_per_cent_is_seldom_called_less_in_short() -> None:
    assert covered(gapped, 0.05, 60, 5, 150, jackknife=True)[1] >= 0.93


@pytest.mark.slow
def test_ece_is_covered_by_the_jackknife_and_not_by_the_bootstrap() -> None:
    low, high = covered(gapped, 0.05, 60, 5, 1_000, jackknife=True)
    assert 0.95 <= low + high - 1 <= 0.995
    assert high >= 0.96
    assert covered(gapped, 0.05, 60, 5, 300)[1] <= 0.9


def test_ten_thousand_resamples_of_a_thousand_items_are_quick_and_small() -> None:
    rng = np.random.default_rng(11)
    positive = rng.random(1_000) < 0.4
    statistic = auroc_statistic(np.clip(0.3 * positive + 0.7 * rng.random(1_000), 0, 1), positive)
    labels = rng.integers(0, 300, 1_000)
    started = time.process_time()
    bca(statistic, labels, 1)
    assert time.process_time() - started < 3.0  # 0.3 s where it was measured; the budget is 1 s
    tracemalloc.start()
    bca(statistic, labels, 1, resamples=1_000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10e6
