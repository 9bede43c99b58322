"""Kinds: what one field of a file may hold, as a vectorised check and as a pattern to find a culprit with.

A file is parsed column by column (fast, but a failure does not say where). A `Kind` therefore has two faces
that must agree: `convert` checks and types a whole column, naming the first bad row; `text` matches a
single field and is used only after a failure, to find the line and column at fault.
"""

import ipaddress
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

PORTS = 65535


class BadCell(Exception):
    """One value of a column is not of its kind.

    Args:
        row: its index in the column.
        why: what is wrong with it, to follow the place in a message.
    """

    def __init__(self, row: int, why: str) -> None:
        self.row, self.why = row, why
        super().__init__(row, why)


@dataclass(frozen=True)
class Marks:
    """The words by which a file says that a field has no value, or has an empty one.

    Attributes:
        unset: become None ("-" in Zeek).
        empty: become "" ("(empty)" in Zeek).
    """

    unset: frozenset[str] = frozenset()
    empty: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Kind:
    """The kind of a column.

    Attributes:
        name: what a message calls it.
        read: the Arrow type that the text is parsed to before `convert`.
        text: what a field that holds a value looks like; None where any valid UTF-8 will do.
        convert: (column, marks) -> typed column; raises BadCell. None: the column is checked but not kept.
        required: a row without a value is refused.
        may_be_empty: the file's word for an empty text is allowed.
    """

    name: str
    read: Any
    text: re.Pattern[str] | None
    convert: Callable[[Any, Marks], Any] | None
    required: bool = False
    may_be_empty: bool = False

    def fault(self, field: str, marks: Marks) -> str | None:
        """Why one field, decoded byte by byte as latin-1, is not of this kind; None where it is."""
        if field in marks.unset:
            return f"has no value, but a {self.name} is needed" if self.required else None
        if self.may_be_empty and field in marks.empty:
            return None
        if self.read != pa.binary():
            try:
                field = field.encode("latin-1").decode("utf-8")
            except UnicodeDecodeError as error:
                byte = error.object[error.start]
                return f"holds byte 0x{byte:02x}, which is not valid UTF-8"
        if self.text is not None and not self.text.fullmatch(field.strip(" \t") if self.is_number else field):
            return f"holds {field[:40]!r}, which is not a {self.name}"
        return None

    @property
    def is_number(self) -> bool:
        """The column is parsed as a number, so blanks around the digits do not matter."""
        return bool(pa.types.is_integer(self.read) or pa.types.is_floating(self.read))


def refuse(bad: Any, values: Any, name: str) -> None:
    """Raises BadCell for the first True of `bad`, quoting the value there."""
    row = pc.index(pc.fill_null(bad, False), True).as_py()
    if row >= 0:
        raise BadCell(row, f"holds {values[row].as_py()!r}, which is not a {name}")


def recode(column: Any, rule: Callable[[str], str | None]) -> Any:
    """Applies `rule` once to each distinct text of a column.

    Args:
        column: strings; nulls stay.
        rule: text -> word or None; raises ValueError(why) for a text that is not allowed.

    Returns:
        a dictionary-encoded string array.

    Raises:
        BadCell: at the first row of a text that the rule refuses.
    """
    encoded = column.dictionary_encode()
    words: list[str | None] = []
    for code, text in enumerate(encoded.dictionary.to_pylist()):
        try:
            words.append(rule(text))
        except ValueError as error:
            raise BadCell(pc.index(encoded.indices, code).as_py(), str(error)) from error
    return pa.array(words, pa.string()).take(encoded.indices).dictionary_encode()


def _number(low: int, high: int, name: str, *, whole: bool) -> Callable[[Any, Marks], Any]:
    """A check that values lie in [low, high] and, where `whole`, have no fraction; gives int64 or float64."""

    def convert(column: Any, _: Marks) -> Any:
        lowest, highest = pa.scalar(low).cast(column.type), pa.scalar(high).cast(column.type)
        if pa.types.is_floating(column.type):
            refuse(pc.invert(pc.is_finite(column)), column, name)
            if whole:
                refuse(pc.not_equal(column, pc.floor(column)), column, name)
        refuse(pc.or_(pc.less(column, lowest), pc.greater(column, highest)), column, name)
        return column.cast(pa.int64() if whole else pa.float64())

    return convert


def _measure(column: Any, _: Marks) -> Any:
    """Any float; NaN and the infinities, which CICFlowMeter writes for 0/0 and x/0, have no value."""
    column = column.cast(pa.float64())
    return pc.if_else(pc.is_finite(column), column, pa.scalar(None, pa.float64()))


_WORD = re.compile(r"[A-Za-z0-9_.,+/^()&:-]{1,256}")


