"""IoT-23 as Zeek writes it: conn.log.labeled with its `#` header.

The header's grammar: https://docs.zeek.org/en/master/log-formats.html (TSV logs). Two label layouts occur. In
IoT-23 the last field is one field, named `tunnel_parents   label   detailed-label` and joined by three
blanks in header, types and rows alike; newer Stratosphere logs have tabs and `detailedlabel`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath

from sv_env_network_logs.data.kinds import ADDRESS, COUNT, PORT, SECONDS, TEXT, TIME, Kind, Marks, words
from sv_env_network_logs.data.kinds import LABEL as LABEL_TEXT
from sv_env_network_logs.data.labels import Attempted, Verdict, iot23
from sv_env_network_logs.data.schema import Column, Schema
from sv_shared.errors import DataError

CONN_STATES = frozenset(
    ("S0", "S1", "SF", "REJ", "S2", "S3", "RSTO", "RSTR", "RSTOS0", "RSTRH", "SH", "SHR", "OTH")
)
"""Every conn_state that Zeek's conn/main.zeek can write."""
STATE = words("conn_state", known=CONN_STATES)
PROTOCOL = words("protocol", lower=True)
SERVICE = words("service", lower=True)
HISTORY = words("history", pattern=re.compile(r"[A-Za-z^]{1,256}"))

COUNTS = (
    "orig_bytes", "resp_bytes", "missed_bytes", "orig_pkts", "orig_ip_bytes", "resp_pkts", "resp_ip_bytes",
)  # fmt: skip
DETAILS = ("detailed-label", "detailedlabel", "detailed_label")
FUSED = tuple(f"tunnel_parents   label   {name}" for name in DETAILS)


def conn_columns(count: Kind = COUNT) -> dict[str, Column]:
    """The columns of a conn.log without its labels, by name."""
    flow = {
        "ts": ("ts", TIME),
        "id.orig_h": ("src", ADDRESS),
        "id.orig_p": ("src_port", PORT),
        "id.resp_h": ("dst", ADDRESS),
        "id.resp_p": ("dst_port", PORT),
        "proto": ("proto", PROTOCOL),
        "service": ("service", SERVICE),
        "duration": ("duration", SECONDS),
        "conn_state": ("conn_state", STATE),
        "history": ("history", HISTORY),
    }
    flow |= {name: (name, count) for name in COUNTS}
    return {name: Column(kind, flow=field) for name, (field, kind) in flow.items()}


CONN = conn_columns()
UNUSED = {name: Column(TEXT) for name in ("uid", "local_orig", "local_resp", "tunnel_parents")}
_NEWER = (
    "ip_proto", "community_id", "orig_l2_addr", "resp_l2_addr", "vlan", "inner_vlan", "orig_cc", "resp_cc",
    "speculative_service", "failed_service",
)  # fmt: skip
LABEL = Column(LABEL_TEXT, label=True)

_TYPES: dict[str, tuple[str, ...]] = {
    "ts": ("time",),
    "id.orig_h": ("addr",),
    "id.resp_h": ("addr",),
    "id.orig_p": ("port",),
    "id.resp_p": ("port",),
    "proto": ("enum",),
    "service": ("string", "set[string]"),
    "duration": ("interval",),
    "local_orig": ("bool",),
    "local_resp": ("bool",),
    "tunnel_parents": ("set[string]", "table[string]"),
} | dict.fromkeys(("uid", "conn_state", "history", "label", *DETAILS), ("string",))
_TYPES |= dict.fromkeys(COUNTS, ("count",))


def capture_of(path: PurePath) -> str:
    """The capture that a file belongs to: its CTU scenario folder, or else the file itself."""
    named = [part for part in path.parts if re.fullmatch(r"CTU-[\w-]*Capture-[\w-]+", part)]
    return named[-1] if named else path.as_posix()


def _fused_verdict(texts: tuple[str, ...], attempted: Attempted) -> Verdict:
    parts = texts[0].split("   ")
    if len(parts) != 3 or "" in parts:
        raise ValueError(f"holds {texts[0][:60]!r}, which is not three values joined by three blanks")
    return iot23((parts[1], parts[2]), attempted)


