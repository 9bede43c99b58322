"""Brier's parts, log loss, ECE and its null band against scikit-learn, loops and simulation."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from security_verifiers.stats import calibration as cal
from security_verifiers.stats.bootstrap import plain

UNIT = st.floats(0, 1).map(lambda p: round(p, 3))
ITEMS = st.lists(st.tuples(UNIT, st.booleans()), min_size=1, max_size=60)


def arrays(items: list[tuple[float, bool]]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([p for p, _ in items]), np.array([o for _, o in items])


def plain_ece(confidence: np.ndarray, correct: np.ndarray, bins: int = 10) -> float:
    """The ECE as most papers compute it: equal-mass bins, nothing taken off."""
    chunks = np.array_split(np.argsort(confidence), bins)
    gaps = [abs(correct[i].mean() - confidence[i].mean()) * len(i) for i in chunks]
    return float(np.sum(gaps) / len(confidence))


@given(ITEMS, st.integers(1, 15))
def test_the_parts_add_up_to_the_brier_score(items: list[tuple[float, bool]], bins: int) -> None:
    p, outcome = arrays(items)
    parts = cal.brier_parts(p, outcome, bins)
    assert parts is not None
    total = parts.reliability - parts.resolution + parts.uncertainty + parts.within
    assert total == pytest.approx(np.mean((p - outcome) ** 2), abs=1e-12)
    assert -1e-12 <= parts.resolution <= parts.uncertainty + 1e-12
    if len(np.unique(p)) <= bins:
        assert parts.within == pytest.approx(0.0, abs=1e-12)


def test_parts_by_hand() -> None:
    parts = cal.brier_parts([0.2, 0.2, 0.8, 0.8], [0, 1, 1, 1])
    assert parts is not None
    assert parts.reliability == pytest.approx((0.3**2 + 0.2**2) / 2)
    assert parts.resolution == pytest.approx(0.25**2)
    assert parts.uncertainty == pytest.approx(0.75 * 0.25)
    one_bin = cal.brier_parts([0.2, 0.2, 0.8, 0.8], [0, 1, 1, 1], bins=1)
    assert one_bin is not None
    assert (one_bin.resolution, one_bin.reliability) == (0.0, pytest.approx(0.25**2))
    assert one_bin.within == pytest.approx(0.09 - 2 * 0.3 * 0.25)


def test_resolution_null_is_that_of_permuting_the_outcomes() -> None:
    rng = np.random.default_rng(2)
    p, outcome = rng.choice([0.1, 0.3, 0.6, 0.9], 80), rng.random(80) < 0.3
    shuffled = [cal.brier_parts(p, rng.permutation(outcome)) for _ in range(3_000)]
    expected = np.quantile([parts.resolution for parts in shuffled if parts], 0.95)
    assert cal.resolution_null(p, outcome, 3, permutations=20_000) == pytest.approx(expected, rel=0.07)
    assert cal.resolution_null([0.5, 0.5], [True, False], 1) == 0.0
    assert cal.resolution_null([0.5, 0.6], [True, True], 1) == 0.0


def test_ece_of_a_constant_by_hand() -> None:
    """One bin, 70 of 100 right at confidence 0.9: the gap 0.2 is 6.7 standard errors, so hardly any bias."""
    correct = np.arange(100) < 70
    assert cal.ece(np.full(100, 0.9), correct) == pytest.approx(0.2, abs=1e-9)
    assert cal.ece(np.full(100, 1.0), np.zeros(100)) == pytest.approx(1.0)
    assert cal.ece([1.0], [True]) == 0.0


def test_ece_bias_term_agrees_with_simulation() -> None:
    rng = np.random.default_rng(1)
    gaps, sigmas = np.array([0.0, 0.01, 0.05, 0.2]), np.array([0.05, 0.05, 0.05, 0.0])
    simulated = np.abs(gaps + sigmas * rng.standard_normal((400_000, 4))).mean(axis=0)
    assert cal._folded_normal_mean(gaps, sigmas) == pytest.approx(simulated, abs=3e-4)


def test_ece_does_not_depend_on_the_order_of_tied_items() -> None:
    rng = np.random.default_rng(2)
    confidence = rng.choice([0.6, 0.8, 0.9, 0.95], size=300)
    correct = rng.random(300) < confidence - 0.1
    order = rng.permutation(300)
    assert cal.ece(confidence, correct) == pytest.approx(
        cal.ece(confidence[order], correct[order]), abs=1e-12
    )


@given(st.lists(st.sampled_from([0.0, 0.5, 0.7, 0.9, 1.0]), min_size=1, max_size=60), st.integers(1, 15))
@settings(max_examples=60)
def test_bins_never_split_ties_and_are_never_empty(values: list[float], bins: int) -> None:
    codes = cal._equal_mass(np.array(values), bins)
    assert set(codes) == set(range(codes.max() + 1))
    assert codes.max() < bins
    for value in set(values):
        assert len({c for c, v in zip(codes, values, strict=True) if v == value}) == 1


def test_bins_hold_equally_many_distinct_values() -> None:
    codes = cal._equal_mass(np.random.default_rng(4).permutation(30) / 30, 3)
    assert np.bincount(codes).tolist() == [10, 10, 10]


@pytest.mark.parametrize(("shift", "low", "high"), [(0.0, 0.0, 0.05), (0.15, 0.12, 0.17)])
def test_ece_is_closer_to_the_truth_than_the_plain_estimate(shift: float, low: float, high: float) -> None:
    rng, ours, plainly = np.random.default_rng(3), [], []
    for _ in range(300):
        confidence = rng.uniform(0.6, 1.0, 150)
        correct = rng.random(150) < confidence - shift
        ours.append(cal.ece(confidence, correct))
        plainly.append(plain_ece(confidence, correct))
    assert low <= np.mean(ours) <= high
    assert abs(np.mean(ours) - shift) < abs(np.mean(plainly) - shift)


def test_weighted_ece_keeps_its_bins_and_counts_copies() -> None:
    """One bin is full at any weights, so it must equal the ECE of the items repeated."""
    rng = np.random.default_rng(5)
    confidence, weights = rng.random(40), rng.integers(0, 4, 40)
    correct = rng.random(40) < confidence
    got = cal.ece_statistic(confidence, correct, 1)(weights[None, :].astype(float))[0]
    assert got == pytest.approx(cal.ece(np.repeat(confidence, weights), np.repeat(correct, weights), 1))
    half = np.arange(40) < 20
    split = cal.ece_statistic(np.where(half, 0.2, 0.9), correct, 2)
    only = split(half[None, :].astype(float))[0]
    assert only == pytest.approx(cal.ece(np.full(20, 0.2), correct[:20], 1))


def test_items_without_a_confidence_stay_out_of_the_ece() -> None:
    rng = np.random.default_rng(6)
    confidence = rng.random(100)
    correct, stated = rng.random(100) < confidence, rng.random(100) < 0.7
    expected = cal.ece(confidence[stated], correct[stated])
    assert plain(cal.ece_statistic(np.where(stated, confidence, np.nan), correct), 100) == expected
    assert plain(cal.ece_statistic([np.nan], [False]), 1) is None
    assert np.isnan(cal.ece_statistic([0.5], [True])(np.zeros((1, 1))))[0]


@pytest.mark.parametrize("ties", [False, True])
def test_null_band_is_that_of_a_perfect_predictor(ties: bool) -> None:
    rng = np.random.default_rng(7)
    confidence = rng.choice([0.6, 0.8, 0.95], 120) if ties else rng.uniform(0.5, 1, 120)
    simulated = [cal.ece(confidence, rng.random(120) < confidence) for _ in range(1_500)]
    band = cal.ece_null_band(confidence, 8, draws=4_000)
    assert band == pytest.approx(tuple(np.quantile(simulated, (0.025, 0.975))), abs=0.008)
    assert cal.ece_null_band([1.0, 1.0], 1) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("lowest", "n", "fails"), [(0.85, 32, 1.0), (0.85, 100, 0.78), (0.5, 32, 1.0), (0.5, 100, 0.99)]
)
def test_a_perfect_predictor_fails_a_plain_five_per_cent_rule(lowest: float, n: int, fails: float) -> None:
    """Why no such rule is used: with 10 equal-mass bins and confidences even in [lowest, 1]."""
    rng = np.random.default_rng(9)
    draws = [(c, rng.random(n) < c) for c in rng.uniform(lowest, 1, (1_000, n))]
    assert np.mean([plain_ece(c, right) >= 0.05 for c, right in draws]) == pytest.approx(fails, abs=0.04)


def verdict(gap: float, seed: int, n: int = 3_000, constant: bool = False) -> cal.Calibration:
    rng = np.random.default_rng(seed)
    confidence = np.full(n, 0.8) if constant else rng.choice([0.7, 0.9, 0.99], n)
    correct = rng.random(n) < confidence - gap
    got = cal.calibration(confidence, correct, np.arange(n) // 10, seed)
    assert got is not None
    return got


def test_verdict() -> None:
    assert verdict(0.0, 1).calibrated is True
    assert verdict(0.1, 1).calibrated is False
    unsure = verdict(0.0, 1, 150)
    assert unsure.ece.upper is not None
    assert unsure.ece.value < cal.CALIBRATED_BELOW < unsure.ece.upper
    assert unsure.parts.resolution > unsure.resolution_null
    assert unsure.calibrated is False
    flat = verdict(0.0, 1, constant=True)
    assert flat.ece.upper is not None
    assert flat.ece.upper < cal.CALIBRATED_BELOW
    assert (flat.calibrated, flat.parts.resolution, flat.resolution_null) == (False, 0.0, 0.0)
    alone = cal.calibration([0.9, 0.8], [True, True], ["a", "a"], 1)
    assert alone is not None
    assert (alone.calibrated, alone.ece.lower) == (None, None)
    assert cal.calibration([], [], [], 1) is None
    assert verdict(0.0, 2, 200) == verdict(0.0, 2, 200)


def test_empty_sets_have_no_number_and_misuse_is_refused() -> None:
    for nothing in (
        cal.brier_parts([], []),
        cal.ece([], []),
        cal.ece_null_band([], 1),
        cal.resolution_null([], [], 1),
    ):
        assert nothing is None
    assert cal.distinct([]) == 0
    assert cal.distinct([0.9, 0.9, 0.5]) == 2
    for bad in ([0.5, np.nan], [1.1, 0.0], [-0.1, 0.0]):
        for use in (
            lambda bad=bad: cal.brier_parts(bad, [1, 0]),
            lambda bad=bad: cal.ece(bad, [1, 0]),
            lambda bad=bad: cal.distinct(bad),
        ):
            with pytest.raises(ValueError, match=r"finite|outside"):
                use()
    for use, why in (
        (lambda: cal.ece([0.5], [True], 0), "bins"),
        (lambda: cal.brier_parts([0.5], [True], 0), "bins"),
        (lambda: cal.ece_null_band([0.5], 1, draws=5), "draws"),
        (lambda: cal.resolution_null([0.5], [True], 1, permutations=5), "permutations"),
    ):
        with pytest.raises(ValueError, match=why):
            use()
