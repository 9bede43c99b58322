"""`sv models`: what can be evaluated, and whether it answers."""

import asyncio
import os
from datetime import UTC, datetime
from typing import Any

import click

from security_verifiers.cli.options import echo_json, json_option


@click.group()
def command() -> None:
    """List the models and check that they answer."""


@command.command("list")
@json_option
def list_models(as_json: bool) -> int:
    """Every model of configs/models.toml: provider, status, key, context and price."""
    from dataclasses import asdict

    from security_verifiers.models.check import rows
    from security_verifiers.models.portfolio import load_portfolio

    found = rows(load_portfolio(), os.environ)
    if as_json:
        echo_json([_plain(asdict(row)) for row in found])
        return 0
    _print(found)
    return 0


@command.command()
@click.argument("names", nargs=-1)
@json_option
def check(names: tuple[str, ...], as_json: bool) -> int:
    """Make one tiny call to each of NAMES (the default model if none) and say in one line what is wrong."""
    from dataclasses import asdict

    from security_verifiers.models.check import check_argument
    from security_verifiers.models.portfolio import load_portfolio

    portfolio, today = load_portfolio(), datetime.now(UTC).date()
    wanted = [name for text in names for name in text.split(",")] or [portfolio.default]
    results = [asyncio.run(check_argument(name, portfolio, os.environ, today)) for name in wanted]
    if as_json:
        echo_json([asdict(result) for result in results])
    else:
        for result in results:
            click.echo(f"{'ok  ' if result.ok else 'FAIL'}  {result.model}: {result.reason}")
    return 0 if all(result.ok for result in results) else 1


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    price = row["price"]
    return row | {
        "price": None if price is None else price.model_dump(mode="json"),
        "retires": None if row["retires"] is None else row["retires"].isoformat(),
    }


def _print(found: Any) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("model", "provider", "status", "key", "context", "$/M in", "$/M out"):
        table.add_column(heading, no_wrap=True, justify="right" if heading[0] in "$c" else "left")
    table.add_column("notes", style="dim")
    for row in found:
        key = (
            "none needed"
            if row.key_set is None
            else f"{row.key_variable} {'set' if row.key_set else 'not set'}"
        )
        status = row.status if row.alternative is None else f"{row.status}, see {row.alternative}"
        price = row.price
        table.add_row(
            f"{row.id} (default)" if row.is_default else row.id,
            row.provider,
            status if row.retires is None else f"{status} until {row.retires}",
            key,
            "?" if row.context is None else f"{row.context:,}",
            "?" if price is None else f"{price.input:g}",
            "?" if price is None else f"{price.output:g}",
            row.notes,
        )
    console.print(table)
