"""Risk-coverage curves against every order of the items, and the rules on missing and abstained ones."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from security_verifiers.stats import selective as sel
from security_verifiers.stats.bootstrap import plain

ITEM = st.tuples(st.sampled_from([0.5, 0.7, 0.9, 1.0]), st.booleans())
FACTORIES = {"aurc": sel.aurc_statistic, "e_aurc": sel.e_aurc_statistic}


def arrays(items: list[tuple[float, bool]]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([c for c, _ in items]), np.array([r for _, r in items], dtype=bool)


def area_in_order(correct: list[bool]) -> float:
    wrong = np.cumsum(1 - np.array(correct, dtype=float))
    return float((wrong / np.arange(1, len(wrong) + 1)).mean())


def area_over_all_orders(items: list[tuple[float, bool]]) -> float:
    """Mean over all orders of the items, sorted by confidence with ties left in that order."""
    return float(
        np.mean(
            [
                area_in_order([r for _, r in sorted(order, key=lambda item: -item[0])])
                for order in permutations(items)
            ]
        )
    )


@given(st.lists(ITEM, max_size=5), st.integers(0, 1))
def test_areas_are_the_mean_over_all_orders_of_tied_items(
    items: list[tuple[float, bool]], missing: int
) -> None:
    confidence, correct = arrays(items)
    got, excess = sel.aurc(confidence, correct, missing), sel.e_aurc(confidence, correct, missing)
    everything = [*items, *[(2.0, False)] * missing]
    if not everything:
        assert got is None
        assert excess is None
        return
    expected = area_over_all_orders(everything)
    best = area_in_order(sorted((r for _, r in everything), reverse=True))
    assert got == pytest.approx(expected, abs=1e-12)
    assert excess == pytest.approx(expected - best, abs=1e-12)


@given(st.lists(ITEM, min_size=1, max_size=12), st.integers(0, 3))
def test_points_of_the_curve_are_those_of_every_threshold(
    items: list[tuple[float, bool]], missing: int
) -> None:
    confidence, correct = arrays(items)
    curve = sel.risk_coverage(confidence, correct, missing)
    assert curve is not None
    n = len(items) + missing
    thresholds = sorted(set(confidence), reverse=True)
    kept = [confidence >= t for t in thresholds]
    coverage = [missing / n] * bool(missing) + [(k.sum() + missing) / n for k in kept]
    risk = [1.0] * bool(missing) + [(missing + (~correct[k]).sum()) / (missing + k.sum()) for k in kept]
    assert curve.coverage == pytest.approx(np.array(coverage))
    assert curve.risk == pytest.approx(np.array(risk))
    assert curve.threshold == pytest.approx(np.array([np.nan] * bool(missing) + thresholds), nan_ok=True)


@pytest.mark.parametrize("name", list(FACTORIES))
@given(items=st.lists(st.tuples(ITEM, st.integers(0, 3), st.sampled_from("slx")), min_size=1, max_size=10))
def test_a_weight_is_a_number_of_copies(name: str, items: list[tuple[tuple[float, bool], int, str]]) -> None:
    """Items that are stated, lost or left out (abstained), weighted, against the same items repeated."""
    confidence, correct = arrays([item for item, _, _ in items])
    weights, kind = np.array([w for _, w, _ in items]), np.array([k for _, _, k in items])
    confidence = np.where(kind == "s", confidence, np.nan)
    got = FACTORIES[name](confidence, correct, kind == "l")(weights[None, :].astype(float))
    repeated = [np.repeat(a, np.where(kind == "x", 0, weights)) for a in (confidence, correct, kind == "l")]
    expected = plain(FACTORIES[name](*repeated), len(repeated[0]))
    assert got[0] == pytest.approx(np.nan if expected is None else expected, nan_ok=True, abs=1e-12)


@given(st.lists(ITEM, min_size=1, max_size=12), st.data())
def test_losing_an_answer_never_improves_the_area(
    items: list[tuple[float, bool]], data: st.DataObject
) -> None:
    confidence, correct = arrays(items)
    at = data.draw(st.integers(0, len(items) - 1))
    before = sel.aurc(confidence, correct)
    after = sel.aurc(np.delete(confidence, at), np.delete(correct, at), missing=1)
    assert before is not None
    assert after is not None
    assert after >= before - 1e-12


def test_order_of_the_items_does_not_matter() -> None:
    rng = np.random.default_rng(1)
    confidence, order = rng.choice([0.6, 0.8, 0.9], 200), rng.permutation(200)
    correct = rng.random(200) < confidence
    for area in (sel.aurc, sel.e_aurc):
        assert area(confidence, correct) == pytest.approx(area(confidence[order], correct[order]), abs=1e-12)


def test_large_sets_agree_with_the_published_approximation() -> None:
    """Geifman et al. approximate the best area by r + (1 - r) ln(1 - r)."""
    rng = np.random.default_rng(2)
    correct = rng.random(20_000) < 0.7
    risk = 1 - correct.mean()
    best = risk + (1 - risk) * np.log(1 - risk)
    assert sel.aurc(np.where(correct, 0.9, 0.6), correct) == pytest.approx(best, abs=1e-4)
    assert sel.e_aurc(np.where(correct, 0.9, 0.6), correct) == 0.0
    assert sel.aurc(np.full(20_000, 0.8), correct) == pytest.approx(risk, abs=1e-12)


def test_edges() -> None:
    assert sel.risk_coverage([], []) is None
    assert sel.aurc([], []) is None
    assert sel.aurc([0.9], [True]) == 0.0
    assert sel.aurc([0.5, 0.9], [False, False]) == pytest.approx(1.0)
    assert sel.e_aurc([0.5, 0.9], [False, False]) == pytest.approx(0.0)
    assert sel.aurc([], [], missing=2) == pytest.approx(1.0)
    assert sel.aurc([0.9, 0.5], [True, False]) == 0.25
    assert plain(sel.aurc_statistic([np.nan, 0.5], [True, True], [True, False]), 2) == pytest.approx(0.75)
    assert sel.e_aurc([0.5, 0.9], [True, False]) == pytest.approx(0.75 - 0.25)
    assert np.isnan(sel.aurc_statistic([np.nan], [True])(np.ones((1, 1))))


def test_misuse_is_refused() -> None:
    for use, why in (
        (lambda: sel.aurc([1.2], [True]), "outside"),
        (lambda: sel.risk_coverage([0.5], [True, False]), "lengths"),
        (lambda: sel.e_aurc([0.5], [True], missing=-1), "missing"),
        (lambda: sel.aurc_statistic([0.5], [True], [True]), "lost"),
    ):
        with pytest.raises(ValueError, match=why):
            use()
