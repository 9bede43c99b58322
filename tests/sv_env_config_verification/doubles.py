"""Catalogues and tools for tests: what is told of a tool here is what its adapter has to take."""

import sys
from pathlib import Path

import pytest

from sv_env_config_verification.adapters.base import Desk
from sv_env_config_verification.catalogue import Catalogue, Weakness
from sv_env_config_verification.reading import Reader
from sv_shared.findings import Severity
from sv_shared.tool_cache import ToolCache
from sv_shared.tool_folder import tool_bin
from sv_shared.tools import Tool, ToolMissing, find_binary

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\nspec:\n  hostPID: true\n"

WEAKNESS = Weakness("host-pid", "Shares the host's processes", Severity.HIGH, 250, ())


def small_catalogue(**rules: dict[str, str]) -> Catalogue:
    """A catalogue with one weakness and the rules of each tool."""
    return Catalogue({WEAKNESS.id: WEAKNESS}, rules)


def small_desk(cache: ToolCache | None = None, **rules: dict[str, str]) -> Desk:
    """A desk with such a catalogue."""
    return Desk(Reader(), small_catalogue(**rules), cache)


def script(folder: Path, body: str, *, name: str = "fake", **limits: float) -> Tool:
    """A tool that is a Python program of ours."""
    path = folder / name
    path.write_text(f"#!{sys.executable}\nimport json, os, sys, time\nfrom pathlib import Path\n{body}\n")
    path.chmod(0o755)
    return Tool(name, path, "9.9", **limits)  # type: ignore[arg-type]


def need(name: str, binary: str) -> None:
    """Skip the test where a real tool is not installed."""
    try:
        find_binary(binary, install="", folders=[tool_bin(name)])
    except ToolMissing:
        pytest.skip(f"{name} is not installed; run sv tools install {name}")
