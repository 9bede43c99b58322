"""LocalInterception: verifiers' interception server, reached without a socket.

verifiers records every model call of a rollout in its interception server. Where the harness runs in the
same process, an HTTP round trip per call only moves bytes between two parts of one program; here the very
same request handler is called directly, so that limits, stops, rewrites and the trace work as over HTTP
(a test compares the two). Tool servers are processes of their own and still need the socket: it is opened
when the environment has any.
"""

import asyncio
import itertools
from collections.abc import Mapping
from typing import Any, cast

from aiohttp import web
from pydantic_core import to_json
from verifiers.v1.clients import Client
from verifiers.v1.configs.client import BaseClientConfig
from verifiers.v1.dialects import DIALECTS
from verifiers.v1.interception.server import InterceptionServer

from sv_shared.speedups import memoise_default_factories

LOCAL_SERVERS: dict[str, "LocalInterception"] = {}
"""The live servers of this process by model endpoint."""

_CHAT = next(dialect for dialect in DIALECTS if "/v1/chat/completions" in dialect.routes)
_numbers = itertools.count()


class SeatClientConfig(BaseClientConfig):
    """Names the seat whose model answers; the model itself is handed to `LocalInterception`."""

    type: str = "seat"
    seat: str


class LocalInterception(InterceptionServer):
    """An interception server for harnesses of this process.

    Args:
        clients: the model client of each seat.
        with_tools: open the socket that tool servers report to.
        state_service_secrets: the shared tool servers' secrets, as verifiers hands them over.
    """

    def __init__(
        self, clients: Mapping[str, Client], *, with_tools: bool, state_service_secrets: tuple[str, ...] = ()
    ) -> None:
        super().__init__(state_service_secrets=state_service_secrets)
        self._seat_clients = clients
        self._with_tools = with_tools

    async def start(self) -> None:
        memoise_default_factories()
        if self._with_tools:
            await super().start()
        else:
            self.base_url = f"http://in-process-{next(_numbers)}.invalid"
        endpoint = f"{self.base_url}/v1"
        LOCAL_SERVERS[endpoint] = self
        self.stack.callback(LOCAL_SERVERS.pop, endpoint, None)

    def _client(self, config: BaseClientConfig) -> Client:
        if isinstance(config, SeatClientConfig):
            return self._seat_clients[config.seat]
        return super()._client(config)

    async def complete(self, secret: str, body: Mapping[str, Any]) -> tuple[int, bytes]:
        """One chat completion: (HTTP status, response body)."""
        request = cast(web.Request, _DirectRequest(secret, to_json(body)))
        # A task of its own, as over HTTP: at the rollout's end its session cancels the tasks that served it.
        response = cast(web.Response, await asyncio.create_task(self._handler_for(_CHAT)(request)))
        return response.status, cast(bytes, response.body or b"")


class _DirectRequest(dict[Any, Any]):
    """The part of aiohttp's Request that the handler reads."""

    path = "/v1/chat/completions"
    content_length = None

    def __init__(self, secret: str, raw: bytes) -> None:
        super().__init__()
        self.headers = {"Authorization": f"Bearer {secret}"}
        self._raw = raw
        self._read_bytes: bytes | None = None

    async def read(self) -> bytes:
        return self._raw
