"""`sv gate`: may the candidate replace the base?"""

from pathlib import Path

import click

from security_verifiers.cli.options import (
    echo_json,
    json_option,
    margin_option,
    markdown_option,
    partial_option,
    show_tables,
)

EXITS = {"pass": 0, "fail": 1, "inconclusive": 3}


@click.command()
@click.argument("base", type=click.Path(path_type=Path))
@click.argument("candidate", type=click.Path(path_type=Path))
@margin_option
@partial_option
@markdown_option
@json_option
def command(
    base: Path, candidate: Path, margin: float, allow_partial: bool, markdown: bool, as_json: bool
) -> int:
    """Test that run CANDIDATE is not worse than run BASE by more than the margin on any core metric.

    Exit code 0: pass; 1: fail; 3: inconclusive, with the number of further tasks that would decide it.
    """
    from security_verifiers.compare.gate import gate
    from security_verifiers.evals.stored import load_run
    from security_verifiers.reports.gate import gate_json, gate_table

    before, after = (load_run(folder, allow_partial=allow_partial) for folder in (base, candidate))
    report = gate(before, after, margin)
    if as_json:
        echo_json(gate_json(report))
    else:
        show_tables([gate_table(report)], markdown)
    return EXITS[report.verdict]
