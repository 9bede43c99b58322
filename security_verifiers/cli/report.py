"""`sv report`: the benchmark sheet of runs on file."""

from pathlib import Path

import click

from security_verifiers.cli.options import echo_json, json_option


@click.command()
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
@json_option
def command(runs: tuple[Path, ...], as_json: bool) -> int:
    """Print the sheet of stored RUNS (folders with metadata.json; a parent folder means all below it)."""
    from security_verifiers.evals.stored import find_runs, load_run
    from security_verifiers.reports.terminal import print_sheets, sheets_json

    loaded = [load_run(folder) for path in runs for folder in find_runs(path)]
    if as_json:
        echo_json(sheets_json(loaded))
    else:
        print_sheets(loaded)
    return 1 if any(run.summary["invalid"] for run in loaded) else 0
