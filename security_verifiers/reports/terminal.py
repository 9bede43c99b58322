"""The sheet on a terminal, and the same as JSON."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from security_verifiers.evals.evaluate import Run
from security_verifiers.reports.sheet import Line, Sheet, make_sheets
from sv_shared.policies import PolicyKind

VERDICTS = {"below": "▼", "above": "▲", "tie": "≈"}
WIDTH = 120
"""Columns of a console that is a file or a pipe."""
REWARD = "reward [95\N{NO-BREAK SPACE}%]"


class Column(NamedTuple):
    """A heading, which may be broken at its spaces, and a cell for each line of a sheet."""

    heading: str
    cells: Sequence[str]


def print_sheets(runs: Sequence[Run], console: Console | None = None) -> None:
    """Print the sheet of each environment and dataset, and the folder of each run."""
    console = sized_console(console)
    for sheet in make_sheets(runs):
        for table in _tables(sheet, console):
            console.print(table)
            console.print()
        for note in _notes(sheet):
            console.print(Text(note, style="dim"))
        console.print()
    console.print("Artifacts:")
    for run in runs:
        console.print(f"  {run.folder}", soft_wrap=True)


def sized_console(console: Console | None = None) -> Console:
    """A console without highlighting, `WIDTH` columns wide where it is a file or a pipe."""
    console = console or Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=WIDTH, file=console.file)


def _tables(sheet: Sheet, console: Console) -> list[Table]:
    """The sheet as one table, or as several with the players in each where the console is too narrow.

    Numbers are never cut: where one table is too wide the gaps shrink first, then the columns are dealt out.
    """
    first, *rest = min((_packed(sheet, gap, console) for gap in (2, 1)), key=len)
    return [_titled(first, sheet), *rest]


def _packed(sheet: Sheet, gap: int, console: Console) -> list[Table]:
    """As many columns in each table as the console has room for."""
    groups: list[list[Column]] = [[]]
    for column in _columns(sheet):
        if groups[-1] and _natural_width(_table(sheet, [*groups[-1], column], gap), console) > console.width:
            groups.append([])
        groups[-1].append(column)
    return [_table(sheet, group, gap) for group in groups]


def _natural_width(table: Table, console: Console) -> int:
    return Measurement.get(console, console.options.update(max_width=10_000), table).maximum


def _titled(table: Table, sheet: Sheet) -> Table:
    environment, m = sheet.environment, sheet.first.metadata
    samples = f" x {m['samples']} samples" if m["samples"] > 1 else ""
    title = f"{environment.alias.upper()} {environment.title}: {m['dataset']['id']}, {m['tasks']} tasks"
    table.title = title + samples
    return table


def _table(sheet: Sheet, columns: Sequence[Column], gap: int) -> Table:
    """The players with some of the columns, `gap` spaces apart."""
    table = Table(
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, gap - 1, 0, 0),
    )
    table.add_column("player", no_wrap=True)
    for column in columns:
        table.add_column(column.heading.replace(" ", "\n"), justify="right", no_wrap=True)
    first = columns[0].heading == REWARD
    published = sheet.environment.published(sheet.first.metadata["dataset"]) if first else ()
    before = None
    for line, name, *cells in zip(
        sheet.lines, map(_name, sheet.lines), *(column.cells for column in columns), strict=True
    ):
        if before is not None and _block(line.kind) != _block(before):
            table.add_section()
        if published and _block(line.kind) in ("model", "ends"):
            for number, (figure, _) in enumerate(published, 1):
                table.add_row(Text(f"published [{number}]", style="dim"), Text(figure, style="dim"))
            published = ()
        table.add_row(name, *cells)
        before = line.kind
    return table


def _block(kind: str) -> str:
    """Lines of one block stand together without a rule between them."""
    if kind == PolicyKind.SHALLOW or kind in (PolicyKind.HEURISTIC, PolicyKind.TOOL_ONLY):
        return "baselines"
    if kind in (PolicyKind.CEILING, PolicyKind.REFERENCE):
        return "ends"
    return "constants" if kind in (PolicyKind.CONSTANT, PolicyKind.DEGENERATE, PolicyKind.EXPLOIT) else kind


def _name(line: Line) -> Text:
    name = Text(line.model.removeprefix("policy:"), style="bold cyan" if line.kind == "model" else "")
    if line.forced_form:
        name.append(" {}")
    if line.verdict:
        name.append(f" {VERDICTS[line.verdict]}")
    if line.run.summary["invalid"]:
        name.append(" invalid", style="bold red")
    return name


def _columns(sheet: Sheet) -> list[Column]:
    """Everything that stands beside the players, left to right."""
    summaries = [line.run.summary for line in sheet.lines]
    metrics = [metric_values(summary) for summary in summaries]
    counts = [summary["counts"] for summary in summaries]
    silent = [count["parse_fail"] + count["refused"] for count in counts]
    errors = [
        c["grader_error"] + c["infra_error"] + s["missing"] for c, s in zip(counts, summaries, strict=True)
    ]
    return [
        Column(REWARD, [_reward(summary["reward"]) for summary in summaries]),
        Column("score", [number(summary["normalised"]["score"]) for summary in summaries]),
        *(
            Column(heading, [number(values.get(name)) for values in metrics])
            for name, heading in sheet.environment.sheet_metrics
        ),
        Column("no answer", [_share(n, s["planned"]) for n, s in zip(silent, summaries, strict=True)]),
        Column("errors", [str(count) for count in errors]),
        Column("$", [_dollars(line.run.metadata["cost_usd"]) for line in sheet.lines]),
    ]


def metric_values(summary: Mapping[str, Any]) -> dict[str, float | None]:
    """The value of every metric of a run's summary, the calibration error among them."""
    calibration = summary["calibration"]
    ece = {"ece": calibration["ece"]["value"]} if calibration else {}
    return {name: estimate["value"] for name, estimate in summary["metrics"].items()} | ece


