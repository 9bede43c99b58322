"""The window view against a plain definition of it."""

from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sv_env_network_logs.data import FlowTable, Windows, open_dataset
from sv_shared.errors import DataError, UsageError
from tests.sv_env_network_logs.data.flow_files import (
    CORRECTED_HEADER,
    cells,
    conn,
    table_text,
    write,
    zeek_text,
)

events = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 3), st.integers(0, 30)), min_size=1, max_size=40
)


def log_of(folder: Path, items: list[tuple[int, int, int]]) -> FlowTable:
    """Flows of (capture, host, time); the port tells them apart."""
    for capture in {c for c, _, _ in items}:
        rows = [
            conn(ts=str(1000 + time), id_orig_h=f"10.0.0.{host}", id_orig_p=str(i))
            for i, (c, host, time) in enumerate(items)
            if c == capture
        ]
        write(folder / f"{capture}.log", zeek_text(rows))
    return open_dataset(folder)


@settings(max_examples=40, deadline=None)
@example(items=[(0, 0, 0), (0, 0, 5), (0, 0, 5)], flows=2, seconds=5)
@given(items=events, flows=st.integers(1, 5), seconds=st.integers(1, 20))
def test_the_past_is_what_its_definition_says(
    items: list[tuple[int, int, int]], flows: int, seconds: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    table = log_of(tmp_path_factory.mktemp("logs"), items)
    windows = Windows(table, flows=flows, seconds=seconds)
    for i in range(len(table)):
        this = items[table.flow(i).src_port or 0]
        past = sorted(
            time for c, host, time in items if (c, host) == this[:2] and this[2] - seconds <= time < this[2]
        )
        found = windows.history(i)
        assert [flow.ts - 1000 for flow in found if flow.ts] == past[-flows:]
        assert all(items[flow.src_port or 0][:2] == this[:2] for flow in found)


def test_the_example_carries_its_history(tmp_path: Path) -> None:
    table = log_of(tmp_path, [(0, 1, 5), (0, 1, 7), (0, 2, 6), (1, 1, 6)])
    example = Windows(table).example(1)
    assert (example.flow.src_port, [flow.src_port for flow in example.history]) == (1, [0])


@pytest.mark.parametrize("size", [{"flows": 0}, {"seconds": 0}, {"seconds": float("nan")}])
def test_an_empty_window_is_refused(size: dict, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is empty"):
        Windows(log_of(tmp_path, [(0, 0, 0)]), **size)


def test_times_that_are_no_instants_are_refused(tmp_path: Path) -> None:
    row = {
        "Src IP": "10.0.0.1",
        "Dst IP": "10.0.0.2",
        "Protocol": 6,
        "Label": "BENIGN",
        "Timestamp": "3/7/2017 8:54",
    }
    content = table_text([CORRECTED_HEADER, cells(CORRECTED_HEADER, row)])
    with pytest.raises(DataError, match=r"lacks 'ts' \(unset in 1 rows\)"):
        Windows(open_dataset(write(tmp_path / "monday.csv", content)))
