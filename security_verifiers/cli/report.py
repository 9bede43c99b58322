"""`sv report`: the benchmark sheet of runs on file."""

from pathlib import Path

import click

from security_verifiers.cli.options import echo_json, json_option, partial_option


@click.command()
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
@partial_option
@json_option
def command(runs: tuple[Path, ...], allow_partial: bool, as_json: bool) -> int:
    """Print the sheet of stored RUNS (folders with metadata.json; a parent folder means all below it)."""
    from security_verifiers.evals.stored import find_runs, load_run
    from security_verifiers.reports.partial import partial_lines
    from security_verifiers.reports.terminal import print_sheets, sheets_json

    folders = dict.fromkeys(folder for path in runs for folder in find_runs(path))
    loaded = [load_run(folder, allow_partial) for folder in folders]
    if as_json:
        echo_json(sheets_json(loaded))
    else:
        for line in partial_lines(loaded):
            click.echo(line)
        print_sheets(loaded)
    return 1 if any(run.summary["invalid"] for run in loaded) else 0
