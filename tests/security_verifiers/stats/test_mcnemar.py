"""McNemar's test against statsmodels, evalsig and simulation."""

import numpy as np
import pytest
from evalsig.inference.mcnemar import mcnemar_test
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar as by_statsmodels

from security_verifiers.stats.mcnemar import mcnemar

runs = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=80)


@given(runs)
def test_agrees_with_statsmodels_and_evalsig(pairs: list[tuple[bool, bool]]) -> None:
    base, candidate = np.array(pairs).T
    got = mcnemar(base, candidate)
    table = [[int(((base == a) & (candidate == b)).sum()) for b in (True, False)] for a in (True, False)]
    assert (got.lost, got.gained, got.n) == (table[0][1], table[1][0], len(pairs))
    assert got.p_value == pytest.approx(by_statsmodels(table, exact=True).pvalue)
    other = mcnemar_test(base, candidate, exact_threshold=10_000)
    assert (got.lost, got.gained) == (other.b_wins, other.c_wins)
    assert got.p_value == pytest.approx(other.p_value)


@given(st.integers(0, 200), st.integers(0, 200), st.integers(0, 3))
def test_mid_p_takes_off_half_of_the_tables_seen_from_both_ends(gained: int, lost: int, same: int) -> None:
    n = gained + lost + same + 1
    candidate = np.arange(n) < gained
    base = (np.arange(n) >= gained) & (np.arange(n) < gained + lost)
    got = mcnemar(base, candidate)
    changed = stats.binom(gained + lost, 0.5)
    if gained == lost:
        assert got.mid_p == pytest.approx(1.0)
    else:
        assert got.mid_p == pytest.approx(got.p_value - changed.pmf(min(gained, lost)))
    assert 0 <= got.mid_p <= got.p_value <= 1


@given(runs)
def test_turning_the_runs_round_swaps_gained_and_lost(pairs: list[tuple[bool, bool]]) -> None:
    base, candidate = np.array(pairs).T
    there, back = mcnemar(base, candidate), mcnemar(candidate, base)
    assert (there.gained, there.lost, there.p_value) == (back.lost, back.gained, back.p_value)


def test_edges() -> None:
    same = mcnemar([1, 0, 1], [1, 0, 1])
    assert (same.gained, same.lost, same.p_value, same.mid_p) == pytest.approx((0, 0, 1.0, 1.0))
    one = mcnemar([False], [True])
    assert (one.gained, one.p_value, one.mid_p) == pytest.approx((1, 1.0, 0.5))
    assert mcnemar(np.zeros(6), np.ones(6)).p_value == pytest.approx(2 / 64)
    with pytest.raises(ValueError, match="no pairs"):
        mcnemar([], [])
    with pytest.raises(ValueError, match="lengths"):
        mcnemar([True], [True, False])
    with pytest.raises(ValueError, match="candidate"):
        mcnemar([1, 0], [0.5, 0])


def test_clusters_break_it() -> None:
    # The claim of the docstring: five items that change together count five times.
    rng, alarms = np.random.default_rng(1), 0
    for _ in range(500):
        base, candidate = (np.repeat(rng.random(40) < 0.7, 5) for _ in range(2))
        alarms += mcnemar(base, candidate).p_value < 0.05
    assert alarms / 500 > 0.2