def schemas(marks: Marks) -> tuple[Schema, Schema]:
    """The two label layouts, for a log whose header declares these marks."""
    columns = CONN | UNUSED | {name: Column(TEXT) for name in _NEWER}
    tabbed = Schema(
        name="iot23-zeek",
        columns=columns | {"label": LABEL} | dict.fromkeys(DETAILS, LABEL),
        required=frozenset(CONN),
        verdict=iot23,
        labels=(("label",), DETAILS),
        capture=capture_of,
        marks=marks,
    )
    del columns["tunnel_parents"]
    fused = Schema(
        name="iot23-zeek",
        columns=columns | dict.fromkeys(FUSED, LABEL),
        required=frozenset(CONN),
        verdict=_fused_verdict,
        labels=(FUSED,),
        capture=capture_of,
        marks=marks,
    )
    return fused, tabbed


@dataclass(frozen=True)
class Header:
    """A Zeek log's header.

    Attributes:
        separator: one character between fields.
        marks: what stands for an unset and for an empty field.
        fields: the column names.
        lines: the header's lines by their first word ("#fields"), without line ends.
        length: bytes of the header.
    """

    separator: str
    marks: Marks
    fields: tuple[str, ...]
    lines: Mapping[str, bytes]
    length: int

    def drop(self, line: bytes, number: int, file: str) -> str | None:
        """A line that begins with `#` is no row; a header that comes again must be the same one."""
        if not line.startswith(b"#"):
            return None
        word = _word(line, self.separator)
        if word in ("#fields", "#types", "#separator", "#unset_field") and self.lines[word] != line:
            raise DataError(f"a second {word} line differs from the first", where=f"{file}, line {number}")
        return ""


def _word(line: bytes, separator: str) -> str:
    return re.split(rf"[ {re.escape(separator)}]", line.decode("utf-8", errors="replace"), maxsplit=1)[0]


def read_header(data: bytes, file: str) -> Header:
    """Reads and checks the header at the beginning of a log.

    Args:
        data: the file's beginning, with at least the whole header.
        file: its name for messages.

    Raises:
        DataError: a line of the header is missing, contradicts another, or gives a column an unexpected type.
    """
    raw: dict[str, tuple[int, bytes]] = {}
    length, separator = 0, "\t"
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.startswith(b"#"):
            break
        length += len(line) + 1
        line = line.rstrip(b"\r")
        if line.startswith(b"#separator"):
            separator = _separator(line, f"{file}, line {number}")
        raw[_word(line, separator)] = (number, line)
    for word in ("#separator", "#unset_field", "#fields", "#types"):
        if word not in raw:
            raise DataError(
                f"the Zeek header has no {word} line", where=f"{file}, line 1", hint="Fetch the file again"
            )
    values = {
        word: line.decode("utf-8", errors="replace").split(separator)[1:] for word, (_, line) in raw.items()
    }
    path = values.get("#path", ["conn"])
    if path != ["conn"]:
        raise DataError(f"this is Zeek's {path} log, not conn", where=f"{file}, line {raw['#path'][0]}")
    if len(values["#unset_field"]) != 1:
        raise DataError("#unset_field needs one value", where=f"{file}, line {raw['#unset_field'][0]}")
    fields, types = values["#fields"], values["#types"]
    where = f"{file}, line {raw['#types'][0]}"
    if len(fields) != len(types):
        raise DataError(f"#fields has {len(fields)} names, #types {len(types)}", where=where)
    for position, (name, kind) in enumerate(zip(fields, types, strict=True), 1):
        _check_type(name, kind, f"{where}, column {position} {name!r}")
    marks = Marks(frozenset(values["#unset_field"]), frozenset(values.get("#empty_field", ["(empty)"])))
    return Header(separator, marks, tuple(fields), {word: line for word, (_, line) in raw.items()}, length)


def _separator(line: bytes, where: str) -> str:
    match = re.fullmatch(rb"#separator (?:\\x([0-9a-fA-F]{2})|(.))", line)
    if not match:
        raise DataError(f"unreadable #separator line {line[:40]!r}", where=where)
    return chr(int(match[1], 16)) if match[1] else match[2].decode("latin-1")


def _check_type(name: str, kind: str, where: str) -> None:
    names, kinds = name.split("   "), kind.split("   ")
    if len(names) != len(kinds):
        raise DataError(f"{len(names)} names stand beside {len(kinds)} types", where=where)
    for part, declared in zip(names, kinds, strict=True):
        if declared not in _TYPES.get(part.casefold(), (declared,)):
            expected = " or ".join(_TYPES[part.casefold()])
            raise DataError(f"#types declares {declared!r} where {expected} is expected", where=where)
