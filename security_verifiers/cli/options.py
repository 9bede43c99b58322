"""Options that several commands share, and the small conversions behind them."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from security_verifiers.reports.tables import Table

Command = TypeVar("Command", bound=Callable[..., Any])


class FiniteRange(click.FloatRange):
    """A range of numbers; NaN, which compares with nothing, is outside."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number.", param, ctx)
        return number


def parse_settings(values: tuple[str, ...]) -> dict[str, Any]:
    """`--set` arguments as a nested dict: "task.weights.calibration=0" -> {"task": {"weights": ...}}.

    A value that is JSON is taken as JSON, anything else as a string.
    """
    settings: dict[str, Any] = {}
    for text in values:
        name, separator, raw = text.partition("=")
        if not separator or not name.strip():
            raise click.BadParameter(f"{text!r} is not of the form NAME=VALUE", param_hint="--set")
        try:
            value = json.loads(raw)
        except ValueError:
            value = raw
        *groups, leaf = (part.strip() for part in name.split("."))
        if not all([*groups, leaf]):
            raise click.BadParameter(f"{name!r} has an empty part", param_hint="--set")
        place = settings
        for group in groups:
            place = place.setdefault(group, {})
            if not isinstance(place, dict):
                raise click.BadParameter(f"{name!r} goes through a value", param_hint="--set")
        place[leaf] = value
    return settings


def dataset_config(dataset: str | None, split: str | None, settings: tuple[str, ...]) -> dict[str, Any]:
    """The taskset's configuration from the dataset options."""
    config: dict[str, Any] = parse_settings(settings)
    if dataset is not None:
        config["dataset"] = dataset
    if split is not None:
        config["split"] = split
    return config


def dataset_options(command: Command) -> Command:
    """--dataset, --split and --set."""
    for decorate in (
        click.option(
            "--set",
            "settings",
            multiple=True,
            metavar="NAME=VALUE",
            help="A setting of the environment, such as view=window, task.weights.calibration=0 or "
            """'mask=["ports"]'; repeatable.""",
        ),
        click.option("--split", default=None, help="train, dev or test.  [default: test]"),
        click.option(
            "--dataset",
            default=None,
            help="Built-in name, local path or hub id.  [default: the public-mini set]",
        ),
    ):
        command = decorate(command)
    return command


def output_option(command: Command) -> Command:
    """--output-dir."""
    return click.option(
        "--output-dir",
        type=click.Path(path_type=Path, file_okay=False),
        default=Path("outputs"),
        show_default=True,
        help="Root of everything that is written.",
    )(command)


def json_option(command: Command) -> Command:
    """--json."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")(command)


def markdown_option(command: Command) -> Command:
    """--markdown."""
    return click.option("--markdown", is_flag=True, help="Print Markdown, for a pull request or a document.")(
        command
    )


def margin_option(command: Command) -> Command:
    """--margin."""
    return click.option(
        "--margin",
        type=FiniteRange(0, 1, min_open=True),
        default=0.03,
        show_default=True,
        help="Of the reward's span from chance to reference; absolute for proportions.",
    )(command)


def partial_option(command: Command) -> Command:
    """--allow-partial."""
    return click.option(
        "--allow-partial",
        is_flag=True,
        help="Leave broken result lines out instead of refusing the run; the output says so.",
    )(command)


def show_tables(tables: "Sequence[Table]", markdown: bool) -> None:
    """Print tables for a terminal, or as Markdown."""
    from security_verifiers.reports.terminal import sized_console

    if markdown:
        click.echo("\n".join(table.markdown() for table in tables), nl=False)
        return
    console = sized_console()
    for table in tables:
        table.print(console)
        console.print()


def echo_json(content: Mapping[str, Any] | list[Any]) -> None:
    """Print JSON on standard output, and nothing else there."""
    click.echo(json.dumps(content, indent=2, allow_nan=False, ensure_ascii=False))
