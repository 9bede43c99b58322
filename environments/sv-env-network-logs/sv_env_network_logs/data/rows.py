"""Rows: typed Arrow columns of one piece of a file, with label, detail and place beside the Flow fields."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sv_env_network_logs.data.kinds import BadCell
from sv_env_network_logs.data.labels import Attempted, Verdict
from sv_env_network_logs.data.schema import Bound, Schema
from sv_shared.errors import DataError

EXTRA = "extra:"
"""Prefix of the columns that become Flow.extra."""
WORDS = pa.dictionary(pa.int32(), pa.string())


@dataclass(frozen=True)
class Piece:
    """Raw columns of some consecutive rows of a file.

    Attributes:
        columns: bound columns; `arrays` in the same order, of the kinds' `read` types.
        lines: place of each row in the file (a line number in text, a row number in Parquet), from 1.
        at: (place, column) -> how a message names the field.
        open_end: the last row ends the file without a line end, so its label may have been cut off.
    """

    columns: Sequence[Bound]
    arrays: Sequence[Any]
    lines: npt.NDArray[np.int64]
    at: Callable[[int, Bound], str]
    open_end: bool = False


def typed_rows(piece: Piece, schema: Schema, attempted: Attempted) -> tuple[Any, Counter[str]]:
    """Types a piece and reads its labels.

    Returns:
        a pa.Table with the Flow fields that the schema fills, `extra:` columns, `malicious`, `detail` and
        `line`; and the number of rows left out by reason.

    Raises:
        DataError: names the place of the first field that does not fit.
    """
    out: dict[str, Any] = {}
    texts: dict[str, Any] = {}
    for bound, array in zip(piece.columns, piece.arrays, strict=True):
        values = _convert(piece, bound, array, schema)
        if bound.column.label:
            texts[bound.name] = values
        if values is not None and bound.column.flow:
            out[bound.column.flow] = values
        if values is not None and bound.column.extra:
            out[EXTRA + bound.name] = values
    verdicts, codes = _verdicts(piece, schema, texts, attempted)
    out["malicious"] = pa.array(np.array([v.malicious for v in verdicts], dtype=bool)[codes])
    out["detail"] = pa.array([v.detail for v in verdicts], pa.string()).take(pa.array(codes)).cast(WORDS)
    out["line"] = pa.array(piece.lines)
    table = pa.table(out)
    reasons = np.array([v.skip for v in verdicts])[codes]
    skipped = Counter(
        {str(r): int(n) for r, n in zip(*np.unique(reasons, return_counts=True), strict=True) if r}
    )
    return (table.filter(pa.array(reasons == "")) if skipped else table), skipped


def _convert(piece: Piece, bound: Bound, array: Any, schema: Schema) -> Any:
    kind = bound.column.kind
    if kind.convert is None:
        return None
    try:
        values = kind.convert(array, schema.marks)
        if kind.required and values.null_count:
            row = pc.index(values.is_null(), True).as_py()
            raise BadCell(row, f"has no value, but a {kind.name} is needed")
    except BadCell as bad:
        raise DataError(f"the field {bad.why}", where=piece.at(int(piece.lines[bad.row]), bound)) from bad
    return values.cast(WORDS) if pa.types.is_dictionary(values.type) else values


def _verdicts(
    piece: Piece, schema: Schema, texts: dict[str, Any], attempted: Attempted
) -> tuple[list[Verdict], npt.NDArray[np.int64]]:
    """One verdict for each distinct combination of label texts, and the combination of each row."""
    labels = schema.label_columns(piece.columns)
    codes = np.zeros(len(piece.lines), dtype=np.int64)
    words = [[*texts[bound.name].dictionary.to_pylist(), ""] for bound in labels]  # the last: no value
    for bound, known in zip(labels, words, strict=True):
        indices = pc.fill_null(texts[bound.name].indices, len(known) - 1)
        codes = codes * len(known) + indices.to_numpy(zero_copy_only=False)
    combinations, first, codes = np.unique(codes, return_index=True, return_inverse=True)
    verdicts = []
    for combination, row in zip(combinations.tolist(), first.tolist(), strict=True):
        chosen: list[str] = []
        for known in reversed(words):
            combination, code = divmod(combination, len(known))
            chosen.insert(0, known[code])
        try:
            verdicts.append(schema.verdict(tuple(chosen), attempted))
        except ValueError as error:
            raise DataError(f"the field {error}", where=piece.at(int(piece.lines[row]), labels[0])) from error
    if piece.open_end and len(codes) and not verdicts[codes[-1]].complete:
        raise DataError(
            "the file ends inside a label that is not known in full: it is cut off",
            where=piece.at(int(piece.lines[-1]), labels[-1]),
            hint="Fetch the file again",
        )
    return verdicts, codes
