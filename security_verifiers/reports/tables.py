"""A table of text, for a terminal and for Markdown."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text


@dataclass(frozen=True, slots=True)
class Table:
    """Headings and rows of text with what stands above and below.

    Attributes:
        title: one line.
        headings: of the columns; the first column is left-aligned, the others right-aligned.
        rows: one cell a heading.
        notes: lines under the table.
    """

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()

    def print(self, console: Console) -> None:
        """Show it on a terminal."""
        table = RichTable(
            title=self.title,
            title_justify="left",
            title_style="bold",
            box=box.SIMPLE_HEAD,
            show_edge=False,
            pad_edge=False,
            padding=(0, 1, 0, 0),
        )
        for number, heading in enumerate(self.headings):
            table.add_column(heading, justify="right" if number else "left", no_wrap=True)
        for row in self.rows:
            table.add_row(*map(Text, row))
        console.print(table)
        for note in self.notes:
            console.print(Text(note, style="dim"))

    def markdown(self) -> str:
        """The same for a pull request or a document."""
        lines = [
            f"**{_escaped(self.title)}**",
            "",
            _row(self.headings),
            _row(["---"] + ["---:"] * (len(self.headings) - 1)),
            *(_row([_escaped(cell) for cell in row]) for row in self.rows),
            "",
            *(f"- {_escaped(note)}" for note in self.notes),
        ]
        return "\n".join(lines).rstrip() + "\n"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _escaped(text: str) -> str:
    for mark in ("\\", "|", "<", "*", "_", "`"):
        text = text.replace(mark, f"\\{mark}")
    return text


def signed(value: float | None, digits: int = 3) -> str:
    """A number with its sign, "-" where there is none."""
    # "+ 0.0" turns a negative zero into a plain one.
    return "-" if value is None else f"{round(value, digits) + 0.0:+.{digits}f}"


def interval(value: float, lower: float | None, upper: float | None) -> str:
    """A signed number with its interval."""
    if lower is None or upper is None:
        return f"{signed(value)} [no interval]"
    return f"{signed(value)} [{signed(lower)}, {signed(upper)}]"


def p_text(p: float | None) -> str:
    """A p-value to three digits."""
    if p is None:
        return "-"
    return "<0.001" if p < 0.001 else f"{p:.3f}"
