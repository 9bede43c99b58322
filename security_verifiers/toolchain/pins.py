"""The pinned tools of configs/tools.toml."""

import hashlib
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sv_shared.errors import UsageError

_PACKAGE = Path(__file__).resolve().parents[1]
_CONFIGS = (_PACKAGE / "configs", _PACKAGE.parent / "configs")
_REQUIREMENTS = (_PACKAGE / "configs", _PACKAGE.parent / "requirements")

_Version = Annotated[str, Field(pattern=r"^\d+\.\d+(\.\d+)?$")]


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class _Pin(_Table):
    needed_by: tuple[str, ...] = Field(strict=False)
    """Aliases of the environments that can't do without it."""
    binary: str | None = None
    """Its executable, where that is not called like the tool."""
    version_args: tuple[str, ...] = Field(default=("--version",), strict=False)
    """Arguments that make it print its version."""
    fallback: str | None = None
    """PyPI name of an engine that may stand in for it where a user allows that."""


class GoPin(_Pin):
    """A tool built by `go install`."""

    kind: Literal["go"]
    version: _Version
    package: str
    """Import path of its main package."""
    go: _Version
    """The oldest Go that builds it."""
    checksum: str | None = Field(default=None, pattern=r"^h1:[A-Za-z0-9+/]{43}=$")
    """The module's hash as in go.sum; through the module's own go.sum it covers all that is built in."""


class PythonPin(_Pin):
    """A tool from PyPI, in a virtual environment of its own: its pins may clash with ours."""

    kind: Literal["pypi"]
    version: _Version
    requirements: str
    """File in requirements/ with every package and its hashes."""


class SystemPin(_Pin):
    """A tool that the operating system brings, in whatever version."""

    kind: Literal["system"]
    apt: str
    """Its package on Debian and Ubuntu."""
    platforms: tuple[str, ...] = Field(default=("linux", "darwin"), strict=False)
    """Values of `sys.platform` on which it exists."""

    @property
    def version(self) -> None:
        """No version is pinned."""
        return None


Pin = Annotated[GoPin | PythonPin | SystemPin, Field(discriminator="kind")]


class GoToolchain(_Table):
    """The Go that is brought where PATH has none that is new enough."""

    go: _Version
    requirements: str


class Pins(_Table):
    """All of configs/tools.toml, the tools in the file's order."""

    toolchain: GoToolchain
    tools: dict[str, Pin]

    def chosen(self, names: Sequence[str]) -> dict[str, GoPin | PythonPin | SystemPin]:
        """The tools of these names; all tools of this platform where no name is given.

        Raises:
            UsageError: no such tool; the message lists those there are.
        """
        if not names:
            return {name: pin for name, pin in self.tools.items() if on_this_platform(pin)}
        if unknown := next((name for name in names if name not in self.tools), None):
            raise UsageError(f"no tool is called {unknown!r}", hint=f"There are {', '.join(self.tools)}")
        return {name: self.tools[name] for name in dict.fromkeys(names)}


def on_this_platform(pin: GoPin | PythonPin | SystemPin) -> bool:
    """Whether the tool exists for this operating system."""
    return not isinstance(pin, SystemPin) or sys.platform in pin.platforms


def recipe(pin: GoPin | PythonPin, root: Path | None = None) -> str:
    """A hash of all that decides what gets installed; another hash means that it must be installed anew."""
    content = f"{pin.package}@v{pin.version}" if isinstance(pin, GoPin) else _text(pin.requirements, root)
    return hashlib.sha256(content.encode()).hexdigest()


def requirements_path(name: str, root: Path | None = None) -> Path:
    """The file of pinned Python packages of that name.

    Raises:
        UsageError: it is not there.
    """
    places = _REQUIREMENTS if root is None else (root,)
    found = next((place / name for place in places if (place / name).is_file()), None)
    if found is None:
        raise UsageError(f"the pinned packages of {name} are missing", where=str(places[-1]))
    return found


def load_pins(path: Path | None = None) -> Pins:
    """Read and check a tools.toml (by default the project's own).

    Raises:
        UsageError: the file is missing, is no TOML, or an entry in it is wrong; names the file and the entry.
    """
    places = [place / "tools.toml" for place in _CONFIGS]
    source = path or next((place for place in places if place.is_file()), places[-1])
    try:
        raw: Mapping[str, Any] = tomllib.loads(source.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"the pinned tools can't be read: {error.strerror}", where=str(source)) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"the pinned tools are no TOML: {error}", where=str(source)) from None
    try:
        return Pins.model_validate(raw)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        entry = ".".join(map(str, first["loc"]))
        raise UsageError(f"{entry}: {first['msg']}", where=str(source)) from None


def _text(name: str, root: Path | None) -> str:
    return requirements_path(name, root).read_text(encoding="utf-8")
