"""Corrections for several tests, against statsmodels, evalsig and brute force."""

import numpy as np
import pytest
from evalsig.inference import multiplicity
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests

from security_verifiers.stats.multiple import benjamini_hochberg, holm

p_values = st.lists(
    st.one_of(st.floats(0, 1, allow_subnormal=False), st.sampled_from([0.0, 0.01, 0.02, 0.5, 1.0])),
    min_size=1,
    max_size=40,
)


@given(p_values)
@settings(max_examples=20, deadline=None)  # multipletests collects garbage each time it is called
def test_holm_agrees_with_statsmodels(p: list[float]) -> None:
    assert holm(p) == pytest.approx(multipletests(p, method="holm")[1])


@given(p_values)
def test_holm_agrees_with_evalsig(p: list[float]) -> None:
    assert holm(p) == pytest.approx(multiplicity.holm(np.array(p)).p_adjusted)


@given(p_values)
def test_benjamini_hochberg_agrees_with_statsmodels_and_evalsig(p: list[float]) -> None:
    assert benjamini_hochberg(p) == pytest.approx(multipletests(p, method="fdr_bh")[1])
    assert benjamini_hochberg(p) == pytest.approx(multiplicity.benjamini_hochberg(np.array(p)).p_adjusted)


@given(p_values)
def test_adjusted_values_keep_their_order_and_lie_between_plain_and_bonferroni(p: list[float]) -> None:
    strict, lax = holm(p), benjamini_hochberg(p)
    for plain, by_rate, by_family in zip(p, lax, strict, strict=True):
        assert plain <= by_rate * (1 + 1e-12)
        assert by_rate <= by_family * (1 + 1e-12)
        assert by_family <= min(1.0, len(p) * plain) * (1 + 1e-12)
    for adjusted in (strict, lax):
        assert np.all(np.diff(np.array(adjusted)[np.argsort(p, kind="stable")]) >= 0)


@pytest.mark.parametrize("adjust", [holm, benjamini_hochberg], ids=["holm", "benjamini_hochberg"])
def test_edges(adjust) -> None:
    assert adjust([]) == []
    assert adjust([0.03]) == [0.03]
    assert adjust([0.0, 0.0]) == [0.0, 0.0]
    assert len(set(adjust([0.02] * 5))) == 1
    assert adjust([1.0, 1.0, 1.0]) == [1.0, 1.0, 1.0]
    for wrong in ([1.1], [-0.1], [np.nan], [[0.5]]):
        with pytest.raises(ValueError, match="p_values"):
            adjust(wrong)


def test_false_discoveries_stay_below_the_level() -> None:
    rng, false_share = np.random.default_rng(1), []
    for _ in range(1_000):
        p = np.concatenate([rng.random(15), rng.random(5) ** 8])
        found = np.array(benjamini_hochberg(p)) <= 0.2
        false_share.append(found[:15].sum() / max(1, found.sum()))
    assert 0.10 <= np.mean(false_share) <= 0.2  # expected 0.2 * 15 / 20 = 0.15
