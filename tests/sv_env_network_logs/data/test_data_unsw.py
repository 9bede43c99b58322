"""UNSW-NB15: the partitions and the raw files without a header."""

from pathlib import Path

import pytest

from sv_env_network_logs.data import open_dataset
from sv_env_network_logs.data.unsw import RAW_HEADER
from sv_shared.errors import DataError
from tests.sv_env_network_logs.data.flow_files import UNSW_HEADER, cells, table_text, write

ROW = {
    "id": 7, "dur": 0.000011, "proto": "udp", "service": "-", "state": "INT", "spkts": 2, "sbytes": 496,
    "rate": 90909.0902, "sttl": 254, "attack_cat": "Normal", "label": 0,
}  # fmt: skip
RAW_ROW = {
    "srcip": "59.166.0.0", "sport": 1390, "dstip": "149.171.126.6", "dsport": 53, "proto": "udp",
    "state": "CON", "dur": 0.001055, "sbytes": 132, "service": "dns", "Spkts": 2, "Dpkts": 2,
    "Stime": 1421927414,
    "Ltime": 1421927414, "attack_cat": "", "Label": 0,
}  # fmt: skip


def partition(*rows: dict[str, object], end: str = "\r\n") -> str:
    return table_text([UNSW_HEADER, *[cells(UNSW_HEADER, ROW | row) for row in rows]], end=end)


def raw(*rows: dict[str, object]) -> str:
    return table_text([cells(RAW_HEADER, RAW_ROW | row) for row in rows])


@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
def test_a_partition(bom: bytes, tmp_path: Path) -> None:
    content = bom + partition({}, {"attack_cat": "Fuzzers", "label": 1}).encode()
    table = open_dataset(write(tmp_path / "set.csv", content))
    assert table.describe()["schema"] == "unsw-nb15-partition"
    flow = table.flow(0)
    assert (flow.proto, flow.service, flow.conn_state, flow.duration) == ("udp", None, "INT", 0.000011)
    assert (flow.orig_pkts, flow.resp_pkts, flow.orig_bytes, flow.orig_ip_bytes) == (2, 0, None, None)
    assert (flow.extra["sbytes"], flow.extra["rate"]) == (496, 90909.0902)
    assert not {"id", "attack_cat", "label"} & set(flow.extra)
    assert len(flow.extra) == 45 - 3 - 6  # without id and labels, and what fills Flow fields
    assert (table.label(1), table.example(1).detail) == ("Malicious", "Fuzzers")


def test_a_raw_file(tmp_path: Path) -> None:
    attack = {"attack_cat": " Backdoors ", "Label": 1, "sport": "0x000b", "dsport": "-", "ct_ftp_cmd": " "}
    table = open_dataset(write(tmp_path / "UNSW-NB15_1.csv", raw({}, attack)))
    assert table.describe()["schema"] == "unsw-nb15-raw"
    first, second = table.flow(0), table.flow(1)
    assert (first.ts, first.src, first.src_port, first.dst_port) == (1421927414, "59.166.0.0", 1390, 53)
    assert (second.src_port, second.dst_port, second.extra["ct_ftp_cmd"]) == (11, None, "-")
    assert (table.label(1), table.example(1).detail) == ("Malicious", "Backdoor")
    assert table.example(0).row == "UNSW-NB15_1.csv:1"
    assert not {"Ltime", "Stime", "attack_cat", "Label"} & set(first.extra)


def test_the_whole_testbed_is_one_capture(tmp_path: Path) -> None:
    write(tmp_path / "training.csv", partition({}, {"attack_cat": "DoS", "label": 1}))
    write(tmp_path / "testing.csv", partition({"dur": 2}, {"attack_cat": "DoS", "label": 1}))
    table = open_dataset(tmp_path)
    assert (table.captures, len(table)) == (("unsw-nb15",), 4)
    with pytest.raises(DataError, match=r"no dev split"):
        open_dataset(tmp_path, split="dev")


def test_a_header_is_read_in_any_case(tmp_path: Path) -> None:
    header = table_text([[name.upper() for name in RAW_HEADER]])
    assert open_dataset(write(tmp_path / "set.csv", header + raw({}))).flow(0).src == "59.166.0.0"
    odd = header.replace("RES_BDY_LEN", "BODY")
    with pytest.raises(DataError, match=r"column 26 'BODY' is not known \(the closest .* unsw-nb15-raw\)"):
        open_dataset(write(tmp_path / "odd.csv", odd + raw({})))


FAULTS = {
    "category": (
        partition({}, {"attack_cat": "Pranks", "label": 1}),
        r"'Pranks'.*line 3, column 44 'attack_cat'",
    ),
    "flag": (partition({"label": 2}), r"label '2', which is not 0 or 1.*line 2"),
    "contradiction": (partition({"attack_cat": "DoS"}), r"category 'DoS' beside label 0.*line 2"),
    "silent attack": (partition({"label": 1}), r"category 'Normal' beside label 1.*line 2"),
    "number": (partition({}, {"sjit": "x"}), r"'x', which is not a number.*line 3, column 19 'sjit'"),
    "cut": (partition({}, {})[:-20], r"of 45 fields: the file is cut off.*line 3"),
    "raw port": (raw({}, {"sport": "70000"}), r"'70000', which is not a port.*line 2, column 2 'sport'"),
    "raw width": (raw({}) + "1,2,3\n", r"has 3 of 49 fields.*line 2"),
    "blanks in a word": (
        partition({"state": "I N T"}),
        r"'I N T', which is not a state.*line 2, column 5 'state'",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_bad_field_is_named(fault: str, tmp_path: Path) -> None:
    content, message = FAULTS[fault]
    with pytest.raises(DataError, match=message):
        open_dataset(write(tmp_path / "set.csv", content))
