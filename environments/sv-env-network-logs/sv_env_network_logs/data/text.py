"""Delimited text, a block of whole lines at a time: parsed fast by Arrow, and on failure searched for the
culprit."""

import csv
import gzip
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv as pacsv

from sv_env_network_logs.data.kinds import Marks
from sv_env_network_logs.data.schema import Bound
from sv_shared.errors import DataError

Numbers = npt.NDArray[np.int64]
BLOCK = 8 << 20
"""Bytes read at a time; blocks end at line ends, so memory does not grow with the file."""
LONGEST_LINE = 1 << 20
"""Bytes; a header or a row that is longer is damage."""
SEARCHED = 1000
"""Lines that are searched one by one for a culprit."""


@dataclass(frozen=True)
class Block:
    """Some whole lines of a file.

    Attributes:
        data: the lines that hold rows, with their line ends.
        lines: their line numbers in the file, counted from 1; int64.
        dropped: rows left out, by reason.
        last_is_open: the file ends with the last of these lines and without a line end.
    """

    data: bytes
    lines: Numbers
    dropped: dict[str, int]
    last_is_open: bool


@dataclass(frozen=True)
class TextLayout:
    """How the rows of one text file are written.

    Attributes:
        file: its name for messages.
        delimiter: one character.
        columns: the columns in order.
        marks: the words for "no value".
        quoted: fields may stand in double quotes (never across lines).
        first_line: the number of the first line after the header.
        drop: (line without its end, its number) -> None to keep it, a reason to skip and count it, or ""
            where it is no row at all (a comment); may raise DataError.
        drop_hints: what the beginning of a line that `drop` could leave out looks like.
    """

    file: str
    delimiter: str
    columns: tuple[Bound, ...]
    marks: Marks
    quoted: bool
    first_line: int
    drop: Callable[[bytes, int], str | None]
    drop_hints: tuple[bytes, ...]

    def at(self, line: int, column: Bound | None = None) -> str:
        """A place in this file, for a message."""
        return f"{self.file}, line {line}" + (f", {column.place}" if column else "")


def open_text(path: Path) -> BinaryIO:
    """Opens a file for reading bytes, unpacking gzip (recognised by its first bytes, not by its name)."""
    with path.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    return cast(BinaryIO, gzip.open(path, "rb")) if packed else path.open("rb")


def read_chunk(stream: BinaryIO, size: int, file: str) -> bytes:
    """Reads up to `size` bytes; a damaged or cut-off gzip file is a DataError."""
    try:
        return stream.read(size)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(
            f"the gzip file is cut off or damaged: {error}", where=file, hint="Fetch it again"
        ) from error


def blocks(stream: BinaryIO, rest: bytes, layout: TextLayout) -> Iterator[Block]:
    """Cuts what follows the header into blocks of whole lines.

    Args:
        stream: positioned after `rest`.
        rest: bytes after the header that were already read.
        layout: for line numbers, messages, and which lines to leave out.

    Raises:
        DataError: a NUL byte, or a "line" of more than a megabyte (the file is not text).
    """
    line = layout.first_line
    while True:
        chunk = read_chunk(stream, BLOCK, layout.file)
        rest += chunk
        cut = rest.rfind(b"\n") + 1 if chunk else len(rest)
        data, rest = rest[:cut], rest[cut:]
        if data:
            count = data.count(b"\n") + (not data.endswith(b"\n"))
            yield _block(data, np.arange(line, line + count), layout)
            line += count
        if not chunk:
            return
        if len(rest) > LONGEST_LINE:
            raise DataError("no line end in a megabyte: this is not a text table", where=layout.at(line))


def _block(data: bytes, lines: Numbers, layout: TextLayout) -> Block:
    """Leaves out lines that are no rows; they are rare, so a block is taken apart only where one may be."""
    is_open = not data.endswith(b"\n")
    if (nul := data.find(b"\0")) >= 0:
        row = data.count(b"\n", 0, nul)
        position = data[data.rfind(b"\n", 0, nul) + 1 : nul].count(layout.delimiter.encode())
        column = layout.columns[min(position, len(layout.columns) - 1)]
        raise DataError("a NUL byte: the file is damaged", where=layout.at(int(lines[row]), column))
    if not any(data.startswith(hint) or b"\n" + hint in data for hint in layout.drop_hints):
        return Block(data, lines, {}, is_open)
    kept: list[bytes] = []
    numbers: list[int] = []
    dropped: dict[str, int] = {}
    for text, number in zip(_split(data), lines, strict=True):
        reason = layout.drop(text.rstrip(b"\r\n"), int(number))
        if reason is None:
            kept.append(text)
            numbers.append(int(number))
        elif reason:
            dropped[reason] = dropped.get(reason, 0) + 1
    is_open = is_open and numbers[-1:] == [int(lines[-1])]
    return Block(b"".join(kept), np.array(numbers, dtype=np.int64), dropped, is_open)


