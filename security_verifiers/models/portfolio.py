"""The portfolio of configs/models.toml: loading it, and finding the model that a command names."""

import difflib
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from security_verifiers.models.entries import Endpoint, ModelEntry, ModelTable, check_base_url
from sv_shared.errors import ModelError, UsageError

AD_HOC_KEY_VARIABLE = "SV_ENDPOINT_API_KEY"
"""Sent to an endpoint that is named on the command line. A provider's own key is never sent there."""

_PACKAGE = Path(__file__).resolve().parents[1]
_PLACES = (_PACKAGE / "configs" / "models.toml", _PACKAGE.parent / "configs" / "models.toml")
_UNION_PARTS = frozenset({"Price", "literal['unknown']"})
_AD_HOC = re.compile(r"openai:(?P<name>.+)@(?P<url>https?://.+)")


class _File(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    default: str
    endpoints: dict[str, Endpoint]
    models: dict[str, ModelTable]


@dataclass(frozen=True, slots=True)
class PolicyRef:
    """A model argument that names a scripted policy: `policy:<name>`."""

    name: str


@dataclass(frozen=True, slots=True)
class Portfolio:
    """Every model that can be named, in the file's order."""

    path: Path
    entries: Mapping[str, ModelEntry]
    default: str

    def resolve(self, model: str | None = None) -> ModelEntry | PolicyRef:
        """The model that an argument names.

        Args:
            model: an id of the portfolio (in any case, or the plan's spelling), `policy:<name>`,
                `openai:<served name>@<base URL>`, or None for the default.

        Raises:
            ModelError: unknown (names close matches) or unavailable (names the alternative).
        """
        text = self.default if model is None else model.strip()
        if text.startswith("policy:"):
            return _policy(text)
        if text.startswith("openai:"):
            return _ad_hoc(text)
        entry = self._find(text)
        if entry is None:
            raise self._unknown(text)
        if entry.table.status == "unavailable":
            raise ModelError(
                f"{entry.id} can't be run: {entry.table.notes or 'it is marked unavailable'}",
                where=self.path.name,
                hint=f"Its alternative has to be named: --model {entry.table.alternative}",
            )
        return entry

    def _find(self, text: str) -> ModelEntry | None:
        if text in self.entries:
            return self.entries[text]
        wanted = text.casefold()
        for entry in self.entries.values():
            if wanted in (entry.id.casefold(), (entry.table.plan_name or entry.id).casefold()):
                return entry
        return None

    def _unknown(self, text: str) -> ModelError:
        names = {id_.casefold(): id_ for id_ in self.entries}
        close = [names[name] for name in difflib.get_close_matches(text.casefold(), names, n=3, cutoff=0.5)]
        guess = f"Did you mean {' or '.join(close)}? " if close else ""
        return ModelError(
            f"no model is called {text!r}",
            where=self.path.name,
            hint=f"{guess}`sv models list` shows all; `openai:<name>@<base URL>` names any other endpoint",
        )


def load_portfolio(path: Path | None = None) -> Portfolio:
    """Read and check a models.toml (by default the project's own).

    Raises:
        UsageError: the file is missing, is no TOML, or an entry in it is wrong; names the file and the entry.
    """
    source = path or next((place for place in _PLACES if place.is_file()), _PLACES[-1])
    try:
        raw = tomllib.loads(source.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"the model portfolio can't be read: {error.strerror}", where=str(source)) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"the model portfolio is no TOML: {error}", where=str(source)) from None
    return parse_portfolio(raw, source)


def parse_portfolio(raw: Mapping[str, Any], source: Path) -> Portfolio:
    """A portfolio from parsed TOML.

    Raises:
        UsageError: an entry is wrong; names the file and the entry.
    """
    try:
        file = _File.model_validate(raw)
    except ValidationError as error:
        first, *rest = error.errors(include_url=False, include_input=False)
        # A union puts the type that was tried into the location; only the file's own names help its reader.
        entry = ".".join(part for part in map(str, first["loc"]) if part not in _UNION_PARTS)
        more = f" (and {len(rest)} more)" if rest else ""
        message = first["msg"].removeprefix("Value error, ")
        raise UsageError(f"{entry}: {message}{more}", where=str(source)) from None
    entries: dict[str, ModelEntry] = {}
    for id_, table in file.models.items():
        if problem := _misfit(id_, table, file):
            raise UsageError(f"models.{id_}: {problem}", where=str(source))
        entries[id_] = ModelEntry(id_, table, table.endpoint, file.endpoints[table.endpoint])
    if file.default not in entries or entries[file.default].table.status != "available":
        raise UsageError(f"default: {file.default!r} is no available model", where=str(source))
    return Portfolio(source, entries, file.default)


def _misfit(id_: str, table: ModelTable, file: _File) -> str:
    """What is wrong between a model and the rest of the file; "" where nothing is."""
    if ":" in id_ or "@" in id_:
        return "an id has no ':' or '@', which mark other kinds of models"
    if table.endpoint not in file.endpoints:
        return f"there is no endpoint {table.endpoint!r}"
    provider = file.endpoints[table.endpoint].provider
    if (table.server is not None) != (provider == "local-llama"):
        return "a local-llama model, and no other, has a server table"
    if provider == "anthropic" and table.sampling.max_tokens is None:
        return "the Messages API always wants a length: set sampling.max_tokens"
    if table.alternative is not None:
        other = file.models.get(table.alternative)
        if other is None or other.status != "available":
            return f"its alternative {table.alternative!r} is no available model"
    return ""


def _policy(text: str) -> PolicyRef:
    name = text.removeprefix("policy:")
    if not name:
        raise ModelError("a policy needs a name", where=text, hint="For example --model policy:reference")
    return PolicyRef(name)


def _ad_hoc(text: str) -> ModelEntry:
    """An endpoint that the portfolio doesn't know: nothing is known of its price, context or limits."""
    match = _AD_HOC.fullmatch(text)
    try:
        url = check_base_url(match["url"]) if match else None
    except ValueError as error:
        raise ModelError(str(error), where="--model openai:<name>@<base URL>") from None
    if match is None or url is None:
        raise ModelError(
            "an endpoint is named openai:<served name>@<base URL>",
            where=text.split("@")[0],
            hint="For example --model openai:my-checkpoint@http://localhost:8000/v1",
        )
    endpoint = Endpoint(
        provider="openai-compatible",
        base_url=url,
        key_variable=AD_HOC_KEY_VARIABLE,
        key_required=False,
        max_concurrency=32,
    )
    table = ModelTable(endpoint=url, served_name=match["name"], context=None, price="unknown")
    return ModelEntry(text, table, url, endpoint)
