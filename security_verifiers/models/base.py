"""What every model looks like to the rest of the house: one call in, a completion or a typed error out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from security_verifiers.models.pricing import Price, Usage
from sv_shared.errors import ModelError
from sv_shared.policies import Message, ToolSpec

__all__ = [
    "Completion",
    "ErrorKind",
    "HostKind",
    "Message",
    "Model",
    "ModelCallError",
    "ModelInfo",
    "Sampling",
    "ToolSpec",
    "Usage",
]

HostKind = Literal["loopback", "private", "public"]
"""Where an endpoint stands; metadata records this and not the address of a private host."""

ErrorKind = Literal[
    "timeout", "rate_limit", "server", "auth", "not_found", "bad_request", "connection", "malformed"
]
_WORTH_A_RETRY: frozenset[ErrorKind] = frozenset(
    {"timeout", "rate_limit", "server", "connection", "malformed"}
)


@dataclass(frozen=True, slots=True)
class Sampling:
    """How to sample; None leaves the choice to the portfolio's entry, and then to the provider."""

    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    seed: int | None = None
    answer_schema: Mapping[str, Any] | None = None
    """A JSON schema that the server forces the answer into; entries without `forced_form` ignore it."""


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What metadata.json says of a model; holds nothing secret."""

    id: str
    provider: str
    engine: str
    """The wire dialect, or the engine and its weights for a local model."""
    served_name: str
    host_kind: HostKind
    context_tokens: int | None
    price: Price | None


@dataclass(frozen=True, slots=True)
class Completion:
    """The answer to one call.

    Args:
        message: the assistant's message in OpenAI's wire shape: role, content (a string, or None beside tool
            calls), and tool_calls, reasoning_content and refusal where there are any.
        finish_reason: "stop", "length", "tool_calls", "content_filter", or the provider's own word.
        usage: token counts.
        model: the model's name as the provider returned it.
        token_ids, logprobs: the completion's tokens and their natural-log probabilities, of equal length
            where both are given; None where the provider gives none.
        attempts: requests sent for this call, at least 1.
        latency_s: seconds of the attempt that succeeded.
    """

    message: dict[str, Any]
    finish_reason: str
    usage: Usage | None
    model: str
    token_ids: list[int] | None
    logprobs: list[float] | None
    attempts: int
    latency_s: float


class Model(Protocol):
    """A model that answers chats. Started once, called concurrently, closed once."""

    @property
    def info(self) -> ModelInfo: ...

    async def start(self) -> None:
        """Make the model ready; raises ModelError where that can't be done. Calling it again does nothing."""
        ...

    async def complete(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], sampling: Sampling
    ) -> Completion:
        """The next assistant message.

        Raises:
            ModelCallError: after the last attempt failed.
            ModelError: the sampling is one that this model does not take.
        """
        ...

    async def close(self) -> None:
        """Free what `start` took. Calling it again does nothing."""
        ...


class ModelCallError(ModelError):
    """A call failed. The text holds neither keys nor headers; a provider's own words are cut to one line.

    Those words may repeat a part of the prompt, so a task that is stored redacted redacts them too.

    Args:
        what, where, hint: as for every SVError.
        kind: what went wrong.
        status: the HTTP status (None where no response came).
        code: the provider's own word for it ("" where it has none).
        retryable: whether another attempt may succeed (by default a matter of `kind`).
        retry_after_s: the wait that the provider asked for.
    """

    def __init__(
        self,
        what: str,
        *,
        kind: ErrorKind,
        where: str = "",
        hint: str = "",
        status: int | None = None,
        code: str = "",
        retryable: bool | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(what, where=where, hint=hint)
        self.kind: ErrorKind = kind
        self.status = status
        self.code = code
        self.retryable = kind in _WORTH_A_RETRY if retryable is None else retryable
        self.retry_after_s = retry_after_s
        self.attempts = 1
