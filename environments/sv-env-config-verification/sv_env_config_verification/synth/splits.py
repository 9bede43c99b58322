"""Splits: seed ranges, and a partition of structures, so that no near-duplicate is in two splits.

Different seeds alone do not keep splits apart: names differ, but there are only so many ways to break one
Deployment. So every split owns a share of the cells of a near-duplicate key, and a draw that falls into
another split's cell is dropped.
"""

import hashlib

from sv_shared.splits import QUARTERS, Split


def owned(key: str, split: Split) -> bool:
    """Whether the cell of a near-duplicate key belongs to the split."""
    return hashlib.sha256(key.encode()).digest()[0] % 4 in QUARTERS[split]
