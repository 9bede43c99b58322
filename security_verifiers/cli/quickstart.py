"""`sv quickstart`: the embedded model and the baselines on every environment, with no key."""

import asyncio
from pathlib import Path

import click

from security_verifiers.cli.options import output_option

MODEL = "smollm2-135m"


@click.command()
@click.option(
    "--tasks", type=click.IntRange(min=1), default=100, show_default=True, help="Tasks an environment."
)
@click.option("--require-all", is_flag=True, help="Fail where an environment can't run here, as CI does.")
@output_option
def command(tasks: int, require_all: bool, output_dir: Path) -> int:
    """Evaluate the embedded model and the scripted policies on every environment and print the sheets."""
    from security_verifiers.cli.progress import RunProgress
    from security_verifiers.evals.launch import EvalRequest, run_models
    from security_verifiers.reports.terminal import print_sheets
    from sv_shared.environment import installed
    from sv_shared.errors import ToolError

    runs, left_out = [], []
    with RunProgress() as progress:
        for alias, environment in installed().items():
            if unmet := environment.unmet():
                left_out.append(f"{alias}: not run: {'; '.join(unmet)}")
                continue
            players = (*(f"policy:{name}" for name in environment.default_policies), MODEL)
            request = EvalRequest(environment=alias, models=players, tasks=tasks, output_dir=output_dir)
            runs += asyncio.run(run_models(request, progress))
    if left_out and require_all:
        raise ToolError(left_out[0], hint="Install what is missing, or leave --require-all out")
    print_sheets(runs)
    for line in left_out:
        click.echo(line)
    return 1 if any(run.summary["invalid"] for run in runs) else 0
