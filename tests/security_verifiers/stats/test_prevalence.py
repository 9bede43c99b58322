"""Shifted precision, cost and corrected prevalence, against brute force and simulation."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from security_verifiers.stats.estimates import Estimate
from security_verifiers.stats.prevalence import Share, cost_at, rogan_gladen, shifted_precision
from security_verifiers.stats.proportions import cluster_proportion, effective_trials, wilson

rates = st.integers(1, 400).flatmap(lambda n: st.builds(wilson, st.integers(0, n), st.just(n)))
shares = st.integers(1, 400).flatmap(lambda n: st.builds(Share, st.integers(0, n), st.just(n)))
base_rates = st.floats(1e-4, 0.9999)


def holds(estimate: Estimate | None, truth: float) -> bool:
    assert estimate is not None
    assert estimate.lower is not None
    assert estimate.upper is not None
    return estimate.lower <= truth <= estimate.upper


@given(rates, rates, base_rates)
def test_precision_is_bayes_rule_inside_its_interval(recall: Estimate, fpr: Estimate, base: float) -> None:
    got = shifted_precision(recall, fpr, base)
    if recall.value == fpr.value == 0:
        assert got is None
        return
    assert got is not None
    called = base * recall.value + (1 - base) * fpr.value
    assert got.value == pytest.approx(base * recall.value / called)
    assert holds(replace(got, lower=got.lower - 1e-12, upper=got.upper + 1e-12), got.value)
    assert 0 <= got.lower < got.upper <= 1
    assert got.n == recall.n + fpr.n


def test_precision_on_the_test_set_itself_is_the_counted_one() -> None:
    got = shifted_precision(wilson(80, 100), wilson(30, 300), 0.25)
    assert got is not None
    assert got.value == pytest.approx(80 / 110)


def test_interval_solves_the_equation_it_stands_for() -> None:
    # A ratio R is an end where f - R r is as far from 0 as the two intervals allow together.
    recall, fpr, base = wilson(40, 50), wilson(6, 90), 0.02
    got = shifted_precision(recall, fpr, base)
    assert got is not None
    odds = (1 - base) / base
    for end, f_end, r_end in ((got.lower, fpr.upper, recall.lower), (got.upper, fpr.lower, recall.upper)):
        ratio = (1 / end - 1) / odds
        gap = fpr.value - ratio * recall.value
        assert gap**2 == pytest.approx((fpr.value - f_end) ** 2 + (ratio * (recall.value - r_end)) ** 2)


def test_edges_of_precision() -> None:
    perfect = shifted_precision(wilson(20, 20), wilson(0, 500), 0.001)
    assert perfect is not None
    assert perfect.value == perfect.upper == 1.0
    assert perfect.lower is not None
    assert perfect.lower < 0.2  # no false alarm among 500 says little at 1 in 1,000
    blind = shifted_precision(wilson(0, 20), wilson(3, 500), 0.1)
    assert blind is not None
    assert (blind.value, blind.lower) == (0.0, 0.0)
    assert shifted_precision(wilson(0, 5), wilson(0, 5), 0.1) is None
    single = cluster_proportion([1, 0], ["a", "a"])
    for pair in ((single, wilson(1, 9)), (wilson(1, 9), single)):
        got = shifted_precision(*pair, 0.1)
        assert got is not None
        assert (got.lower, got.upper) == (None, None)
        assert "single cluster" in got.method
    for base in (0.0, 1.0, -0.1, math.nan):
        with pytest.raises(ValueError, match="base rate"):
            shifted_precision(wilson(1, 2), wilson(1, 2), base)
    with pytest.raises(ValueError, match="interval"):
        shifted_precision(wilson(1, 2), Estimate(0.1, -0.2, 0.4, 9, None, ""), 0.1)


@given(rates, rates, base_rates, st.floats(0, 100))
def test_cost_is_the_weighted_sum_inside_its_interval(
    fnr: Estimate, fpr: Estimate, base: float, k: float
) -> None:
    got = cost_at(fnr, fpr, base, k)
    assert got.value == pytest.approx(k * base * fnr.value + (1 - base) * fpr.value)
    assert holds(got, got.value)


def test_edges_of_cost() -> None:
    free = cost_at(wilson(5, 9), wilson(1, 10), 0.2, 0)  # without a price, the misses add no noise either
    assert (free.value, free.lower) == pytest.approx((0.08, 0.8 * wilson(1, 10).lower))
    assert free.upper == pytest.approx(0.8 * wilson(1, 10).upper)
    assert cost_at(cluster_proportion([1, 0], ["a", "a"]), wilson(1, 10), 0.2, 5).lower is None
    for k in (-1, math.inf, math.nan):
        with pytest.raises(ValueError, match="k ="):
            cost_at(wilson(1, 2), wilson(1, 2), 0.5, k)
    with pytest.raises(ValueError, match="base rate"):
        cost_at(wilson(1, 2), wilson(1, 2), 1.0, 5)


@given(shares, shares, shares)
def test_corrected_share_lies_in_its_interval(apparent: Share, se: Share, sp: Share) -> None:
    got = rogan_gladen(apparent, se, sp)
    if se.value + sp.value - 1 <= 0:
        assert got is None
        return
    assert holds(got, got.value)
    assert 0 <= got.lower <= got.upper <= 1
    turned = rogan_gladen(Share(apparent.n - apparent.hits, apparent.n), sp, se)
    assert turned is not None
    assert turned.lower == pytest.approx(1 - got.upper, abs=1e-9)


@given(st.floats(0, 1), st.floats(0.6, 1), st.floats(0.6, 1))
def test_correction_undoes_what_the_judge_does(theta: float, se: float, sp: float) -> None:
    seen = theta * se + (1 - theta) * (1 - sp)
    got = rogan_gladen(Share(seen * 1e4, 1e4), Share(se * 1e4, 1e4), Share(sp * 1e4, 1e4))
    assert got is not None
    assert got.value == pytest.approx(theta, abs=1e-9)


def test_corrected_interval_by_its_definition() -> None:
    got = rogan_gladen(Share(110, 200), Share(45, 50), Share(40, 60), 0.9)
    z = 1.6448536269514722
    p, n = (110 + z**2 / 2) / (200 + z**2), 200 + z**2
    se, sp = 46 / 52, 41 / 62
    theta = (p + sp - 1) / (se + sp - 1)
    shift = 2 * z**2 * (theta * se * (1 - se) / 52 - (1 - theta) * sp * (1 - sp) / 62)
    variance = p * (1 - p) / n + theta**2 * se * (1 - se) / 52 + (1 - theta) ** 2 * sp * (1 - sp) / 62
    half = z * math.sqrt(variance) / (se + sp - 1)
    assert got is not None
    assert (got.lower, got.upper) == pytest.approx((theta + shift - half, theta + shift + half))
    assert got.n == 200


def test_edges_of_a_corrected_share() -> None:
    below = rogan_gladen(Share(1, 100), Share(90, 100), Share(90, 100))
    assert below is not None
    assert (below.value, below.lower) == (0.0, 0.0)
    assert "-0.1125 before it was cut" in below.method
    assert rogan_gladen(Share(1, 2), Share(1, 2), Share(1, 2)) is None
    barely = rogan_gladen(Share(5, 10), Share(1, 1), Share(1, 40))  # Se' + Sp' < 1
    assert barely is not None
    assert (barely.lower, barely.upper) == (0.0, 1.0)
    perfect = rogan_gladen(Share(3, 10), Share(10_000_000, 10_000_000), Share(10_000_000, 10_000_000))
    assert perfect is not None
    assert perfect.value == pytest.approx(0.3)
    assert perfect.lower == pytest.approx(wilson(3, 10).lower, abs=0.03)  # Agresti-Coull, its wider kin
    for wrong in (Share(0, 0), Share(3, 2), Share(-1, 2), Share(math.nan, 2), Share(1, math.inf)):
        with pytest.raises(ValueError, match="trials"):
            rogan_gladen(wrong, Share(9, 10), Share(9, 10))


def test_clustered_trials_widen_the_corrected_interval() -> None:
    labels, judge = np.repeat(np.arange(20), 10), (Share(90, 100), Share(80, 100))
    hits = labels % 3 == 0
    trials = effective_trials(hits, labels)
    assert trials is not None
    plain = rogan_gladen(Share(int(hits.sum()), 200), *judge)
    by_cluster = rogan_gladen(Share(hits.mean() * trials, trials), *judge)
    assert plain is not None
    assert by_cluster is not None
    assert by_cluster.value == pytest.approx(plain.value)
    assert by_cluster.upper - by_cluster.lower > 1.5 * (plain.upper - plain.lower)


def covered_precision(recall: float, fpr: float, n: int, base: float, runs: int) -> tuple[float, float]:
    rng = np.random.default_rng(1)
    precision = base * recall / (base * recall + (1 - base) * fpr)
    cost = 5 * base * (1 - recall) + (1 - base) * fpr
    hits = np.zeros(2)
    for found, alarms in zip(rng.binomial(n, recall, runs), rng.binomial(n, fpr, runs), strict=True):
        alarmed, missed = wilson(int(alarms), n), wilson(n - int(found), n)
        hits[0] += holds(shifted_precision(wilson(int(found), n), alarmed, base), precision)
        hits[1] += holds(cost_at(missed, alarmed, base, 5), cost)
    return tuple(hits / runs)


def covered_prevalence(theta: float, se: float, sp: float, n: int, m: int, runs: int) -> float:
    rng, hits = np.random.default_rng(2), 0
    seen = theta * se + (1 - theta) * (1 - sp)
    draws = zip(
        rng.binomial(n, seen, runs), rng.binomial(m, se, runs), rng.binomial(m, sp, runs), strict=True
    )
    for x, right, cleared in draws:
        hits += holds(rogan_gladen(Share(x, n), Share(right, m), Share(cleared, m)), theta)
    return hits / runs


def test_intervals_cover_the_truth() -> None:
    # 1,000 runs: two standard errors are 0.014.
    for covered in covered_precision(0.8, 0.05, 200, 0.01, 1_000):
        assert 0.93 <= covered <= 0.99
    assert 0.93 <= covered_prevalence(0.1, 0.9, 0.8, 300, 100, 1_000) <= 0.99


@pytest.mark.slow
@pytest.mark.parametrize("n", [50, 200, 1_000])
@pytest.mark.parametrize("fpr", [0.001, 0.01, 0.1])
@pytest.mark.parametrize("recall", [0.5, 0.8, 0.95])
def test_coverage_of_precision_and_cost_over_the_grid(recall: float, fpr: float, n: int) -> None:
    for base in (0.001, 0.1):
        precision, cost = covered_precision(recall, fpr, n, base, 2_000)
        assert 0.87 <= precision <= 1.0
        assert 0.90 <= cost <= 1.0


@pytest.mark.slow
@pytest.mark.parametrize("theta", [0.02, 0.1, 0.3, 0.6, 0.9])
@pytest.mark.parametrize(("n", "m"), [(50, 50), (200, 50), (1_000, 200), (1_000, 1_000)])
def test_coverage_of_the_corrected_share_over_the_grid(theta: float, n: int, m: int) -> None:
    for se in (0.7, 0.95):
        for sp in (0.7, 0.95):
            assert 0.925 <= covered_prevalence(theta, se, sp, n, m, 2_000) <= 0.995
