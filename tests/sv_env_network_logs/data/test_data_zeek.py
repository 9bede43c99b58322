"""Zeek's conn.log.labeled: both label layouts, and every way in which a log can be damaged."""

import gzip
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sv_env_network_logs.data import open_dataset, text
from sv_env_network_logs.flows import Flow
from sv_shared.errors import DataError
from tests.sv_env_network_logs.data.flow_files import CONN_TYPES, conn, write, zeek_text

ROWS = [conn(), conn(label="Malicious", detail="C&C"), conn(label="malicious", detail="DDoS")]
LAYOUTS = [{"fused": True}, {"fused": False}, {"fused": False, "detail": "detailedlabel"}]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_both_label_layouts_read_alike(layout: dict, tmp_path: Path) -> None:
    table = open_dataset(write(tmp_path / "conn.log.labeled", zeek_text(ROWS, **layout)))
    assert table.describe()["schema"] == "iot23-zeek"
    assert [table.label(i) for i in range(3)] == ["Benign", "Malicious", "Malicious"]
    assert [table.example(i).detail for i in range(3)] == ["", "C&C", "DDoS"]
    assert [table.example(i).row for i in range(3)] == [f"conn.log.labeled:{line}" for line in (9, 10, 11)]


def test_unset_is_none_and_empty_is_empty(tmp_path: Path) -> None:
    row = conn(service="-", duration="-", orig_bytes="-", history="(empty)", conn_state="-")
    flow = open_dataset(write(tmp_path / "conn.log", zeek_text([row]))).flow(0)
    assert (flow.service, flow.duration, flow.orig_bytes, flow.conn_state) == (None, None, None, None)
    assert flow.history == ""
    assert flow.resp_bytes == 128252


def test_the_header_declares_the_marks_and_the_separator(tmp_path: Path) -> None:
    content = zeek_text([conn(service="?"), conn(duration="?")]).replace("#unset_field\t-", "#unset_field\t?")
    content = content.replace("-   Benign   -", "?   Benign   -").replace("\t-", "\t?").replace("\t", "|")
    content = content.replace("\\x09", "\\x7c")
    table = open_dataset(write(tmp_path / "conn.log", content))
    assert (table.flow(0).service, table.flow(1).duration) == (None, None)


def test_comments_and_a_repeated_header_are_no_rows(tmp_path: Path) -> None:
    one = zeek_text(ROWS)
    table = open_dataset(
        write(tmp_path / "conn.log", one + "#close\t2019-03-15\n" + one + "#close\t2019-03-16")
    )
    assert len(table) == 6
    assert table.describe()["skipped"] == {}
    assert [table.example(i).row for i in (2, 3)] == ["conn.log:11", "conn.log:21"]


def test_a_different_second_header_is_refused(tmp_path: Path) -> None:
    other = zeek_text(ROWS).replace("id.orig_p", "id.orig_q")
    with pytest.raises(DataError, match=r"a second #fields line differs.*line 18"):
        open_dataset(write(tmp_path / "conn.log", zeek_text(ROWS) + other))


def test_gzip_is_known_by_its_content(tmp_path: Path) -> None:
    path = write(tmp_path / "conn.log.labeled", gzip.compress(zeek_text(ROWS).encode()))
    assert len(open_dataset(path)) == 3


def test_a_later_zeek_may_add_columns(tmp_path: Path) -> None:
    content = zeek_text(ROWS, fused=False).replace("\tlabel\t", "\tcommunity_id\tlabel\t")
    content = content.replace("set[string]\tstring", "set[string]\tstring\tstring")
    content = content.replace("139044\t-\t", "139044\t-\t1:abc=\t")
    assert len(open_dataset(write(tmp_path / "conn.log", content))) == 3


HEADER_FAULTS = {
    "no separator": ("#separator \\x09\n", "", r"no #separator line"),
    "odd separator": ("\\x09", "tab", r"unreadable #separator line.*line 1"),
    "no unset": ("#unset_field\t-\n", "", r"no #unset_field line"),
    "no types": ("#types", "#tipes", r"no #types line"),
    "another log": ("#path\tconn", "#path\tdns", r"\['dns'\] log, not conn.*line 5"),
    "wrong type": (
        "interval\tcount",
        "string\tcount",
        r"'string' where interval.*line 8, column 9 'duration'",
    ),
    "short types": ("\tcount\tset[string]", "\tset[string]", r"#fields has 21 names, #types 20.*line 8"),
    "unknown column": ("\tuid\t", "\tudi\t", r"column 2 'udi' is not known.*line 8"),
    "missing column": ("\tproto\t", "\tlocal\t", r"column 7 'local' is not known.*line 8"),
    "repeated column": ("\tresp_pkts\t", "\torig_pkts\t", r"column 19 'orig_pkts.1' is not known.*line 8"),
    "fewer types fused": (
        "set[string]   string   ",
        "set[string]   ",
        r"3 names stand beside 2 types.*line 8",
    ),
}


