"""Posting JSON to a provider: rate limits, time limits, retries, and errors that never show a key."""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from urllib.parse import urlsplit

import aiohttp

from security_verifiers.models.base import ErrorKind, ModelCallError
from security_verifiers.models.entries import host_kind
from security_verifiers.models.limits import RateLimiter
from security_verifiers.models.retries import RetryPolicy, retry_after
from security_verifiers.models.timing import Timing

T = TypeVar("T")

MOST_BYTES = 32 * 2**20
"""Bytes of a response that are read; a longer one is malformed."""
CONNECT_S = 15.0
"""Seconds to reach the host."""
_SAID = 200
"""Characters of a provider's own words that an error repeats."""
_SPENT_CODES = frozenset({"insufficient_quota", "enforced_spend_limit_reached", "billing_hard_limit_reached"})
"""Codes of a 429 that no waiting cures."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where requests go and how the caller's key is presented; its repr shows no key.

    The two variables are the ones of the environment that hold the address and the key, for messages.
    """

    model_id: str
    base_url: str
    base_url_variable: str | None
    key_variable: str | None
    key: str | None
    key_header: Callable[[str], Mapping[str, str]]
    """The headers that present a key."""
    timeout_s: float

    def __repr__(self) -> str:
        return f"Target({self.model_id!r}, {self.base_url!r})"

    @property
    def host(self) -> str:
        """Host and port, for messages."""
        return urlsplit(self.base_url).netloc

    def scrub(self, text: str) -> str:
        """A stranger's words on one line, cut; all of them dropped where they repeat our key."""
        if self.key and self.key in text:
            return ""
        line = " ".join(text.split())
        return line if len(line) <= _SAID else f"{line[:_SAID]}…"


@dataclass(frozen=True, slots=True)
class Reply(Generic[T]):
    """A parsed response, the requests it took, and the seconds of the last one."""

    value: T
    attempts: int
    latency_s: float


class Malformed(Exception):
    """A parser's word that a response is not what the dialect promises."""


