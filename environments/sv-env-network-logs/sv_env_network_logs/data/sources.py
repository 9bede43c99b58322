"""Sources: a local file, a local folder, or a dataset on the hub, as one FlowTable."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sv_env_network_logs.data.captures import merge_shared
from sv_env_network_logs.data.files import Loaded, load_file
from sv_env_network_logs.data.hub import ID, fetch_from_hub
from sv_env_network_logs.data.labels import ATTEMPTED, Attempted
from sv_env_network_logs.data.splits import take_split
from sv_env_network_logs.data.table import FlowTable, Provenance, SourceFile
from sv_shared.errors import DataError, UsageError

_NO_DATA = re.compile(
    r"\..*|licen[cs]e.*|readme.*|.*\.(json|md|txt|html?|pdf|ya?ml|py|ipynb|sh|sha256|md5|lock|png)",
    re.IGNORECASE,
)
"""Names of files that accompany data; `describe()` lists them as ignored."""


def open_dataset(
    spec: str | Path,
    *,
    split: str | None = None,
    attempted: Attempted = "benign",
    fetch: Callable[[str, str | None], Path] = fetch_from_hub,
) -> FlowTable:
    """Loads a source completely, or not at all.

    Args:
        spec: a file, a folder whose data files are all of one layout, or "owner/name[@revision]" on the hub.
        split: "train", "dev" or "test" by capture; None for all rows.
        attempted: how the corrected CIC-IDS-2017's "X - Attempted" rows count (see `labels.ATTEMPTED`).
        fetch: (hub id, revision) -> local folder.

    Raises:
        DataError: nothing there, or a file that is damaged or of an unknown layout; names file, line and
            column.
        UsageError: an unknown value of `split` or `attempted`.
    """
    if attempted not in ATTEMPTED:
        raise UsageError(f"unknown value {attempted!r} of attempted", hint=f"Values: {', '.join(ATTEMPTED)}")
    root, dataset = _locate(str(spec), fetch)
    paths, ignored = _data_files(root)
    loaded = [load_file(path, str(path), attempted) for path in paths]
    _check_one_family(paths, loaded)
    files = _describe_files(root, paths, loaded)
    schema = loaded[0].schema
    provenance = Provenance(
        id=dataset,
        source=str(spec),
        schema=schema.name,
        files=files,
        skipped=dict(sum((one.skipped for one in loaded), Counter[str]())),
        ignored=ignored,
        notes=schema.notes,
    )
    order = loaded[0].rows.column_names
    placed = [_with_place(one.rows.select(order), file) for one, file in zip(loaded, files, strict=True)]
    table = FlowTable(pa.concat_tables(placed).unify_dictionaries().combine_chunks(), provenance)
    return table if split is None else take_split(table, split)


def _locate(spec: str, fetch: Callable[[str, str | None], Path]) -> tuple[Path, str]:
    """The file or folder, and the dataset's short name."""
    path = Path(spec).expanduser()
    if path.exists():
        return path, path.resolve().name
    match = ID.fullmatch(spec)
    if not match or spec.startswith("."):
        raise DataError("no such file or folder", where=spec, hint="Check the path")
    return fetch(match[1], match[2]), spec


def _data_files(root: Path) -> tuple[list[Path], tuple[str, ...]]:
    """The data files of a source in the order of their names, and the names of those passed over."""
    if root.is_file():
        return [root], ()
    if not root.is_dir():
        raise DataError("neither a file nor a folder", where=str(root))
    files = sorted(path for path in root.rglob("*") if path.is_file())
    ignored = {
        path for path in files if any(_NO_DATA.fullmatch(part) for part in path.relative_to(root).parts)
    }
    data = [path for path in files if path not in ignored]
    if not data:
        raise DataError("the folder has no data files", where=str(root), hint="Check the path")
    return data, tuple(sorted(path.relative_to(root).as_posix() for path in ignored))


def _check_one_family(paths: Sequence[Path], loaded: Sequence[Loaded]) -> None:
    """All files have one layout with the same columns, and none is there twice."""
    seen: dict[str, Path] = {}
    for path, one in zip(paths, loaded, strict=True):
        if one.sha256 in seen:
            raise DataError(
                f"the same file is there twice, the other is {seen[one.sha256]}",
                where=str(path),
                hint="Remove one: its rows would count twice, and could land in two splits",
            )
        seen[one.sha256] = path
        if one.schema.name != loaded[0].schema.name:
            raise DataError(
                f"the folder mixes layouts: this is {one.schema.name}, {paths[0]} is {loaded[0].schema.name}",
                where=str(path),
                hint="Load one of them at a time",
            )
        if odd := sorted(set(one.rows.column_names) ^ set(loaded[0].rows.column_names)):
            raise DataError(
                f"the files differ in their columns: {odd[0]!r} is in only one of this and {paths[0]}",
                where=str(path),
                hint="Load one of them at a time",
            )


def _describe_files(root: Path, paths: Sequence[Path], loaded: Sequence[Loaded]) -> tuple[SourceFile, ...]:
    base = root if root.is_dir() else root.parent
    names = [path.relative_to(base) for path in paths]
    schema = loaded[0].schema
    captures = [schema.capture(name) for name in names]
    if schema.mixed:
        captures = merge_shared(captures, [one.rows for one in loaded])
    return tuple(
        SourceFile(name.as_posix(), one.sha256, one.size, one.rows.num_rows + one.skipped.total(), capture)
        for name, one, capture in zip(names, loaded, captures, strict=True)
    )


def _with_place(rows: Any, file: SourceFile) -> Any:
    """The rows with their file and capture beside them."""
    zeros = pa.array(np.zeros(rows.num_rows, dtype=np.int32))
    for name, word in (("file", file.name), ("capture", file.capture)):
        rows = rows.append_column(name, pa.DictionaryArray.from_arrays(zeros, [word]))
    return rows