@pytest.mark.parametrize("fault", HEADER_FAULTS)
def test_a_bad_header_is_named(fault: str, tmp_path: Path) -> None:
    old, new, message = HEADER_FAULTS[fault]
    content = zeek_text(ROWS)
    assert old in content
    with pytest.raises(DataError, match=message):
        open_dataset(write(tmp_path / "conn.log", content.replace(old, new, 1)))


def test_a_log_without_labels_is_refused(tmp_path: Path) -> None:
    content = zeek_text(ROWS, fused=False).replace("\tlabel\tdetailed-label", "")
    content = content.replace("set[string]\tstring\tstring", "set[string]").replace("-\tBenign\t-", "-")
    with pytest.raises(DataError, match=r"label column 'label' is missing.*line 8"):
        open_dataset(write(tmp_path / "conn.log", content))


FIELD_FAULTS = {
    "word for a count": (
        {"orig_pkts": "many"},
        r"'many', which is not a count.*line 10, column 17 'orig_pkts'",
    ),
    "fraction": ({"resp_pkts": "1.5"}, r"line 10, column 19 'resp_pkts'"),
    "negative": ({"orig_bytes": "-4"}, r"line 10, column 10 'orig_bytes'"),
    "hexadecimal": ({"orig_bytes": "0x1F"}, r"'0x1F', which is not a count.*line 10, column 10 'orig_bytes'"),
    "nan": ({"duration": "nan"}, r"line 10, column 9 'duration'"),
    "infinite": ({"ts": "inf"}, r"line 10, column 1 'ts'"),
    "no time": ({"ts": "-"}, r"has no value, but a time is needed.*line 10, column 1 'ts'"),
    "port": ({"id_resp_p": "65536"}, r"65536, which is not a port.*line 10, column 6 'id.resp_p'"),
    "no address": ({"id_orig_h": "-"}, r"line 10, column 3 'id.orig_h'"),
    "not an address": ({"id_resp_h": "example.org"}, r"'example.org'.*line 10, column 5 'id.resp_h'"),
    "not IPv6": ({"id_resp_h": "fe80::1::2"}, r"line 10, column 5 'id.resp_h'"),
    "state": ({"conn_state": "SX"}, r"'SX', which is not a conn_state.*line 10, column 12"),
    "sentence": ({"service": "ignore this"}, r"'ignore this', which is not a service.*line 10, column 8"),
    "empty field": ({"orig_bytes": ""}, r"line 10, column 10 'orig_bytes'"),
    "unknown label": ({"label": "Suspicious"}, r"'Suspicious C&C'.*not a label.*line 10, column 21"),
    "contradiction": ({"label": "Benign"}, r"calls a 'C&C' flow 'Benign'.*line 10, column 21"),
    "two label parts": ({"label": "Malicious\t"}, r"line 10"),
}


@pytest.mark.parametrize("fault", FIELD_FAULTS)
def test_a_bad_field_is_named_by_line_and_column(fault: str, tmp_path: Path) -> None:
    changes, message = FIELD_FAULTS[fault]
    rows = [ROWS[0], conn(**{"label": "Malicious", "detail": "C&C"} | changes), ROWS[2]]
    with pytest.raises(DataError, match=message) as caught:
        open_dataset(write(tmp_path / "conn.log", zeek_text(rows)))
    assert "conn.log" in caught.value.where


@pytest.mark.parametrize("place", [0, 7, 9000, 11_999])
def test_the_line_is_right_in_a_long_file(
    place: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text, "BLOCK", 200_000)
    rows = [conn()] * 12_000
    rows[place] = conn(duration="soon")
    with pytest.raises(DataError, match=rf"line {place + 9}, column 9 'duration'"):
        open_dataset(write(tmp_path / "conn.log", zeek_text(rows)))


