"""IoT-23 as re-saved tables and as the Hugging Face sets, in text and in Parquet."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sv_env_network_logs.data import open_dataset
from sv_shared.errors import DataError
from tests.sv_env_network_logs.data.flow_files import CONN_TYPES, conn, table_text, write

NAMES = list(CONN_TYPES)
HF_NAMES = [name for name in NAMES if not name.startswith("local") and name not in (
    "ts", "uid", "id.orig_h", "id.resp_h", "tunnel_parents", "detailed-label")]  # fmt: skip
ALL_NAMES = [name for name in NAMES if name not in ("tunnel_parents", "detailed-label")]
NUMBERS = {"ts": float, "duration": float, "local_orig": float, "local_resp": float} | {
    name: int for name, kind in CONN_TYPES.items() if kind in ("count", "port")
}


def resaved(delimiter: str, *rows: dict[str, str]) -> str:
    return table_text([NAMES, *[[row[name] for name in NAMES] for row in rows]], delimiter)


def hf_rows(*rows: dict[str, str], names: list[str] = HF_NAMES) -> dict[str, list[Any]]:
    """Columns as the sets have them: unset numbers are 0, booleans NaN."""
    columns = {
        name: [NUMBERS.get(name, str)(row[name].replace("-", "") or 0) for row in rows] for name in names
    }
    for name in {"local_orig", "local_resp"} & set(names):
        columns[name] = [float("nan")] * len(rows)
    return columns | {name: [row[name] for row in rows] for name in ("service", "label", "history")}


def parquet(path: Path, columns: dict[str, Any]) -> Path:
    pq.write_table(pa.table(columns), path)
    return path


@pytest.mark.parametrize("delimiter", ["\t", ",", "|"])
def test_a_resaved_table_reads_like_the_log(delimiter: str, tmp_path: Path) -> None:
    unset = conn(service="", duration="", orig_bytes="", label="malicious", detail="Okiru")
    content = resaved(delimiter, conn(orig_bytes="149.0", detail=""), unset)
    table = open_dataset(write(tmp_path / "flows.any", content))
    assert table.describe()["schema"] == "iot23-table"
    first, second = table.flow(0), table.flow(1)
    assert (first.orig_bytes, first.service, first.ts) == (149, "http", 1545403816.962094)
    assert (second.orig_bytes, second.service, second.duration) == (None, None, None)
    assert (table.label(1), table.example(1).detail) == ("Malicious", "Okiru")


def test_quoted_fields_may_hold_the_delimiter(tmp_path: Path) -> None:
    table = open_dataset(write(tmp_path / "flows.csv", resaved(",", conn(service='"ssl,smtp"'))))
    assert table.flow(0).service == "ssl,smtp"


@pytest.mark.parametrize("container", ["parquet", "csv"])
def test_the_preprocessed_set(container: str, tmp_path: Path) -> None:
    columns = hf_rows(conn(), conn(service="-", duration="-", orig_bytes="-", label="C&C-HeartBeat"))
    path = tmp_path / "train.data"
    if container == "csv":
        write(path, table_text([HF_NAMES, *zip(*(columns[name] for name in HF_NAMES), strict=True)]))
    else:
        parquet(path, columns)
    table = open_dataset(path)
    assert table.describe()["schema"] == "iot23-hf"
    assert table.counts() == {"Benign": 1, "Malicious": 1}
    assert table.example(1).detail == "C&C-HeartBeat"
    flow = table.flow(1)
    assert (flow.service, flow.duration, flow.orig_bytes) == (None, 0.0, 0)
    assert (flow.ts, flow.src, flow.dst) == (None, None, None)
    assert table.example(1).row.endswith(":2" if container == "parquet" else ":3")


def test_all_columns_has_hosts_but_no_captures(tmp_path: Path) -> None:
    for shard in (1, 2):
        columns = hf_rows(conn(id_orig_p=str(shard)), conn(label="Okiru-Attack"), names=ALL_NAMES)
        parquet(tmp_path / f"train-{shard}.parquet", columns)
    table = open_dataset(tmp_path)
    assert table.describe()["schema"] == "iot23-hf-allcolumns"
    assert table.captures == ("iot-23-preprocessed",)
    assert table.flow(0).src == "192.168.1.195"
    with pytest.raises(DataError, match=r"no train split"):
        open_dataset(tmp_path, split="train")


def changed(name: str, values: list[Any]) -> dict[str, Any]:
    return hf_rows(conn(), conn()) | {name: values}


PARQUET_FAULTS = {
    "text for a number": (
        changed("orig_pkts", ["1", "2"]),
        r"stored as string, but a count.*column 11 'orig_pkts'",
    ),
    "fraction": (
        changed("resp_pkts", [1.0, 1.5]),
        r"1.5, which is not a count.*row 2, column 13 'resp_pkts'",
    ),
    "fractional port": (
        changed("id.resp_p", [80.0, 80.5]),
        r"80.5, which is not a port.*row 2, column 2 'id.resp_p'",
    ),
    "number for a word": (
        changed("proto", [1.5, 2.5]),
        r"stored as double, but a protocol.*column 3 'proto'",
    ),
    "missing port": (changed("id.orig_p", [80, None]), r"a port is needed.*row 2, column 1 'id.orig_p'"),
    "no label": (changed("label", ["Benign", None]), r"not a label.*row 2, column 15 'label'"),
    "negative": (
        changed("duration", [0.0, -1.0]),
        r"-1.0, which is not a duration.*row 2, column 5 'duration'",
    ),
    "unknown column": (changed("extra", [1, 2]), r"column 16 'extra' is not known.*iot23-hf"),
}


@pytest.mark.parametrize("fault", PARQUET_FAULTS)
def test_a_bad_parquet_field_is_named(fault: str, tmp_path: Path) -> None:
    columns, message = PARQUET_FAULTS[fault]
    with pytest.raises(DataError, match=message):
        open_dataset(parquet(tmp_path / "train.parquet", columns))


def test_missing_numbers_in_parquet_are_none(tmp_path: Path) -> None:
    columns = changed("orig_bytes", [None, 7]) | {"duration": [float("nan"), 2.0]}
    table = open_dataset(parquet(tmp_path / "train.parquet", columns))
    assert (table.flow(0).orig_bytes, table.flow(0).duration) == (None, None)
    assert (table.flow(1).orig_bytes, table.flow(1).duration) == (7, 2.0)


@pytest.mark.parametrize("keep", [0.3, 0.9])
def test_a_cut_off_parquet_file_is_refused(keep: float, tmp_path: Path) -> None:
    whole = parquet(tmp_path / "whole.parquet", hf_rows(*[conn()] * 50)).read_bytes()
    cut = write(tmp_path / "cut.parquet", whole[: int(len(whole) * keep)])
    with pytest.raises(DataError, match=r"Parquet file is cut off or damaged.*cut\.parquet"):
        open_dataset(cut)


def test_a_parquet_file_with_damaged_pages_is_refused(tmp_path: Path) -> None:
    whole = bytearray(parquet(tmp_path / "whole.parquet", hf_rows(*[conn()] * 50)).read_bytes())
    whole[4:200] = b"\xff" * 196
    with pytest.raises(DataError, match=r"cut off or damaged"):
        open_dataset(write(tmp_path / "bad.parquet", bytes(whole)))


TEXT_FAULTS = {
    "cut in a row": (lambda t: t[:-30], r"of 23 fields: the file is cut off.*line 3"),
    "cut before the detail": (lambda t: t[:-4], r"ends inside a label.*line 3, column 23"),
    "bad bytes": (lambda t: t.replace(b"http", b"h\xfft", 1), r"byte 0xff.*line 2, column 8 'service'"),
    "header only": (lambda t: t[: t.find(b"\n") + 1], r"a header and no rows"),
    "header bytes": (lambda t: b"\xff" + t, r"header line is not valid UTF-8.*line 1"),
    "half a header": (lambda t: t[:60], r"column .* is missing.*line 1"),
    "renamed column": (
        lambda t: t.replace(b"proto", b"protocol", 1),
        r"column 7 'protocol' is not known.*line 1",
    ),
    "another table": (lambda _: b"a,b\n1,2\n", r"unknown column set, beginning with column 1 'a'.*line 1"),
    "repeated column": (lambda t: t.replace(b"uid", b"ts", 1), r"column 2 'ts.1' is not known.*line 1"),
}


@pytest.mark.parametrize("fault", TEXT_FAULTS)
def test_a_damaged_table_is_refused(fault: str, tmp_path: Path) -> None:
    harm, message = TEXT_FAULTS[fault]
    content = resaved("\t", conn(detail=""), conn(label="Malicious", detail="DDoS")).encode()
    with pytest.raises(DataError, match=message):
        open_dataset(write(tmp_path / "flows.tsv", harm(content)))