def words(
    name: str, *, lower: bool = False, known: frozenset[str] | None = None, pattern: re.Pattern[str] = _WORD
) -> Kind:
    """A kind of short words without blanks, optionally lower-cased or from a closed list."""

    def convert(column: Any, marks: Marks) -> Any:
        def rule(text: str) -> str | None:
            if text in marks.unset:
                return None
            if text in marks.empty:
                return ""
            if not pattern.fullmatch(text) or (known is not None and text not in known):
                raise ValueError(f"holds {text[:40]!r}, which is not a {name}")
            return text.lower() if lower else text

        return recode(column, rule)

    text = pattern if known is None else re.compile("|".join(map(re.escape, sorted(known))))
    return Kind(name, pa.string(), text, convert, may_be_empty=True)


_ADDRESS = r"(?:\d{1,3}(?:\.\d{1,3}){3}|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*)"


def _address(column: Any, marks: Marks) -> Any:
    """Addresses are checked by shape (a million distinct ones occur); the few IPv6 ones are parsed."""
    encoded = column.dictionary_encode()
    texts = encoded.dictionary
    ok = pc.match_substring_regex(texts, f"^{_ADDRESS}$")
    bad = pc.index(ok, False).as_py()
    if bad < 0:
        six = texts.filter(pc.match_substring(texts, ":")).to_pylist()
        wrong = next((text for text in six if not _is_address(text)), None)
        bad = -1 if wrong is None else pc.index(texts, wrong).as_py()
    if bad >= 0:
        text, row = texts[bad].as_py(), pc.index(encoded.indices, bad).as_py()
        raise BadCell(row, f"holds {text[:40]!r}, which is not an address")
    return encoded


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


_PORT = re.compile(r"\d{1,9}|0[xX][0-9a-fA-F]{1,8}", re.ASCII)


def _port_text(text: str, marks: Marks) -> int | None:
    """A port in decimal or, as in some UNSW-NB15 rows, in hexadecimal."""
    if text in marks.unset:
        return None
    if not _PORT.fullmatch(text):
        raise ValueError(text)
    port = int(text, 16 if text[:2] in ("0x", "0X") else 10)
    if port > PORTS:
        raise ValueError(text)
    return port


def _any_port(column: Any, marks: Marks) -> Any:
    encoded = column.dictionary_encode()
    ports: list[int | None] = []
    for code, text in enumerate(encoded.dictionary.to_pylist()):
        try:
            ports.append(_port_text(text, marks))
        except ValueError as error:
            row = pc.index(encoded.indices, code).as_py()
            raise BadCell(row, f"holds {text[:40]!r}, which is not a port") from error
    return pa.array(ports, pa.int64()).take(encoded.indices)


def _label(column: Any, _: Marks) -> Any:
    return column.cast(pa.string()).dictionary_encode()


def _label_bytes(column: Any, _: Marks) -> Any:
    """CIC-IDS-2017 writes the dash of its web attacks as the cp1252 byte 0x96, elsewhere it is UTF-8."""
    encoded = column.cast(pa.binary()).dictionary_encode()
    texts = [_decode(label) for label in encoded.dictionary.to_pylist()]
    return pa.array(texts, pa.string()).take(encoded.indices).dictionary_encode()


def _decode(label: bytes) -> str:
    try:
        return label.decode("utf-8")
    except UnicodeDecodeError:
        return label.decode("cp1252", errors="replace")


INTEGER = re.compile(r"-?0*\d{1,18}", re.ASCII)
_FLOAT = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
_FLOAT_OR_NONE = re.compile(rf"{_FLOAT.pattern}|[+-]?(nan(\(\w*\))?|inf|infinity)", _FLOAT.flags)
_ROUND = re.compile(r"[+-]?\d+(\.0*)?(e[+-]?\d+)?", _FLOAT.flags)
_MOST = 2**53
"""Counts beyond this are damage (it is 9 petabytes) and would not survive a float."""

TIME = Kind("time", pa.float64(), _FLOAT, _number(0, 10**11, "time", whole=False), required=True)
"""Seconds since the epoch."""
SECONDS = Kind("duration", pa.float64(), _FLOAT, _number(0, 10**9, "duration", whole=False))
COUNT = Kind("count", pa.int64(), INTEGER, _number(0, _MOST, "count", whole=True))
ROUND_COUNT = Kind("count", pa.float64(), _ROUND, _number(0, _MOST, "count", whole=True))
"""A count that a data-frame library may have written as 172.0."""
PORT = Kind("port", pa.int64(), INTEGER, _number(0, PORTS, "port", whole=True), required=True)
ANY_PORT = Kind("port", pa.string(), _PORT, _any_port)
MEASURE = Kind("number", pa.float64(), _FLOAT_OR_NONE, _measure)
ADDRESS = Kind("address", pa.string(), re.compile(_ADDRESS, re.ASCII), _address, required=True)
TEXT = Kind("text", pa.string(), None, None)
LABEL = Kind("label", pa.string(), None, _label)
LABEL_BYTES = Kind("label", pa.binary(), None, _label_bytes)
