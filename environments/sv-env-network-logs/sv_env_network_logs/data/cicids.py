"""CIC-IDS-2017: CICFlowMeter's columns, in the original release and in the corrected ones.

Flow fields are filled only where the meaning is the same:
  - `Flow Duration` is in microseconds here and in seconds in a Flow. The tool writes -1 for some flows whose
    packets are out of order; a negative duration has no value.
  - packet counts by direction are the same quantity as Zeek's.
  - ports, addresses and protocol (a number here, a name in a Flow) likewise, where the file has them.
  - `Timestamp` fills `ts` only in ISO form, which the corrected releases write in UTC. The original
    day/month form is the testbed's local clock, twelve hours without AM or PM, so it is no instant and
    stays out.
Byte totals are not mapped: CICFlowMeter counts Ethernet padding and retransmissions as payload, Zeek does
not.

Everything else goes to `extra` under its own trimmed name. Infinity and NaN (0/0 and x/0 in rates of flows
with no duration) have no value. The second `Fwd Header Length` column repeats the first and is left out.

Known shortcuts, documented and not removed (mask them to measure their effect): the destination port, and the
initial TCP windows, which betray the operating system of the one attacking host.
"""

import re
from pathlib import PurePath
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sv_env_network_logs.data import kinds
from sv_env_network_logs.data.kinds import BadCell, Kind, Marks
from sv_env_network_logs.data.labels import cicids
from sv_env_network_logs.data.schema import Column, Schema

PROTOCOLS = {
    1: "icmp", 2: "igmp", 4: "ipip", 6: "tcp", 17: "udp", 41: "ipv6", 47: "gre", 50: "esp", 51: "ah",
    58: "ipv6-icmp", 88: "eigrp", 89: "ospf", 103: "pim", 112: "vrrp", 132: "sctp",
}  # fmt: skip
"""Names from IANA's protocol-numbers registry; any other number n becomes "ip-n". 0 is what CICFlowMeter
writes for a packet that it could not classify, so it is "ip-0" and not IANA's HOPOPT."""


def _protocol(column: Any, _: Marks) -> Any:
    bad = pc.or_(pc.less(column, 0), pc.greater(column, 255))
    kinds.refuse(bad, column, "protocol number")
    encoded = column.dictionary_encode()
    names = [PROTOCOLS.get(number, f"ip-{number}") for number in encoded.dictionary.to_pylist()]
    return pa.array(names, pa.string()).take(encoded.indices).dictionary_encode()


def _microseconds(column: Any, _: Marks) -> Any:
    kinds.refuse(pc.invert(pc.is_finite(column)), column, "duration")
    return pc.if_else(pc.less(column, 0), pa.scalar(None, pa.float64()), pc.divide(column, 1e6))


_ISO = r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d{1,6})?"
_CLOCK = r"\d{1,2}/\d{1,2}/\d{4} \d{1,2}:\d\d(?::\d\d)?(?: [AP]M)?"


def _timestamp(column: Any, _: Marks) -> Any:
    iso = pc.match_substring_regex(column, f"^{_ISO}$")
    known = pc.or_(iso, pc.match_substring_regex(column, f"^{_CLOCK}$"))
    kinds.refuse(pc.invert(known), column, "timestamp")
    try:
        instants = pc.if_else(iso, column, pa.scalar(None, pa.string())).cast(pa.timestamp("us"))
    except pa.ArrowInvalid as error:
        texts = column.to_pylist()
        row = next(i for i, text in enumerate(texts) if text is not None and not _parses(text))
        raise BadCell(row, f"holds {texts[row]!r}, which is not a timestamp") from error
    return pc.divide(instants.cast(pa.int64()).cast(pa.float64()), 1e6)


def _parses(text: str) -> bool:
    try:
        pa.array([text]).cast(pa.timestamp("us"))
    except pa.ArrowInvalid:
        return bool(re.fullmatch(_CLOCK, text))
    return True


PROTOCOL = Kind("protocol number", pa.int64(), kinds.INTEGER, _protocol)
MICROSECONDS = Kind("duration", pa.float64(), kinds.SECONDS.text, _microseconds)
TIMESTAMP = Kind("timestamp", pa.string(), re.compile(f"{_ISO}|{_CLOCK}", re.ASCII), _timestamp)