class Transport:
    """One model's connection to its endpoint.

    Args:
        target: where to, and with which key.
        limiter: shared by everything that uses the same endpoint and key.
        policy: when to try again.
        timing: clocks, waiting and chance.
    """

    def __init__(self, target: Target, limiter: RateLimiter, policy: RetryPolicy, timing: Timing) -> None:
        self.target = target
        self._limiter, self._policy, self._timing = limiter, policy, timing
        self._session: aiohttp.ClientSession | None = None

    async def start(self) -> None:
        """Open the connection pool."""
        if self._session is None or self._session.closed:
            self._session = aiohttp.ClientSession(
                # The limiter bounds requests in flight; a second bound here would time out in its queue.
                connector=aiohttp.TCPConnector(limit=0),
                # A proxy of the environment leads out; this machine and its network are reached directly.
                trust_env=host_kind(self.target.base_url) == "public",
            )

    async def close(self) -> None:
        """Close the connection pool."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def post(
        self,
        path: str,
        body: Mapping[str, Any],
        parse: Callable[[Mapping[str, Any]], T],
        *,
        headers: Mapping[str, str],
        tokens: int,
        used: Callable[[T], int | None] = lambda value: None,
    ) -> Reply[T]:
        """Send a request until it is answered, hopeless, or out of attempts or time.

        Args:
            path: below the base URL.
            body: the request, as JSON.
            parse: the response's object to a value; raises Malformed where it can't.
            headers: sent beside the key.
            tokens: estimate of what the request reads and writes, for the rate limit.
            used: tokens that a value turned out to have used, None where unknown.

        Raises:
            ModelCallError: the last attempt's error.
        """
        spent, attempt = 0.0, 0
        while True:
            attempt += 1
            async with self._limiter.slot(tokens) as lease:
                began = self._timing.clock()
                outcome = await self._attempt(path, body, parse, headers, self._policy.total_s - spent)
                latency = self._timing.clock() - began
                if not isinstance(outcome, ModelCallError):
                    lease.settle(lease.tokens if (real := used(outcome)) is None else real)
                    return Reply(outcome, attempt, latency)
            spent += latency
            outcome.attempts = attempt
            wait = self._policy.next_wait(
                outcome, attempt=attempt, spent_s=spent, jitter=self._timing.jitter()
            )
            if wait is None:
                raise outcome
            await self._timing.sleep(wait)
            spent += wait

    async def _attempt(
        self,
        path: str,
        body: Mapping[str, Any],
        parse: Callable[[Mapping[str, Any]], T],
        headers: Mapping[str, str],
        left_s: float,
    ) -> T | ModelCallError:
        """One request. Errors are returned and not raised: aiohttp's own hold our headers, and an exception
        raised while one of them is handled would keep it as its context."""
        try:
            status, answer, content = await self._send(
                path, body, headers, min(self.target.timeout_s, left_s)
            )
        except aiohttp.ConnectionTimeoutError:
            return self._error(f"no connection within {CONNECT_S:g} s", "connection", self._whereabouts())
        except TimeoutError:
            seconds = min(self.target.timeout_s, left_s)
            return self._error(
                f"no answer within {seconds:g} s", "timeout", "Raise timeout_s if it needs longer"
            )
        except aiohttp.ClientSSLError as error:
            return self._error(f"no TLS connection ({type(error).__name__})", "connection")
        except aiohttp.ClientConnectorError as error:
            return self._error(f"can't connect: {_reason(error.os_error)}", "connection", self._whereabouts())
        except (aiohttp.ClientError, OSError) as error:
            return self._error(f"the connection broke ({type(error).__name__})", "connection")
        if status != 200:
            return self._refusal(status, answer, content)
        try:
            return parse(_object(content))
        except Malformed as error:
            return self._error(f"a response that is no answer: {error}", "malformed")

    async def _send(
        self, path: str, body: Mapping[str, Any], headers: Mapping[str, str], timeout_s: float
    ) -> tuple[int, Mapping[str, str], bytes]:
        if self._session is None:
            await self.start()
        assert self._session is not None
        presented = self.target.key_header(self.target.key) if self.target.key else {}
        request = self._session.post(
            self.target.base_url + path,
            data=json.dumps(body, allow_nan=False).encode(),
            headers={"content-type": "application/json", **headers, **presented},
            # A redirect would carry the key to a host that nobody named.
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(total=timeout_s, sock_connect=CONNECT_S),
        )
        async with request as response:
            content = bytearray()
            async for chunk in response.content.iter_any():
                content += chunk
                if len(content) > MOST_BYTES:
                    break
            return response.status, response.headers, bytes(content)

    def _refusal(self, status: int, headers: Mapping[str, str], content: bytes) -> ModelCallError:
        """The error that a status other than 200 stands for."""
        code, said = _said(content)
        said = self.target.scrub(said)
        because = f": {said}" if said else ""
        variable = self.target.key_variable
        if status == 401:
            # The provider's words are left out: some repeat a part of the key.
            hint = f"Check {variable}: it is {'wrong' if self.target.key else 'not set'}" if variable else ""
            error = self._error("the key was refused (401)", "auth", hint)
        elif status == 403:
            hint = f"The account behind {variable} may not use this model" if variable else ""
            error = self._error(f"access was refused (403){because}", "auth", hint)
        elif status == 404:
            hint = "Check the model's served name and the base URL"
            error = self._error(f"the endpoint knows no such model (404){because}", "not_found", hint)
        elif status == 429:
            used_up = code in _SPENT_CODES
            what = "the quota is used up" if used_up else "too many requests"
            error = self._error(f"{what} (429){because}", "rate_limit")
            error.retryable = not used_up
        elif 300 <= status < 400:
            hint = "It redirects, which is not followed: give the final base URL"
            error = self._error(f"the endpoint answered {status}", "bad_request", hint)
        else:
            error = self._error(f"the endpoint answered {status}{because}", _kind(status))
        error.status, error.code = status, code
        error.retry_after_s = retry_after(headers, self._timing.now())
        return error

    def _whereabouts(self) -> str:
        variable = self.target.base_url_variable
        return f"Is it running? {variable} sets its address" if variable else "Is it running?"

    def _error(self, what: str, kind: ErrorKind, hint: str = "") -> ModelCallError:
        where = f"{self.target.model_id} at {self.target.host}"
        return ModelCallError(what, kind=kind, where=where, hint=hint)


def _reason(error: OSError) -> str:
    """The system's reason, without the addresses that asyncio puts into it."""
    if error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)
    return error.strerror or type(error).__name__


def _kind(status: int) -> ErrorKind:
    if status == 408:
        return "timeout"
    return "server" if status >= 500 or status == 409 else "bad_request"


def _object(content: bytes) -> Mapping[str, Any]:
    """A JSON object from a body; says in a few words what came instead."""
    if len(content) > MOST_BYTES:
        raise Malformed(f"more than {MOST_BYTES >> 20} MiB")
    if not content.strip():
        raise Malformed("an empty body")
    if content.lstrip()[:1] == b"<":
        raise Malformed("an HTML page")
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        raise Malformed("not valid JSON, or cut off") from None
    if not isinstance(value, dict):
        raise Malformed("JSON, but no object")
    return value


def _said(content: bytes) -> tuple[str, str]:
    """An error body's code and message, "" where it has none: both dialects nest them under `error`."""
    try:
        error = _object(content).get("error")
    except Malformed:
        return "", ""
    if isinstance(error, str):
        return "", error
    if not isinstance(error, dict):
        return "", ""
    details = error.get("details")
    inner = details.get("error_code") if isinstance(details, dict) else None
    code = inner or error.get("code") or error.get("type")
    message = error.get("message")
    return code if isinstance(code, str) else "", message if isinstance(message, str) else ""
