"""Entry point of `sv`: finds the command, shows errors as one line, keeps the exit codes.

Exit codes: 0 done, 1 a check failed, 2 bad use or bad input, 3 inconclusive, 130 interrupted.
"""

import importlib
import signal
import sys
import traceback

import click

from security_verifiers import __version__
from sv_shared.errors import SVError

COMMANDS = {
    "eval": ("eval", "Evaluate models on an environment."),
    "quickstart": (
        "quickstart",
        "Evaluate the embedded model and the baselines everywhere; print the sheets.",
    ),
    "report": ("report", "Print the benchmark sheet of stored runs."),
    "compare": ("compare", "Compare runs, pair by pair, with intervals."),
    "gate": ("gate", "Test that a run is not worse than another by more than a margin."),
    "baseline": ("baseline", "Pin deterministic runs and check today's code against them."),
    "rescore": ("rescore", "Grade stored rollouts with today's code and list what changed."),
    "ablate": ("ablate", "Take parts of an environment's reward away and see what they do."),
    "audit": ("audit", "Check an environment's reward, its degenerate policies and its leaks."),
    "bench": ("bench", "Measure an environment's speed beside the bare engine."),
    "tools": ("tools", "Install the external tools and check that they work."),
    "models": ("models", "List the models and check that they answer."),
    "data": ("data", "Build the datasets that ship with the project."),
}
"""Command: (module in this package that holds it under the same name, one line of help)."""


class LazyGroup(click.Group):
    """A group that knows its commands' names and help and imports a command when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"security_verifiers.cli.{COMMANDS[cmd_name][0]}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.command(
    cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110}
)
@click.version_option(__version__, prog_name="sv")
@click.option("--debug", is_flag=True, help="Show tracebacks and the libraries' log messages.")
@click.pass_context
def cli(ctx: click.Context, debug: bool) -> None:
    """Measure and improve language models on executable security environments."""
    import logging

    ctx.obj = {"debug": debug}
    logging.basicConfig(level=logging.DEBUG if debug else logging.ERROR, format="%(name)s: %(message)s")
    _load_dotenv()


def _load_dotenv() -> None:
    """Take API keys from a .env file here or above; nothing of it is ever printed or stored."""
    from pathlib import Path

    if any((folder / ".env").is_file() for folder in (Path.cwd(), *Path.cwd().parents)):
        from dotenv import find_dotenv, load_dotenv

        load_dotenv(find_dotenv(usecwd=True))


def _end_as_by_ctrl_c() -> None:
    """Let SIGTERM, and SIGHUP unless it is ignored (nohup), end a command the way Ctrl-C does."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, lambda *_: signal.raise_signal(signal.SIGINT))


def main() -> None:
    """Run the command line and exit."""
    _end_as_by_ctrl_c()
    debug = "--debug" in sys.argv[1:]
    arguments = [a for a in sys.argv[1:] if a != "--debug"]
    try:
        status = cli.main(args=["--debug", *arguments] if debug else arguments, standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        sys.exit(2)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt) as error:
        _fail("interrupted", error, 130, debug)
    except SVError as error:
        _fail(str(error), error, error.exit_code, debug)
    except Exception as error:  # noqa: BLE001 - the last line of defence: users see one line, not a traceback
        defect = f"a defect of sv: {type(error).__name__}: {error}. Run again with --debug and report it"
        _fail(defect, error, 2, debug)
    sys.exit(status if isinstance(status, int) else 0)


def _fail(message: str, error: BaseException, code: int, debug: bool) -> None:
    if debug:
        traceback.print_exception(error)
    click.echo(f"sv: {' '.join(message.split())}", err=True)
    cause: BaseException | None = error
    while cause is not None:
        for note in getattr(cause, "__notes__", []):
            click.echo(f"sv: {note}", err=True)
        cause = cause.__cause__ or cause.__context__
    sys.exit(code)


if __name__ == "__main__":
    main()
