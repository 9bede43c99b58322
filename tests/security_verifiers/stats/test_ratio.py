"""Ratio: one form for value, interval, difference and bounds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from security_verifiers.stats.proportions import wilson
from security_verifiers.stats.ratio import Ratio

ITEMS = st.lists(st.tuples(st.floats(-4, 2), st.sampled_from([0.0, 1.0, 2.0])), min_size=1, max_size=30)


def of(items: list[tuple[float, float]]) -> Ratio:
    above, below = (np.array(column) for column in zip(*items, strict=True))
    return Ratio.of(np.where(below > 0, above * below, 0.0), below)


@given(ITEMS)
def test_the_linearised_values_have_the_ratio_as_their_mean(items: list[tuple[float, float]]) -> None:
    ratio = of(items)
    if ratio.value is None:
        assert ratio.values is None
        assert ratio.estimate(np.arange(len(items))) is None
    else:
        assert ratio.values is not None
        assert ratio.values.mean() == pytest.approx(ratio.value, abs=1e-9)
        assert ratio.value == pytest.approx(ratio.numerator.sum() / ratio.denominator.sum())


@given(ITEMS, st.integers(0, 10), st.data())
def test_no_outcome_of_the_unmeasured_leaves_the_bounds(
    items: list[tuple[float, float]], n_ours: int, data: st.DataObject
) -> None:
    ratio = of(items)
    if ratio.value is None:
        return
    heaviest = ratio.denominator.max()
    bounds = ratio.bounds(n_ours, -4.0, 2.0)
    weights = np.array(data.draw(st.lists(st.floats(0, heaviest), min_size=n_ours, max_size=n_ours)))
    values = np.array(data.draw(st.lists(st.floats(-4, 2), min_size=n_ours, max_size=n_ours)))
    whole = (ratio.numerator.sum() + (weights * values).sum()) / (ratio.denominator.sum() + weights.sum())
    assert bounds.worst is not None
    assert bounds.best is not None
    assert bounds.worst - 1e-9 <= whole <= bounds.best + 1e-9


def test_bounds_by_hand() -> None:
    bounds = Ratio.of([1.0] * 96 + [0.0] * 2).bounds(2, 0.0, 1.0)
    assert (bounds.worst, bounds.best, bounds.n, bounds.n_ours) == (0.96, 0.98, 98, 2)
    assert Ratio.of([1.0, 0.0]).bounds(0, 0.0, 1.0).worst == 0.5
    nothing = Ratio.of([]).bounds(3, 0.0, 1.0)
    assert (nothing.measured, nothing.worst, nothing.best) == (None, 0.0, 1.0)
    assert Ratio.of([]).bounds(0, 0.0, 1.0).worst is None


def test_a_proportion_has_wilsons_interval_over_those_who_take_part() -> None:
    ratio = Ratio.of([1, 1, 0, 0, 0, 0], [1, 1, 1, 1, 0, 0])
    assert ratio.is_proportion
    estimate, plain = ratio.estimate(np.arange(6)), wilson(2, 4)
    assert estimate is not None
    assert (estimate.value, estimate.n) == (0.5, 4)
    assert estimate.lower == pytest.approx(plain.lower)
    assert estimate.upper == pytest.approx(plain.upper)
    assert not Ratio.of([0.25, 0.5]).is_proportion


@pytest.mark.parametrize(
    ("above", "below"), [([1.0], [0.0]), ([1.0], [-1.0]), ([1.0, 2.0], [1.0]), ([np.nan], [1.0])]
)
def test_misuse_is_refused(above: list[float], below: list[float]) -> None:
    with pytest.raises(ValueError, match=r"denominator|lengths|finite"):
        Ratio.of(above, below)
