"""`sv audit`: does an environment keep its promises?"""

import asyncio
from typing import Any

import click

from security_verifiers.cli.options import dataset_config, dataset_options, echo_json, json_option


@click.command()
@click.argument("environment")
@click.option("--tasks", "-n", type=int, default=None, help="Tasks drawn at random.  [default: all]")
@dataset_options
@click.option("--seed", type=int, default=42, show_default=True)
@json_option
def command(
    environment: str,
    tasks: int | None,
    dataset: str | None,
    split: str | None,
    settings: tuple[str, ...],
    seed: int,
    as_json: bool,
) -> int:
    """Check ENVIRONMENT's reward, its degenerate policies and its leaks. Exit code 1 when a check fails."""
    from rich.console import Console

    from security_verifiers.audit.report import AuditReport, audit
    from sv_shared.environment import find

    console = Console(stderr=True, quiet=as_json)
    with console.status(f"auditing {environment}"):
        report: AuditReport = asyncio.run(
            audit(find(environment), dataset_config(dataset, split, settings), tasks=tasks, seed=seed)
        )
    if as_json:
        echo_json(report.to_json())
    else:
        _print(report)
    return 0 if report.passed else 1


def _print(report: Any) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    dataset = report.dataset
    console.print(
        f"{report.environment}: {dataset['tasks']} tasks of {dataset['id']} ({dataset['sha256'][:12]})"
    )
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column()
    for check in report.checks:
        mark = Text("ok", style="green") if check.passed else Text("FAILED", style="bold red")
        table.add_row(mark, check.check, check.detail)
    console.print(table)
    failed = sum(not check.passed for check in report.checks)
    console.print(f"{len(report.checks) - failed} checks hold, {failed} fail")
