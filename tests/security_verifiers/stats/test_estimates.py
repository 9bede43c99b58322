"""Means and proportions against scipy, statsmodels, and definitions written out again."""

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from security_verifiers.stats.arrays import cluster_sums
from security_verifiers.stats.estimates import cluster_mean, jackknife_se, wilson


def correlated(rng: np.random.Generator, sizes: np.ndarray, icc: float) -> tuple[np.ndarray, np.ndarray]:
    """Values with mean 0, variance 1 and the given intra-cluster correlation, and their cluster labels."""
    labels = np.repeat(np.arange(len(sizes)), sizes)
    shared = rng.standard_normal(len(sizes))[labels]
    return np.sqrt(icc) * shared + np.sqrt(1 - icc) * rng.standard_normal(len(labels)), labels


def test_clusters_of_one_size_agree_with_statsmodels() -> None:
    values, labels = correlated(np.random.default_rng(1), np.full(12, 7), 0.4)
    fit = sm.OLS(values, np.ones(len(values))).fit(
        cov_type="cluster", cov_kwds={"groups": labels, "df_correction": True}, use_t=True
    )
    got = cluster_mean(values, labels)
    assert (got.lower, got.upper) == pytest.approx(tuple(fit.conf_int(0.05)[0]), rel=1e-12)
    assert got.value == pytest.approx(fit.params[0])


def test_unequal_clusters_agree_with_leaving_each_one_out() -> None:
    values, labels = correlated(np.random.default_rng(2), np.array([1, 2, 3, 50, 4]), 0.4)
    without = np.array([values[labels != g].mean() for g in range(5)])
    by_definition = np.sqrt(4 / 5 * ((without - values.mean()) ** 2).sum())
    assert jackknife_se(cluster_sums(values, labels)) == pytest.approx(by_definition)


def test_clusters_of_one_item_give_the_ordinary_t_interval() -> None:
    values = np.random.default_rng(3).exponential(size=23)
    expected = stats.ttest_1samp(values, 0.0).confidence_interval(0.9)
    got = cluster_mean(values, [f"item-{i}" for i in range(23)], level=0.9)
    assert (got.lower, got.upper) == pytest.approx((expected.low, expected.high))
    assert (got.n, got.clusters) == (23, 23)


@pytest.mark.parametrize("sizes", [np.full(30, 10), np.array([60] + [10] * 29)], ids=["even", "one large"])
def test_interval_covers_the_truth_as_often_as_it_says(sizes: np.ndarray) -> None:
    rng = np.random.default_rng(4)
    hits = 0
    for _ in range(2_000):
        got = cluster_mean(*correlated(rng, sizes, 0.3))
        assert got.lower is not None
        assert got.upper is not None
        hits += got.lower <= 0.0 <= got.upper
    assert 0.93 <= hits / 2_000 <= 0.97


def test_a_cluster_holding_half_of_the_items_does_not_make_the_interval_too_narrow() -> None:
    rng, hits = np.random.default_rng(5), 0
    for _ in range(1_000):
        got = cluster_mean(*correlated(rng, np.array([290] + [10] * 29), 0.3))
        hits += got.lower is not None and got.upper is not None and got.lower <= 0.0 <= got.upper
    assert hits / 1_000 > 0.9  # CR1 covers 0.72 here


def test_edges_of_a_mean() -> None:
    with pytest.raises(ValueError, match="no mean"):
        cluster_mean([], [])
    single = cluster_mean([1.0, 3.0], ["a", "a"])
    assert (single.value, single.lower, single.upper, single.clusters) == (2.0, None, None, 1)
    assert "single cluster" in single.method
    equal = cluster_mean([0.5] * 4, [1, 1, 2, 3])
    assert (equal.lower, equal.upper) == (0.5, 0.5)


@pytest.mark.parametrize(
    ("values", "clusters"),
    [([1.0, np.nan], [1, 2]), ([1.0], [1, 2]), ([[1.0]], [1]), ([1.0, 2.0], [None, "a"]), ([1.0], [0.5])],
)
def test_malformed_arrays_are_refused(values: list[float], clusters: list[object]) -> None:
    with pytest.raises(ValueError, match=r"finite|lengths|dimensional"):
        cluster_mean(values, clusters)  # type: ignore[arg-type]


def test_level_outside_its_range_is_refused() -> None:
    with pytest.raises(ValueError, match="level"):
        cluster_mean([1.0, 2.0], [1, 2], level=95)


@given(n=st.integers(1, 500), data=st.data(), level=st.sampled_from([0.8, 0.95, 0.99]))
def test_wilson_agrees_with_scipy_and_holds_the_proportion(n: int, data: st.DataObject, level: float) -> None:
    successes = data.draw(st.integers(0, n))
    got = wilson(successes, n, level)
    expected = stats.binomtest(successes, n).proportion_ci(level, method="wilson")
    assert (got.lower, got.upper) == pytest.approx((expected.low, expected.high), abs=1e-12)
    assert got.lower is not None
    assert got.upper is not None
    assert 0 <= got.lower <= got.value <= got.upper <= 1


def test_edges_of_a_proportion() -> None:
    for successes, n in ((3, 2), (-1, 2), (0, 0)):
        with pytest.raises(ValueError, match="successes"):
            wilson(successes, n)
