"""`sv eval`: models and policies on one environment."""

import asyncio
from pathlib import Path
from typing import Any

import click

from security_verifiers.cli.options import (
    FiniteRange,
    dataset_config,
    dataset_options,
    echo_json,
    json_option,
    output_option,
)

DEFAULT_MODEL = "smollm2-135m"
DEFAULT_CONCURRENCY = 8


@click.command()
@click.argument("environment", required=False)
@click.option(
    "--model",
    "-m",
    "models",
    multiple=True,
    help=f"A model's id, policy:<name>, or openai:<name>@<url>; comma-separated.  [default: {DEFAULT_MODEL}]",
)
@click.option("-n", "--tasks", type=int, default=None, help="Tasks, drawn with the seed.  [default: all]")
@click.option("--rollouts", type=int, default=1, show_default=True, help="Samples a task.")
@dataset_options
@click.option("--seed", type=int, default=42, show_default=True)
@click.option("--tools/--no-tools", default=None, help="Offer the environment's tools to the model.")
@click.option("--opponent", default=None, help="Who plays the other seat, where there is one.")
@click.option(
    "--concurrency",
    "-c",
    type=click.IntRange(min=1),
    default=None,
    help=f"Rollouts at once.  [default: {DEFAULT_CONCURRENCY}; with --resume, the run's own]",
)
@click.option(
    "--time-limit",
    type=FiniteRange(min=0.1),
    default=300.0,
    show_default=True,
    help="Seconds a rollout.",
)
@click.option(
    "--temperature",
    type=FiniteRange(min=0),
    default=None,
    help="Sampling temperature.  [default: the model's]",
)
@click.option(
    "--max-tokens", type=click.IntRange(min=1), default=None, help="Tokens an answer.  [default: the model's]"
)
@output_option
@click.option(
    "--resume",
    type=click.Path(path_type=Path),
    default=None,
    metavar="RUN",
    help="Go on with a run's folder; needs no other option.",
)
@json_option
def command(
    environment: str | None, models: tuple[str, ...], resume: Path | None, as_json: bool, **given: Any
) -> int:
    """Evaluate models on ENVIRONMENT (e1 ... e6 or a full name) and store every rollout."""
    from security_verifiers.cli.progress import RunProgress
    from security_verifiers.evals.launch import EvalRequest, resume_run, run_models
    from security_verifiers.reports.terminal import print_sheets, sheets_json

    if resume is None and environment is None:
        raise click.UsageError("name an environment, or a run to --resume")
    with RunProgress(quiet=as_json) as progress:
        if resume is not None:
            runs = [asyncio.run(resume_run(resume, progress, concurrency=given["concurrency"]))]
        else:
            assert environment is not None
            request = EvalRequest(
                environment=environment,
                models=tuple(name for text in models or (DEFAULT_MODEL,) for name in text.split(",") if name),
                config=dataset_config(given["dataset"], given["split"], given["settings"]),
                tasks=given["tasks"],
                samples=given["rollouts"],
                seed=given["seed"],
                tools=given["tools"],
                opponent=given["opponent"],
                concurrency=given["concurrency"] or DEFAULT_CONCURRENCY,
                time_limit_s=given["time_limit"],
                temperature=given["temperature"],
                max_tokens=given["max_tokens"],
                output_dir=given["output_dir"],
            )
            runs = asyncio.run(run_models(request, progress))
    if as_json:
        echo_json(sheets_json(runs))
    else:
        print_sheets(runs)
    return 1 if any(run.summary["invalid"] for run in runs) else 0
