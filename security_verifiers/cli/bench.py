"""`sv bench`: speed beside the bare engine, CPU, memory, loaders."""

import asyncio
from typing import Any

import click

from security_verifiers.cli.options import dataset_config, dataset_options, echo_json, json_option


@click.command()
@click.argument("environment")
@dataset_options
@click.option("--policy", default="reference", show_default=True, help="The zero-latency player.")
@click.option(
    "--count", type=click.IntRange(min=64), default=1000, show_default=True, help="Rollouts a round."
)
@click.option("--rounds", type=click.IntRange(min=1), default=5, show_default=True)
@click.option(
    "--loader-rows", type=click.IntRange(min=0), default=200_000, show_default=True, help="0 leaves it out."
)
@json_option
def command(
    environment: str,
    dataset: str | None,
    split: str | None,
    settings: tuple[str, ...],
    policy: str,
    count: int,
    rounds: int,
    loader_rows: int,
    as_json: bool,
) -> int:
    """Measure ENVIRONMENT with a zero-latency player, in turns with the bare engine."""
    from security_verifiers.bench.loader import measure_loader
    from security_verifiers.bench.throughput import measure, peak_memory_mb
    from sv_shared.environment import find

    chosen = find(environment)
    config = dataset_config(dataset, split, settings)
    throughput = asyncio.run(measure(chosen, config, policy, count=count, rounds=rounds))
    peak = peak_memory_mb()
    loader = measure_loader(chosen, loader_rows) if loader_rows else None
    report: dict[str, Any] = {
        "environment": chosen.id,
        "policy": policy,
        **throughput.to_json(),
        "peak_mb": peak,
    }
    if loader is not None:
        report["loader"] = loader.to_json()
    if as_json:
        echo_json(report)
        return 0
    t = throughput
    click.echo(f"{chosen.id}, policy:{policy}, {t.rounds} rounds of {t.rollouts} rollouts, medians")
    click.echo(f"  rollouts       {t.per_second:8.0f} /s   graded, recorded, written")
    click.echo(f"  result line    {t.line_bytes:8.0f} bytes")
    click.echo(f"  bare engine    {t.bare_per_second:8.0f} /s")
    click.echo(f"  ratio          {t.ratio:8.2f}      of the bare engine, target 0.80")
    click.echo(f"  CPU            {t.cpu_ms:8.2f} ms  a rollout (bare {t.bare_cpu_ms:.2f} ms)")
    click.echo(f"  peak memory    {peak:8.0f} MB  of this process")
    if loader is not None:
        click.echo(f"  loader         {loader.per_second:8.0f} rows/s  {loader.what}, {loader.rows} rows")
    return 0