def _split(data: bytes) -> list[bytes]:
    """Lines with their ends, cut at line feeds only."""
    parts = data.split(b"\n")
    return [part + b"\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


def parse(block: Block, layout: TextLayout) -> list[Any]:
    """The columns of a block as Arrow arrays of their kinds' `read` types.

    Raises:
        DataError: names the line and column of the first field that can't be read.
    """
    try:
        table = _read_csv(block.data, layout)
    except pa.ArrowInvalid as error:
        raise locate(block, layout) or _unexplained(block, layout, str(error)) from error
    if table.num_rows != len(block.lines):
        what = f"{len(block.lines)} lines were read as {table.num_rows} rows"
        raise locate(block, layout) or _unexplained(block, layout, what)
    if culprit := _hexadecimal(block, layout):
        raise culprit
    return [column.combine_chunks() for column in table.columns]


def _read_csv(data: bytes, layout: TextLayout) -> Any:
    names = [str(column.position) for column in layout.columns]
    kinds = [column.column.kind.read for column in layout.columns]
    return pacsv.read_csv(
        pa.BufferReader(data),
        read_options=pacsv.ReadOptions(column_names=names),
        parse_options=pacsv.ParseOptions(
            delimiter=layout.delimiter,
            quote_char='"' if layout.quoted else False,
            ignore_empty_lines=False,
        ),
        convert_options=pacsv.ConvertOptions(
            column_types=dict(zip(names, kinds, strict=True)),
            null_values=sorted(layout.marks.unset),
            strings_can_be_null=False,
        ),
    )


def _hexadecimal(block: Block, layout: TextLayout) -> DataError | None:
    """Arrow reads 0x10 in a whole-number column as 16; such a field is of the wrong type."""
    starts = [before + zero for before in (layout.delimiter.encode(), b"\n") for zero in (b"0x", b"0X")]
    if not any(start in block.data for start in starts):
        return None
    numbered = zip(_split(block.data), block.lines.tolist(), strict=True)
    suspects = [(text, line) for text, line in numbered if b"0x" in text.lower()]
    lines = np.array([line for _, line in suspects], dtype=np.int64)
    return _search([text for text, _ in suspects], lines, block, layout)


def _unexplained(block: Block, layout: TextLayout, what: str) -> DataError:
    return DataError(what, where=f"{layout.file}, lines {block.lines[0]} to {block.lines[-1]}")


def locate(block: Block, layout: TextLayout) -> DataError | None:
    """The first field of a block that is not of its column's kind.

    The block is halved as long as one half alone fails to parse; the rest is searched line by line.
    """
    lines = _split(block.data)
    numbers = block.lines
    while len(lines) > SEARCHED:
        half = len(lines) // 2
        failing = slice(half) if _fails(lines[:half], layout) else slice(half, None)
        lines, numbers = lines[failing], numbers[failing]
    return _search(lines, numbers, block, layout)


def _search(lines: list[bytes], numbers: Numbers, block: Block, layout: TextLayout) -> DataError | None:
    """The first field at fault in some of a block's lines, each tried by itself."""
    for number, raw in zip(numbers, lines, strict=True):
        text = raw.rstrip(b"\r\n").decode("latin-1")
        if layout.quoted:
            try:
                fields = next(csv.reader([text], delimiter=layout.delimiter, strict=True), [])
            except csv.Error as error:
                return DataError(f"broken quoting: {error}", where=layout.at(int(number)))
        else:
            fields = text.split(layout.delimiter)
        if len(fields) != len(layout.columns):
            return _wrong_width(len(fields), int(number), block, layout)
        for field, bound in zip(fields, layout.columns, strict=True):
            why = bound.column.kind.fault(field, layout.marks)
            if why is None and "\r" in field:
                why = "holds a carriage return"
            if why:
                return DataError(f"the field {why}", where=layout.at(int(number), bound))
    return None


def _fails(lines: list[bytes], layout: TextLayout) -> bool:
    try:
        return bool(_read_csv(b"".join(lines), layout).num_rows != len(lines))
    except pa.ArrowInvalid:
        return True


def _wrong_width(found: int, line: int, block: Block, layout: TextLayout) -> DataError:
    wanted = len(layout.columns)
    cut_off = found < wanted and block.last_is_open and line == block.lines[-1]
    column = layout.columns[min(found, wanted) - 1]
    return DataError(
        f"the row has {found} of {wanted} fields" + (": the file is cut off" if cut_off else ""),
        where=layout.at(line, column),
        hint="Fetch the file again" if cut_off else "",
    )
