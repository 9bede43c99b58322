"""What models and their errors say of themselves."""

from security_verifiers.models.base import ModelCallError

from .conftest import Connect
from .fake_provider import KEY, FakeProvider


async def test_repr_and_info_hold_no_key(provider: FakeProvider, connected: Connect) -> None:
    model = connected(provider.entry())
    transport = model._transport  # type: ignore[attr-defined]
    assert KEY not in f"{model!r} {model.info!r} {transport!r} {transport.target!r}"
    assert model.info.host_kind == "loopback"


def test_errors_know_whether_to_retry() -> None:
    assert ModelCallError("x", kind="timeout").retryable
    assert not ModelCallError("x", kind="auth").retryable
    assert not ModelCallError("x", kind="rate_limit", retryable=False).retryable
