"""Masses are those of the draws, and sum to 1 over what can be displayed."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from sv_env_network_logs.render import round_seconds
from sv_env_network_logs.synth.laws import MSS, Amount, Fixed, Law, Multiple, draw, mass

amounts = st.builds(
    Amount,
    median=st.floats(1, 300),
    spread=st.floats(0.3, 3),
    pulls=st.fixed_dictionaries({"orig_pkts": st.floats(-0.9, 0.9)}),
    low=st.integers(1, 20),
    high=st.integers(21, 400),
)
PARENT: Law = Amount(6, 0.7, {}, 1, 60)


@settings(max_examples=50)
@given(amounts, st.integers(1, 60))
def test_count_masses_sum_to_one(law: Amount, parent: int) -> None:
    values = np.arange(1.0, 402.0)
    numbers = {"orig_pkts": np.full(len(values), float(parent)), "resp_pkts": values}
    masses = mass("resp_pkts", {"orig_pkts": PARENT, "resp_pkts": law}, numbers)
    assert masses.sum() == pytest.approx(1, abs=1e-9)
    assert not masses[(values < law.low) | (values > law.high)].any()


@given(st.floats(0.01, 500), st.floats(0.1, 2.5))
def test_duration_masses_sum_to_one_over_the_displayed_grid(median: float, spread: float) -> None:
    law = Amount(median, spread, {}, 0.001, 1000)
    grid = {
        round_seconds(digits * 10.0**exponent) for exponent in range(-5, 2) for digits in range(100, 1000)
    }
    values = np.array(sorted(value for value in grid | {1000.0} if 0.001 <= value <= 1000))
    assert mass("duration", {"duration": law}, {"duration": values}).sum() == pytest.approx(1, abs=1e-9)


@settings(max_examples=50)
@given(amounts, st.integers(0, 2**32))
def test_drawn_values_are_in_range_and_possible(law: Amount, seed: int) -> None:
    rng = np.random.default_rng(seed)
    laws = {"orig_pkts": PARENT, "resp_pkts": law}
    numbers = {"orig_pkts": draw("orig_pkts", laws, {}, 200, rng)}
    numbers["resp_pkts"] = draw("resp_pkts", laws, numbers, 200, rng)
    assert ((numbers["resp_pkts"] >= law.low) & (numbers["resp_pkts"] <= law.high)).all()
    assert (mass("resp_pkts", laws, numbers) > 0).all()


@pytest.mark.parametrize("field", ["resp_pkts", "duration"])
def test_draws_have_their_masses(field: str) -> None:
    law = (
        Amount(4, 0.8, {"orig_pkts": -0.6}, 1, 12)
        if field == "resp_pkts"
        else Amount(0.02, 0.15, {}, 0.01, 0.03)
    )
    laws, n = {"orig_pkts": PARENT, field: law}, 60_000
    numbers = {"orig_pkts": np.full(n, 9.0)}
    numbers[field] = draw(field, laws, numbers, n, np.random.default_rng(1))
    values, counts = np.unique(numbers[field], return_counts=True)
    expected = n * mass(field, laws, {"orig_pkts": np.full(len(values), 9.0), field: values})
    often = expected > 10
    pooled = [*counts[often], counts[~often].sum()], [*expected[often], n - expected[often].sum()]
    assert chisquare(*pooled).pvalue > 1e-4


def test_a_payload_fits_into_its_packets() -> None:
    law = Amount(1e5, 2, {}, 10, 1e7, per_packet=MSS)
    numbers = {"orig_pkts": np.array([1.0, 3.0, 1000.0] * 500), "resp_pkts": np.full(1500, 1.0)}
    drawn = draw("orig_bytes", {"orig_bytes": law}, numbers, 1500, np.random.default_rng(2))
    assert (drawn <= MSS * numbers["orig_pkts"]).all()
    assert (drawn[numbers["orig_pkts"] == 1] > 1000).any()
    too_much = {"orig_pkts": np.array([1.0]), "orig_bytes": np.array([1461.0])}
    assert mass("orig_bytes", {"orig_bytes": law}, too_much)[0] == 0


def test_pulls_move_the_draws() -> None:
    for pull, sign in ((0.9, 1), (-0.9, -1)):
        laws = {"orig_pkts": PARENT, "resp_pkts": Amount(50, 0.7, {"orig_pkts": pull}, 1, 2000)}
        rng = np.random.default_rng(3)
        numbers = {"orig_pkts": draw("orig_pkts", laws, {}, 5000, rng)}
        drawn = draw("resp_pkts", laws, numbers, 5000, rng)
        correlation = np.corrcoef(np.log(numbers["orig_pkts"]), np.log(drawn))[0, 1]
        assert sign * correlation > 0.8


def test_fixed_and_multiple() -> None:
    laws = {"orig_pkts": PARENT, "orig_bytes": Multiple("orig_pkts", 48), "resp_bytes": Fixed(None)}
    numbers = {"orig_pkts": np.array([2.0, 3.0])}
    numbers["orig_bytes"] = draw("orig_bytes", laws, numbers, 2, np.random.default_rng(0))
    numbers["resp_bytes"] = draw("resp_bytes", laws, numbers, 2, np.random.default_rng(0))
    assert numbers["orig_bytes"].tolist() == [96, 144]
    assert np.isnan(numbers["resp_bytes"]).all()
    assert mass("orig_bytes", laws, numbers | {"orig_bytes": np.array([96.0, 145.0])}).tolist() == [1, 0]
    assert mass("resp_bytes", laws, numbers | {"resp_bytes": np.array([np.nan, 0.0])}).tolist() == [1, 0]
