"""The state of each tool: where it is, which version it truly has, and whether it works."""

import asyncio
import sys
import tempfile
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

from security_verifiers.toolchain.pins import GoPin, Pins, PythonPin, SystemPin, on_this_platform
from security_verifiers.toolchain.probes import PROBES, QUIET_SEMGREP, probe_opa_eval
from sv_shared.errors import SVError, ToolError
from sv_shared.tool_folder import find_installed
from sv_shared.tools import Tool

FALLBACKS: Mapping[str, Callable[[], Awaitable[None]]] = {"opa-eval": probe_opa_eval}
"""Probes of the engines that may stand in for a tool, by PyPI name."""

_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class Checkup:
    """What the doctor found of one tool.

    Attributes:
        name: the tool.
        path: its executable; None where there is none, or the engine is a Python package.
        version: what it truly is: a Go program's from its build info, any other's from what it prints.
        pinned: the version that results are comparable with; None: any.
        engine: "real", "fallback" where only the stand-in works, None where nothing does.
        works: whether the real tool gave the known answer to a tiny input.
        needed_by: environments that need it.
        required: whether an environment that is installed needs it.
        problem: what is wrong, "" where nothing is.
    """

    name: str
    path: str | None
    version: str | None
    pinned: str | None
    engine: Literal["real", "fallback"] | None
    works: bool
    needed_by: Sequence[str]
    required: bool
    problem: str


async def examine(
    pins: Pins, names: Sequence[str] = (), *, environments: Collection[str], timeout_s: float = _TIMEOUT_S
) -> list[Checkup]:
    """Look for the named tools (all of this platform where none is named) and try each.

    Args:
        pins: the pinned tools.
        names: which of them.
        environments: aliases of the installed environments.
        timeout_s: limit of each call of a tool.

    Raises:
        UsageError: no such tool.
    """
    chosen = pins.chosen(names)
    checks = (_examine(name, pin, environments, timeout_s) for name, pin in chosen.items())
    return await asyncio.gather(*checks)


async def _examine(
    name: str, pin: GoPin | PythonPin | SystemPin, environments: Collection[str], timeout_s: float
) -> Checkup:
    tool: Tool | None = None
    works, problem = False, ""
    try:
        if not on_this_platform(pin):
            raise ToolError(f"{name} does not exist for {sys.platform}")
        tool = await find_installed(
            name,
            binary=pin.binary,
            version_args=pin.version_args,
            env=QUIET_SEMGREP if name == "semgrep" else None,
            timeout_s=timeout_s,
        )
        with tempfile.TemporaryDirectory(prefix="sv-probe-") as folder:
            await PROBES[name](tool, Path(folder))
        works = True
        if pin.version is not None and _plain(tool) != pin.version:
            problem = f"not the pinned version: sv tools install {name} brings {pin.version}"
    except SVError as error:
        problem = str(error)
    engine: Literal["real", "fallback"] | None = "real" if works else None
    if not works and pin.fallback is not None and (stand_in := await _fallback(pin.fallback)):
        engine, problem = "fallback", f"{problem}. {stand_in} would stand in where the user allows it"
    return Checkup(
        name,
        None if tool is None else str(tool.binary),
        None if tool is None else _plain(tool),
        pin.version,
        engine,
        works,
        pin.needed_by,
        any(alias in environments for alias in pin.needed_by),
        problem,
    )


async def _fallback(package: str) -> str:
    """The stand-in and its version, "" where it does not work."""
    try:
        await FALLBACKS[package]()
        return f"{package} {version(package)}"
    except (ToolError, PackageNotFoundError):
        return ""


def _plain(tool: Tool) -> str:
    return tool.version.removeprefix("v")
