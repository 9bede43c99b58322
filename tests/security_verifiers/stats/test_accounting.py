"""Bounds hold whatever the lost rollouts would have been; invalid runs are called so."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from security_verifiers.stats.accounting import bounds, is_invalid, ours

REWARD = st.floats(-4, 1.5, allow_nan=False)


@given(values=st.lists(REWARD, max_size=30), lost=st.lists(REWARD, max_size=10))
def test_the_true_mean_lies_within_the_bounds(values: list[float], lost: list[float]) -> None:
    got = bounds(values, len(lost), -4, 1.5)
    everything = values + lost
    if not everything:
        assert got.worst is None
        return
    assert got.worst is not None
    assert got.best is not None
    assert got.worst - 1e-9 <= sum(everything) / len(everything) <= got.best + 1e-9
    assert got.best - got.worst == pytest.approx(5.5 * len(lost) / len(everything), abs=1e-9)


def test_without_lost_rollouts_the_bounds_are_the_mean() -> None:
    got = bounds([1.0, 0.0], 0, 0, 1)
    assert (got.worst, got.measured, got.best) == (0.5, 0.5, 0.5)


def test_only_lost_rollouts_leave_the_whole_range() -> None:
    got = bounds([], 3, -4, 1.5)
    assert (got.measured, got.worst, got.best) == (None, -4.0, 1.5)


@pytest.mark.parametrize(("values", "n_ours", "low"), [([2.0], 0, 0.0), ([0.5], -1, 0.0), ([0.5], 0, 2.0)])
def test_impossible_bounds_are_refused(values: list[float], n_ours: int, low: float) -> None:
    with pytest.raises(ValueError, match="range"):
        bounds(values, n_ours, low, 1.0)


def test_more_than_two_per_cent_of_our_own_failures_spoil_a_run() -> None:
    assert not is_invalid({"scored": 90, "parse_fail": 8, "grader_error": 1, "infra_error": 1})
    assert is_invalid({"scored": 97, "grader_error": 1, "infra_error": 2})
    assert not is_invalid({"parse_fail": 50, "refused": 50})
    assert is_invalid({})
    assert is_invalid({"scored": 0})


def test_counts_must_be_of_outcomes() -> None:
    with pytest.raises(ValueError, match="lost"):
        ours({"scored": 1, "lost": 1})
    with pytest.raises(ValueError, match="negative"):
        ours({"scored": -1})
