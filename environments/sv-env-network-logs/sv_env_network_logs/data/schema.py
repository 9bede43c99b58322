"""Schema: which columns a dataset family has, what each means, and how its label reads."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath

from sv_env_network_logs.data.kinds import Kind, Marks
from sv_env_network_logs.data.labels import Attempted, Verdict
from sv_shared.errors import DataError


@dataclass(frozen=True)
class Column:
    """A known column.

    Attributes:
        kind: what its fields hold.
        flow: the Flow field that it fills, "" for none.
        extra: it goes to Flow.extra under its own name.
        label: it is a label column (never part of a Flow).
    """

    kind: Kind
    flow: str = ""
    extra: bool = False
    label: bool = False


@dataclass(frozen=True)
class Bound:
    """A known column at its place in one file: `position` counts from 1, `name` is the trimmed header."""

    position: int
    name: str
    column: Column

    @property
    def place(self) -> str:
        """How a message names the column."""
        return f"column {self.position} {self.name!r}"


@dataclass(frozen=True)
class Schema:
    """A dataset family's layout.

    Attributes:
        name: what `describe()` and messages call it.
        columns: every column that the family is known to have, by lower-case trimmed name.
        required: those that must be there.
        verdict: (texts of the label columns in `labels` order, attempted) -> Verdict; ValueError if unknown.
        labels: groups of alternative label names; the first present name of each group is a label column.
        capture: file path relative to the source -> capture name. Files with one name are one capture.
        marks: words for "no value" and "empty".
        mixed: a file may hold rows of several captures, so files that share a host in the same hour are
            taken as one capture.
        notes: what a reader of results must know about the values.
    """

    name: str
    columns: Mapping[str, Column]
    required: frozenset[str]
    verdict: Callable[[tuple[str, ...], Attempted], Verdict]
    labels: tuple[tuple[str, ...], ...]
    capture: Callable[[PurePath], str]
    marks: Marks = field(default_factory=Marks)
    mixed: bool = False
    notes: str = ""

    def misses(self, header: Sequence[str]) -> list[str]:
        """What speaks against a header (trimmed names): empty where the schema takes it."""
        names = [name.casefold() for name in header]
        faults = [
            f"column {position} {name!r} is not known"
            for position, name in enumerate(header, 1)
            if name.casefold() not in self.columns
        ]
        faults += [f"column {name!r} is missing" for name in sorted(self.required - set(names))]
        for group in self.labels:
            if not any(name in names for name in group):
                faults.append(f"label column {group[0]!r} is missing")
        return faults

    def bind(self, header: Sequence[str]) -> tuple[Bound, ...]:
        """The file's columns in its order; call only where `misses` is empty."""
        return tuple(Bound(i, name, self.columns[name.casefold()]) for i, name in enumerate(header, 1))

    def label_columns(self, bound: Sequence[Bound]) -> tuple[Bound, ...]:
        """The bound label columns in the order that `verdict` expects."""
        by_name = {column.name.casefold(): column for column in bound}
        return tuple(next(by_name[name] for name in group if name in by_name) for group in self.labels)


def choose(header: Sequence[str], schemas: Sequence[Schema], *, where: str) -> Schema:
    """The one schema whose columns a header has.

    Args:
        header: the file's column names, trimmed, repeated ones made distinct.
        schemas: candidates; no two may accept the same header.
        where: the file and line, for the message.

    Raises:
        DataError: no schema takes it; the message names the first column at fault in the closest one.
    """
    fitting = [schema for schema in schemas if not schema.misses(header)]
    if len(fitting) == 1:
        return fitting[0]
    names = {name.casefold() for name in header}
    closest = max(
        schemas, key=lambda schema: len(names & schema.columns.keys()) / len(names | schema.required)
    )
    if not names & closest.columns.keys():
        known = ", ".join(schema.name for schema in schemas)
        raise DataError(
            f"unknown column set, beginning with column 1 {header[0][:40]!r}",
            where=where,
            hint=f"Known layouts: {known}",
        )
    raise DataError(
        f"unknown column set: {closest.misses(header)[0]} (the closest known layout is {closest.name})",
        where=where,
        hint="Rename or remove the column, or load a file of a known layout",
    )
