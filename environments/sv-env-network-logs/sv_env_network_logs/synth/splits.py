"""Splits: seed ranges, and a partition of what is displayed, so that no near-duplicate is in two splits.

Different seeds alone do not keep splits apart: there are only so many ways to be refused on port 22. So every
split owns a share of the cells of a near-duplicate key, and a draw that falls into another split's cell is
dropped. Whether it is dropped depends on what is displayed and on nothing else, so P(Malicious | displayed)
is the same in all splits, and the same as before dropping.
"""

import numpy as np

from sv_env_network_logs.synth.columns import Columns
from sv_env_network_logs.synth.laws import Bools, Floats, Ints
from sv_shared.splits import QUARTERS, Split


def owned(flows: Columns, split: Split) -> Bools:
    """True for the connections whose cell belongs to the split."""
    return np.isin(_cells(flows) % np.uint64(4), np.array(QUARTERS[split], np.uint64))


def _cells(flows: Columns) -> "np.ndarray[tuple[int], np.dtype[np.uint64]]":
    """A hash of the near-duplicate key: what is displayed, without addresses, source port and header bytes.

    Numbers are cut to two significant digits.
    """
    cells = np.zeros(len(flows), np.uint64)
    for part in (flows.category, flows.dst_port, *map(_two_digits, flows.numbers.values())):
        cells = _stirred(cells ^ part.astype(np.int64).view(np.uint64))
    return cells


def _two_digits(values: Floats) -> Ints:
    """A code that is equal for numbers with the same first two significant digits."""
    positive = np.where(values > 0, values, 1.0)
    exponent = np.floor(np.log10(positive) + 1e-9)
    digits = np.floor(positive / 10.0 ** (exponent - 1) + 1e-6)
    return np.where(values > 0, 1000 * (exponent + 10) + digits, 0).astype(np.int64)


def _stirred(
    words: "np.ndarray[tuple[int], np.dtype[np.uint64]]",
) -> "np.ndarray[tuple[int], np.dtype[np.uint64]]":
    """One round of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014)."""
    words = words + np.uint64(0x9E3779B97F4A7C15)
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))
