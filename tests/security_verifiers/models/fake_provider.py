"""A provider on this machine that answers as told: truthfully, badly, late or not at all."""

import asyncio
import json
import traceback
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Self

import pytest
from aiohttp import web

from security_verifiers.models.base import Completion, Model, ModelCallError, Sampling
from security_verifiers.models.entries import Endpoint, ModelEntry, ModelTable
from security_verifiers.models.timing import Timing

KEY = "sk-SENTINEL-7f3a91c2"
"""No error, log or repr may hold this."""

Behaviour = Callable[[web.Request], Awaitable[web.StreamResponse]]


def chat(content: str | None = "ok", **changes: Any) -> dict[str, Any]:
    """A well-formed chat completion; `changes` go into its choice."""
    choice = {"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": "stop"}
    return {
        "model": "fake-1",
        "choices": [choice | changes],
        "usage": {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15},
    }


def anthropic_message(*blocks: Mapping[str, Any], stop_reason: str = "end_turn") -> dict[str, Any]:
    """A well-formed Messages response."""
    return {
        "type": "message",
        "model": "fake-claude",
        "content": list(blocks),
        "stop_reason": stop_reason,
        "usage": {"input_tokens": 10, "output_tokens": 4},
    }


def answer(body: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Behaviour:
    """Answers with JSON, or with a text as it stands."""

    async def behave(request: web.Request) -> web.StreamResponse:
        text = body if isinstance(body, str) else json.dumps(body)
        return web.Response(text=text, status=status, headers=headers, content_type="application/json")

    return behave


def failure(status: int, headers: Mapping[str, str] | None = None, **error: Any) -> Behaviour:
    """Answers with an error that repeats every header it was sent: the worst that a debug proxy does."""

    async def behave(request: web.Request) -> web.StreamResponse:
        said = {"message": f"you sent {dict(request.headers)}", "type": "some_error", **error}
        return web.json_response({"type": "error", "error": said}, status=status, headers=headers)

    return behave


async def hang(request: web.Request) -> web.StreamResponse:
    """Takes the request and says nothing."""
    await asyncio.sleep(3600)
    raise AssertionError("nobody waits an hour")


async def hang_up(request: web.Request) -> web.StreamResponse:
    """Closes the connection without an answer."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


async def cut_off(request: web.Request) -> web.StreamResponse:
    """Promises more bytes than it sends."""
    response = web.StreamResponse(headers={"content-length": "4096"})
    await response.prepare(request)
    await response.write(b'{"choices": [{"mess')
    assert request.transport is not None
    request.transport.abort()
    return response


async def endless(request: web.Request) -> web.StreamResponse:
    """Sends and sends."""
    response = web.StreamResponse()
    await response.prepare(request)
    while True:
        await response.write(b" " * 1000)


def slow(seconds: float, then: Behaviour) -> Behaviour:
    """Behaves after a while."""

    async def behave(request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(seconds)
        return await then(request)

    return behave


@dataclass
class FakeProvider:
    """Behaves as `script` says, one entry a request, and then as `default` for ever."""

    default: Behaviour = field(default_factory=lambda: answer(chat()))
    script: list[Behaviour] = field(default_factory=list)
    bodies: list[Any] = field(default_factory=list)
    headers: list[Mapping[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    in_flight: int = 0
    most_in_flight: int = 0
    address: str = ""

    @property
    def requests(self) -> int:
        """Requests received so far."""
        return len(self.paths)

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_route("*", "/{tail:.*}", self._handle)
        self._runner = web.AppRunner(app, handler_cancellation=True)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.address = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._runner.cleanup()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        self.paths.append(request.path)
        self.headers.append(dict(request.headers))
        self.bodies.append(await request.json())
        self.in_flight += 1
        self.arrived.set()
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            behave = self.script.pop(0) if self.script else self.default
            return await behave(request)
        finally:
            self.in_flight -= 1

    def entry(self, provider: str = "openai-compatible", **changes: Any) -> ModelEntry:
        """An entry of a portfolio that points here; `changes` go to the endpoint's or the model's table."""
        of_endpoint = {name: changes.pop(name) for name in list(changes) if name in Endpoint.model_fields}
        endpoint = Endpoint.model_validate(
            {
                "provider": provider,
                "base_url": f"{self.address}/v1",
                "key_variable": "FAKE_API_KEY",
                "timeout_s": 5.0,
                **of_endpoint,
            }
        )
        table = {"endpoint": "fake", "served_name": "fake-1", "context": 1000, "price": "unknown", **changes}
        return ModelEntry("fake", ModelTable.model_validate(table), "fake", endpoint)


class FakeTime:
    """A clock that only sleeping moves, and that remembers how long each sleep was."""

    PRESENT = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []
        self.timing = Timing(
            clock=lambda: self.now, sleep=self._sleep, now=lambda: self.PRESENT, jitter=lambda: 0.5
        )

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)


async def ask(model: Model, text: str = "hello", sampling: Sampling | None = None) -> Completion:
    """One call of a model, which is closed afterwards."""
    try:
        await model.start()
        return await model.complete([{"role": "user", "content": text}], [], sampling or Sampling())
    finally:
        await model.close()


async def failing(model: Model) -> ModelCallError:
    """The error of a call that has to fail; whatever could be printed of it is free of the key."""
    with pytest.raises(ModelCallError) as caught:
        await ask(model)
    error = caught.value
    links = [link for link in (error, error.__cause__, error.__context__) if link is not None]
    said = [f"{link!s} {link!r} {link.__dict__}" for link in links]
    assert KEY not in " ".join([*said, *traceback.format_exception(error)])
    assert "uthorization" not in str(error)
    assert "api-key" not in str(error)
    return error
