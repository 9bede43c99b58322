"""The sheet on a terminal, and the same as JSON."""

from collections.abc import Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from security_verifiers.evals.evaluate import Run
from security_verifiers.reports.sheet import Line, Sheet, make_sheets
from sv_shared.policies import PolicyKind

VERDICTS = {"below": "▼", "above": "▲", "tie": "≈"}
WIDTH = 120


def print_sheets(runs: Sequence[Run], console: Console | None = None) -> None:
    """Print the sheet of each environment and dataset, and the folder of each run."""
    console = console or Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=WIDTH, file=console.file)
    for sheet in make_sheets(runs):
        console.print(_table(sheet))
        for note in _notes(sheet):
            console.print(note, style="dim")
        console.print()
    console.print("Artifacts:")
    for run in runs:
        console.print(f"  {run.folder}", soft_wrap=True)


def _table(sheet: Sheet) -> Table:
    m = sheet.first.metadata
    title = f"{sheet.environment.alias.upper()} {sheet.environment.title}: {m['dataset']['id']}, {m['tasks']} tasks"
    if m["samples"] > 1:
        title += f" x {m['samples']} samples"
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("player", no_wrap=True)
    table.add_column("reward  [95 %]", justify="right", no_wrap=True)
    table.add_column("score", justify="right")
    for _, heading in sheet.environment.sheet_metrics:
        table.add_column(heading, justify="right")
    for heading in ("no answer", "errors", "$"):
        table.add_column(heading, justify="right")
    published = sheet.environment.published
    before = None
    for line in sheet.lines:
        if before is not None and _block(line.kind) != _block(before):
            table.add_section()
        if published and _block(line.kind) in ("model", "ends"):
            for figure, source in published:
                table.add_row(Text(f"published: {source}", style="dim"), Text(figure, style="dim"))
            published = ()
        table.add_row(*_cells(sheet, line))
        before = line.kind
    return table


def _block(kind: str) -> str:
    """Lines of one block stand together without a rule between them."""
    if kind == PolicyKind.SHALLOW or kind in (PolicyKind.HEURISTIC, PolicyKind.TOOL_ONLY):
        return "baselines"
    if kind in (PolicyKind.CEILING, PolicyKind.REFERENCE):
        return "ends"
    return "constants" if kind in (PolicyKind.CONSTANT, PolicyKind.DEGENERATE, PolicyKind.EXPLOIT) else kind


def _cells(sheet: Sheet, line: Line) -> list[Text | str]:
    summary, metadata = line.run.summary, line.run.metadata
    counts = summary["counts"]
    name = Text(line.model.removeprefix("policy:"), style="bold cyan" if line.kind == "model" else "")
    if line.verdict:
        name.append(f" {VERDICTS[line.verdict]}")
    if summary["invalid"]:
        name.append(" invalid", style="bold red")
    metrics = {name: estimate["value"] for name, estimate in summary["means"].items()} | summary["metrics"]
    errors = counts["grader_error"] + counts["infra_error"] + summary["missing"]
    cost = metadata["cost_usd"]
    return [
        name,
        _reward(summary["reward"]),
        number(summary["normalised"]["score"]),
        *(number(metrics.get(key)) for key, _ in sheet.environment.sheet_metrics),
        _share(counts["parse_fail"] + counts["refused"], summary["planned"]),
        str(errors) if errors else "0",
        "?" if cost is None else f"{cost:.2f}" if cost else "0",
    ]


def _reward(reward: dict[str, Any]) -> str:
    if reward["value"] is None:
        return "-"
    if reward["lower"] is None:
        return f"{reward['value']:+.3f}  [no interval]"
    return f"{reward['value']:+.3f}  [{reward['lower']:+.2f}, {reward['upper']:+.2f}]"


def number(value: float | None) -> str:
    """A metric to three digits, "-" where it is not defined."""
    if value is None:
        return "-"
    return str(value) if isinstance(value, int) else f"{value:.3f}"


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %" if part else "0"


def _notes(sheet: Sheet) -> list[str]:
    m = sheet.first.metadata
    reward, dataset = m["reward"], m["dataset"]
    ceiling = "" if reward["ceiling"] is None else f", best possible honest play {reward['ceiling']:+.3f}"
    notes = [
        f"score = (reward - chance) / (reference - chance); chance {reward['chance']:+.3f} ({reward['chance_answer']}), "
        f"reference {reward['reference']:+.3f}{ceiling}. Reward range {reward['floor']:+g} to {reward['maximum']:+g}.",
        f"Data {dataset['sha256'][:12]}, split {dataset['split']}, seed {m['seed']}. "
        f"Intervals: {sheet.first.summary['reward']['method']}; cluster = {dataset['cluster_kind']}.",
    ]
    if any(line.verdict for line in sheet.lines):
        notes.append(
            "Against the shallow model, task by task, Holm over the sheet: ▲ above, ▼ below, ≈ no significant difference."
        )
    return notes


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
