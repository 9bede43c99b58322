"""Where a source is looked for, and what a folder may hold."""

import json
from pathlib import Path

import httpx
import pytest

from sv_env_network_logs.data import open_dataset
from sv_env_network_logs.data.hub import fetch_from_hub
from sv_shared.errors import DataError, UsageError
from tests.sv_env_network_logs.data.flow_files import (
    CIC_HEADER,
    CONN_TYPES,
    cells,
    conn,
    table_text,
    write,
    zeek_text,
)

LOG = zeek_text([conn(), conn(label="Malicious", detail="C&C")])
OTHER_LOG = zeek_text([conn(uid="other")])


def test_the_description_is_plain_json(tmp_path: Path) -> None:
    write(tmp_path / "iot" / "a" / "conn.log.labeled", LOG)
    write(tmp_path / "iot" / "b.log", OTHER_LOG)
    write(tmp_path / "iot" / "README.md", "about")
    write(tmp_path / "iot" / ".git" / "config", "hidden")
    described = json.loads(json.dumps(open_dataset(tmp_path / "iot").describe()))
    assert described["id"] == "iot"
    assert described["source"] == str(tmp_path / "iot")
    assert (described["rows"], described["labels"]) == (3, {"Benign": 2, "Malicious": 1})
    assert described["details"] == {"": 2, "C&C": 1}
    assert described["captures"] == ["a/conn.log.labeled", "b.log"]
    assert [(file["name"], file["rows"]) for file in described["files"]] == [
        ("a/conn.log.labeled", 2),
        ("b.log", 1),
    ]
    assert described["ignored"] == [".git/config", "README.md"]


def test_a_hub_id_is_fetched(tmp_path: Path) -> None:
    write(tmp_path / "snapshot" / "data.log", LOG)
    asked = []

    def fetch(repo: str, revision: str | None) -> Path:
        asked.append((repo, revision))
        return tmp_path / "snapshot"

    assert (
        open_dataset("19kmunz/iot-23-preprocessed", fetch=fetch).describe()["id"]
        == "19kmunz/iot-23-preprocessed"
    )
    open_dataset("owner/name@v1.0", fetch=fetch)
    assert asked == [("19kmunz/iot-23-preprocessed", None), ("owner/name", "v1.0")]


@pytest.mark.parametrize("error", [httpx.ConnectError("no route"), OSError("disk full")])
def test_an_unreachable_hub_is_explained(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> str:
        raise error

    monkeypatch.setattr("huggingface_hub.snapshot_download", fail)
    with pytest.raises(DataError, match=r"no local file or folder.*hub.*owner/name.*local copy"):
        fetch_from_hub("owner/name", None)


def test_offline_mode_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(DataError, match=r"owner/name-that-is-not-cached"):
        open_dataset("owner/name-that-is-not-cached")


def never(repo: str, _: str | None) -> Path:
    raise AssertionError(f"the hub was asked for {repo}")


@pytest.mark.parametrize("spec", ["./missing", "../a/b", "/no/such/file.log", "missing.log", "a/b/c"])
def test_a_missing_path_is_not_sought_on_the_hub(spec: str) -> None:
    with pytest.raises(DataError, match="no such file or folder"):
        open_dataset(spec, fetch=never)


def test_an_unknown_option_is_a_usage_error(tmp_path: Path) -> None:
    path = write(tmp_path / "a.log", LOG)
    with pytest.raises(
        UsageError, match=r"unknown value 'maybe' of attempted. Values: benign, malicious, drop"
    ):
        open_dataset(path, attempted="maybe")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="unknown split"):
        open_dataset(path, split="all")


def test_a_folder_without_data_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "LICENSE", "free")
    with pytest.raises(DataError, match="no data files"):
        open_dataset(tmp_path)


def test_a_folder_of_two_families_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "a.log", LOG)
    row = cells(CIC_HEADER, {"Label": "BENIGN"})
    write(tmp_path / "b.csv", table_text([CIC_HEADER, row]))
    with pytest.raises(DataError, match=r"mixes layouts: this is cicids2017.*a\.log is iot23-zeek.*b\.csv"):
        open_dataset(tmp_path)


def test_files_with_different_features_are_refused(tmp_path: Path) -> None:
    for name, header in (("monday.csv", CIC_HEADER), ("friday.csv", CIC_HEADER[:-2] + CIC_HEADER[-1:])):
        write(tmp_path / name, table_text([header, cells(header, {"Label": "BENIGN"})]))
    with pytest.raises(DataError, match=r"'extra:Idle Min' is in only one.*monday\.csv"):
        open_dataset(tmp_path)


def test_the_same_file_twice_is_refused(tmp_path: Path) -> None:
    for name in ("CTU-IoT-Malware-Capture-1-1", "CTU-IoT-Malware-Capture-2-1"):
        write(tmp_path / name / "conn.log.labeled", LOG)
    with pytest.raises(DataError, match=r"the same file is there twice"):
        open_dataset(tmp_path)


def test_an_unknown_file_in_a_folder_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "a.log", LOG)
    write(tmp_path / "features.csv", "No.,Name,Type\n1,srcip,nominal\n")
    with pytest.raises(DataError, match=r"unknown column set.*features\.csv, line 1"):
        open_dataset(tmp_path)


def test_resaved_tables_join_where_they_share_a_host_in_an_hour(tmp_path: Path) -> None:
    for name, host, time in (("a", 1, 10), ("b", 1, 3599), ("c", 1, 3600), ("d", 2, 10), ("e", 2, 20)):
        row = conn(id_orig_h=f"10.0.0.{host}", ts=str(time), detail="")
        write(tmp_path / f"{name}.tsv", table_text([list(CONN_TYPES), list(row.values())], "\t"))
    table = open_dataset(tmp_path)
    assert [file.capture for file in table.provenance.files] == [
        "a.tsv + b.tsv", "a.tsv + b.tsv", "c.tsv", "d.tsv + e.tsv", "d.tsv + e.tsv",
    ]  # fmt: skip


def test_rows_without_hosts_cluster_by_neighbourhood(tmp_path: Path) -> None:
    rows = [cells(CIC_HEADER, {"Label": "BENIGN", "Flow Duration": i}) for i in range(200)]
    table = open_dataset(write(tmp_path / "x.csv", table_text([CIC_HEADER, *rows])))
    clusters = [table.cluster(i) for i in range(200)]
    assert table.cluster_kind == "row-block"
    assert clusters == sorted(clusters, key=lambda name: int(name.split("|")[1]))
    sizes = [clusters.count(name) for name in set(clusters)]
    assert 50 <= len(sizes) <= 52
    assert max(sizes) == 4
