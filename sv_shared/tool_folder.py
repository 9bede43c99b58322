"""Where installed tools lie, and which version of a tool one really has.

`sv tools install` puts each tool into `<tools>/<name>/<version>/bin/` and points `<tools>/<name>/current` at
the version in use, so an environment finds the tool without knowing which version is pinned.
"""

import mmap
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from sv_shared.tools import Tool, find_binary, find_tool

CURRENT = "current"
"""The link beside a tool's versions that points at the one in use."""

_MAGIC = b"\xff Go buildinf:"
_HEADER = 32
"""Bytes from the magic to the first string, where the strings stand inline."""
_INLINE = 2
"""Flag bit: the strings follow the header (Go 1.18 and later)."""
_SENTINEL = 16
"""Bytes of marker that Go's linker puts before and after the module text."""


class GoBuild(NamedTuple):
    """What Go's linker wrote into a program about where it comes from.

    Attributes:
        go: the compiler's version, such as "go1.26.0".
        package: import path of the main package.
        version: version of the main module without the "v"; None where it was built from a work tree.
        checksum: "h1:..." of the module's files as in go.sum; "" where it was built from a work tree.
    """

    go: str
    package: str
    version: str | None
    checksum: str


def tools_folder(env: Mapping[str, str] | None = None) -> Path:
    """The folder of installed tools: SV_TOOLS_DIR, else security-verifiers/tools in the user's cache folder.

    Args:
        env: environment variables; None: the process's own.

    Returns:
        An absolute path; nothing is made.
    """
    variables = os.environ if env is None else env
    if chosen := variables.get("SV_TOOLS_DIR"):
        return Path(os.path.abspath(Path(chosen).expanduser()))
    cache = variables.get("XDG_CACHE_HOME", "")
    # The XDG specification says that a relative path there is to be ignored.
    base = Path(cache) if os.path.isabs(cache) else Path.home() / ".cache"
    return base / "security-verifiers" / "tools"


def tool_bin(name: str, env: Mapping[str, str] | None = None) -> Path:
    """The folder with the executables of an installed tool's current version; it need not exist."""
    return tools_folder(env) / name / CURRENT / "bin"


def install_hint(name: str) -> str:
    """What to tell a user who lacks a tool that `sv tools install` can bring."""
    return f"Run sv tools install {name}"


async def find_installed(
    name: str,
    *,
    binary: str | None = None,
    version_args: Sequence[str] = ("--version",),
    env: Mapping[str, str] | None = None,
    timeout_s: float = 30.0,
    max_output: int = 16 << 20,
) -> Tool:
    """Find a tool in the tools folder, else on PATH, with its true version.

    A Go program carries its module's version, which beats what it prints: `go install` sets no version
    strings, so KubeLinter prints "development". Any other program is asked, as `find_tool` does.

    Args:
        name: the tool's name, as `sv tools install` knows it.
        binary: its executable's name; None: the same.
        version_args: arguments that make it print its version.
        env, timeout_s, max_output: as in `sv_shared.tools.Tool`.

    Raises:
        ToolMissing: it is not installed, or can't be started.
        ToolError: it carries no version and prints none.
    """
    hint, folders = install_hint(name), (tool_bin(name),)
    path = find_binary(binary or name, install=hint, folders=folders)
    build = go_build(path)
    if build is not None and build.version is not None:
        return Tool(name, path, build.version, dict(env or {}), timeout_s, max_output)
    asked = await find_tool(
        binary or name,
        install=hint,
        version_args=version_args,
        folders=folders,
        env=env,
        timeout_s=timeout_s,
        max_output=max_output,
    )
    return Tool(name, asked.binary, asked.version, asked.env, timeout_s, max_output)


def go_build(binary: Path) -> GoBuild | None:
    """Read what `go version -m` shows of a program, without Go.

    The format is that of Go's package debug/buildinfo: a magic string on a 16-byte boundary, flags, and after
    32 bytes the compiler's version and the module text, each behind its length as a varint.

    Args:
        binary: path of an executable.

    Returns:
        None for a program that Go 1.18 or later did not build.

    Raises:
        OSError: it can't be read.
    """
    with binary.open("rb") as file:
        if os.fstat(file.fileno()).st_size < _HEADER:
            return None
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            place = content.find(_MAGIC)
            while place >= 0:
                found = _read_build(content, place) if place % 16 == 0 else None
                if found is not None:
                    return found
                # A program that reads build infos itself holds the magic as a constant, too.
                place = content.find(_MAGIC, place + 1)
    return None


def _read_build(content: mmap.mmap, place: int) -> GoBuild | None:
    if place + _HEADER > len(content) or not content[place + 15] & _INLINE:
        return None
    go, end = _string(content, place + _HEADER)
    text, _ = _string(content, end)
    if not go.startswith(b"go") and b"devel" not in go:
        return None
    lines = [line.split("\t") for line in text[_SENTINEL:-_SENTINEL].decode("utf-8", "replace").splitlines()]
    package = next((line[1] for line in lines if line[0] == "path" and len(line) > 1), "")
    module = next((line for line in lines if line[0] == "mod" and len(line) > 2), None)
    version = None if module is None or not module[2].startswith("v") else module[2][1:]
    checksum = module[3] if module is not None and len(module) > 3 else ""
    return GoBuild(go.decode("utf-8", "replace"), package, version, checksum)


def _string(content: mmap.mmap, place: int) -> tuple[bytes, int]:
    """A string behind its length, and where it ends; cut short where the file is."""
    length = shift = 0
    while place < len(content) and shift < 35:
        byte = content[place]
        place += 1
        length |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    end = min(place + length, len(content))
    return content[place:end], end
