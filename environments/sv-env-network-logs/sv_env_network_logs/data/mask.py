"""Masks: hide chosen fields, to see how much of a score rests on a shortcut."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from sv_env_network_logs.flows import FLOW_FIELDS, Example, Flow
from sv_shared.errors import UsageError


@dataclass(frozen=True)
class Group:
    """Flow fields and extra features that carry one kind of information."""

    fields: tuple[str, ...]
    extra: tuple[str, ...] = ()


GROUPS: Mapping[str, Group] = {
    "ports": Group(("src_port", "dst_port"), ("is_sm_ips_ports", "ct_src_dport_ltm", "ct_dst_sport_ltm")),
    "addresses": Group(
        ("src", "dst"),
        ("is_sm_ips_ports", "ct_src_ltm", "ct_dst_ltm", "ct_dst_src_ltm", "ct_srv_src", "ct_srv_dst"),
    ),
    "service": Group(("service",), ("is_ftp_login", "ct_ftp_cmd", "ct_flw_http_mthd")),
    "protocol": Group(("proto",)),
    "time": Group(("ts",)),
    "duration": Group(("duration",), ("Total TCP Flow Time",)),
    "bytes": Group(
        ("orig_bytes", "resp_bytes", "orig_ip_bytes", "resp_ip_bytes", "missed_bytes"), ("sbytes", "dbytes")
    ),
    "packets": Group(("orig_pkts", "resp_pkts")),
    "state": Group(("conn_state", "history"), ("ct_state_ttl",)),
    "ttl": Group((), ("sttl", "dttl", "ct_state_ttl")),
    "tcp-window": Group(
        (),
        (
            "Init_Win_bytes_forward",
            "Init_Win_bytes_backward",
            "FWD Init Win Bytes",
            "Bwd Init Win Bytes",
            "swin",
            "dwin",
        ),
    ),
}
"""What can be hidden. "ttl" and "tcp-window" are the known shortcuts of UNSW-NB15 and CIC-IDS-2017."""
EXTRA = "extra"
"""The group of every extra feature."""


def check_mask(names: Collection[str]) -> frozenset[str]:
    """The names, if each is a group, a Flow field, or "extra".

    Raises:
        UsageError: names the first unknown one and lists those that exist.
    """
    known = [*GROUPS, EXTRA, *FLOW_FIELDS]
    unknown = next((name for name in sorted(names) if name not in known), None)
    if unknown is not None:
        raise UsageError(f"unknown mask {unknown!r}", hint=f"Use any of: {', '.join(dict.fromkeys(known))}")
    return frozenset(names)


def mask_flow(flow: Flow, names: Collection[str]) -> Flow:
    """The flow with the named fields and groups None, and their extra features gone."""
    groups = [GROUPS.get(name, Group((name,))) for name in sorted(check_mask(names) - {EXTRA})]
    hidden = {name for group in groups for name in group.extra}
    extra = {} if EXTRA in names else {key: value for key, value in flow.extra.items() if key not in hidden}
    return replace(flow, extra=extra, **{name: None for group in groups for name in group.fields})


def mask_example(example: Example, names: Collection[str]) -> Example:
    """The example with its flow and its history masked; label and metadata stay."""
    if not check_mask(names):
        return example
    return replace(
        example,
        flow=mask_flow(example.flow, names),
        history=tuple(mask_flow(flow, names) for flow in example.history),
    )
