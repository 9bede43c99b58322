"""Stand-ins for models: a function in place of a network."""

import inspect
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import date
from typing import Any

from security_verifiers.models.base import Completion, ModelCallError, ModelInfo, Sampling, Usage
from security_verifiers.models.pricing import Price
from sv_test_quick import reply

Answer = Callable[[Sequence[Mapping[str, Any]], Sampling], Completion | Awaitable[Completion]]


class Double:
    """A model made of a function of (messages, sampling), which may be a coroutine function and may raise."""

    info = ModelInfo(
        id="double",
        provider="test",
        engine="none",
        served_name="double-1",
        host_kind="loopback",
        context_tokens=None,
        price=Price(input=1.0, output=10.0, as_of=date(2026, 1, 1), source="made up"),
    )

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self.calls = 0

    async def start(self, *say: Any) -> None:
        pass

    async def close(self) -> None:
        pass

    async def complete(self, messages: Any, tools: Any, sampling: Sampling) -> Completion:
        self.calls += 1
        answer = self._answer(messages, sampling)
        return await answer if inspect.isawaitable(answer) else answer


def said(content: str | None, *, finish_reason: str = "stop", **message: Any) -> Completion:
    """A completion of 10 prompt and 5 completion tokens; further parts of the message by name."""
    return Completion(
        message={"role": "assistant", "content": content, **message},
        finish_reason=finish_reason,
        usage=Usage(prompt_tokens=10, completion_tokens=5),
        model="double-1",
        token_ids=None,
        logprobs=None,
        attempts=1,
        latency_s=0.0,
    )


def call_failed(status: int | None) -> ModelCallError:
    """What a model raises after its last attempt."""
    kind = {429: "rate_limit", 400: "bad_request", None: "connection"}.get(status, "server")
    return ModelCallError(f"the provider answered {status}", kind=kind, status=status)


def script_of(messages: Sequence[Mapping[str, Any]]) -> str:
    """The script that a task of the quick environment shows in its prompt."""
    found = re.search(r"\((.*)\)$", str(messages[-1]["content"]))
    assert found is not None
    return found[1]


def follow(messages: Sequence[Mapping[str, Any]], sampling: Sampling) -> Completion:
    """Follows the script in the prompt, as the policy of that name does; also knows how to fail a call."""
    script = script_of(messages)
    if script.startswith("provider "):
        raise call_failed(int(script.removeprefix("provider ")))
    number = int(re.search(r"\d+", str(messages[-1]["content"]))[0])  # type: ignore[index]
    message = dict(reply(script, ("Risky", "Safe")[number % 2]))
    return said(message.pop("content"), **{k: v for k, v in message.items() if k != "role"})
