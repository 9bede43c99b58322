"""Fixtures of the models' tests."""

import logging
from collections.abc import AsyncIterator, Callable, Iterator

import pytest

from security_verifiers.models.base import Model
from security_verifiers.models.connect import connect
from security_verifiers.models.entries import ModelEntry
from security_verifiers.models.limits import Limiters
from security_verifiers.models.retries import RetryPolicy

from .fake_provider import KEY, FakeProvider, FakeTime

Connect = Callable[..., Model]


@pytest.fixture
async def provider() -> AsyncIterator[FakeProvider]:
    """A provider that answers "ok" until told otherwise."""
    async with FakeProvider() as fake:
        yield fake


@pytest.fixture
def fake_time() -> FakeTime:
    """A clock that stands still but for sleeping."""
    return FakeTime()


@pytest.fixture
def connected(fake_time: FakeTime) -> Connect:
    """Connects an entry with the sentinel key; requests are real, waiting is fake."""

    def make(entry: ModelEntry, *, key: str = KEY, policy: RetryPolicy | None = None) -> Model:
        return connect(
            entry,
            {"FAKE_API_KEY": key},
            Limiters(fake_time.timing),
            policy=policy or RetryPolicy(attempts=4),
            timing=fake_time.timing,
        )

    return make


@pytest.fixture(autouse=True)
def no_key_in_any_output(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> Iterator[None]:
    """Every test of this folder: the sentinel key is in no log, at any level, and in no output."""
    caplog.set_level(logging.DEBUG)
    yield
    out, err = capfd.readouterr()
    records = " ".join(str(record.__dict__) for record in caplog.records)
    assert KEY not in out + err + caplog.text + records
