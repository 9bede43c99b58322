"""`sv compare`: candidates against one base run, pair by pair."""

from pathlib import Path

import click

from security_verifiers.cli.options import (
    echo_json,
    json_option,
    markdown_option,
    partial_option,
    show_tables,
)


@click.command()
@click.argument("base", type=click.Path(path_type=Path))
@click.argument("candidates", nargs=-1, required=True, type=click.Path(path_type=Path))
@partial_option
@markdown_option
@json_option
def command(
    base: Path, candidates: tuple[Path, ...], allow_partial: bool, markdown: bool, as_json: bool
) -> int:
    """Compare CANDIDATES with BASE (folders of runs over the same tasks)."""
    from security_verifiers.compare.comparison import compare
    from security_verifiers.evals.stored import load_run
    from security_verifiers.reports.comparison import comparison_json, comparison_tables

    runs = [load_run(folder, allow_partial=allow_partial) for folder in (base, *candidates)]
    comparisons = compare(runs[0], runs[1:])
    if as_json:
        echo_json(comparison_json(comparisons))
    else:
        show_tables(comparison_tables(comparisons), markdown)
    return 0
