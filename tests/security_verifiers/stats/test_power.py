"""Power against the non-central t, statsmodels and simulation."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.power import TTestPower

from security_verifiers.stats.power import minimum_detectable, needed, power_of, repetitions


@pytest.mark.parametrize(("df", "level"), [(3, 0.95), (31, 0.9), (999, 0.95), (29.5, 0.99)])
def test_minimum_detectable_is_the_two_quantiles(df: float, level: float) -> None:
    expected = 0.02 * (stats.t.ppf(1 - (1 - level) / 2, df) + stats.t.ppf(0.8, df))
    assert minimum_detectable(0.02, df, level=level) == pytest.approx(expected)


@pytest.mark.parametrize(("df", "slack"), [(9, 0.025), (30, 0.008), (1000, 0.0005)])
def test_a_detectable_shift_has_about_its_power(df: int, slack: float) -> None:
    for power in (0.5, 0.8, 0.95):
        shift = minimum_detectable(0.7, df, power=power)
        assert power_of(0.7, df, shift) == pytest.approx(power, abs=slack)


@pytest.mark.parametrize("n", [4, 10, 100, 3000])
@pytest.mark.parametrize("effect", [-0.1, 0.0, 0.05, 0.3, 1.0])
def test_power_is_that_of_statsmodels(n: int, effect: float) -> None:
    expected = TTestPower().power(effect, n, alpha=0.025, alternative="larger")
    assert power_of(1 / math.sqrt(n), n - 1, effect) == pytest.approx(expected, abs=1e-9)


def test_power_is_what_a_simulated_t_test_does() -> None:
    rng, n = np.random.default_rng(3), 8
    values = rng.normal(0.9, 1.0, size=(20_000, n))
    t = values.mean(axis=1) / (values.std(axis=1, ddof=1) / math.sqrt(n))
    found = float(np.mean(t > stats.t.ppf(0.975, n - 1)))
    assert power_of(1 / math.sqrt(n), n - 1, 0.9) == pytest.approx(found, abs=4 * 0.5 / math.sqrt(20_000))


@pytest.mark.parametrize("effect", [0.04, 0.2, 0.6])
@pytest.mark.parametrize("n", [5, 60, 4000])
def test_needed_is_the_sample_size_of_statsmodels(effect: float, n: int) -> None:
    exact = TTestPower().solve_power(effect, power=0.8, alpha=0.025, alternative="larger")
    assert needed(n, 1 / math.sqrt(n), n - 1, effect) == math.ceil(exact)


@given(
    n=st.integers(1, 5000),
    share=st.floats(0.01, 1),
    ratio=st.floats(0.01, 50),
    power=st.floats(0.05, 0.99),
)
@settings(max_examples=80, deadline=None)
def test_needed_is_enough_and_one_less_is_not(n: int, share: float, ratio: float, power: float) -> None:
    groups = max(2, round(n * share))

    def reached(pairs: int) -> bool:
        growth = pairs / n
        return power_of(ratio / math.sqrt(growth), groups * growth - 1, 1.0) >= power

    found = needed(n, ratio, groups - 1, 1.0, power=power)
    assert reached(found)
    least = math.ceil(2 * n / groups)
    assert found >= least
    assert found == least or not reached(found - 1)


def test_more_clusters_are_asked_for_where_the_cluster_counts() -> None:
    assert needed(100, 0.1, 9, 0.1) > needed(100, 0.1, 99, 0.1)


def test_without_an_error_any_shift_is_seen() -> None:
    assert minimum_detectable(0.0, 5) == 0.0
    assert [power_of(0.0, 5, shift) for shift in (0.1, 0.0, -0.1)] == [1.0, 0.0, 0.0]
    assert power_of(1e-300, 5, -1e100) == 0.0
    assert needed(40, 0.0, 9, 0.1) == 8
    assert power_of(1.0, 20, 0.0) == pytest.approx(0.025)


@pytest.mark.parametrize(
    ("se", "df", "level"),
    [(-1.0, 5, 0.95), (math.inf, 5, 0.95), (math.nan, 5, 0.95), (1.0, 0, 0.95), (1, 5, 1)],
)
def test_bad_errors_are_refused(se: float, df: float, level: float) -> None:
    with pytest.raises(ValueError, match=r"standard error|level"):
        minimum_detectable(se, df, level=level)
    with pytest.raises(ValueError, match=r"standard error|level"):
        power_of(se, df, 0.1, level=level)


def test_bad_questions_are_refused() -> None:
    with pytest.raises(ValueError, match="power"):
        minimum_detectable(1.0, 5, power=1.0)
    with pytest.raises(ValueError, match="power"):
        needed(10, 1.0, 9, 0.1, power=0.0)
    with pytest.raises(ValueError, match="no number"):
        needed(10, 1.0, 9, 0.0)
    with pytest.raises(ValueError, match="no number"):
        needed(0, 1.0, 9, 0.1)
    with pytest.raises(ValueError, match="distance"):
        power_of(1.0, 5, math.nan)


@pytest.mark.parametrize("df", [1, 2, 20, 1000])
def test_power_is_defined_and_smooth_far_out(df: int) -> None:
    below, above = power_of(1.0, df, 29.999, level=0.99), power_of(1.0, df, 30.001, level=0.99)
    assert above == pytest.approx(below, abs=1e-4)
    far = [power_of(1.0, df, distance, level=0.99) for distance in (31, 39, 45, 60, 1e4, 1e200)]
    assert far == sorted(far)
    assert far[-1] == pytest.approx(1.0)
    assert needed(3, 0.001, 2, 1.0, power=0.96) <= 9


# Repetitions ----------------------------------------------------------------------------------------------

COVARIANCE = np.array([[1.0, 0.6, -0.2], [0.6, 4.0, 0.0], [-0.2, 0.0, 0.25]])


@pytest.mark.parametrize("df", [2, 3, 40])
def test_repetitions_have_the_covariance_and_the_variances(df: int) -> None:
    errors, variances = repetitions(COVARIANCE, np.zeros(3), df, 40_000, np.random.default_rng(1))
    if df >= 3:  # with fewer degrees of freedom than metrics an estimate has no full rank
        assert np.cov(errors.T) == pytest.approx(COVARIANCE, abs=0.1)
    else:
        assert np.linalg.matrix_rank(np.cov(errors.T), tol=1e-9) == df
        return
    assert variances.mean(axis=0) == pytest.approx(np.diag(COVARIANCE), rel=0.03)


@pytest.mark.parametrize(("groups", "centre"), [(4, 1.0), (4, 3.0), (10, 1.5), (10, 3.0)])
def test_power_from_repetitions_is_right_on_average_where_clusters_are_few(
    groups: int, centre: float
) -> None:
    rng, rates, plain = np.random.default_rng(2), [], []
    critical = stats.t.ppf(0.975, groups - 2)
    for _ in range(2_500):
        values = rng.normal(size=groups)
        se = values.std(ddof=1)
        errors, variances = repetitions(np.array([[se**2]]), np.zeros(1), groups - 1, 50, rng)
        rates.append(np.mean(errors + centre > critical * np.sqrt(variances)))
        plain.append(power_of(se, groups - 2, centre))
    exact = power_of(1.0, groups - 2, centre)
    assert np.mean(rates) == pytest.approx(exact, abs=0.02)
    if centre < 2:
        assert np.mean(plain) > exact + 0.02


def test_skewed_repetitions_are_those_of_a_skewed_sample() -> None:
    rng, n = np.random.default_rng(3), 50
    samples = rng.exponential(size=(40_000, n))
    errors, variances = repetitions(np.array([[1 / n]]), np.array([2 / n**0.5]), n - 1, 40_000, rng)
    means, spread = samples.mean(axis=1) - 1, samples.var(axis=1, ddof=1) / n
    assert stats.skew(errors[:, 0]) == pytest.approx(stats.skew(means), abs=0.06)
    ours, theirs = errors[:, 0] / np.sqrt(variances[:, 0]), means / np.sqrt(spread)
    for t in (-2.0, 2.0):
        normal = stats.t.cdf(t, n - 1)
        assert abs(np.mean(ours < t) - np.mean(theirs < t)) < 0.4 * abs(normal - np.mean(theirs < t))


def test_repetitions_without_any_spread() -> None:
    errors, variances = repetitions(np.zeros((2, 2)), np.zeros(2), 5, 10, np.random.default_rng(4))
    assert not errors.any()
    assert not variances.any()
    with pytest.raises(ValueError, match="leave none"):
        repetitions(np.zeros((2, 2)), np.zeros(2), 1, 10, np.random.default_rng(4))
