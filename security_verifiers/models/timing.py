"""Clocks, waiting and chance, handed to whoever needs them so that tests can hold them still."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime


@dataclass(frozen=True, slots=True)
class Timing:
    """The sources of time and chance."""

    clock: Callable[[], float] = time.monotonic
    """Monotonic seconds."""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    """Waits that many seconds of `clock`."""
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    """The present, with its time zone, for dates that providers send."""
    jitter: Callable[[], float] = random.random
    """Uniform draws from [0, 1)."""


REAL = Timing()
"""This machine's own."""
