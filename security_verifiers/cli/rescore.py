"""`sv rescore`: do stored rollouts still get the grades that they got?"""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import click

from security_verifiers.cli.options import (
    echo_json,
    json_option,
    markdown_option,
    partial_option,
    show_tables,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from security_verifiers.evals.rescore import Changed, Rescored, Verdict
    from security_verifiers.reports.tables import Table

HEADINGS = ("task", "sample", "then -> now", "what differs")

REWARDED = ("outcome", "reward", "components")
"""Fields that a row shows by their values."""

SHOWN = 50
"""Changed rollouts that the table lists; JSON lists all."""


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--write", is_flag=True, help="Keep the verdicts in rescored.jsonl beside the run's results.")
@partial_option
@markdown_option
@json_option
def command(run: Path, write: bool, allow_partial: bool, markdown: bool, as_json: bool) -> int:
    """Grade the stored rollouts of RUN (a run's folder) with today's code; no model is called.

    Exit code 0 when none changed, 1 when some did, 3 when none could be graded.
    """
    from rich.console import Console

    from security_verifiers.evals.rescore import rescore, write_rescored

    with Console(stderr=True, quiet=as_json).status(f"grading {run}"):
        graded = write_rescored if write else rescore
        report = graded(run, allow_partial=allow_partial)
    if as_json:
        echo_json(report.to_json())
    elif report.changed:
        show_tables([_table(report)], markdown)
    else:
        click.echo("\n".join([_totals(report), *_notes(report)]))
    if report.changed:
        return 1
    return 0 if report.graded or not report.lines else 3


def _table(report: "Rescored") -> "Table":
    from security_verifiers.reports.tables import Table

    rows = [_row(one) for one in report.changed[:SHOWN]]
    return Table(_totals(report), HEADINGS, rows, list(_notes(report)))


def _totals(report: "Rescored") -> str:
    return (
        f"{report.environment}: {report.lines} rollouts = {report.unchanged} unchanged + "
        f"{len(report.changed)} changed + {sum(report.not_rescorable.values())} not rescorable"
    )


def _notes(report: "Rescored") -> "Iterator[str]":
    if len(report.changed) > SHOWN:
        yield f"{len(report.changed) - SHOWN} more changed: --json lists all"
    told = Counter("; ".join(one.responsible) for one in report.changed)
    for responsible, count in sorted(told.items()):
        yield f"responsible for {count}: {responsible}"
    for reason, count in sorted(report.not_rescorable.items()):
        yield f"not rescorable: {count}, {reason}"
    for difference in report.differences:
        if difference.kind == "setting":
            now = f"today's default is {difference.now}"
            yield f"{difference.name}: graded with the run's {difference.then}; {now}"
        else:
            yield f"since then: {difference}"


def _row(one: "Changed") -> tuple[str, ...]:
    """Components by name where they differ, other fields by theirs; JSON has the values."""
    parts = [*one.components, *(name for name in one.fields if name not in REWARDED)]
    verdicts = f"{_verdict(one.then)} -> {_verdict(one.now)}"
    return (one.task_id or one.task[:12], str(one.sample), verdicts, ", ".join(parts))


def _verdict(verdict: "Verdict") -> str:
    return f"{verdict['outcome']} {_number(verdict['reward'])}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"
