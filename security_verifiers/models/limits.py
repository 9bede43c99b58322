"""Rate limits: requests and tokens in any minute, and requests in flight, shared by all models of one key."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from security_verifiers.models.entries import Endpoint, ModelEntry
from security_verifiers.models.timing import REAL, Timing

WINDOW_S = 60.0
"""Providers count by the minute."""


class Lease:
    """One admitted request and the tokens that are booked for it."""

    def __init__(self, admitted_at: float, tokens: int) -> None:
        self.admitted_at, self.tokens = admitted_at, tokens

    def settle(self, tokens: int) -> None:
        """Replace the estimate by the tokens that were really used."""
        self.tokens = max(0, tokens)


class RateLimiter:
    """Admits requests in the order they come, so that no minute holds more than the endpoint allows.

    The minute is a sliding window over the admissions themselves, so the bound holds for every 60 seconds and
    not just on average.

    Args:
        requests_per_minute, tokens_per_minute: None for no limit.
        max_concurrency: requests in flight at once.
        timing: the clock, and waiting by it.
    """

    def __init__(
        self,
        *,
        requests_per_minute: int | None,
        tokens_per_minute: int | None,
        max_concurrency: int,
        timing: Timing = REAL,
    ) -> None:
        self._requests, self._tokens = requests_per_minute, tokens_per_minute
        self._timing = timing
        self._free = asyncio.Semaphore(max_concurrency)
        self._turn = asyncio.Lock()
        self._recent: deque[Lease] = deque()

    @asynccontextmanager
    async def slot(self, tokens: int) -> AsyncIterator[Lease]:
        """Wait for a place, hold it for the duration of one request.

        Args:
            tokens: an estimate of what the request will read and write; more than a whole minute's worth
                counts as a minute's worth, since it could never be admitted otherwise.
        """
        async with self._free:
            async with self._turn:
                lease = await self._admit(tokens)
            yield lease

    async def _admit(self, tokens: int) -> Lease:
        booked = tokens if self._tokens is None else min(tokens, self._tokens)
        while (wait := self._wait(booked)) > 0:
            await self._timing.sleep(wait)
        lease = Lease(self._timing.clock(), booked)
        if self._requests is not None or self._tokens is not None:
            self._recent.append(lease)
        return lease

    def _wait(self, tokens: int) -> float:
        """Seconds until enough old admissions have left the window; 0 where the request fits now."""
        now = self._timing.clock()
        while self._recent and self._recent[0].admitted_at + WINDOW_S <= now:
            self._recent.popleft()
        requests, used = len(self._recent), sum(lease.tokens for lease in self._recent)
        wait = 0.0
        for lease in self._recent:
            if self._fits(requests, used + tokens):
                break
            requests, used = requests - 1, used - lease.tokens
            wait = lease.admitted_at + WINDOW_S - now
        return wait

    def _fits(self, requests: int, tokens: int) -> bool:
        """Whether one more request fits beside `requests` others, `tokens` being the sum with it."""
        return (self._requests is None or requests < self._requests) and (
            self._tokens is None or tokens <= self._tokens
        )


class Limiters:
    """One limiter for each endpoint and key, however many models share it."""

    def __init__(self, timing: Timing = REAL) -> None:
        self._timing = timing
        self._made: dict[tuple[str, str | None], RateLimiter] = {}

    def of(self, entry: ModelEntry) -> RateLimiter:
        """The limiter of an entry's endpoint."""
        name = (entry.endpoint_id, entry.endpoint.key_variable)
        if name not in self._made:
            self._made[name] = self._make(entry.endpoint)
        return self._made[name]

    def _make(self, endpoint: Endpoint) -> RateLimiter:
        return RateLimiter(
            requests_per_minute=endpoint.requests_per_minute,
            tokens_per_minute=endpoint.tokens_per_minute,
            max_concurrency=endpoint.max_concurrency,
            timing=self._timing,
        )