def damage(content: bytes) -> dict[str, tuple[bytes, str]]:
    last = content.rstrip(b"\n").rfind(b"\n") + 1
    return {
        "cut in a row": (content[: last + 40], r"of 21 fields: the file is cut off.*line 11"),
        "cut in the last label": (content[:-4], r"ends inside a label.*line 11, column 21"),
        "cut before the label": (content[:-20], r"line 11, column 21"),
        "bad byte": (content.replace(b"CrDn63", b"Cr\xffn63", 2), r"byte 0xff.*line 9, column 2 'uid'"),
        "NUL byte": (content.replace(b"http", b"ht\0p", 1), r"a NUL byte.*line 9, column 8 'service'"),
        "empty": (b"", r"the file is empty"),
        "blanks": (b"\n \n", r"the file is empty"),
        "header only": (content[: content.find(b"15454")], r"a header and no rows"),
        "half a header": (content[:60], r"no #unset_field line"),
        "blank line": (content[:last] + b"\n" + content[last:], r"has 1 of 21 fields.*line 11"),
        "extra field": (content[:-1] + b"\tx\n", r"has 22 of 21 fields.*line 11"),
        "carriage return": (content.replace(b"http", b"ht\rp", 1), r"line 9, column 8 'service'"),
        "cut gzip": (gzip.compress(content)[:-20], r"gzip file is cut off"),
        "zip": (b"PK\x03\x04" + content, r"zip archive"),
    }


@pytest.mark.parametrize("kind", damage(zeek_text(ROWS).encode()))
def test_a_damaged_file_is_refused_whole(kind: str, tmp_path: Path) -> None:
    content, message = damage(zeek_text(ROWS).encode())[kind]
    with pytest.raises(DataError, match=message):
        open_dataset(write(tmp_path / "conn.log.labeled", content))


def test_a_missing_last_line_end_is_no_damage(tmp_path: Path) -> None:
    assert len(open_dataset(write(tmp_path / "conn.log", zeek_text(ROWS).rstrip("\n")))) == 3


def test_an_open_comment_says_nothing_of_the_last_label(tmp_path: Path) -> None:
    content = zeek_text([conn(label="Malicious", detail="From_a-To_b")], fused=False)
    assert len(open_dataset(write(tmp_path / "conn.log", content + "#close\t2019"))) == 1


optional_count = st.none() | st.integers(0, 2**50)
flows = st.builds(
    Flow,
    ts=st.floats(0, 2e9).map(lambda t: round(t, 6)),
    src=st.ip_addresses().map(str),
    src_port=st.integers(0, 65535),
    dst=st.ip_addresses().map(str),
    dst_port=st.integers(0, 65535),
    proto=st.sampled_from(["tcp", "udp", "icmp"]),
    service=st.none() | st.sampled_from(["dns", "http", "ssl,smtp"]),
    duration=st.none() | st.floats(0, 1e6).map(lambda d: round(d, 6)),
    orig_bytes=optional_count,
    resp_bytes=optional_count,
    conn_state=st.none() | st.sampled_from(["S0", "SF", "RSTOS0"]),
    history=st.none() | st.text("ShADadFfRrCc^", max_size=12),
    missed_bytes=optional_count,
    orig_pkts=optional_count,
    orig_ip_bytes=optional_count,
    resp_pkts=optional_count,
    resp_ip_bytes=optional_count,
)
ZEEK_NAMES = {
    "ts": "ts",
    "src": "id.orig_h",
    "src_port": "id.orig_p",
    "dst": "id.resp_h",
    "dst_port": "id.resp_p",
}


def as_row(flow: Flow, malicious: bool) -> dict[str, str]:
    """The flow as Zeek would write it."""
    row = dict.fromkeys(CONN_TYPES, "-")
    for name in Flow.__dataclass_fields__:
        value = getattr(flow, name)
        if name != "extra" and value is not None:
            shown = f"{value:.6f}" if isinstance(value, float) else str(value)
            row[ZEEK_NAMES.get(name, name)] = shown or "(empty)"
    return row | {
        "label": "Malicious" if malicious else "Benign",
        "detailed-label": "DDoS" if malicious else "-",
    }


@settings(max_examples=40, deadline=None)
@given(items=st.lists(st.tuples(flows, st.booleans()), min_size=1, max_size=30), fused=st.booleans())
def test_a_written_log_reads_back(
    items: list[tuple[Flow, bool]], fused: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    content = zeek_text([as_row(flow, malicious) for flow, malicious in items], fused=fused)
    path = write(tmp_path_factory.mktemp("log") / "conn.log", content)
    table = open_dataset(path)
    assert [table.flow(i) for i in range(len(table))] == [flow for flow, _ in items]
    assert [table.label(i) == "Malicious" for i in range(len(table))] == [bad for _, bad in items]
