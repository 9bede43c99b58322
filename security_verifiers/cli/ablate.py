"""`sv ablate`: what each part of a reward does."""

import asyncio
from pathlib import Path

import click

from security_verifiers.cli.options import (
    echo_json,
    json_option,
    markdown_option,
    output_option,
    show_tables,
)


@click.command()
@click.argument("environment")
@click.option(
    "--config",
    "path",
    type=click.Path(path_type=Path),
    default=None,
    help="The experiment.  [default: the newest of configs/experiments/<env>/]",
)
@click.option("--arms", default=None, metavar="A,B", help="Arms beside the control.  [default: all]")
@click.option("-n", "--tasks", type=click.IntRange(min=1), default=None, help="Tasks, drawn with the seed.")
@click.option("--model", "-m", "models", multiple=True, help="In place of the players; comma-separated.")
@click.option("--concurrency", "-c", type=click.IntRange(min=1), default=8, show_default=True)
@output_option
@markdown_option
@json_option
def command(
    environment: str,
    path: Path | None,
    arms: str | None,
    tasks: int | None,
    models: tuple[str, ...],
    concurrency: int,
    output_dir: Path,
    markdown: bool,
    as_json: bool,
) -> int:
    """Play the arms of ENVIRONMENT's experiment and compare each with the first, the control."""
    from security_verifiers.cli.progress import RunProgress
    from security_verifiers.compare.ablation import ablate
    from security_verifiers.compare.ablation_config import load_config, newest_config
    from security_verifiers.reports.ablation import ablation_json, ablation_tables
    from sv_shared.environment import find
    from sv_shared.errors import UsageError

    known = find(environment)
    config = load_config(path := path or newest_config(known))
    if find(config.environment) is not known:
        raise UsageError(f"the experiment is one of {config.environment}, not {known.alias}", where=str(path))
    if arms is not None:
        config = config.only([name.strip() for name in arms.split(",") if name.strip()])
    changed = {
        "tasks": tasks or config.tasks,
        "players": [name for text in models for name in text.split(",") if name] or config.players,
    }
    with RunProgress(quiet=as_json) as progress:
        config = config.model_copy(update=changed)
        ablation = asyncio.run(ablate(config, progress, output_dir, concurrency=concurrency))
    if as_json:
        echo_json(ablation_json(ablation))
    else:
        show_tables(ablation_tables(ablation), markdown)
    return 1 if ablation.invalid else 0
