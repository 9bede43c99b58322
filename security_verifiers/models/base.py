"""Model: what answers a chat. Written by the lead as a stand-in until the real one lands."""
from dataclasses import dataclass, replace, asdict
from typing import Any, Protocol, Self
from collections.abc import Callable
from sv_shared.errors import ModelError

@dataclass(frozen=True, slots=True)
class Sampling:
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    seed: int | None = None
    def with_seed(self, seed: int) -> "Sampling": return replace(self, seed=seed)
    def as_dict(self) -> dict[str, Any]: return {k: v for k, v in asdict(self).items() if v is not None}
@dataclass(frozen=True, slots=True)
class Usage:
    prompt_tokens: int
    completion_tokens: int
    reasoning_tokens: int | None = None
    cached_tokens: int | None = None
    estimated: bool = False
@dataclass(frozen=True, slots=True)
class Completion:
    message: dict[str, Any]
    finish_reason: str
    usage: Usage | None
    model: str
    token_ids: list[int] | None = None
    logprobs: list[float] | None = None
    attempts: int = 1
    latency_s: float = 0.0
class ModelCallError(ModelError):
    status: int | None = None
    attempts: int = 1
class Model(Protocol):
    info: Any
    async def complete(self, messages: Any, tools: Any, sampling: Sampling) -> Completion: ...
    async def start(self, say: Callable[[str], None]) -> None: ...
    async def close(self) -> None: ...
