"""CIC-IDS-2017: the original 79 columns and the corrected releases."""

from pathlib import Path
from typing import Any

import pytest

from sv_env_network_logs.data import open_dataset
from sv_shared.errors import DataError
from tests.sv_env_network_logs.data.flow_files import CIC_HEADER, CORRECTED_HEADER, cells, table_text, write

BASE = {"Destination Port": 80, "Flow Duration": 5520750, "Total Fwd Packets": 3, "Label": "BENIGN"}


def original(*rows: dict[str, object]) -> str:
    return table_text([CIC_HEADER, *[cells(CIC_HEADER, BASE | row) for row in rows]])


CORRECTED = {
    "id": 1, "Flow ID": "a-b-1-2-6", "Src IP": "192.168.10.5", "Src Port": 54865, "Dst IP": "104.16.207.165",
    "Dst Port": 443, "Protocol": 6, "Timestamp": "2017-07-03 11:55:58.598308", "Flow Duration": 3,
    "Total Fwd Packet": 2, "Total Length of Fwd Packet": 12.0, "Label": "BENIGN", "Attempted Category": -1,
}  # fmt: skip


def corrected(*rows: dict[str, object], header: list[str] = CORRECTED_HEADER) -> str:
    return table_text([header, *[cells(header, CORRECTED | row) for row in rows]])


def load(tmp_path: Path, content: str | bytes, name: str = "flows.csv", **options: Any):
    return open_dataset(write(tmp_path / name, content), **options)


def test_the_original_release(tmp_path: Path) -> None:
    assert len(CIC_HEADER) == 79
    row = {"Idle Mean": "1982.5", "Active Max": "1982.0", "Flow Bytes/s": "Infinity", "Flow Packets/s": "NaN"}
    table = load(tmp_path, original(row, {"Label": "DDoS"}))
    assert table.describe()["schema"] == "cicids2017"
    flow = table.flow(0)
    assert (flow.dst_port, flow.duration, flow.orig_pkts, flow.resp_pkts) == (80, 5.52075, 3, 0)
    assert (flow.orig_bytes, flow.proto, flow.src) == (None, None, None)
    assert [repr(flow.extra[name]) for name in ("Idle Mean", "Active Max")] == ["1982.5", "1982"]
    assert (flow.extra["Flow Bytes/s"], flow.extra["Flow Packets/s"]) == ("-", "-")
    assert table.describe()["absent"] == {"Flow Bytes/s": 1, "Flow Packets/s": 1}
    assert len(flow.extra) == 79 - 6  # without port, duration, two packet counts, the repeated column, label
    assert (table.label(1), table.example(1).detail) == ("Malicious", "DDoS")


def test_a_negative_duration_has_no_value(tmp_path: Path) -> None:
    table = load(tmp_path, original({"Flow Duration": -1}))
    assert table.flow(0).duration is None
    assert table.describe()["absent"] == {"duration": 1}


DASHES = {
    "cp1252": b"\x96",
    "replaced": b"\xef\xbf\xbd",
    "mojibake": "ï¿½".encode(),
    "dash": "–".encode(),
    "ascii": b"-",
}


@pytest.mark.parametrize("dash", DASHES)
@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
def test_any_dash_of_a_web_attack_and_a_byte_order_mark(dash: str, bom: bytes, tmp_path: Path) -> None:
    content = original({"Label": "Web Attack ~ XSS"}).encode().replace(b"~", DASHES[dash])
    table = load(tmp_path, bom + content)
    assert (table.label(0), table.example(0).detail) == ("Malicious", "Web Attack - XSS")
    assert table.flow(0).dst_port == 80


def test_lines_of_commas_are_counted_as_skipped(tmp_path: Path) -> None:
    blank = "," * 78 + "\r\n"
    content = original(BASE).replace("\n", "\r\n") + blank * 3
    described = load(tmp_path, content).describe()
    assert described["rows"] == 1
    assert described["skipped"] == {"blank row": 3}
    assert described["files"][0]["rows"] == 4


