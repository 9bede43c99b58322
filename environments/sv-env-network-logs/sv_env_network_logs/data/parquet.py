"""Parquet files, a batch of rows at a time."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sv_env_network_logs.data.kinds import BadCell, Kind, refuse
from sv_env_network_logs.data.rows import Piece
from sv_env_network_logs.data.schema import Bound, Schema, choose
from sv_shared.errors import DataError

BATCH = 131_072
"""Rows read at a time."""


def open_parquet(path: Path, name: str, schemas: tuple[Schema, ...]) -> tuple[Schema, Iterator[Piece]]:
    """Recognises a Parquet file's layout by its columns.

    Args:
        path: the file.
        name: what messages call it.
        schemas: the layouts to choose from.

    Raises:
        DataError: the file is cut off or damaged, or its columns are of no known layout.
    """
    try:
        file = pq.ParquetFile(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise _damaged(name, error) from error
    header = [column.strip() for column in file.schema_arrow.names if column != "__index_level_0__"]
    schema = choose(header, schemas, where=f"{name}, schema")
    return schema, _pieces(file, name, schema.bind(header))


def _damaged(name: str, error: Exception) -> DataError:
    return DataError(
        f"the Parquet file is cut off or damaged: {str(error)[:200]}", where=name, hint="Fetch it again"
    )


def _pieces(file: Any, name: str, bound: tuple[Bound, ...]) -> Iterator[Piece]:
    def at(row: int, column: Bound) -> str:
        return f"{name}, row {row}, {column.place}"

    done = 0
    batches = file.iter_batches(BATCH)
    while True:
        try:
            batch = next(batches, None)
        except (pa.ArrowInvalid, OSError) as error:
            raise _damaged(name, error) from error
        if batch is None:
            break
        arrays = []
        for column, array in zip(bound, batch.columns, strict=False):
            try:
                arrays.append(_as_read(array, column.column.kind))
            except BadCell as bad:
                raise DataError(f"the field {bad.why}", where=at(done + bad.row + 1, column)) from bad
        lines = np.arange(done + 1, done + 1 + batch.num_rows, dtype=np.int64)
        yield Piece(bound, arrays, lines, at)
        done += batch.num_rows
    if done != file.metadata.num_rows:
        raise DataError(f"{done} rows were read of {file.metadata.num_rows}", where=name)


def _as_read(array: Any, kind: Kind) -> Any:
    """The array in the type that the kind converts from; numbers stay numbers and texts stay texts.

    NaN is how data frames store a missing number, so it becomes None.

    Raises:
        BadCell: at row 0 where the stored type can't be of this kind, else at the first bad value.
    """
    if kind.convert is None:
        return array
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    stored = array.type
    if pa.types.is_floating(stored):
        array = pc.if_else(pc.is_nan(array), pa.scalar(None, stored), array)
    is_text = any(test(stored) for test in (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary))
    is_whole = pa.types.is_integer(stored)
    if pa.types.is_null(stored):
        return array.cast(kind.read)
    if kind.is_number and (is_whole or pa.types.is_floating(stored)):
        if pa.types.is_integer(kind.read) and not is_whole:
            refuse(pc.invert(pc.equal(array, pc.floor(array))), array, kind.name)
        return array.cast(kind.read)
    if not kind.is_number and (is_text or is_whole or pa.types.is_timestamp(stored)):
        return array.cast(pa.string()).cast(kind.read)
    raise BadCell(0, f"is stored as {stored}, but a {kind.name} is needed")
