"""What a call costs: token counts in, US dollars out, and None wherever the price is not known."""

from dataclasses import dataclass
from datetime import date

from pydantic import BaseModel, ConfigDict, Field

MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one call.

    Args:
        prompt_tokens: everything read, cached tokens included.
        completion_tokens: everything written, reasoning included.
        reasoning_tokens: the part of the completion that is reasoning (None where it is not told).
        cached_tokens: the part of the prompt that was read from the provider's cache (None: not told).
        estimated: True where the provider told no counts and ours stand in for them.
    """

    prompt_tokens: int
    completion_tokens: int
    reasoning_tokens: int | None = None
    cached_tokens: int | None = None
    estimated: bool = False

    @property
    def total_tokens(self) -> int:
        """Tokens read and written."""
        return self.prompt_tokens + self.completion_tokens


class Price(BaseModel):
    """A published price: US dollars per million tokens, with the day and the place it was read."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    input: float = Field(ge=0)
    """Dollars per million prompt tokens."""
    output: float = Field(ge=0)
    """Dollars per million completion tokens; reasoning is billed as completion."""
    cached: float | None = Field(default=None, ge=0)
    """Dollars per million prompt tokens read from the provider's cache; None: no published discount."""
    as_of: date
    """The day the price was read."""
    source: str = Field(min_length=1)
    """Where it was read."""


def cost(usage: Usage | None, price: Price | None) -> float | None:
    """US dollars for a call; None where the price or the usage is unknown, never 0 in its place.

    Cached tokens without a published discount cost as much as any other prompt token.
    """
    if usage is None or price is None:
        return None
    cached = min(usage.cached_tokens or 0, usage.prompt_tokens)
    cached_price = price.input if price.cached is None else price.cached
    return (
        (usage.prompt_tokens - cached) * price.input
        + cached * cached_price
        + usage.completion_tokens * price.output
    ) / MILLION
