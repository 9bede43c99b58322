"""FlowTable: the labelled flows of a source, held in columns; a Flow or an Example is made on demand."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sv_env_network_logs.data.rows import EXTRA
from sv_env_network_logs.flows import FLOW_FIELDS, LABELS, Example, Flow, Label

ClusterKind = Literal["capture", "host-hour", "row-block"]
FEW_CAPTURES = 10
"""Below this many captures a cluster is a finer unit."""
ABSENT = "-"
"""What stands in Flow.extra for a feature that the source has and this row has not (CIC's Infinity and
NaN); the prompt shows missing values the same way."""
BLOCKS_PER_FILE, LONGEST_BLOCK = 50, 1000


@dataclass(frozen=True)
class SourceFile:
    """A file that rows came from: name within the source, sha256, size in bytes, rows in it, capture."""

    name: str
    sha256: str
    bytes: int
    rows: int
    capture: str


@dataclass(frozen=True)
class Provenance:
    """Where a table's rows come from.

    Attributes:
        id: short name of the dataset.
        source: what was asked for: a path or a hub id.
        schema: the layout's name.
        files: every file read.
        skipped: rows left out, by reason. Rows kept and skipped sum to the files' rows.
        ignored: files of the folder that hold no data (read-me, licence ...).
        notes: what a reader of results must know about the values.
        split: the split that the table is, "" for the whole source.
    """

    id: str
    source: str
    schema: str
    files: tuple[SourceFile, ...]
    skipped: dict[str, int] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()
    notes: str = ""
    split: str = ""


@dataclass(frozen=True)
class FlowTable:
    """Labelled flows in columns.

    Attributes:
        rows: pa.Table in single chunks: Flow fields under their names, `extra:` columns, and `malicious`
            (bool), `detail`, `capture`, `file` (dictionaries), `line` (int64).
        provenance: where they come from.
    """

    rows: Any
    provenance: Provenance

    def __len__(self) -> int:
        return int(self.rows.num_rows)

    @cached_property
    def fields(self) -> frozenset[str]:
        """The Flow fields that this source can fill."""
        return frozenset(self.rows.column_names) & frozenset(FLOW_FIELDS)

    @cached_property
    def malicious(self) -> npt.NDArray[np.bool_]:
        """The labels, (rows,), True for Malicious."""
        return np.asarray(self.rows["malicious"].to_numpy())

    @cached_property
    def _flow_columns(self) -> dict[str, Any]:
        return {name: self.rows[name].chunk(0) for name in FLOW_FIELDS if name in self.fields}

    @cached_property
    def _extra_columns(self) -> dict[str, Any]:
        names = [name for name in self.rows.column_names if name.startswith(EXTRA)]
        return {name.removeprefix(EXTRA): self.rows[name].chunk(0) for name in names}

    def flow(self, i: int) -> Flow:
        """Row i as a Flow: nothing of its label, place or capture is in it.

        Raises:
            IndexError: no such row.
        """
        values = {name: column[i].as_py() for name, column in self._flow_columns.items()}
        if self._extra_columns:
            values["extra"] = {
                name: _plain(column[i].as_py()) for name, column in self._extra_columns.items()
            }
        return Flow(**values)

    def label(self, i: int) -> Label:
        """The truth of row i."""
        return LABELS[int(self.malicious[i])]

    def example(self, i: int, history: Sequence[Flow] = ()) -> Example:
        """Row i with its truth and its place, for scoring.

        Args:
            i: the row.
            history: earlier flows of its host (see `windows.Windows`), oldest first.
        """
        return Example(
            flow=self.flow(i),
            label=self.label(i),
            detail=self.rows["detail"][i].as_py(),
            cluster=self.cluster(i),
            history=tuple(history),
            row=f"{self.rows['file'][i].as_py()}:{self.rows['line'][i].as_py()}",
        )

    @cached_property
    def captures(self) -> tuple[str, ...]:
        """The captures that occur, sorted."""
        return tuple(sorted(pc.unique(self.rows["capture"]).to_pylist()))

    @cached_property
    def cluster_kind(self) -> ClusterKind:
        """What a cluster is: the capture where there are ten or more; else the originating host in one hour;
        else, where the source has no hosts or times, a run of neighbouring rows of a file."""
        if len(self.captures) >= FEW_CAPTURES:
            return "capture"
        timed = {"ts", "src"} <= self.fields and not self.rows["ts"].null_count
        return "host-hour" if timed else "row-block"

    def cluster(self, i: int) -> str:
        """The name of row i's cluster."""
        capture = self.rows["capture"][i].as_py()
        if self.cluster_kind == "capture":
            return str(capture)
        if self.cluster_kind == "host-hour":
            hour = int(self.rows["ts"][i].as_py() // 3600)
            return f"{capture}|{self.rows['src'][i].as_py()}|{hour}"
        file = self.rows["file"][i].as_py()
        return f"{file}|{self.rows['line'][i].as_py() // self._block_lengths[file]}"

    @cached_property
    def _block_lengths(self) -> dict[str, int]:
        return {f.name: min(LONGEST_BLOCK, -(-f.rows // BLOCKS_PER_FILE)) for f in self.provenance.files}

    def take(self, rows: npt.ArrayLike, *, split: str | None = None) -> "FlowTable":
        """The table of some rows (indices or a mask), named as a split where `split` is given."""
        chosen = np.asarray(rows)
        chosen = np.flatnonzero(chosen) if chosen.dtype == bool else chosen
        provenance = self.provenance if split is None else replace(self.provenance, split=split)
        return FlowTable(self.rows.take(pa.array(chosen, pa.int64())).combine_chunks(), provenance)

    def counts(self) -> dict[str, int]:
        """Rows by label, both labels always present."""
        malicious = int(self.malicious.sum())
        return {LABELS[0]: len(self) - malicious, LABELS[1]: malicious}

    def describe(self) -> dict[str, Any]:
        """What a run's metadata says about the data; plain JSON values.

        `rows`, `labels`, `details`, `captures` and `absent` speak of this table; `files` and `skipped` of the
        whole source. `details` is keyed by the source's own fine labels, "" for none. `absent` counts the
        rows without a value, by column.
        """
        details = self.rows["detail"].value_counts().to_pylist()
        columns = {**self._flow_columns, **self._extra_columns}
        absent = {name: column.null_count for name, column in columns.items() if column.null_count}
        return {
            "id": self.provenance.id,
            "source": self.provenance.source,
            "schema": self.provenance.schema,
            "split": self.provenance.split,
            "rows": len(self),
            "labels": self.counts(),
            "details": dict(sorted((entry["values"], entry["counts"]) for entry in details)),
            "captures": list(self.captures),
            "cluster_kind": self.cluster_kind,
            "absent": absent,
            "files": [asdict(file) for file in self.provenance.files],
            "skipped": dict(self.provenance.skipped),
            "ignored": list(self.provenance.ignored),
            "notes": self.provenance.notes,
        }


def _plain(value: float | str | None) -> float | int | str:
    """An extra feature as it is shown: whole numbers without a fraction, a missing one as ABSENT."""
    if value is None:
        return ABSENT
    return int(value) if isinstance(value, float) and value.is_integer() else value
