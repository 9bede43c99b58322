"""Every real file loads with every row accounted for."""

import json
from pathlib import Path

import numpy as np
import pytest

from sv_env_network_logs.data import FlowTable, Windows, open_dataset, select, take_split
from sv_shared.errors import DataError

pytestmark = pytest.mark.real_data

SCHEMAS = {
    "iot23_ctu34_zeek": "iot23-zeek",
    "iot23_hf_schema": "iot23-hf",
    "iot23_mixed_tsv23": "iot23-table",
    "cicids2017_native_thu_webattacks": "cicids2017",
    "cicids2017_native_fri_ddos10": "cicids2017",
    "unsw_nb15_native": "unsw-nb15-partition",
}


@pytest.fixture(params=SCHEMAS)
def real(request: pytest.FixtureRequest, shared_data: Path) -> tuple[FlowTable, dict]:
    folder = shared_data / "E1" / request.param
    return open_dataset(folder), json.loads((folder / "PROVENANCE.json").read_text())


def expected_details(labels: dict[str, int]) -> dict[str, int]:
    """The provenance's raw labels in the loader's terms."""
    found: dict[str, int] = {}
    for raw, count in labels.items():
        name = raw.split(",")[0].removeprefix("Malicious").strip().removesuffix("-").strip()
        if name.startswith("Web Attack"):
            name = "Web Attack - " + name.split(" ", 3)[3]
        name = "" if name.casefold() in ("benign", "normal") else name
        found[name] = found.get(name, 0) + count
    return found


def test_every_row_is_accounted_for(real: tuple[FlowTable, dict]) -> None:
    table, provenance = real
    described = table.describe()
    assert described["schema"] == SCHEMAS[provenance["dataset"]]
    assert len(table) + sum(described["skipped"].values()) == provenance["rows"]
    assert sum(file["rows"] for file in described["files"]) == provenance["rows"]
    assert {f["name"]: f["sha256"] for f in described["files"]} == {
        f["file"]: f["sha256"] for f in provenance["files"]
    }


def test_labels_are_those_of_the_provenance(real: tuple[FlowTable, dict]) -> None:
    table, provenance = real
    details = expected_details(provenance["labels"])
    assert table.describe()["details"] == dict(sorted(details.items()))
    benign = sum(n for raw, n in provenance["labels"].items() if raw[:6].casefold() in ("benign", "normal"))
    assert table.counts() == {"Benign": benign, "Malicious": provenance["rows"] - benign}


def test_labels_and_places_stay_out_of_the_flow(real: tuple[FlowTable, dict]) -> None:
    table, _ = real
    for i in select(table, min(len(table), 50), 0, both_classes=False):
        flow = table.flow(int(i))
        assert not {"label", "attack_cat", "id", "Label", "detailed-label"} & set(flow.extra)
        assert not {"Benign", "Malicious", "BENIGN"} & {str(value) for value in flow.extra.values()}


def test_a_single_capture_is_test_only(real: tuple[FlowTable, dict]) -> None:
    table, _ = real
    assert len(table.captures) == 1
    assert len(take_split(table, "test")) == len(table)
    with pytest.raises(DataError, match=r"no train split: a single capture is too few"):
        take_split(table, "train")


def test_the_first_native_row(shared_data: Path) -> None:
    flow = open_dataset(shared_data / "E1" / "iot23_ctu34_zeek").flow(0)
    assert (flow.ts, flow.src, flow.src_port) == (1545403816.962094, "192.168.1.195", 41040)
    assert (flow.dst, flow.dst_port, flow.proto, flow.service) == ("185.244.25.235", 80, "tcp", None)
    assert (flow.duration, flow.orig_bytes, flow.resp_bytes) == (3.139211, 0, 0)
    assert (flow.conn_state, flow.history, flow.missed_bytes) == ("S0", "S", 0)
    assert (flow.orig_pkts, flow.orig_ip_bytes, flow.resp_pkts, flow.resp_ip_bytes) == (3, 180, 0, 0)


def test_the_preprocessed_set_keeps_its_zeros(shared_data: Path) -> None:
    table = open_dataset(shared_data / "E1" / "iot23_hf_schema")
    native = open_dataset(shared_data / "E1" / "iot23_ctu34_zeek")
    assert table.rows["duration"].null_count == 0
    assert native.rows["duration"].null_count > 0
    assert "zeros" in table.describe()["notes"]


def test_files_that_share_hosts_in_an_hour_are_one_capture(shared_data: Path) -> None:
    table = open_dataset(shared_data / "E1" / "iot23_mixed_tsv23")
    assert len(table.provenance.files) == 2
    assert len(table.captures) == 1
    assert table.cluster_kind == "host-hour"


def test_infinities_are_absent(shared_data: Path) -> None:
    table = open_dataset(shared_data / "E1" / "cicids2017_native_thu_webattacks")
    assert table.describe()["absent"] == {"Flow Bytes/s": 3, "Flow Packets/s": 3, "duration": 1}
    row = int(np.flatnonzero(table.rows["extra:Flow Bytes/s"].is_null().to_numpy())[0])
    assert table.flow(row).extra["Flow Bytes/s"] == "-"


def test_the_window_of_a_real_flow_is_its_hosts_past(shared_data: Path) -> None:
    table = open_dataset(shared_data / "E1" / "iot23_ctu34_zeek")
    windows = Windows(table, flows=5, seconds=600)
    full = 0
    for i in select(table, 50, 3):
        example = windows.example(int(i))
        full += len(example.history) == 5
        for earlier in example.history:
            assert earlier.src == example.flow.src
            assert example.flow.ts - 600 <= earlier.ts < example.flow.ts
    assert full > 0


@pytest.mark.parametrize("name", ["iot23_hf_schema", "cicids2017_native_fri_ddos10", "unsw_nb15_native"])
def test_the_window_view_needs_hosts_and_times(name: str, shared_data: Path) -> None:
    with pytest.raises(DataError, match=r"lacks 'src' .* and 'ts'"):
        Windows(open_dataset(shared_data / "E1" / name))
