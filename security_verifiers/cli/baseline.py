"""`sv baseline`: the deterministic runs that every change is gated against."""

from pathlib import Path

import click

from security_verifiers.cli.options import json_option, margin_option, markdown_option


@click.group()
def command() -> None:
    """Pin deterministic runs, and check today's code against them."""


def _folder_option(decorated: click.decorators.FC) -> click.decorators.FC:
    return click.option(
        "--folder",
        type=click.Path(path_type=Path, file_okay=False),
        default=Path("baselines"),
        show_default=True,
        help="Holds baselines.toml and the pinned runs.",
    )(decorated)


@command.command()
@click.argument("environments", nargs=-1)
@_folder_option
def pin(environments: tuple[str, ...], folder: Path) -> int:
    """Play the policies of baselines.toml and pin the runs, in place of earlier ones.

    A pin is a decision: say in the commit why the numbers may change.
    """
    from security_verifiers.cli.progress import RunProgress
    from security_verifiers.compare.baselines import choose
    from security_verifiers.compare.baselines import pin as pin_runs

    with RunProgress() as progress:
        written = list(pin_runs(choose(environments, folder), progress, folder))
    for path in written:
        click.echo(f"pinned {path}")
    return 0


@command.command()
@click.argument("environments", nargs=-1)
@_folder_option
@margin_option
@markdown_option
@json_option
def check(environments: tuple[str, ...], folder: Path, margin: float, markdown: bool, as_json: bool) -> int:
    """Play the policies of baselines.toml today and gate each against what is pinned.

    Exit code 1 where one fails, or is inconclusive though both sides are deterministic.
    """
    from security_verifiers.cli.options import echo_json, show_tables
    from security_verifiers.cli.progress import RunProgress
    from security_verifiers.compare.baselines import check as check_runs
    from security_verifiers.compare.baselines import choose
    from security_verifiers.reports.gate import baseline_table, gate_json

    with RunProgress(quiet=as_json) as progress:
        checks = list(check_runs(choose(environments, folder), progress, folder, margin))
    if as_json:
        echo_json([{"policy": c.policy, "held": c.held, **gate_json(c.report)} for c in checks])
    else:
        show_tables([baseline_table(checks)], markdown)
    return 0 if all(c.held for c in checks) else 1
