"""Captures: which files belong together, so that no capture ends up in two splits."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt


def merge_shared(names: Sequence[str], tables: Sequence[Any]) -> list[str]:
    """Gives one name to files whose rows show that they hold parts of one capture.

    Re-saved tables mix captures without naming them. The evidence used is a host that originates flows in two
    files in the same hour; it errs on the side of joining, which can cost splits but can't leak.

    Args:
        names: the files' captures so far.
        tables: their rows, with `src` and `ts`.

    Returns:
        the captures; joined ones are named after all their members, "a + b".
    """
    parent = list(range(len(names)))

    def root(i: int) -> int:
        while parent[i] != i:
            i = parent[i]
        return i

    first_seen: dict[tuple[str, int], int] = {}
    for i, table in enumerate(tables):
        for host_hour in _host_hours(table):
            other = first_seen.setdefault(host_hour, i)
            parent[root(i)] = root(other)
    members: dict[int, set[str]] = {}
    for i, name in enumerate(names):
        members.setdefault(root(i), set()).add(name)
    return [" + ".join(sorted(members[root(i)])) for i in range(len(names))]


def _host_hours(table: Any) -> set[tuple[str, int]]:
    found: set[tuple[str, int]] = set()
    for hosts, times in zip(table["src"].chunks, table["ts"].chunks, strict=True):
        hours: npt.NDArray[np.int64] = (times.to_numpy() // 3600).astype(np.int64)
        codes = hosts.indices.to_numpy()
        pairs = np.unique(np.stack([codes, hours]), axis=1)
        words = hosts.dictionary
        found |= {(words[int(code)].as_py(), int(hour)) for code, hour in pairs.T}
    return found
