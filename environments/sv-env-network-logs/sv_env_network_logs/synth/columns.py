"""Columns: many connections as arrays, to draw them and to compute their masses at once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from sv_env_network_logs.flows import Flow
from sv_env_network_logs.synth.laws import CHAIN, Bools, Field, Floats, Ints
from sv_env_network_logs.synth.playbooks import PLAYBOOKS
from sv_env_network_logs.synth.profiles import PROFILES
from sv_env_network_logs.synth.scenarios import Ending
from sv_env_network_logs.synth.sites import is_lan
from sv_shared.errors import DataError

Category = tuple[str, str | None, Ending]
"""Protocol, service and ending: what is drawn as one."""


@cache
def categories() -> Mapping[Category, int]:
    """The code of every category that a profile or a playbook can produce."""
    found = {
        (scenario.proto, pattern.service, ending): None
        for scenario in (*PROFILES, *PLAYBOOKS)
        for pattern in scenario.patterns.values()
        for ending in pattern.endings
    }
    return {category: code for code, category in enumerate(found)}


@dataclass(frozen=True, slots=True)
class Columns:
    """Connections as arrays of shape (n,).

    Attributes:
        category: codes of `categories()`.
        src_port, dst_port: ports.
        header: IP and transport header bytes of each packet.
        lan: True where the destination is on the host's own network.
        numbers: the numeric fields as displayed; NaN where absent.
    """

    category: Ints
    src_port: Ints
    dst_port: Ints
    header: Ints
    lan: Bools
    numbers: Mapping[Field, Floats]

    def __len__(self) -> int:
        return len(self.category)

    def take(self, rows: Ints) -> "Columns":
        """The connections at `rows`."""
        return Columns(
            self.category[rows],
            self.src_port[rows],
            self.dst_port[rows],
            self.header[rows],
            self.lan[rows],
            {field: values[rows] for field, values in self.numbers.items()},
        )


def empty(n: int) -> Columns:
    """Columns to be filled in place; numbers are absent at first."""
    return Columns(
        np.zeros(n, np.int64),
        np.zeros(n, np.int64),
        np.zeros(n, np.int64),
        np.zeros(n, np.int64),
        np.zeros(n, np.bool_),
        {field: np.full(n, np.nan) for field in CHAIN},
    )


def fill(target: Columns, rows: Ints, source: Columns) -> None:
    """Writes `source` into `rows` of `target`."""
    for name in ("category", "src_port", "dst_port", "header", "lan"):
        getattr(target, name)[rows] = getattr(source, name)
    for field, values in source.numbers.items():
        target.numbers[field][rows] = values


def to_flows(
    columns: Columns, sources: Sequence[str], destinations: Sequence[str], times: Sequence[float]
) -> list[Flow]:
    """The connections as Flows, between the given addresses at the given times (seconds since the epoch)."""
    names = list(categories())
    numbers = [columns.numbers[field].tolist() for field in CHAIN]
    codes = [getattr(columns, name).tolist() for name in ("category", "src_port", "dst_port", "header")]
    rows = zip(*codes, sources, destinations, times, *numbers, strict=True)
    return [_flow(names[code], *rest) for code, *rest in rows]


def _flow(
    category: Category, src_port: int, dst_port: int, header: int, src: str, dst: str, ts: float,
    orig_pkts: float, resp_pkts: float, orig_bytes: float, resp_bytes: float, duration: float,
) -> Flow:  # fmt: skip
    proto, service, ending = category
    return Flow(
        ts=ts, src=src, src_port=src_port, dst=dst, dst_port=dst_port, proto=proto, service=service,
        duration=duration, orig_bytes=int(orig_bytes), resp_bytes=int(resp_bytes),
        conn_state=ending.state, history=ending.history, missed_bytes=0,
        orig_pkts=int(orig_pkts), orig_ip_bytes=int(orig_bytes + header * orig_pkts),
        resp_pkts=int(resp_pkts), resp_ip_bytes=int(resp_bytes + header * resp_pkts),
    )  # fmt: skip


def from_flows(flows: Sequence[Flow]) -> Columns:
    """The connections as arrays again.

    Raises:
        DataError: a flow that the recipe cannot have produced.
    """
    codes = categories()
    columns = empty(len(flows))
    for row, flow in enumerate(flows):
        code = codes.get((flow.proto or "", flow.service, Ending(flow.conn_state or "", flow.history or "")))
        numbers = [getattr(flow, field) for field in ("src_port", "dst_port", "orig_ip_bytes", *CHAIN)]
        if code is None or flow.dst is None or None in numbers or not flow.orig_pkts:
            raise DataError("not a connection of the synthetic recipe", where=f"flow {row}")
        src_port, dst_port, total, *chain = numbers
        columns.category[row], columns.lan[row] = code, is_lan(flow.dst)
        columns.src_port[row], columns.dst_port[row] = src_port, dst_port
        for field, value in zip(CHAIN, chain, strict=True):
            columns.numbers[field][row] = value
        columns.header[row] = (total - columns.numbers["orig_bytes"][row]) // flow.orig_pkts
    return columns
