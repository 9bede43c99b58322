"""The tables of configs/models.toml, as strict types: an endpoint, a model on it, and the two joined."""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from security_verifiers.models.base import HostKind, ModelInfo, Sampling
from security_verifiers.models.pricing import Price
from sv_shared.errors import ModelError

Provider = Literal["openai-compatible", "anthropic", "local-llama"]

_ENGINES: Mapping[Provider, str] = {
    "openai-compatible": "chat-completions",
    "anthropic": "messages",
    "local-llama": "llama.cpp",
}
_OURS_ALONE = frozenset({"model", "messages", "tools", "stream"})


def check_base_url(url: str) -> str:
    """The URL without its final slash.

    Raises:
        ValueError: not http(s), no host, or parts that have no place in it (a password would end up in logs).
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("a base URL looks like http://host:8000/v1")
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise ValueError("a base URL has no user, query or fragment: keys belong in an environment variable")
    return url.rstrip("/")


def host_kind(url: str) -> HostKind:
    """Where the host of a URL stands, judged by its name alone (nothing is looked up)."""
    host = urlsplit(url).hostname or ""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        if host == "localhost" or host.endswith(".localhost"):
            return "loopback"
        inner = "." not in host or host.endswith((".local", ".internal", ".lan"))
        return "private" if inner else "public"
    if address.is_loopback:
        return "loopback"
    return "private" if address.is_private else "public"


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class Endpoint(_Table):
    """A place that serves models; its limits are shared by all of them."""

    provider: Provider
    """The dialect it speaks."""
    base_url: str | None = None
    """Up to and including the version: https://host/v1. None for a server that we start ourselves."""
    base_url_variable: str | None = None
    """Environment variable that replaces `base_url` where it is set."""
    key_variable: str | None = None
    """Environment variable that holds the key; None where there is none."""
    key_required: bool = True
    """False where the key is sent if it is set, and not missed if it isn't."""
    requests_per_minute: int | None = Field(default=None, ge=1)
    tokens_per_minute: int | None = Field(default=None, ge=1)
    """Prompt and completion together."""
    max_concurrency: int = Field(default=8, ge=1)
    """Requests in flight at once."""
    timeout_s: float = Field(default=120.0, gt=0)
    """Seconds for one request, from connecting to the last byte."""

    @field_validator("base_url")
    @classmethod
    def _well_formed(cls, value: str | None) -> str | None:
        return None if value is None else check_base_url(value)

    @model_validator(mode="after")
    def _has_address(self) -> Self:
        if (self.base_url is None) != (self.provider == "local-llama"):
            raise ValueError("every endpoint but local-llama needs a base_url, and local-llama has none")
        return self


class LocalServer(_Table):
    """The weights of an embedded model and how to serve them."""

    distribution: str
    """The installed distribution that ships the weights."""
    file: str
    """The weights' file name inside it (GGUF)."""
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    slots: int = Field(ge=1, le=64)
    """Sequences decoded together; more requests than that wait."""


class SamplingDefaults(_Table):
    """What is sampled with where a run says nothing."""

    temperature: float | None = Field(default=None, ge=0, le=2)
    top_p: float | None = Field(default=None, gt=0, le=1)
    max_tokens: int | None = Field(default=None, ge=1)


