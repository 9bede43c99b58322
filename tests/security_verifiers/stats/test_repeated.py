"""Repeated attempts against counting every draw, and simulation."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from security_verifiers.stats.estimates import cluster_mean
from security_verifiers.stats.repeated import mean_pass_at_k, mean_pass_hat_k, pass_at_k, pass_hat_k


@given(n=st.integers(1, 9), data=st.data())
def test_agree_with_counting_every_draw(n: int, data: st.DataObject) -> None:
    c, k = data.draw(st.integers(0, n)), data.draw(st.integers(1, n))
    draws = [[i < c for i in chosen] for chosen in combinations(range(n), k)]
    assert pass_at_k(n, c, k) == pytest.approx(np.mean([any(draw) for draw in draws]))
    assert pass_hat_k(n, c, k) == pytest.approx(np.mean([all(draw) for draw in draws]))


@given(n=st.integers(1, 300), data=st.data())
def test_a_success_of_one_is_a_failure_of_the_other(n: int, data: st.DataObject) -> None:
    c, k = data.draw(st.integers(0, n)), data.draw(st.integers(1, n))
    assert pass_at_k(n, c, k) == pytest.approx(1 - pass_hat_k(n, n - c, k), abs=1e-12)
    assert 0 <= pass_hat_k(n, c, k) <= c / n <= pass_at_k(n, c, k) <= 1
    if k > 1:
        assert pass_at_k(n, c, k) >= pass_at_k(n, c, k - 1)
        assert pass_hat_k(n, c, k) <= pass_hat_k(n, c, k - 1)


def test_unbiased() -> None:
    successes = np.random.default_rng(1).binomial(10, 0.3, 4_000)
    labels, n = np.arange(4_000), np.full(4_000, 10)
    for got, truth in (
        (mean_pass_at_k(n, successes, 4, labels), 1 - 0.7**4),
        (mean_pass_hat_k(n, successes, 4, labels), 0.3**4),
    ):
        assert got.lower is not None
        assert got.upper is not None
        assert abs(got.value - truth) < 2 * (got.upper - got.lower)
        assert got.upper - got.lower < 0.02
    assert abs((1 - (1 - successes / 10) ** 4).mean() - (1 - 0.7**4)) > 0.03  # what plugging in would say


def test_rare_successes_do_not_cancel() -> None:
    assert pass_at_k(10**15, 1, 1) == 1e-15
    assert pass_hat_k(20, 10, 10) == pytest.approx(1 / 184_756)


def test_mean_is_that_of_the_tasks() -> None:
    n, c, labels = [4, 5, 4, 8, 5], [1, 0, 4, 3, 5], ["a", "a", "b", "c", "c"]
    for mean, of_task in ((mean_pass_at_k, pass_at_k), (mean_pass_hat_k, pass_hat_k)):
        values = [of_task(attempts, successes, 3) for attempts, successes in zip(n, c, strict=True)]
        assert mean(n, c, 3, labels, 0.9) == cluster_mean(values, labels, 0.9)


def test_edges() -> None:
    assert (pass_at_k(5, 0, 5), pass_at_k(5, 1, 5), pass_at_k(1, 1, 1)) == (0.0, 1.0, 1.0)
    assert (pass_hat_k(5, 4, 5), pass_hat_k(5, 5, 5), pass_hat_k(5, 2, 3)) == (0.0, 1.0, 0.0)
    single = mean_pass_at_k([4, 4], [1, 2], 2, ["a", "a"])
    assert (single.lower, single.clusters, single.n) == (None, 1, 2)
    equal = mean_pass_hat_k([4] * 3, [2] * 3, 2, [1, 2, 3])
    assert (equal.value, equal.lower, equal.upper) == pytest.approx((1 / 6,) * 3)


@pytest.mark.parametrize("of_task", [pass_at_k, pass_hat_k], ids=["at", "hat"])
@pytest.mark.parametrize(("n", "c", "k"), [(3, 1, 4), (3, 1, 0), (3, 4, 1), (3, -1, 1), (0, 0, 1)])
def test_impossible_counts_are_refused(of_task, n: int, c: int, k: int) -> None:
    with pytest.raises(ValueError, match="attempts"):
        of_task(n, c, k)


def test_malformed_tasks_are_refused() -> None:
    for n, c, labels, said in (
        ([4, 2], [1, 1], [1, 2], "k = 3"),
        ([4.5, 4], [1, 1], [1, 2], "whole"),
        ([4], [1, 1], [1], "lengths"),
        ([4, 4], [1, 1], [1], "lengths"),
        ([4, np.nan], [1, 1], [1, 2], "finite"),
        ([], [], [], "no mean"),
    ):
        with pytest.raises(ValueError, match=said):
            mean_pass_at_k(n, c, 3, labels)