def test_the_corrected_release(tmp_path: Path) -> None:
    table = load(tmp_path, corrected({}, {"Label": "DoS Hulk", "Protocol": 17}, {"Protocol": 0}))
    assert table.describe()["schema"] == "cicids2017-corrected"
    flow = table.flow(0)
    assert (flow.src, flow.src_port, flow.dst, flow.dst_port) == (
        "192.168.10.5",
        54865,
        "104.16.207.165",
        443,
    )
    assert (flow.ts, flow.duration, flow.proto) == (1499082958.598308, 3e-06, "tcp")
    assert [table.flow(i).proto for i in (1, 2)] == ["udp", "ip-0"]
    assert "Attempted Category" not in flow.extra
    assert "id" not in flow.extra
    assert "Flow ID" not in flow.extra


@pytest.mark.parametrize("stamp", ["4/7/2017 8:54", "03/07/2017 08:55:58", "07/07/2017 03:30:10 PM"])
def test_a_local_clock_is_no_instant(stamp: str, tmp_path: Path) -> None:
    assert load(tmp_path, corrected({"Timestamp": stamp})).flow(0).ts is None


ATTEMPTED = [{"Label": "BENIGN"}, {"Label": "DoS Hulk"}, {"Label": "DoS Hulk - Attempted"}]


@pytest.mark.parametrize(
    ("attempted", "labels", "skipped"),
    [
        ("benign", {"Benign": 2, "Malicious": 1}, {}),
        ("malicious", {"Benign": 1, "Malicious": 2}, {}),
        ("drop", {"Benign": 1, "Malicious": 1}, {"attempted": 1}),
    ],
)
def test_attempted_attacks_are_read_as_asked(attempted, labels, skipped, tmp_path: Path) -> None:
    table = load(tmp_path, corrected(*ATTEMPTED), attempted=attempted)
    assert table.counts() == labels
    assert table.describe()["skipped"] == skipped
    assert table.describe()["files"][0]["rows"] == 3
    assert ("DoS Hulk - Attempted" in table.describe()["details"]) == (attempted != "drop")


def test_attempted_attacks_are_benign_by_default(tmp_path: Path) -> None:
    assert load(tmp_path, corrected(*ATTEMPTED)).counts() == {"Benign": 2, "Malicious": 1}


def test_files_of_one_day_are_one_capture(tmp_path: Path) -> None:
    for name, label in [
        ("Friday-Morning.csv", "Bot"),
        ("friday_DDoS_12.csv", "DDoS"),
        ("Tuesday.csv", "BENIGN"),
    ]:
        write(tmp_path / name, original({"Label": label}))
    assert open_dataset(tmp_path).captures == ("friday", "tuesday")


FAULTS = {
    "unknown label": (
        original({}, {"Label": "Smurf"}),
        r"'Smurf', which is not a label.*line 3, column 79 'Label'",
    ),
    "damaged label": (original({}, {"Label": "BENIGN~"}), r"not a label.*line 3, column 79 'Label'"),
    "half a label": (original({}, {"Label": "Web Attack ~ X"}), r"not a label.*line 3, column 79 'Label'"),
    "word": (
        original({}, {"Idle Std": "many"}),
        r"'many', which is not a number.*line 3, column 76 'Idle Std'",
    ),
    "no port": (original({"Destination Port": ""}), r"a port is needed.*line 2, column 1 'Destination Port'"),
    "fraction": (
        original({"Total Fwd Packets": 1.5}),
        r"1.5, which is not a count.*column 3 'Total Fwd Packets'",
    ),
    "cut": (original({}, {})[:-30], r"of 79 fields: the file is cut off.*line 3"),
    "empty label": (original({"Label": ""}), r"line 2, column 79 'Label'"),
    "third header length": (
        original({}).replace("Idle Max", "Fwd Header Length"),
        r"'Fwd Header Length.2'.*line 1",
    ),
    "protocol": (corrected({}, {"Protocol": 300}), r"300, which is not a protocol number.*line 3, column 7"),
    "timestamp": (corrected({"Timestamp": "noon"}), r"'noon', which is not a timestamp.*line 2, column 8"),
    "no such day": (corrected({"Timestamp": "2017-02-31 00:00:00"}), r"not a timestamp.*line 2, column 8"),
    "address": (corrected({"Src IP": "host"}), r"'host', which is not an address.*line 2, column 3 'Src IP'"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_bad_field_is_named(fault: str, tmp_path: Path) -> None:
    content, message = FAULTS[fault]
    with pytest.raises(DataError, match=message):
        load(tmp_path, content.encode().replace(b"~", b"\x96"))