def _reward(reward: dict[str, Any]) -> str:
    if reward["value"] is None:
        return "-"
    if reward["lower"] is None:
        return f"{reward['value']:+.3f} [no interval]"
    return f"{reward['value']:+.3f} [{reward['lower']:+.2f}, {reward['upper']:+.2f}]"


def number(value: float | None) -> str:
    """A metric to three digits, "-" where it is not defined."""
    if value is None:
        return "-"
    return str(value) if isinstance(value, int) else f"{value:.3f}"


def _share(part: int, whole: int) -> str:
    if not part:
        return "0"
    return "<1 %" if part < whole / 100 else f"{100 * part / whole:.0f} %"


def _dollars(cost: float | None) -> str:
    if cost is None:
        return "?"
    return "0" if not cost else "<.01" if cost < 0.005 else f"{cost:.2f}"


def _notes(sheet: Sheet) -> list[str]:
    m = sheet.first.metadata
    reward, dataset = m["reward"], m["dataset"]
    ceiling = "" if reward["ceiling"] is None else f", best possible honest play {reward['ceiling']:+.3f}"
    notes = [
        "score = (reward - chance) / (reference - chance); "
        f"chance {reward['chance']:+.3f} ({reward['chance_answer']}), "
        f"reference {reward['reference']:+.3f}{ceiling}. "
        f"Reward range {reward['floor']:+g} to {reward['maximum']:+g}.",
        f"Data {dataset['sha256'][:12]}, split {dataset['split']}, seed {m['seed']}. "
        f"Intervals: {_method(sheet)}; cluster = {dataset['cluster_kind']}.",
    ]
    notes += [
        f"[{number}] {source}; another split or metric, for orientation."
        for number, (_, source) in enumerate(sheet.environment.published(dataset), 1)
    ]
    if any(line.forced_form for line in sheet.lines):
        notes.append(
            "{} The server forced these answers into the JSON form: a parse failure was not possible."
        )
    if any(line.verdict for line in sheet.lines):
        notes.append(
            "Against the shallow model, task by task, Holm over the sheet: "
            "▲ above, ▼ below, ≈ no significant difference."
        )
    return notes


def _method(sheet: Sheet) -> str:
    """How the rewards' intervals were made."""
    rewards = [line.run.summary["reward"] for line in sheet.lines]
    return str(max(rewards, key=lambda reward: reward["lower"] is not None)["method"])


def sheets_json(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """The sheets for programs: shared facts and one object a line."""
    return [
        {
            "environment": sheet.environment.id,
            "dataset": sheet.first.metadata["dataset"],
            "reward": sheet.first.metadata["reward"],
            "lines": [
                {
                    "model": line.model,
                    "kind": line.kind,
                    "run": str(line.run.folder),
                    "status": line.run.metadata["status"],
                    "cost_usd": line.run.metadata["cost_usd"],
                    "verdict": line.verdict,
                    "summary": line.run.summary,
                }
                for line in sheet.lines
            ],
        }
        for sheet in make_sheets(runs)
    ]
