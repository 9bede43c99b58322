"""Splits never divide a capture, selections never follow the labels."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sv_env_network_logs.data import FlowTable, open_dataset, require_both_classes, select, take_split
from sv_env_network_logs.data.splits import assign_splits
from sv_shared.errors import DataError, UsageError
from tests.sv_env_network_logs.data.flow_files import conn, write, zeek_text

names = st.lists(st.text(min_size=1, max_size=8), unique=True, max_size=40)


@given(names)
def test_every_capture_has_one_split_whatever_the_order(captures: list[str]) -> None:
    splits = assign_splits(captures)
    assert set(splits) == set(captures)
    assert splits == assign_splits(captures[::-1])
    assert set(splits.values()) == {0: set(), 1: {"test"}, 2: {"train", "test"}}.get(
        len(captures), {"train", "dev", "test"}
    )


@given(names.filter(lambda captures: len(captures) >= 20))
def test_many_captures_are_shared_out_by_the_fractions(captures: list[str]) -> None:
    counts = np.unique(list(assign_splits(captures).values()), return_counts=True)
    shares = dict(zip(counts[0], counts[1] / len(captures), strict=True))
    for split, share in {"train": 0.7, "dev": 0.1, "test": 0.2}.items():
        assert abs(shares[split] - share) < 0.06


@pytest.mark.parametrize("fractions", [(0.5, 0.5, 0.5), (1.2, -0.1, -0.1)])
def test_fractions_must_be_shares(fractions: tuple[float, float, float]) -> None:
    with pytest.raises(UsageError, match="shares that sum to 1"):
        assign_splits(["a", "b"], fractions)


def captures(folder: Path, count: int, *, rows: int = 4) -> FlowTable:
    """One log a scenario folder, half of each Malicious."""
    for c in range(count):
        flows = [
            conn(uid=f"C{c}", **({"label": "Malicious", "detail": "DDoS"} if r % 2 else {}))
            for r in range(rows)
        ]
        write(folder / f"CTU-IoT-Malware-Capture-{c}-1" / "bro" / "conn.log.labeled", zeek_text(flows))
    return open_dataset(folder)


def test_splits_are_disjoint_and_complete(tmp_path: Path) -> None:
    table = captures(tmp_path, 5)
    parts = {split: take_split(table, split) for split in ("train", "dev", "test")}
    assert sum(len(part) for part in parts.values()) == len(table)
    assert sorted(name for part in parts.values() for name in part.captures) == list(table.captures)
    assert all(part.describe()["split"] == split for split, part in parts.items())
    assert len(open_dataset(tmp_path, split="dev")) == len(parts["dev"])
    assert table.captures[0] == "CTU-IoT-Malware-Capture-0-1"


def test_two_captures_have_no_dev_split(tmp_path: Path) -> None:
    table = captures(tmp_path, 2)
    assert len(take_split(table, "train")) == len(take_split(table, "test")) == 4
    with pytest.raises(DataError, match=r"no dev split: 2 captures are too few"):
        take_split(table, "dev")


def test_an_unknown_split_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"unknown split 'validation'. Splits: train, dev, test"):
        take_split(captures(tmp_path, 1), "validation")


@pytest.mark.parametrize(("count", "kind"), [(9, "host-hour"), (10, "capture")])
def test_few_captures_give_finer_clusters(count: int, kind: str, tmp_path: Path) -> None:
    table = captures(tmp_path, count)
    assert table.cluster_kind == kind == table.describe()["cluster_kind"]
    finer = "CTU-IoT-Malware-Capture-0-1|192.168.1.195|429278"
    assert table.cluster(0) == (finer if kind == "host-hour" else "CTU-IoT-Malware-Capture-0-1")


def labelled(folder: Path, labels: list[bool]) -> FlowTable:
    """A log whose row i has source port i."""
    rows = [
        conn(id_orig_p=str(i), **({"label": "Malicious", "detail": "C&C"} if bad else {}))
        for i, bad in enumerate(labels)
    ]
    return open_dataset(write(folder / "conn.log", zeek_text(rows)))


def test_a_selection_does_not_depend_on_labels(tmp_path: Path) -> None:
    sorted_labels = labelled(tmp_path / "a", [False] * 50 + [True] * 50)
    mixed = labelled(tmp_path / "b", [False, True] * 50)
    for seed in range(5):
        assert select(sorted_labels, 20, seed).tolist() == select(mixed, 20, seed).tolist()


def test_a_selection_is_seeded_uniform_and_without_replacement(tmp_path: Path) -> None:
    table = labelled(tmp_path, [False, True] * 10)
    assert select(table, 8, 1).tolist() == select(table, 8, 1).tolist() != select(table, 8, 2).tolist()
    assert sorted(select(table, 20, 3).tolist()) == list(range(20))
    drawn = np.concatenate([select(table, 5, seed, both_classes=False) for seed in range(2000)])
    counts = np.bincount(drawn, minlength=20)
    assert abs(counts - 500).max() < 6 * np.sqrt(500 * 0.75)
    first = np.bincount([select(table, 5, seed, both_classes=False)[0] for seed in range(2000)], minlength=20)
    assert first.max() < 100 + 6 * 10


def test_more_than_there_is_is_refused_with_both_numbers(tmp_path: Path) -> None:
    table = labelled(tmp_path, [False, True])
    with pytest.raises(DataError, match=r"3 rows were asked for, but there are 2"):
        select(table, 3, 0)
    with pytest.raises(UsageError, match=r"0 rows"):
        select(table, 0, 0)


def test_a_single_class_is_refused_with_its_counts(tmp_path: Path) -> None:
    benign = labelled(tmp_path / "a", [False] * 5)
    with pytest.raises(DataError, match=r"single class: 5 Benign, 0 Malicious"):
        require_both_classes(benign)
    rare = labelled(tmp_path / "b", [False] * 300 + [True])
    require_both_classes(rare)
    with pytest.raises(
        DataError, match=r"2 Benign, 0 Malicious; the whole split has 300 Benign and 1 Malicious"
    ):
        select(rare, 2, 0)
    assert len(select(rare, 2, 0, both_classes=False)) == 2
