"""Splits by capture, and seeded selections."""

import hashlib
from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sv_env_network_logs.data.table import FlowTable
from sv_shared.errors import DataError, UsageError

Split = Literal["train", "dev", "test"]
SPLITS: tuple[Split, ...] = ("train", "dev", "test")
FRACTIONS: tuple[float, float, float] = (0.7, 0.1, 0.2)
"""Shares of the captures in train, dev and test, before rounding."""


def assign_splits(
    captures: Sequence[str], fractions: tuple[float, float, float] = FRACTIONS
) -> dict[str, Split]:
    """Each capture's split.

    Captures are put in the order of the hash of their names and cut by the fractions, so the assignment
    depends on the names alone. From three captures on no split is empty. Two give train and test; a single
    one is test.

    Raises:
        UsageError: fractions that are negative or do not sum to 1.
    """
    if min(fractions) < 0 or abs(sum(fractions) - 1) > 1e-9:
        raise UsageError(f"split fractions {fractions} are not shares that sum to 1")
    names = sorted(set(captures), key=lambda name: hashlib.sha256(name.encode()).digest())
    total = len(names)
    if total < 3:
        return {name: "train" if place else "test" for place, name in enumerate(names)}
    test = min(max(1, round(fractions[2] * total)), total - 2)
    dev = min(max(1, round(fractions[1] * total)), total - test - 1)
    return {
        name: "test" if place < test else "dev" if place < test + dev else "train"
        for place, name in enumerate(names)
    }


def take_split(table: FlowTable, split: str, fractions: tuple[float, float, float] = FRACTIONS) -> FlowTable:
    """The rows of one split: whole captures, none of them in another split.

    Raises:
        UsageError: no such split.
        DataError: the source has too few captures for this split.
    """
    if split not in SPLITS:
        raise UsageError(f"unknown split {split!r}", hint=f"Splits: {', '.join(SPLITS)}")
    splits = assign_splits(table.captures, fractions)
    chosen = [capture for capture, its in splits.items() if its == split]
    if not chosen:
        count = len(splits)
        few = "a single capture is" if count == 1 else f"{count} captures are"
        raise DataError(
            f"no {split} split: {few} too few, and rows of one capture in two splits would leak",
            where=f"{table.provenance.source}, captures: {', '.join(table.captures)}",
            hint="Use its test split, or a source with at least 3 captures",
        )
    mask = pc.is_in(table.rows["capture"].cast(pa.string()), pa.array(chosen))
    return table.take(mask.to_numpy(), split=split)


def require_both_classes(table: FlowTable, rows: npt.NDArray[np.int64] | None = None) -> None:
    """Checks that what is to be scored has both labels.

    Args:
        table: the split.
        rows: the selected rows; None for all.

    Raises:
        DataError: a label is missing; the message has the counts.
    """
    malicious = table.malicious if rows is None else table.malicious[rows]
    bad = int(malicious.sum())
    if 0 < bad < len(malicious):
        return
    share = table.counts()
    of_split = f"; the whole split has {share['Benign']} Benign and {share['Malicious']} Malicious"
    raise DataError(
        f"the rows to score have a single class: {len(malicious) - bad} Benign, {bad} Malicious"
        + (of_split if rows is not None else ""),
        where=f"{table.provenance.source}, split {table.provenance.split or 'all'}",
        hint="Score more rows, take another seed, or add a capture with the other class",
    )


def select(table: FlowTable, n: int, seed: int, *, both_classes: bool = True) -> npt.NDArray[np.int64]:
    """A uniform sample of row indices without replacement, in random order.

    The sample is a function of `n`, `seed` and the number of rows alone, so neither labels nor the order of
    the file shape it.

    Args:
        table: the split to draw from.
        n: how many, at least 1.
        seed: of the draw.
        both_classes: refuse a sample without one of the labels.

    Raises:
        UsageError: n < 1.
        DataError: n exceeds the rows, or the sample has a single class.
    """
    if n < 1:
        raise UsageError(f"{n} rows can't be selected", hint="Ask for at least 1")
    if n > len(table):
        raise DataError(
            f"{n} rows were asked for, but there are {len(table)}",
            where=f"{table.provenance.source}, split {table.provenance.split or 'all'}",
            hint=f"Ask for at most {len(table)}",
        )
    rows = np.random.default_rng(seed).permutation(len(table))[:n]
    if both_classes:
        require_both_classes(table, rows)
    return rows
