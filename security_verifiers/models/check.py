"""What `sv models list` and `sv models check` say of a model."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date

from security_verifiers.models.base import Model, ModelCallError, Sampling
from security_verifiers.models.connect import connect
from security_verifiers.models.entries import ModelEntry
from security_verifiers.models.limits import Limiters
from security_verifiers.models.local import Progress
from security_verifiers.models.portfolio import PolicyRef, Portfolio
from security_verifiers.models.pricing import Price
from security_verifiers.models.retries import NO_RETRIES
from sv_shared.errors import ModelError

_QUESTION = ({"role": "user", "content": "Answer with the word ok."},)
_LENGTH = 16
"""Tokens of the answer: the least that every provider accepts."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Whether a model answers, and in one line why not."""

    model: str
    ok: bool
    reason: str


@dataclass(frozen=True, slots=True)
class ModelRow:
    """One line of `sv models list`."""

    id: str
    provider: str
    status: str
    key_variable: str | None
    key_set: bool | None
    """None where no key is needed."""
    context: int | None
    price: Price | None
    alternative: str | None
    retires: date | None
    is_default: bool
    notes: str


def rows(portfolio: Portfolio, env: Mapping[str, str]) -> list[ModelRow]:
    """All models of the portfolio, in the file's order."""
    return [_row(entry, portfolio, env) for entry in portfolio.entries.values()]


def _row(entry: ModelEntry, portfolio: Portfolio, env: Mapping[str, str]) -> ModelRow:
    variable = entry.endpoint.key_variable
    return ModelRow(
        id=entry.id,
        provider=entry.endpoint.provider,
        status=entry.table.status,
        key_variable=variable,
        key_set=entry.key(env) is not None if variable else None,
        context=entry.table.context,
        price=entry.price,
        alternative=entry.table.alternative,
        retires=entry.table.retires,
        is_default=entry.id == portfolio.default,
        notes=entry.table.notes,
    )


async def check(model: Model) -> CheckResult:
    """Start a model, ask it one tiny question, close it. Never raises a ModelError: that is its answer."""
    name = model.info.id
    try:
        try:
            await model.start()
            completion = await model.complete(_QUESTION, (), Sampling(max_tokens=_LENGTH))
        finally:
            await model.close()
    except ModelError as error:
        return CheckResult(name, False, _line(error))
    return CheckResult(name, True, f"{completion.model} answered in {completion.latency_s:.2f} s")


async def check_argument(
    argument: str | None,
    portfolio: Portfolio,
    env: Mapping[str, str],
    today: date,
    progress: Progress = lambda text: None,
) -> CheckResult:
    """Check what a `--model` argument names, with a single request.

    Args:
        argument: as given to `Portfolio.resolve`.
        env: environment variables, for keys and addresses.
        today: a model that its provider has retired by then says so.
        progress: told what a local model's start waits for.
    """
    try:
        entry = portfolio.resolve(argument)
        if isinstance(entry, PolicyRef):
            return CheckResult(f"policy:{entry.name}", True, "a scripted policy needs no provider")
        model = connect(entry, env, Limiters(), policy=NO_RETRIES, progress=progress)
    except ModelError as error:
        return CheckResult(argument or portfolio.default, False, _line(error))
    result = await check(model)
    retired = entry.table.retires
    if result.ok or retired is None or today <= retired:
        return result
    return CheckResult(result.model, False, f"{result.reason} (its provider retired it on {retired})")


def _line(error: ModelError) -> str:
    """An error on one line; a call's status is in its text already."""
    text = " ".join(str(error).split())
    if isinstance(error, ModelCallError) and error.attempts > 1:
        return f"{text} (after {error.attempts} attempts)"
    return text
