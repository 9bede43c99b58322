"""public-mini: E1's small test set, one JSON object a line with all that an item consists of."""

import json
from collections.abc import Iterable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_type_hints

from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from sv_env_network_logs.flows import Example, Flow, Label
from sv_env_network_logs.render import View
from sv_shared.errors import DataError
from sv_shared.row_files import numbered_rows, read_rows

SCHEMA_VERSION = 1
PATH = Path(__file__).resolve().parents[3] / "datasets" / "public-mini" / "e1.jsonl"
"""Where the set lies in a checkout."""
PACKAGED = Path(__file__).with_name("public_mini.jsonl")
"""Where a wheel carries it."""


class Item(NamedTuple):
    """An item and the view that it is made for."""

    view: View
    example: Example


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


_FLOW_FIELDS: Any = {name: (hint, None) for name, hint in get_type_hints(Flow).items() if name != "extra"}
_FlowLine: Any = create_model(
    "_FlowLine", __base__=_Strict, extra=(dict[str, float | int | str], {}), **_FLOW_FIELDS
)


class _Line(_Strict):
    schema_version: Literal[1]
    id: str
    view: View
    difficulty: str
    detail: str
    cluster: str
    label: Label
    posterior: float | None
    flow: _FlowLine
    history: list[_FlowLine]


def load_public_mini() -> list[Item]:
    """The set of this installation.

    Raises:
        DataError: it is not there, or not as it should be.
    """
    return load(PACKAGED if PACKAGED.exists() else PATH)


def load(path: Path) -> list[Item]:
    """The items of a file.

    Raises:
        DataError: the file can't be read or is empty, or a line is not of the schema; names the line.
    """
    return loads(read_rows(path, _REBUILD), str(path))


def loads(text: str, where: str) -> list[Item]:
    """The items of a file's text.

    Args:
        text: lines that each end with a line feed.
        where: the file, for messages.

    Raises:
        DataError: there are none, or a line is not of the schema; names the line.
    """
    return [parse(part, place) for part, place in numbered_rows(text, where, _REBUILD)]


def dumps(items: Iterable[Item]) -> str:
    """The text that `loads` reads."""
    return "".join(f"{line(item)}\n" for item in items)


def dump(path: Path, items: Iterable[Item]) -> None:
    """Writes items to a file."""
    path.write_text(dumps(items), encoding="utf-8")


def line(item: Item) -> str:
    """An item as one line of JSON, without a line break."""
    example = item.example
    record = {
        "schema_version": SCHEMA_VERSION,
        "id": example.row,
        "view": item.view,
        "difficulty": example.difficulty,
        "detail": example.detail,
        "cluster": example.cluster,
        "label": example.label,
        "posterior": example.posterior,
        "flow": _flow_record(example.flow),
        "history": [_flow_record(flow) for flow in example.history],
    }
    return json.dumps(record, ensure_ascii=False, allow_nan=False)


def parse(text: str, where: str) -> Item:
    """The item of a line.

    Args:
        text: the line.
        where: its place, for messages.

    Raises:
        DataError: it is not of the schema.
    """
    try:
        record = _Line.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"])) or "the line"
        raise DataError(f"{place}: {first['msg']}", where=where, hint=_REBUILD) from error
    example = Example(
        flow=_flow(record.flow),
        label=record.label,
        detail=record.detail,
        cluster=record.cluster,
        history=tuple(map(_flow, record.history)),
        difficulty=record.difficulty,
        posterior=record.posterior,
        row=record.id,
    )
    return Item(record.view, example)


_REBUILD = "Build it again: python -m sv_env_network_logs.synth.build"


def _flow_record(flow: Flow) -> dict[str, Any]:
    """The fields that a flow has."""
    values = {f.name: getattr(flow, f.name) for f in fields(Flow) if f.name != "extra"}
    extra = {"extra": dict(flow.extra)} if flow.extra else {}
    return {name: value for name, value in values.items() if value is not None} | extra


def _flow(record: Any) -> Flow:
    values = record.model_dump()
    extra = values.pop("extra")
    return replace(Flow(**values), extra=extra) if extra else Flow(**values)
