"""`sv data`: the datasets that ship with the project."""

from pathlib import Path

import click

BUILDERS = {"e1": "sv_env_network_logs.synth.build", "e2": "sv_env_config_verification.synth.build"}


@click.group()
def command() -> None:
    """Build the datasets that ship with the project."""


@command.command()
@click.argument("dataset", type=click.Choice(sorted(BUILDERS)))
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=None,
    help="Where to write.  [default: datasets/public-mini of this checkout]",
)
def build(dataset: str, folder: Path | None) -> int:
    """Write the public-mini set of DATASET anew from its recipe, with its card."""
    import importlib

    builder = importlib.import_module(BUILDERS[dataset])
    target = folder or builder.PATH.parent
    builder.build(target)
    click.echo(f"wrote the public-mini set {dataset} to {target}")
    return 0
