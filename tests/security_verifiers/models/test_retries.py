"""When to try again, and how long to wait: properties of the pure rules."""

import math
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from security_verifiers.models.base import ModelCallError
from security_verifiers.models.retries import NO_RETRIES, RetryPolicy, retry_after

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
POLICY = RetryPolicy()


@given(
    attempt=st.integers(1, 2000),
    spent=st.floats(0, 1e6),
    jitter=st.floats(0, 1, exclude_max=True),
    asked=st.none() | st.floats(0, 1e9),
)
def test_waits_are_bounded_in_length_number_and_total(
    attempt: int, spent: float, jitter: float, asked: float | None
) -> None:
    error = ModelCallError("x", kind="server", retry_after_s=asked)
    wait = POLICY.next_wait(error, attempt=attempt, spent_s=spent, jitter=jitter)
    if wait is not None:
        assert 0 <= wait <= POLICY.longest_wait_s
        assert attempt < POLICY.attempts
        assert spent + wait < POLICY.total_s
    elif spent == 0:
        assert attempt >= POLICY.attempts


@given(asked=st.floats(0, 50), jitter=st.floats(0, 1, exclude_max=True))
def test_a_wait_that_is_asked_for_is_never_cut_short(asked: float, jitter: float) -> None:
    error = ModelCallError("x", kind="rate_limit", retry_after_s=asked)
    wait = POLICY.next_wait(error, attempt=1, spent_s=0, jitter=jitter)
    assert wait is not None
    assert wait >= asked


def test_what_is_not_retryable_is_never_tried_again() -> None:
    for kind in ("auth", "not_found", "bad_request"):
        error = ModelCallError("x", kind=kind)
        assert POLICY.next_wait(error, attempt=1, spent_s=0, jitter=0) is None
    assert NO_RETRIES.next_wait(ModelCallError("x", kind="server"), attempt=1, spent_s=0, jitter=0) is None


@given(st.text() | st.floats().map(str) | st.integers().map(str))
def test_any_header_is_a_number_of_seconds_or_nothing(value: str) -> None:
    seconds = retry_after({"retry-after": value}, NOW)
    assert seconds is None or (math.isfinite(seconds) and seconds >= 0)


@given(st.datetimes(datetime(1990, 1, 1), datetime(2100, 1, 1)))
def test_a_date_asks_for_the_time_until_then(moment: datetime) -> None:
    moment = moment.replace(microsecond=0, tzinfo=UTC)
    header = moment.strftime("%a, %d %b %Y %H:%M:%S GMT")
    expected = max(timedelta(0), moment - NOW).total_seconds()
    assert retry_after({"Retry-After": header}, NOW) == expected