class ModelTable(_Table):
    """One `[models.<id>]` table."""

    endpoint: str
    """Name of an `[endpoints.<name>]` table."""
    served_name: str = Field(min_length=1)
    """The name that the endpoint knows the model by."""
    plan_name: str | None = None
    """The research plan's own spelling, where it isn't the id; accepted wherever the id is."""
    context: int | None = Field(ge=1)
    """Tokens of prompt and completion together (for a local model: of one slot). None: unknown."""
    max_output: int | None = Field(default=None, ge=1)
    """Most tokens that one completion may have."""
    price: Price | Literal["unknown"]
    takes_temperature: bool = True
    """Whether temperature and top_p can be set."""
    takes_seed: bool = True
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    forced_form: bool = False
    """Whether the server is asked to force answers into the environment's JSON schema (a `response_format` of
    type json_schema). For models too small to keep a form by themselves; sheets mark such lines."""
    sampling: SamplingDefaults = SamplingDefaults()
    extra_body: dict[str, Any] = Field(default_factory=dict)
    """Further fields of every request, for what only this model or server knows."""
    server: LocalServer | None = None
    status: Literal["available", "unavailable"] = "available"
    alternative: str | None = None
    """For an unavailable model: the id to name instead."""
    retires: date | None = None
    """The day after which the provider has announced not to serve it."""
    notes: str = ""

    @field_validator("extra_body")
    @classmethod
    def _leaves_ours_alone(cls, value: dict[str, Any]) -> dict[str, Any]:
        if taken := sorted(_OURS_ALONE & value.keys()):
            raise ValueError(f"extra_body can't set {', '.join(taken)}")
        return value

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if (self.status == "unavailable") != (self.alternative is not None):
            raise ValueError("an unavailable model names its alternative, and only such a model does")
        return self


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """A model joined with its endpoint."""

    id: str
    table: ModelTable
    endpoint_id: str
    endpoint: Endpoint

    @property
    def price(self) -> Price | None:
        """The published price; None where it is unknown."""
        return None if self.table.price == "unknown" else self.table.price

    def base_url(self, env: Mapping[str, str]) -> str | None:
        """The endpoint's address, the environment's override included; None for a server of our own."""
        variable = self.endpoint.base_url_variable
        if not variable or not env.get(variable):
            return self.endpoint.base_url
        try:
            return check_base_url(env[variable])
        except ValueError as error:
            raise ModelError(f"{variable} is no base URL: {error}", where=f"model {self.id}") from None

    def key(self, env: Mapping[str, str]) -> str | None:
        """The key, None where none is set; surrounding blanks, a common slip in .env files, are dropped."""
        variable = self.endpoint.key_variable
        return (env.get(variable, "").strip() or None) if variable else None

    def info(self, env: Mapping[str, str]) -> ModelInfo:
        """What metadata.json says of this model."""
        url = self.base_url(env)
        return ModelInfo(
            id=self.id,
            provider=self.endpoint.provider,
            engine=_ENGINES[self.endpoint.provider],
            served_name=self.table.served_name,
            host_kind="loopback" if url is None else host_kind(url),
            context_tokens=self.table.context,
            price=self.price,
        )

    def effective(self, sampling: Sampling) -> Sampling:
        """The sampling that is really sent: the run's wishes over the entry's defaults.

        A seed that the model does not take is dropped (metadata then shows none); anything else that can't be
        honoured is an error.

        Raises:
            ModelError: a value out of range, or one that this model does not take.
        """
        table, defaults = self.table, self.table.sampling
        chosen = sampling.temperature is not None or sampling.top_p is not None
        if chosen and not table.takes_temperature:
            raise self._refused("takes neither a temperature nor a top_p", "Leave them out")
        merged = Sampling(
            temperature=defaults.temperature if sampling.temperature is None else sampling.temperature,
            top_p=defaults.top_p if sampling.top_p is None else sampling.top_p,
            max_tokens=defaults.max_tokens if sampling.max_tokens is None else sampling.max_tokens,
            seed=sampling.seed if table.takes_seed else None,
            answer_schema=sampling.answer_schema if table.forced_form else None,
        )
        if merged.temperature is not None and not 0 <= merged.temperature <= 2:
            raise self._refused(f"takes temperatures from 0 to 2, not {merged.temperature}")
        if merged.top_p is not None and not 0 < merged.top_p <= 1:
            raise self._refused(f"takes a top_p above 0 and up to 1, not {merged.top_p}")
        if merged.max_tokens is not None and merged.max_tokens < 1:
            raise self._refused(f"needs a max_tokens of at least 1, not {merged.max_tokens}")
        most = table.max_output or table.context
        if merged.max_tokens is not None and most is not None and merged.max_tokens > most:
            raise self._refused(f"writes at most {most} tokens, not {merged.max_tokens}", "Lower max_tokens")
        return merged

    def _refused(self, what: str, hint: str = "") -> ModelError:
        return ModelError(f"{self.id} {what}", where="sampling", hint=hint)
