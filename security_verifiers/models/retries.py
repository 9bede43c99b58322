"""When a failed request is sent again, and after how long: pure rules, no clock of their own."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from security_verifiers.models.base import ModelCallError


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Exponential backoff with full jitter, bounded in attempts and in time.

    Full jitter (a uniform draw below the exponential bound) spreads clients that failed together best; see
    Marc Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
    """

    attempts: int = 5
    """Requests for one call, the first included."""
    first_wait_s: float = 1.0
    """Upper bound of the first backoff; it doubles with every attempt."""
    longest_wait_s: float = 60.0
    """Upper bound of any wait, one asked for by the provider included."""
    total_s: float = 900.0
    """Seconds of one call in requests and backoff together; queueing for a rate limit is not counted."""

    def next_wait(
        self, error: ModelCallError, *, attempt: int, spent_s: float, jitter: float
    ) -> float | None:
        """Seconds to wait before the next attempt; None: give up.

        Args:
            error: what the last attempt ended with.
            attempt: attempts made so far, from 1.
            spent_s: seconds spent so far.
            jitter: a uniform draw from [0, 1).
        """
        if not error.retryable or attempt >= self.attempts:
            return None
        backoff = jitter * min(self.longest_wait_s, self.first_wait_s * 2.0 ** (attempt - 1))
        if error.retry_after_s is None:
            wait = backoff
        else:
            # The jitter comes on top: everyone who was told the same second would come back at once.
            wait = min(error.retry_after_s + jitter * self.first_wait_s, self.longest_wait_s)
        return wait if spent_s + wait < self.total_s else None


NO_RETRIES = RetryPolicy(attempts=1)
"""One request and no more."""


def retry_after(headers: Mapping[str, str], now: datetime) -> float | None:
    """Seconds that a response asks to wait (RFC 9110, 10.2.3), None where it doesn't say or makes no sense.

    Args:
        headers: the response's headers, looked up in lower and in title case. `retry-after-ms` is read first.
        now: the present, with its time zone; HTTP dates are measured against it.
    """
    milliseconds = _seconds(_header(headers, "retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    value = _header(headers, "retry-after")
    seconds = _seconds(value)
    return _until(value, now) if seconds is None else seconds


def _header(headers: Mapping[str, str], name: str) -> str:
    return headers.get(name) or headers.get(name.title()) or ""


def _seconds(value: str) -> float | None:
    try:
        seconds = float(value)
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def _until(value: str, now: datetime) -> float | None:
    try:
        moment = parsedate_to_datetime(value)
    except (ValueError, IndexError, TypeError, OverflowError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - now).total_seconds())
