"""UNSW-NB15: the 45-column partitions and the raw files of 49 columns without a header.

Column meanings: Moustafa and Slay, "UNSW-NB15: a comprehensive data set for network intrusion detection
systems", MilCIS 2015, table 2. Filled Flow fields: `dur` (seconds), packet counts by direction, protocol,
service, Argus' own state word, and in the raw files addresses, ports and `Stime`. `sbytes` and `dbytes`
stay in `extra`: Argus counts IP-level bytes with the padding of short frames, which is neither Zeek's
orig_bytes nor its orig_ip_bytes.

`id` is the row's number in the partition and never leaves the loader; nor do `attack_cat` and `label`.

All files come from one testbed, and the official partitions are random draws from the same two days, so the
whole set is one capture: a test set, never its own training set.

Known shortcuts, documented and not removed (mask "ttl" to measure their effect): sttl, dttl and
ct_state_ttl alone separate most attacks, because the traffic generator sent attacks with initial TTLs that
normal flows rarely have.
"""

from pathlib import PurePath

from sv_env_network_logs.data import kinds
from sv_env_network_logs.data.kinds import ANY_PORT, LABEL, MEASURE, ROUND_COUNT, SECONDS, TEXT, Marks, words
from sv_env_network_logs.data.labels import unsw
from sv_env_network_logs.data.schema import Column, Schema

_MARKS = Marks(frozenset({"", " ", "-"}))
_PROTOCOL, _SERVICE = words("protocol", lower=True), words("service", lower=True)
_FLOW = {
    "dur": Column(SECONDS, flow="duration"),
    "proto": Column(_PROTOCOL, flow="proto"),
    "service": Column(_SERVICE, flow="service"),
    "state": Column(words("state"), flow="conn_state"),
    "spkts": Column(ROUND_COUNT, flow="orig_pkts"),
    "dpkts": Column(ROUND_COUNT, flow="resp_pkts"),
    "attack_cat": Column(LABEL, label=True),
    "label": Column(LABEL, label=True),
}
_SHARED = """
sbytes dbytes sttl dttl sloss dloss sload dload swin dwin stcpb dtcpb trans_depth sjit djit tcprtt synack
ackdat is_sm_ips_ports ct_state_ttl ct_flw_http_mthd is_ftp_login ct_ftp_cmd ct_srv_src ct_srv_dst
ct_dst_ltm ct_src_ltm ct_src_dport_ltm ct_dst_sport_ltm ct_dst_src_ltm
"""


def _extras(names: str) -> dict[str, Column]:
    return {name: Column(MEASURE, extra=True) for name in names.split()}


def _one_capture(_: PurePath) -> str:
    return "unsw-nb15"


_PARTITION = _extras(f"{_SHARED} rate sinpkt dinpkt smean dmean response_body_len")
_RAW = _extras(f"{_SHARED} smeansz dmeansz res_bdy_len sintpkt dintpkt")

PARTITION = Schema(
    name="unsw-nb15-partition",
    columns=_FLOW | _PARTITION | {"id": Column(TEXT)},
    required=frozenset(_FLOW) | frozenset(_PARTITION),
    verdict=unsw,
    labels=(("attack_cat",), ("label",)),
    capture=_one_capture,
    marks=_MARKS,
)

RAW = Schema(
    name="unsw-nb15-raw",
    columns=_FLOW
    | _RAW
    | {
        "srcip": Column(kinds.ADDRESS, flow="src"),
        "sport": Column(ANY_PORT, flow="src_port"),
        "dstip": Column(kinds.ADDRESS, flow="dst"),
        "dsport": Column(ANY_PORT, flow="dst_port"),
        "stime": Column(kinds.TIME, flow="ts"),
        "ltime": Column(kinds.TEXT),
    },
    required=frozenset(_FLOW) | frozenset(_RAW) | {"srcip", "sport", "dstip", "dsport", "stime", "ltime"},
    verdict=unsw,
    labels=(("attack_cat",), ("label",)),
    capture=_one_capture,
    marks=_MARKS,
)

_RAW_NAMES = """
srcip sport dstip dsport proto state dur sbytes dbytes sttl dttl sloss dloss service Sload Dload Spkts Dpkts
swin dwin stcpb dtcpb smeansz dmeansz trans_depth res_bdy_len Sjit Djit Stime Ltime Sintpkt Dintpkt tcprtt
synack ackdat is_sm_ips_ports ct_state_ttl ct_flw_http_mthd is_ftp_login ct_ftp_cmd ct_srv_src ct_srv_dst
ct_dst_ltm ct_src_ltm ct_src_dport_ltm ct_dst_sport_ltm ct_dst_src_ltm attack_cat Label
"""
RAW_HEADER: tuple[str, ...] = tuple(_RAW_NAMES.split())
"""The column names of the raw files, which have no header line (NUSW-NB15_features.csv of the release)."""
