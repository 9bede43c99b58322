"""Toolbox: the three adapters with one reader and one cache, opened and closed together."""

import asyncio
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from sv_env_config_verification.adapters.base import Adapter, Desk
from sv_env_config_verification.adapters.fallback import OpaEvalAdapter
from sv_env_config_verification.adapters.kubelinter import KubeLinterAdapter
from sv_env_config_verification.adapters.opa import OpaAdapter
from sv_env_config_verification.adapters.semgrep import SemgrepAdapter
from sv_env_config_verification.inputs import InputError
from sv_shared.errors import UsageError
from sv_shared.findings import Finding, tidy
from sv_shared.tool_cache import ToolCache
from sv_shared.tools import ToolMissing

TOOLS = ("opa", "kubelinter", "semgrep")


@dataclass(frozen=True, slots=True)
class ToolVersion:
    """Which program answered for a tool; recorded with every run.

    Attributes:
        tool: the tool's name.
        engine: the tool itself, or the fallback engine that stands in for it.
        version: the engine's version.
    """

    tool: str
    engine: str
    version: str


class Toolbox:
    """Adapters by tool name. `async with await Toolbox.open()` closes it; one event loop uses an instance.

    Attributes:
        adapters: by tool name.
        versions: which program answers for each tool.
        missing: why a tool that was asked for is not here, where missing ones were allowed.
    """

    def __init__(self, desk: Desk, adapters: Mapping[str, Adapter], versions: Iterable[ToolVersion]) -> None:
        self._desk = desk
        self.adapters = dict(adapters)
        self.versions = tuple(versions)
        self.missing: dict[str, ToolMissing] = {}

    @classmethod
    async def open(
        cls,
        tools: Iterable[str] = TOOLS,
        *,
        allow_fallback: bool = False,
        allow_missing: bool = False,
        cache: Path | None = None,
    ) -> "Toolbox":
        """Find the tools and their versions.

        Args:
            tools: names from TOOLS.
            allow_fallback: let opa-eval stand in where OPA is not installed; every finding then says so.
            allow_missing: leave out a tool that is not installed, and say so in `missing`.
            cache: folder of the result cache; None: every scan calls its tool.

        Raises:
            UsageError: a name is not in TOOLS.
            ToolMissing: a tool is not installed, and nothing allowed stands in for it.
        """
        wanted = list(dict.fromkeys(tools))
        if unknown := [name for name in wanted if name not in TOOLS]:
            raise UsageError(f"no tool is called {unknown[0]!r}", hint=f"The tools are {', '.join(TOOLS)}")
        desk = Desk.open(None if cache is None else ToolCache(cache))
        box = cls(desk, {}, ())
        try:
            for name in wanted:
                await box._add(name, allow_fallback, allow_missing)
        except BaseException:
            await box.close()
            raise
        return box

    async def scan(self, files: Mapping[str, str], tools: Iterable[str] | None = None) -> list[Finding]:
        """The findings of several tools, which run at the same time.

        Args:
            files: text by file name.
            tools: names; None: every tool of this box.

        Raises:
            InputError, ToolError: as `Adapter.scan`; a tool's failure goes before a file's problem.
        """
        await self._desk.reader.read(files)  # once, and not by three at a time
        names = list(self.adapters if tools is None else tools)
        parts = await asyncio.gather(
            *(self.adapters[name].scan(files) for name in names), return_exceptions=True
        )
        errors = [part for part in parts if isinstance(part, BaseException)]
        if errors:
            raise min(errors, key=lambda error: isinstance(error, InputError))
        return tidy(finding for part in parts if isinstance(part, list) for finding in part)

    @property
    def hit_rate(self) -> float | None:
        """Share of lookups that the cache answered; None without a cache or a lookup."""
        return None if self._desk.cache is None else self._desk.cache.stats.hit_rate

    async def clear_cache(self) -> None:
        """Forget every result.

        Raises:
            ToolError: the cache's file can't be changed.
        """
        if self._desk.cache is not None:
            await self._desk.cache.clear()

    async def close(self) -> None:
        """End what runs and let go of the cache. A second call does nothing."""
        for adapter in self.adapters.values():
            await adapter.close()
        await self._desk.close()
        if self._desk.cache is not None:
            self._desk.cache.close()

    async def __aenter__(self) -> "Toolbox":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _add(self, name: str, allow_fallback: bool, allow_missing: bool) -> None:
        adapter: Adapter = _ADAPTERS[name](self._desk)
        try:
            version = await adapter.version()
        except ToolMissing as error:
            if allow_fallback and name == "opa":
                adapter = OpaEvalAdapter(self._desk)
                version = await adapter.version()
            elif allow_missing:
                self.missing[name] = error
                return
            else:
                raise
        self.adapters[name] = adapter
        self.versions = (*self.versions, ToolVersion(name, adapter.engine, version))


_ADAPTERS = {"opa": OpaAdapter, "kubelinter": KubeLinterAdapter, "semgrep": SemgrepAdapter}


def cache_folder(env: Mapping[str, str] | None = None) -> Path:
    """Where results are kept: SV_TOOL_CACHE_DIR, else tool-cache in our part of the user's cache folder.

    Args:
        env: environment variables; None: the process's own.
    """
    variables = os.environ if env is None else env
    if chosen := variables.get("SV_TOOL_CACHE_DIR"):
        return Path(chosen).expanduser().absolute()
    cache = variables.get("XDG_CACHE_HOME", "")
    base = Path(cache) if os.path.isabs(cache) else Path.home() / ".cache"
    return base / "security-verifiers" / "tool-cache"
