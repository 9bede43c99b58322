"""One file: its layout recognised by its content, then all of its rows or an error."""

import csv
import hashlib
import ipaddress
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from sv_env_network_logs.data import cicids, iot23_hf, unsw, zeek
from sv_env_network_logs.data.labels import Attempted
from sv_env_network_logs.data.parquet import open_parquet
from sv_env_network_logs.data.rows import Piece, typed_rows
from sv_env_network_logs.data.schema import Schema, choose
from sv_env_network_logs.data.text import LONGEST_LINE, TextLayout, blocks, open_text, parse, read_chunk
from sv_shared.errors import DataError

TABLES: tuple[Schema, ...] = (
    iot23_hf.TABLE,
    iot23_hf.PREPROCESSED,
    iot23_hf.ALL_COLUMNS,
    cicids.ORIGINAL,
    cicids.CORRECTED,
    unsw.PARTITION,
    unsw.RAW,
)
"""Layouts whose columns are named by one header line or by Parquet's schema; Zeek's own header is apart."""

_BOM = b"\xef\xbb\xbf"
_BLANK = b" \t\r,;|\"'"


@dataclass(frozen=True)
class Loaded:
    """All rows of one file.

    Attributes:
        schema: its layout.
        rows: pa.Table, see `typed_rows`.
        skipped: rows left out, by reason; with `rows` these are all rows of the file.
        sha256: of the file's bytes.
        size: bytes.
    """

    schema: Schema
    rows: Any
    skipped: Counter[str]
    sha256: str
    size: int


def load_file(path: Path, name: str, attempted: Attempted = "benign") -> Loaded:
    """Loads one file, whatever its name says.

    Args:
        path: the file; gzip is unpacked on the way.
        name: what messages call it.
        attempted: how "X - Attempted" rows of the corrected CIC-IDS-2017 are read.

    Raises:
        DataError: the file is empty, cut off, damaged or of an unknown layout; names line and column.
    """
    try:
        with path.open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
            size = file.tell()
            file.seek(0)
            magic = file.read(4)
        if not magic:
            raise DataError("the file is empty", where=name, hint="Fetch it again")
        if magic == b"PK\x03\x04":
            raise DataError("this is a zip archive", where=name, hint="Unpack it first")
        if magic == b"PAR1":
            schema, pieces = open_parquet(path, name, TABLES)
            tables, skipped = _typed(pieces, schema, attempted)
        else:
            with open_text(path) as stream:
                schema, layout, rest = _open_table(stream, name)
                dropped: Counter[str] = Counter()
                tables, skipped = _typed(_pieces(stream, rest, layout, dropped), schema, attempted)
            skipped += dropped
    except OSError as error:
        raise DataError(f"the file can't be read: {error.strerror or error}", where=name) from error
    if not sum(table.num_rows for table in tables):
        left_out = f" but {dict(skipped)} left out" if skipped else ""
        raise DataError(f"the file has a header and no rows{left_out}", where=name, hint="Fetch it again")
    return Loaded(schema, pa.concat_tables(tables), skipped, sha256, size)


def _typed(pieces: Iterator[Piece], schema: Schema, attempted: Attempted) -> tuple[list[Any], Counter[str]]:
    tables: list[Any] = []
    skipped: Counter[str] = Counter()
    for piece in pieces:
        table, left_out = typed_rows(piece, schema, attempted)
        tables.append(table)
        skipped += left_out
    return tables, skipped


def _pieces(stream: BinaryIO, rest: bytes, layout: TextLayout, dropped: Counter[str]) -> Iterator[Piece]:
    for block in blocks(stream, rest, layout):
        dropped.update(block.dropped)
        if len(block.lines):
            yield Piece(layout.columns, parse(block, layout), block.lines, layout.at, block.last_is_open)


def _open_table(stream: BinaryIO, name: str) -> tuple[Schema, TextLayout, bytes]:
    """Reads a text file's header.

    Returns:
        its schema, its layout, and the bytes that were read beyond the header.
    """
    data = read_chunk(stream, LONGEST_LINE, name).removeprefix(_BOM)
    if not data.strip():
        raise DataError("the file is empty", where=name, hint="Fetch it again")
    return _open_zeek(data, name) if data.startswith(b"#") else _open_csv(data, name)


def _open_zeek(data: bytes, name: str) -> tuple[Schema, TextLayout, bytes]:
    header = zeek.read_header(data, name)
    line = data[: header.length].count(b"\n")
    fields = distinct(header.fields)
    schema = choose(fields, zeek.schemas(header.marks), where=f"{name}, line {line}")
    layout = TextLayout(
        file=name,
        delimiter=header.separator,
        columns=schema.bind(fields),
        marks=header.marks,
        quoted=False,
        first_line=line + 1,
        drop=lambda text, number: header.drop(text, number, name),
        drop_hints=(b"#",),
    )
    return schema, layout, data[header.length :]


def _open_csv(data: bytes, name: str) -> tuple[Schema, TextLayout, bytes]:
    end = data.find(b"\n")
    first = data if end < 0 else data[:end]
    try:
        line = first.decode("utf-8").rstrip("\r")
    except UnicodeDecodeError as error:
        where = f"{name}, line 1, byte {error.start + 1}"
        raise DataError("the header line is not valid UTF-8", where=where) from error
    delimiter = max("\t,;|", key=line.count)
    fields = next(csv.reader([line], delimiter=delimiter), [])
    headerless = _is_raw_unsw(fields)
    header = unsw.RAW_HEADER if headerless else distinct([field.strip() for field in fields])
    schema = choose(header, TABLES, where=f"{name}, line 1")
    layout = TextLayout(
        file=name,
        delimiter=delimiter,
        columns=schema.bind(header),
        marks=schema.marks,
        quoted=True,
        first_line=1 if headerless else 2,
        drop=_blank_row,
        drop_hints=(delimiter.encode(), b"\n", b"\r\n", b" "),
    )
    return schema, layout, data if headerless else data[len(first) + 1 :]


def _blank_row(line: bytes, _: int) -> str | None:
    """CIC-IDS-2017's labelled flows end in hundreds of thousands of lines of commas alone."""
    return None if line.strip(_BLANK) else "blank row"


def _is_raw_unsw(fields: Sequence[str]) -> bool:
    """The raw UNSW-NB15 files begin with a row: 49 fields, first an address, last 0 or 1."""
    if len(fields) != len(unsw.RAW_HEADER) or fields[-1].strip() not in ("0", "1"):
        return False
    try:
        ipaddress.ip_address(fields[0].strip())
    except ValueError:
        return False
    return True


def distinct(names: Sequence[str]) -> tuple[str, ...]:
    """Column names with ".1", ".2" ... appended to repeated ones, as pandas does."""
    seen: Counter[str] = Counter()
    out = []
    for name in names:
        count = seen[name.casefold()]
        out.append(f"{name}.{count}" if count else name)
        seen[name.casefold()] += 1
    return tuple(out)
