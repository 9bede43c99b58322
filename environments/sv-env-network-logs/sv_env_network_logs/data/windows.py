"""The window view: what a flow's originating host did shortly before it, in the same capture."""

import numpy as np
import numpy.typing as npt

from sv_env_network_logs.data.table import FlowTable
from sv_env_network_logs.flows import Example, Flow
from sv_shared.errors import DataError, UsageError

NEEDED = ("src", "ts")


class Windows:
    """Looks up each flow's recent past: one sort for the whole table, then a binary search a flow.

    The past of a flow are the last `flows` flows of the same `src` in the same capture that began before it
    (not at the same instant) and at most `seconds` before. A past flow's duration and counts are those of
    its complete record, which an analyst reading the log afterwards has; they may have been completed after
    the flow began.

    Args:
        table: the whole source or a whole split; not a selection, since the past lies in unselected rows.
        flows: at most this many, at least 1.
        seconds: at most this long ago, > 0.

    Raises:
        DataError: the source lacks originator addresses or times, in its layout or in some row.
        UsageError: `flows` or `seconds` is not positive.
    """

    def __init__(self, table: FlowTable, *, flows: int = 20, seconds: float = 3600.0) -> None:
        if flows < 1 or not seconds > 0:
            raise UsageError(
                f"a window of {flows} flows and {seconds} seconds is empty", hint="Use positive values"
            )
        self._check(table)
        self._table, self._flows, self._seconds = table, flows, seconds
        hosts = _codes(table, "capture") * (1 + _codes(table, "src").max(initial=0)) + _codes(table, "src")
        times = np.asarray(table.rows["ts"].to_numpy())
        self._order = np.lexsort((times, hosts))
        self._place = np.empty_like(self._order)
        self._place[self._order] = np.arange(len(self._order))
        self._hosts, self._times = hosts[self._order], times[self._order]

    @staticmethod
    def _check(table: FlowTable) -> None:
        missing = [name for name in NEEDED if name not in table.fields]
        partial = [name for name in NEEDED if name in table.fields and table.rows[name].null_count]
        if missing or partial:
            lack = " and ".join(
                [f"{name!r} (not in the layout {table.provenance.schema})" for name in missing]
                + [f"{name!r} (unset in {table.rows[name].null_count} rows)" for name in partial]
            )
            raise DataError(
                f"the window view needs originator address and time, but this data lacks {lack}",
                where=table.provenance.source,
                hint="Use the flow view, or a source that has them",
            )

    def history_rows(self, i: int) -> npt.NDArray[np.int64]:
        """Rows of the table that are in flow i's past, oldest first."""
        place = self._place[i]
        start = int(np.searchsorted(self._hosts, self._hosts[place], side="left"))
        earlier = self._times[start : place + 1]
        stop = start + int(np.searchsorted(earlier, self._times[place], side="left"))
        oldest = start + int(np.searchsorted(earlier, self._times[place] - self._seconds, side="left"))
        return self._order[max(oldest, stop - self._flows) : stop]

    def history(self, i: int) -> tuple[Flow, ...]:
        """The past of flow i as Flows, oldest first."""
        return tuple(self._table.flow(int(row)) for row in self.history_rows(i))

    def example(self, i: int) -> Example:
        """Row i as an Example with its past."""
        return self._table.example(i, self.history(i))


def _codes(table: FlowTable, name: str) -> npt.NDArray[np.int64]:
    """A whole number for each distinct word of a column, (rows,)."""
    return np.asarray(table.rows[name].chunk(0).indices.cast("int64").to_numpy())
