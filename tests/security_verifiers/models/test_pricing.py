"""What calls cost."""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from security_verifiers.models.pricing import Price, Usage, cost

DAY = date(2026, 11, 21)
counts = st.integers(0, 10**9)


def price(**figures: float) -> Price:
    return Price(input=1.25, output=10.0, as_of=DAY, source="a page", **figures)


def test_prompt_cache_and_completion_are_priced_apart() -> None:
    usage = Usage(
        prompt_tokens=1_000_000, completion_tokens=100_000, reasoning_tokens=90_000, cached_tokens=400_000
    )
    assert cost(usage, price(cached=0.125)) == pytest.approx(0.6 * 1.25 + 0.4 * 0.125 + 0.1 * 10)
    assert cost(usage, price()) == pytest.approx(1.25 + 1.0)


def test_an_unknown_price_or_usage_is_no_cost_rather_than_none_at_all() -> None:
    assert cost(Usage(10, 10), None) is None
    assert cost(None, price()) is None


def test_a_price_of_zero_is_a_cost_of_zero() -> None:
    free = Price(input=0.0, output=0.0, as_of=DAY, source="runs on this machine")
    assert cost(Usage(10, 10), free) == 0.0


@given(counts, counts, st.none() | counts, st.floats(0, 1.25))
def test_a_cache_never_costs_more_and_nothing_costs_less_than_zero(
    prompt: int, completion: int, cached: int | None, cached_price: float
) -> None:
    full = cost(Usage(prompt, completion), price())
    with_cache = cost(Usage(prompt, completion, cached_tokens=cached), price(cached=cached_price))
    assert full is not None
    assert with_cache is not None
    assert 0 <= with_cache <= full * (1 + 1e-12)
