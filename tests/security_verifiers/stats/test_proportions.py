"""Proportions against scipy, definitions written out again, and simulation."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from security_verifiers.stats.proportions import cluster_proportion, effective_trials, wilson

labelled = st.lists(st.tuples(st.booleans(), st.integers(0, 6)), min_size=1, max_size=60)


def beta_binomial(
    rng: np.random.Generator, p: float, correlation: float, sizes: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Hits whose clusters have each a rate of their own, drawn from a beta distribution, and their labels."""
    scale = (1 - correlation) / correlation
    labels = np.repeat(np.arange(len(sizes)), sizes)
    return rng.random(len(labels)) < rng.beta(p * scale, (1 - p) * scale, len(sizes))[labels], labels


def coverage(p: float, correlation: float, sizes: np.ndarray, simulations: int) -> float:
    rng, covered = np.random.default_rng(1), 0
    for _ in range(simulations):
        got = cluster_proportion(*beta_binomial(rng, p, correlation, sizes))
        assert got.lower is not None
        assert got.upper is not None
        covered += got.lower <= p <= got.upper
    return covered / simulations


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
    with pytest.raises(ValueError, match="level"):
        wilson(1, 2, 95)


@given(st.lists(st.booleans(), min_size=2, max_size=80), st.sampled_from([0.8, 0.95]))
def test_clusters_of_one_item_are_independent_trials(hits: list[bool], level: float) -> None:
    got, plain = cluster_proportion(hits, np.arange(len(hits)), level), wilson(sum(hits), len(hits), level)
    assert (got.value, got.lower, got.upper) == pytest.approx((plain.value, plain.lower, plain.upper))
    assert effective_trials(hits, np.arange(len(hits)), level) == pytest.approx(len(hits))


@given(labelled)
def test_interval_lies_in_the_unit_range_around_the_proportion(items: list[tuple[bool, int]]) -> None:
    hits, clusters = zip(*items, strict=True)
    got, effective = cluster_proportion(hits, clusters), effective_trials(hits, clusters)
    if len(set(clusters)) == 1:
        assert got.lower is got.upper is effective is None
        return
    assert got.lower is not None
    assert got.upper is not None
    assert effective is not None
    assert 0 <= got.lower <= got.value <= got.upper <= 1
    assert got.lower < got.upper
    assert 1 <= effective <= len(hits) + 1e-9


@given(labelled)
def test_hits_and_misses_are_mirror_images(items: list[tuple[bool, int]]) -> None:
    hits, clusters = (np.array(column) for column in zip(*items, strict=True))
    got, mirrored = cluster_proportion(hits, clusters), cluster_proportion(~hits, clusters)
    if got.lower is not None:
        assert mirrored.upper == pytest.approx(1 - got.lower)


def test_effective_trials_by_definition() -> None:
    sizes, misses = [3, 8, 20, 11, 9, 14, 2, 7], [0, 1, 0, 0, 6, 0, 1, 0]
    labels = np.repeat(np.arange(8), sizes)
    hits = np.concatenate([np.arange(size) >= missed for size, missed in zip(sizes, misses, strict=True)])
    groups, n, p = 8, len(hits), hits.mean()
    shifts = np.array([hits[labels != g].mean() for g in range(groups)]) - p
    deff = (groups - 1) / groups * (shifts**2).sum() / (p * (1 - p) / (n - 1))
    freedom = 2 * (shifts**2).sum() ** 2 / ((shifts**4).sum() - (shifts**2).sum() ** 2 / groups)
    assert freedom < groups - 1  # so that the data, not the cap, decide
    expected = n / deff * (stats.t.ppf(0.975, n - 1) / stats.t.ppf(0.975, freedom)) ** 2
    assert effective_trials(hits, labels) == pytest.approx(expected)
    z2, got = stats.norm.ppf(0.975) ** 2, cluster_proportion(hits, labels)
    for end in (got.lower, got.upper):  # Wilson: the ends lie z standard errors of their own away
        assert end is not None
        assert (p - end) ** 2 == pytest.approx(z2 * end * (1 - end) / expected)


def test_clusters_that_always_agree_count_once() -> None:
    labels = np.repeat(np.arange(12), 50)
    got = cluster_proportion(labels < 6, labels)
    assert effective_trials(labels < 6, labels) == pytest.approx(12)
    assert (got.lower, got.upper) == pytest.approx((wilson(6, 12).lower, wilson(6, 12).upper))


def test_trials_that_all_end_alike_count_one_for_each_cluster() -> None:
    labels = np.repeat(np.arange(12), 50)
    for hits in (np.zeros(600), np.ones(600)):
        got, plain = cluster_proportion(hits, labels), wilson(12 * int(hits[0]), 12)
        assert (got.lower, got.upper) == pytest.approx((plain.lower, plain.upper))


def test_edges_of_a_clustered_proportion() -> None:
    single = cluster_proportion([True, False, True], ["a", "a", "a"])
    assert (single.lower, single.upper, single.n, single.clusters) == (None, None, 3, 1)
    assert "single cluster" in single.method
    assert cluster_proportion([1], ["a"]).lower is None
    assert effective_trials([], []) is None
    with pytest.raises(ValueError, match="no trials"):
        cluster_proportion([], [])
    with pytest.raises(ValueError, match="True and False"):
        cluster_proportion([0.5, 1.0], [1, 2])
    with pytest.raises(ValueError, match="lengths"):
        cluster_proportion([1, 0], [1, 2, 3])
    with pytest.raises(ValueError, match="level"):
        cluster_proportion([1, 0], [1, 2], 1.0)


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_interval_covers_clustered_rates(p: float) -> None:
    # 600 runs: 0.95 is seen as 0.93 to 0.97 (two standard errors); a plain Wilson interval covers 0.6.
    assert 0.92 <= coverage(p, 0.2, np.full(40, 10), 600) <= 0.98


@pytest.mark.slow
@pytest.mark.parametrize("groups", [10, 20, 60])
@pytest.mark.parametrize("size", [5, 20, 100])
@pytest.mark.parametrize("correlation", [0.02, 0.3])
@pytest.mark.parametrize(("p", "least"), [(0.1, 0.89), (0.5, 0.93), (0.9, 0.89), (0.98, 0.84)])
def test_coverage_over_the_grid(groups: int, size: int, correlation: float, p: float, least: float) -> None:
    assert least <= coverage(p, correlation, np.full(groups, size), 2_000) <= 0.995


@pytest.mark.slow
def test_coverage_with_clusters_of_very_different_sizes() -> None:
    assert 0.88 <= coverage(0.9, 0.2, np.array([290] + [10] * 29), 2_000) <= 0.99
