"""Flow: one network connection, in the terms of Zeek's conn.log.

Field meanings follow https://docs.zeek.org/en/master/scripts/base/protocols/conn/main.zeek.html (Conn::Info).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Literal

Label = Literal["Benign", "Malicious"]
LABELS: tuple[Label, Label] = ("Benign", "Malicious")

_NO_EXTRA: Mapping[str, float | int | str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Flow:
    """One connection. None means that the source has no such field or no value for it; nothing is imputed.

    Attributes:
        ts: start, seconds since the epoch.
        src, src_port, dst, dst_port: the originator's and the responder's address and port.
        proto: transport protocol, lower case ("tcp", "udp", "icmp").
        service: application protocol as detected ("dns", "http", "ssl" ...), lower case.
        duration: seconds.
        orig_bytes, resp_bytes: payload bytes sent by originator and responder.
        conn_state: Zeek's connection state ("SF", "S0", "REJ" ...), or the source's own state word.
        history: Zeek's history string.
        missed_bytes: bytes missed in content gaps.
        orig_pkts, orig_ip_bytes, resp_pkts, resp_ip_bytes: packets and IP-level bytes by side.
        extra: further numeric or word features under the source's own names (CIC-IDS-2017, UNSW-NB15).
    """

    ts: float | None = None
    src: str | None = None
    src_port: int | None = None
    dst: str | None = None
    dst_port: int | None = None
    proto: str | None = None
    service: str | None = None
    duration: float | None = None
    orig_bytes: int | None = None
    resp_bytes: int | None = None
    conn_state: str | None = None
    history: str | None = None
    missed_bytes: int | None = None
    orig_pkts: int | None = None
    orig_ip_bytes: int | None = None
    resp_pkts: int | None = None
    resp_ip_bytes: int | None = None
    extra: Mapping[str, float | int | str] = field(default_factory=lambda: _NO_EXTRA)


FLOW_FIELDS: tuple[str, ...] = tuple(f.name for f in fields(Flow) if f.name != "extra")
"""The names of Flow's Zeek fields, in display order."""


@dataclass(frozen=True, slots=True)
class Example:
    """One labelled item: the flow to judge and, in the window view, its host's recent flows before it.

    Attributes:
        flow: the connection to judge.
        label: the truth.
        detail: the source's finer label ("C&C", "PortScan", a playbook's name); never shown to a model.
        cluster: what is resampled together: capture for real data, generation batch for synthetic data.
        history: the host's earlier flows, oldest first; empty in the flow view.
        difficulty: "easy", "medium", "hard", or "" where the source has no tiers.
        posterior: P(Malicious | what the prompt shows) for a reader who also knows the tier; None where it is
            not known exactly.
        row: where the item comes from, "file:line" or "recipe:seed:index".
    """

    flow: Flow
    label: Label
    detail: str = ""
    cluster: str = ""
    history: tuple[Flow, ...] = ()
    difficulty: str = ""
    posterior: float | None = None
    row: str = ""
