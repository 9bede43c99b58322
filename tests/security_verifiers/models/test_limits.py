"""Rate limits: bounds that hold in every minute, for everyone who shares a key."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from security_verifiers.models.limits import WINDOW_S, Limiters, RateLimiter

from .fake_provider import FakeProvider, FakeTime

Admission = tuple[float, int]


async def flood(
    limiter: RateLimiter, time: FakeTime, sizes: list[int], real: list[int] | None = None
) -> list[Admission]:
    """Sends one request of each size, all at once; returns when each was admitted and how much it used."""
    admitted: list[Admission] = []

    async def one(index: int) -> None:
        async with limiter.slot(sizes[index]) as lease:
            used = sizes[index] if real is None else real[index]
            admitted.append((time.timing.clock(), used))
            await asyncio.sleep(0)
            lease.settle(used)

    await asyncio.gather(*[one(i) for i in range(len(sizes))])
    return admitted


def busiest_minute(admitted: list[Admission]) -> tuple[int, int]:
    """The most requests and the most tokens in any window of a minute."""
    windows = [[size for at, size in admitted if start <= at < start + WINDOW_S] for start, _ in admitted]
    return max(map(len, windows)), max(map(sum, windows))


@given(
    requests=st.integers(1, 20),
    tokens=st.integers(50, 400),
    sizes=st.lists(st.integers(0, 50), min_size=1, max_size=60),
)
@settings(max_examples=50, deadline=None)
def test_no_minute_holds_more_than_allowed(requests: int, tokens: int, sizes: list[int]) -> None:
    time = FakeTime()
    limiter = RateLimiter(
        requests_per_minute=requests, tokens_per_minute=tokens, max_concurrency=8, timing=time.timing
    )
    admitted = asyncio.run(flood(limiter, time, sizes))
    most_requests, most_tokens = busiest_minute(admitted)
    assert len(admitted) == len(sizes)
    assert most_requests <= requests
    assert most_tokens <= tokens


async def test_the_limit_is_used_up_before_anyone_waits(fake_time: FakeTime) -> None:
    limiter = RateLimiter(
        requests_per_minute=5, tokens_per_minute=None, max_concurrency=50, timing=fake_time.timing
    )
    admitted = await flood(limiter, fake_time, [1] * 12)
    assert [at - 1000 for at, _ in admitted] == [0] * 5 + [60] * 5 + [120] * 2


async def test_what_an_estimate_booked_too_much_is_given_back(fake_time: FakeTime) -> None:
    limiter = RateLimiter(
        requests_per_minute=None, tokens_per_minute=100, max_concurrency=1, timing=fake_time.timing
    )
    admitted = await flood(limiter, fake_time, [100] * 4, real=[10] * 4)
    assert fake_time.slept == [60.0, 60.0, 60.0]  # 10 used leave no room for the 100 that the next one books
    fake_time.slept.clear()
    assert len(admitted) == 4
    await flood(limiter, fake_time, [30] * 3, real=[10] * 3)
    assert fake_time.slept == []


async def test_a_request_larger_than_a_minute_gets_a_minute_of_its_own(fake_time: FakeTime) -> None:
    limiter = RateLimiter(
        requests_per_minute=None, tokens_per_minute=100, max_concurrency=4, timing=fake_time.timing
    )
    admitted = await flood(limiter, fake_time, [5, 1000, 5], real=[5, 100, 5])
    assert [at - 1000 for at, _ in admitted] == [0, 60, 120]


async def test_requests_are_admitted_in_the_order_they_came(fake_time: FakeTime) -> None:
    limiter = RateLimiter(
        requests_per_minute=2, tokens_per_minute=100, max_concurrency=3, timing=fake_time.timing
    )
    sizes = [90, 80, 1, 70, 2, 60, 3]
    assert [size for _, size in await flood(limiter, fake_time, sizes)] == sizes


async def test_no_limit_means_no_wait(fake_time: FakeTime) -> None:
    limiter = RateLimiter(
        requests_per_minute=None, tokens_per_minute=None, max_concurrency=2, timing=fake_time.timing
    )
    await flood(limiter, fake_time, [10**9] * 100)
    assert fake_time.slept == []


async def test_a_cancelled_waiter_leaves_the_queue(fake_time: FakeTime) -> None:
    limiter = RateLimiter(
        requests_per_minute=None, tokens_per_minute=None, max_concurrency=1, timing=fake_time.timing
    )

    async def hold() -> None:
        async with limiter.slot(1):
            await asyncio.sleep(3600)

    holder = asyncio.create_task(hold())
    waiter = asyncio.create_task(hold())
    await asyncio.sleep(0)
    for task in (waiter, holder):
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    async with asyncio.timeout(1), limiter.slot(1):
        pass


def test_models_of_one_endpoint_share_a_limiter_and_others_do_not() -> None:
    provider = FakeProvider(address="http://127.0.0.1:1")
    limiters = Limiters()
    assert limiters.of(provider.entry(served_name="a")) is limiters.of(provider.entry(served_name="b"))
    other = provider.entry(key_variable="OTHER_KEY")
    assert limiters.of(other) is not limiters.of(provider.entry())