_SHARED = """
Fwd Packet Length Max|Fwd Packet Length Min|Fwd Packet Length Mean|Fwd Packet Length Std|
Bwd Packet Length Max|Bwd Packet Length Min|Bwd Packet Length Mean|Bwd Packet Length Std|
Flow Bytes/s|Flow Packets/s|Flow IAT Mean|Flow IAT Std|Flow IAT Max|Flow IAT Min|Fwd IAT Total|
Fwd IAT Mean|Fwd IAT Std|Fwd IAT Max|Fwd IAT Min|Bwd IAT Total|Bwd IAT Mean|Bwd IAT Std|
Bwd IAT Max|Bwd IAT Min|Fwd PSH Flags|Bwd PSH Flags|Fwd URG Flags|Bwd URG Flags|Fwd Header Length|
Bwd Header Length|Fwd Packets/s|Bwd Packets/s|Packet Length Mean|Packet Length Std|
Packet Length Variance|FIN Flag Count|SYN Flag Count|RST Flag Count|PSH Flag Count|ACK Flag Count|
URG Flag Count|CWE Flag Count|ECE Flag Count|Down/Up Ratio|Average Packet Size|Subflow Fwd Packets|
Subflow Fwd Bytes|Subflow Bwd Packets|Subflow Bwd Bytes|Active Mean|Active Std|Active Max|
Active Min|Idle Mean|Idle Std|Idle Max|Idle Min
"""
_ORIGINAL = """
Total Length of Fwd Packets|Total Length of Bwd Packets|Min Packet Length|Max Packet Length|
Avg Fwd Segment Size|Avg Bwd Segment Size|Fwd Avg Bytes/Bulk|Fwd Avg Packets/Bulk|Fwd Avg Bulk Rate|
Bwd Avg Bytes/Bulk|Bwd Avg Packets/Bulk|Bwd Avg Bulk Rate|Init_Win_bytes_forward|
Init_Win_bytes_backward|act_data_pkt_fwd|min_seg_size_forward
"""
_CORRECTED = """
Total Length of Fwd Packet|Total Length of Bwd Packet|Fwd RST Flags|Bwd RST Flags|Packet Length Min|
Packet Length Max|CWR Flag Count|Fwd Segment Size Avg|Bwd Segment Size Avg|Fwd Bytes/Bulk Avg|
Fwd Packet/Bulk Avg|Fwd Bulk Rate Avg|Bwd Bytes/Bulk Avg|Bwd Packet/Bulk Avg|Bwd Bulk Rate Avg|
FWD Init Win Bytes|Bwd Init Win Bytes|Fwd Act Data Pkts|Fwd Seg Size Min|ICMP Code|ICMP Type|
Total TCP Flow Time
"""


def _extras(names: str) -> dict[str, Column]:
    return {name.strip().casefold(): Column(kinds.MEASURE, extra=True) for name in names.split("|")}


def _columns(source: str, destination: str, forward: str, backward: str) -> dict[str, Column]:
    """The identifying columns, whose names differ between the releases, and those that all of them share."""
    return _extras(_SHARED) | {
        "id": Column(kinds.TEXT),
        "flow id": Column(kinds.TEXT),
        f"{source} ip": Column(kinds.ADDRESS, flow="src"),
        f"{source} port": Column(kinds.PORT, flow="src_port"),
        f"{destination} ip": Column(kinds.ADDRESS, flow="dst"),
        f"{destination} port": Column(kinds.PORT, flow="dst_port"),
        "protocol": Column(PROTOCOL, flow="proto"),
        "timestamp": Column(TIMESTAMP, flow="ts"),
        "flow duration": Column(MICROSECONDS, flow="duration"),
        forward: Column(kinds.ROUND_COUNT, flow="orig_pkts"),
        backward: Column(kinds.ROUND_COUNT, flow="resp_pkts"),
        "label": Column(kinds.LABEL_BYTES, label=True),
    }


_MARKS = Marks(frozenset({"", "NaN", "nan", "Infinity", "-Infinity", "inf", "-inf", "Inf", "-Inf"}))
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday")


def capture_of(path: PurePath) -> str:
    """The day of capture where the file is named after it, as all releases do; else the file itself.

    There is one packet capture a day; the releases cut it into files by hour or even by label.
    """
    return next((day for day in _DAYS if path.name.casefold().startswith(day)), path.as_posix())


ORIGINAL = Schema(
    name="cicids2017",
    columns=_columns("source", "destination", "total fwd packets", "total backward packets")
    | _extras(_ORIGINAL)
    | {"fwd header length.1": Column(kinds.MEASURE)},
    required=frozenset({"destination port", "flow duration", "total fwd packets", "total backward packets"}),
    verdict=cicids,
    labels=(("label",),),
    capture=capture_of,
    marks=_MARKS,
)

CORRECTED = Schema(
    name="cicids2017-corrected",
    columns=_columns("src", "dst", "total fwd packet", "total bwd packets")
    | _extras(_CORRECTED)
    | {"attempted category": Column(kinds.TEXT)},
    required=frozenset({"dst port", "flow duration", "total fwd packet", "total bwd packets"}),
    verdict=cicids,
    labels=(("label",),),
    capture=capture_of,
    marks=_MARKS,
)
