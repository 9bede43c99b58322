"""public-mini: E2's small test set, one JSON object a line with all that a row consists of."""

import json
from collections.abc import Iterable
from pathlib import Path

from pydantic import ValidationError

from sv_env_config_verification.rows import Row
from sv_shared.errors import DataError
from sv_shared.row_files import numbered_rows, read_rows

SCHEMA_VERSION = 1
PATH = Path(__file__).resolve().parents[3] / "datasets" / "public-mini" / "e2.jsonl"
"""Where the set lies in a checkout."""
PACKAGED = Path(__file__).with_name("public_mini.jsonl")
"""Where a wheel carries it."""

_REBUILD = "Build it again: sv data build e2"


def load_public_mini() -> list[Row]:
    """The set of this installation.

    Raises:
        DataError: it is not there, or not as it should be.
    """
    return load(PACKAGED if PACKAGED.exists() else PATH)


def load(path: Path) -> list[Row]:
    """The rows of a file.

    Raises:
        DataError: the file can't be read or is empty, or a line is not of the schema; names the line.
    """
    return loads(read_rows(path, _REBUILD), str(path))


def loads(text: str, where: str) -> list[Row]:
    """The rows of a file's text.

    Args:
        text: lines that each end with a line feed.
        where: the file, for messages.

    Raises:
        DataError: there are none, a line is not of the schema, or two rows share an id; names the line.
    """
    rows = [parse(part, place) for part, place in numbered_rows(text, where, _REBUILD)]
    seen: set[str] = set()
    for number, row in enumerate(rows, 1):
        if row.id in seen:
            raise DataError(f"the id {row.id!r} is used twice", where=f"{where}:{number}", hint=_REBUILD)
        seen.add(row.id)
    return rows


def dumps(rows: Iterable[Row]) -> str:
    """The text that `loads` reads."""
    return "".join(f"{line(row)}\n" for row in rows)


def line(row: Row) -> str:
    """A row as one line of JSON, without a line break."""
    record = {"schema_version": SCHEMA_VERSION, **row.model_dump(mode="json")}
    return json.dumps(record, ensure_ascii=False, allow_nan=False)


def parse(text: str, where: str) -> Row:
    """The row of a line.

    Args:
        text: the line.
        where: its place, for messages.

    Raises:
        DataError: it is not of the schema.
    """
    try:
        record = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"the line is no JSON: {error}", where=where, hint=_REBUILD) from error
    version = record.pop("schema_version", None) if isinstance(record, dict) else None
    if version != SCHEMA_VERSION or isinstance(version, bool):
        raise DataError(f"schema_version: {version!r} is not {SCHEMA_VERSION}", where=where, hint=_REBUILD)
    try:
        return Row.model_validate(record)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"])) or "the line"
        raise DataError(f"{place}: {first['msg']}", where=where, hint=_REBUILD) from error
