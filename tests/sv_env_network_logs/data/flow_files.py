"""Writers of small files in each dataset's native layout."""

from collections.abc import Mapping, Sequence
from pathlib import Path

CONN_TYPES = {
    "ts": "time", "uid": "string", "id.orig_h": "addr", "id.orig_p": "port", "id.resp_h": "addr",
    "id.resp_p": "port", "proto": "enum", "service": "string", "duration": "interval", "orig_bytes": "count",
    "resp_bytes": "count", "conn_state": "string", "local_orig": "bool", "local_resp": "bool",
    "missed_bytes": "count", "history": "string", "orig_pkts": "count", "orig_ip_bytes": "count",
    "resp_pkts": "count", "resp_ip_bytes": "count", "tunnel_parents": "set[string]", "label": "string",
    "detailed-label": "string",
}  # fmt: skip
CONN_ROW = {
    "ts": "1545403816.962094", "uid": "CrDn63WjJEmrWGjqf", "id.orig_h": "192.168.1.195", "id.orig_p": "41040",
    "id.resp_h": "185.244.25.235", "id.resp_p": "80", "proto": "tcp", "service": "http",
    "duration": "3.139211", "orig_bytes": "149", "resp_bytes": "128252", "conn_state": "SF",
    "local_orig": "-", "local_resp": "-",
    "missed_bytes": "2896", "history": "ShADadttcfF", "orig_pkts": "94", "orig_ip_bytes": "5525",
    "resp_pkts": "96", "resp_ip_bytes": "139044", "tunnel_parents": "-", "label": "Benign",
    "detailed-label": "-",
}  # fmt: skip


def conn(**changes: str) -> dict[str, str]:
    """A conn.log row, with some fields changed ("id_orig_h" is "id.orig_h", "detail" the last)."""
    names = {"detail": "detailed-label"}
    return CONN_ROW | {names.get(k, k.replace("id_", "id.")): v for k, v in changes.items()}


def zeek_header(names: Sequence[str], types: Sequence[str]) -> list[str]:
    """The header lines of a Zeek log; its rows begin at line 9."""
    return [
        "#separator \\x09",
        "#set_separator\t,",
        "#empty_field\t(empty)",
        "#unset_field\t-",
        "#path\tconn",
        "#open\t2019-03-15-14-50-49",
        "\t".join(["#fields", *names]),
        "\t".join(["#types", *types]),
    ]


def zeek_text(
    rows: Sequence[Mapping[str, str]], *, fused: bool = True, detail: str = "detailed-label"
) -> str:
    """A labelled conn.log: three blanks in the last field, or tabs throughout."""
    names = [detail if name == "detailed-label" else name for name in CONN_TYPES]
    tables = [names, list(CONN_TYPES.values()), *[[row[name] for name in CONN_TYPES] for row in rows]]
    if fused:
        tables = [[*cells[:-3], "   ".join(cells[-3:])] for cells in tables]
    lines = zeek_header(tables[0], tables[1]) + ["\t".join(cells) for cells in tables[2:]]
    return "\n".join(lines) + "\n"


def write(path: Path, content: str | bytes) -> Path:
    """Writes a file, making its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def table_text(rows: Sequence[Sequence[object]], delimiter: str = ",", end: str = "\n") -> str:
    """Delimited text; the first row is the header."""
    return end.join(delimiter.join(str(cell) for cell in row) for row in rows) + end


CIC_NAMES = """ Destination Port, Flow Duration, Total Fwd Packets, Total Backward Packets,
Total Length of Fwd Packets, Total Length of Bwd Packets, Fwd Packet Length Max, Fwd Packet Length Min,
 Fwd Packet Length Mean, Fwd Packet Length Std,Bwd Packet Length Max, Bwd Packet Length Min,
 Bwd Packet Length Mean, Bwd Packet Length Std,Flow Bytes/s, Flow Packets/s, Flow IAT Mean, Flow IAT Std,
 Flow IAT Max, Flow IAT Min,Fwd IAT Total, Fwd IAT Mean, Fwd IAT Std, Fwd IAT Max, Fwd IAT Min,Bwd IAT Total,
 Bwd IAT Mean, Bwd IAT Std, Bwd IAT Max, Bwd IAT Min,Fwd PSH Flags, Bwd PSH Flags, Fwd URG Flags,
 Bwd URG Flags, Fwd Header Length, Bwd Header Length,Fwd Packets/s, Bwd Packets/s, Min Packet Length,
 Max Packet Length, Packet Length Mean, Packet Length Std, Packet Length Variance,FIN Flag Count,
 SYN Flag Count, RST Flag Count, PSH Flag Count, ACK Flag Count, URG Flag Count, CWE Flag Count,
 ECE Flag Count, Down/Up Ratio, Average Packet Size, Avg Fwd Segment Size, Avg Bwd Segment Size,
 Fwd Header Length,Fwd Avg Bytes/Bulk, Fwd Avg Packets/Bulk, Fwd Avg Bulk Rate, Bwd Avg Bytes/Bulk,
 Bwd Avg Packets/Bulk,Bwd Avg Bulk Rate,Subflow Fwd Packets, Subflow Fwd Bytes, Subflow Bwd Packets,
 Subflow Bwd Bytes,Init_Win_bytes_forward, Init_Win_bytes_backward, act_data_pkt_fwd, min_seg_size_forward,
Active Mean, Active Std, Active Max, Active Min,Idle Mean, Idle Std, Idle Max, Idle Min, Label"""
CIC_HEADER = CIC_NAMES.replace("\n", "").split(",")
"""The 79 columns of the original release, blanks included."""

CORRECTED_HEADER = [
    "id",
    "Flow ID",
    "Src IP",
    "Src Port",
    "Dst IP",
    "Dst Port",
    "Protocol",
    "Timestamp",
    "Flow Duration",
    "Total Fwd Packet",
    "Total Bwd packets",
    "Total Length of Fwd Packet",
    "Flow Bytes/s",
    "Fwd Header Length",
    "CWR Flag Count",
    "FWD Init Win Bytes",
    "ICMP Code",
    "Total TCP Flow Time",
    "Label",
    "Attempted Category",
]
"""Columns of the corrected releases: all identifying ones and some features."""

UNSW_HEADER = [
    "id",
    "dur",
    "proto",
    "service",
    "state",
    "spkts",
    "dpkts",
    "sbytes",
    "dbytes",
    "rate",
    "sttl",
    "dttl",
    "sload",
    "dload",
    "sloss",
    "dloss",
    "sinpkt",
    "dinpkt",
    "sjit",
    "djit",
    "swin",
    "stcpb",
    "dtcpb",
    "dwin",
    "tcprtt",
    "synack",
    "ackdat",
    "smean",
    "dmean",
    "trans_depth",
    "response_body_len",
    "ct_srv_src",
    "ct_state_ttl",
    "ct_dst_ltm",
    "ct_src_dport_ltm",
    "ct_dst_sport_ltm",
    "ct_dst_src_ltm",
    "is_ftp_login",
    "ct_ftp_cmd",
    "ct_flw_http_mthd",
    "ct_src_ltm",
    "ct_srv_dst",
    "is_sm_ips_ports",
    "attack_cat",
    "label",
]
"""The 45 columns of the partitions."""


def cells(header: Sequence[str], values: Mapping[str, object], default: object = 0) -> list[object]:
    """A row under a header: `values` by trimmed name, `default` elsewhere."""
    return [values.get(name.strip(), default) for name in header]
