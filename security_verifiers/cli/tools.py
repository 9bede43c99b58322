"""`sv tools`: install the external tools that environments run, and check that they work."""

import asyncio
import importlib
import time
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import click

from security_verifiers.cli.options import echo_json, json_option
from sv_shared.tool_folder import tools_folder

if TYPE_CHECKING:
    from rich.progress import Progress

    from security_verifiers.toolchain.install import Outcome

HEARTBEAT_S = 30.0
"""Seconds between two signs of life where no terminal shows a clock."""

WIDTH = 140
"""Columns of the table in a file or a pipe."""

ELSEWHERE = {"findings": "findings"}
"""Subcommand: module in this package that holds it as `command`."""


class _Group(click.Group):
    """Imports a subcommand that lives in a module of its own when it is called for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*super().list_commands(ctx), *ELSEWHERE]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in ELSEWHERE:
            return super().get_command(ctx, cmd_name)
        module = importlib.import_module(f"security_verifiers.cli.{ELSEWHERE[cmd_name]}")
        found: click.Command = module.command
        return found


@click.group(cls=_Group)
def command() -> None:
    """Install the external tools (OPA, KubeLinter, Semgrep ...) and check them."""


@command.command()
@click.argument("names", nargs=-1)
@click.option("--force", is_flag=True, help="Install anew what is there already.")
@json_option
def install(names: tuple[str, ...], force: bool, as_json: bool) -> int:
    """Install the pinned versions of NAMES (every tool if none). What is there already is left alone.

    Exit code 2 when a tool failed that is named, or that an installed environment needs.
    """
    from security_verifiers.toolchain.folder import ToolFolder
    from security_verifiers.toolchain.install import State
    from security_verifiers.toolchain.install import install as install_tools
    from security_verifiers.toolchain.pins import load_pins

    pins, folder = load_pins(), ToolFolder(tools_folder())
    with _Watcher() as watcher:
        outcomes = asyncio.run(install_tools(pins, names, folder, watcher=watcher, force=force))
    if as_json:
        echo_json([_plain(outcome) for outcome in outcomes])
    else:
        for outcome in outcomes:
            if outcome.state is State.ON_PATH:
                click.echo(f"{outcome.name} {outcome.version}: found on PATH, {outcome.detail}", err=True)
    if watcher.quiet and not as_json:
        click.echo(f"{len(outcomes)} tools are there: {folder.root}")
    failed = [outcome.name for outcome in outcomes if outcome.state is State.FAILED]
    if not failed:
        return 0
    needed = [name for name in failed if names or set(pins.tools[name].needed_by) & _environments()]
    advice = f"Once that is put right: sv tools install {' '.join(failed)}"
    click.echo(f"sv: not installed: {', '.join(failed)}. {advice}. sv tools doctor shows the rest", err=True)
    return 2 if needed else 0


@command.command()
@click.argument("names", nargs=-1)
@click.option("--allow-fallback", is_flag=True, help="Count a stand-in engine that works as good enough.")
@json_option
def doctor(names: tuple[str, ...], allow_fallback: bool, as_json: bool) -> int:
    """Try each of NAMES (every tool if none) on a tiny input whose answer is known.

    An environment in parentheses is not installed, so what it needs is not required.

    Exit code 1 when a tool that is named, or that an installed environment needs, does not work.
    """
    from dataclasses import asdict

    from security_verifiers.toolchain.doctor import examine
    from security_verifiers.toolchain.pins import load_pins

    checkups = asyncio.run(examine(load_pins(), names, environments=_environments()))
    if as_json:
        echo_json([asdict(checkup) for checkup in checkups])
    else:
        _print(checkups, _environments())
    sick = [
        checkup
        for checkup in checkups
        if (checkup.required or names)
        and not checkup.works
        and not (allow_fallback and checkup.engine == "fallback")
    ]
    return 1 if sick else 0


class _Watcher:
    """Shows an installation on standard error: a line a tool, with a clock where there is a terminal."""

    def __init__(self) -> None:
        self.quiet = True
        self._running: dict[str, Any] = {}
        self._begun: dict[str, float] = {}
        self._pulse: asyncio.Task[None] | None = None

    @cached_property
    def _bars(self) -> "Progress":
        # Made when there is something to show: a call with nothing to do need not import it.
        from rich.console import Console
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        console = Console(stderr=True, highlight=False)
        bars = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            console=console,
            disable=not console.is_terminal,
            transient=True,
        )
        bars.start()
        return bars

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self.quiet:
            self._bars.stop()

    def begin(self, name: str, version: str | None, doing: str) -> None:
        """A tool's next step has begun."""
        self.quiet = False
        text = f"{name} {version or ''}".strip() + f": {doing}"
        self._begun.setdefault(name, time.monotonic())
        if name in self._running:
            self._bars.update(self._running[name], description=text)
        else:
            self._running[name] = self._bars.add_task(text, total=None)
        if not self._bars.console.is_terminal:
            self._say(text)
            if self._pulse is None:
                self._pulse = asyncio.get_running_loop().create_task(self._beat())

    def end(self, outcome: "Outcome") -> None:
        """A tool is done with."""
        self.quiet = False
        self._begun.pop(outcome.name, None)
        if (bar := self._running.pop(outcome.name, None)) is not None:
            self._bars.remove_task(bar)
        if not self._begun and self._pulse is not None:
            self._pulse.cancel()
            self._pulse = None
        title = f"{outcome.name} {outcome.version or ''}".strip()
        if outcome.error is None:
            self._say(f"{title}: installed in {outcome.seconds:.0f} s, {outcome.detail}")
            return
        self._say(f"{title}: FAILED after {outcome.seconds:.0f} s: {outcome.error}")
        for note in getattr(outcome.error, "__notes__", []):
            for line in note.splitlines():
                self._say(f"    {line}")

    def wait(self) -> None:
        """Another process is installing."""
        self.quiet = False
        self._say("another sv tools install is running; waiting for it")

    def _say(self, text: str) -> None:
        self._bars.console.print(text, markup=False, soft_wrap=True)

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_S)
            now = time.monotonic()
            still = ", ".join(f"{name} {now - begun:.0f} s" for name, begun in self._begun.items())
            self._say(f"still at it: {still}")


def _environments() -> set[str]:
    """Aliases of the installed environments, without importing them."""
    from importlib.metadata import entry_points

    from sv_shared.environment import GROUP

    return {point.name for point in entry_points(group=GROUP)}


def _plain(outcome: "Outcome") -> dict[str, Any]:
    return {
        "name": outcome.name,
        "version": outcome.version,
        "state": str(outcome.state),
        "detail": outcome.detail,
        "seconds": round(outcome.seconds, 1),
        "error": None if outcome.error is None else str(outcome.error),
    }


def _print(checkups: Any, environments: set[str]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=WIDTH)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("tool", "version", "pinned", "engine", "works", "needed by", "path"):
        table.add_column(heading, no_wrap=heading != "path", overflow="fold")
    for checkup in checkups:
        works = (
            Text("yes", "green")
            if checkup.works
            else Text("NO", "bold red" if checkup.required else "yellow")
        )
        table.add_row(
            checkup.name,
            checkup.version or "-",
            checkup.pinned or "any",
            checkup.engine or "-",
            works,
            " ".join(alias if alias in environments else f"({alias})" for alias in checkup.needed_by),
            checkup.path or "-",
        )
    console.print(table)
    for checkup in checkups:
        if checkup.problem:
            console.print(f"{checkup.name}: {checkup.problem}", markup=False, soft_wrap=True)
