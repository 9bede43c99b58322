"""`sv data`: the datasets that ship with the project."""

import click

BUILDERS = {"e1": "sv_env_network_logs.synth.build"}


@click.group()
def command() -> None:
    """Build the datasets that ship with the project."""


@command.command()
@click.argument("dataset", type=click.Choice(sorted(BUILDERS)))
def build(dataset: str) -> int:
    """Write the public-mini set of DATASET anew from its recipe, with its card and spot-check file."""
    import importlib

    importlib.import_module(BUILDERS[dataset]).main()
    return 0
