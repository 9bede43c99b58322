"""Means and ratios against scipy, statsmodels, and definitions written out again."""

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from security_verifiers.stats.arrays import cluster_sums
from security_verifiers.stats.estimates import cluster_mean, jackknife_se, linearised


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


ratios = st.lists(
    st.tuples(st.floats(-5, 5, width=32), st.floats(0.125, 4, width=32)), min_size=1, max_size=30
)


@given(ratios)
def test_linearised_values_average_to_the_ratio(parts: list[tuple[float, float]]) -> None:
    above, below = np.array(parts).T
    values = linearised(above, below)
    assert values is not None
    assert values.mean() == pytest.approx(above.sum() / below.sum(), abs=1e-9)


def test_linearised_values_carry_the_influence_of_each_item_on_the_ratio() -> None:
    rng = np.random.default_rng(6)
    above, below = rng.random(400), rng.choice([0.0, 1.0, 2.0], size=400)
    values, ratio = linearised(above, below), above.sum() / below.sum()
    assert values is not None
    for i in (0, 7, 399):  # the derivative by the item's weight, by finite difference
        weight = np.ones(400)
        weight[i] += 1e-6
        slope = ((weight * above).sum() / (weight * below).sum() - ratio) / 1e-6
        assert (values[i] - ratio) / 400 == pytest.approx(slope, rel=1e-3, abs=1e-9)


def test_linearised_values_give_the_error_that_leaving_out_clusters_gives() -> None:
    rng = np.random.default_rng(7)
    labels = np.repeat(np.arange(60), 10)
    below = (rng.random(600) < 0.4).astype(float)
    above = below * (rng.random(600) < 0.3 + 0.3 * (labels % 2))
    values = linearised(above, below)
    assert values is not None
    keep = [labels != g for g in range(60)]
    without = np.array([above[k].sum() / below[k].sum() for k in keep])
    direct = np.sqrt(59 / 60 * ((without - above.sum() / below.sum()) ** 2).sum())
    assert jackknife_se(cluster_sums(values, labels)) == pytest.approx(direct, rel=0.03)


def test_edges_of_linearised_values() -> None:
    values = np.random.default_rng(8).random(50)
    assert np.array_equal(linearised(values, np.ones(50)), values)
    assert linearised([], []) is None
    assert linearised([1.0, 2.0], [0.0, 0.0]) is None
    assert linearised([3.0], [2.0]) == pytest.approx([1.5])
    apart = linearised([1.0, 0.0, 0.0], [1.0, 0.0, 2.0])
    assert apart is not None
    assert apart[1] == 1 / 3  # an item without a part does not move the ratio
    assert linearised([1.0, 2.0], [0.5, 1.0]) == pytest.approx([2.0, 2.0])
    with pytest.raises(ValueError, match="lengths"):
        linearised([1.0], [1.0, 2.0])
    with pytest.raises(ValueError, match="denominator"):
        linearised([1.0], [np.nan])
