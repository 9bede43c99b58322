"""The interface that the tools' adapters share, and how a result becomes findings."""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from sv_env_config_verification.catalogue import Catalogue, load_catalogue
from sv_env_config_verification.reading import Reader
from sv_shared.errors import ToolError
from sv_shared.findings import Finding
from sv_shared.tool_cache import CacheKey, ToolCache, content_hash
from sv_shared.tools import Ending, ToolResult

T = TypeVar("T")


class Adapter(Protocol):
    """A tool that turns configuration files into findings. One event loop uses an instance.

    Attributes:
        name: the tool's name in findings.
        engine: the program that evaluates its rules; another name than the tool's for a fallback engine.
    """

    name: str
    engine: str

    async def version(self) -> str:
        """The engine's version.

        Raises:
            ToolMissing: it is not installed.
        """
        ...

    async def scan(self, files: Mapping[str, str]) -> list[Finding]:
        """The tool's findings, tidied (`sv_shared.findings.tidy`).

        Args:
            files: text by file name; .yaml, .yml, .json, .tf, .tfvars. What a text says to silence a tool
                (ignore annotations, nosemgrep) has no effect.

        Raises:
            InputError: a file can't be judged, and the file is the cause.
            ToolError: the tool is missing, hangs, crashes, writes too much, or not what it should.
        """
        ...

    async def close(self) -> None:
        """End what the adapter keeps running. A second call does nothing."""
        ...


class Hit(NamedTuple):
    """A finding as a tool tells it, before the catalogue.

    Attributes:
        rule, object, file, line, message: as in `Finding`.
    """

    rule: str
    object: str
    file: str
    line: int | None
    message: str


@dataclass(frozen=True)
class Desk:
    """What the adapters of one process share.

    Attributes:
        reader: reads workspaces.
        catalogue: the weakness taxonomy.
        cache: results by content; None: every scan calls its tool.
    """

    reader: Reader
    catalogue: Catalogue
    cache: ToolCache | None

    @classmethod
    def open(cls, cache: ToolCache | None = None) -> "Desk":
        """A desk with a reader of its own and the catalogue that ships with the package."""
        return cls(Reader(), load_catalogue(), cache)

    def findings(self, tool: str, engine: str, version: str, hits: list[Hit]) -> list[Finding]:
        """Findings for hits, each once.

        Raises:
            ToolError: the catalogue does not know a rule.
        """
        found = {
            self.catalogue.finding(
                tool=tool,
                engine=engine,
                version=version,
                rule=hit.rule,
                object_id=hit.object,
                file=hit.file,
                line=hit.line,
                message=hit.message,
            )
            for hit in hits
        }
        return list(found)

    async def cached(
        self, key: CacheKey, call: Callable[[], Awaitable[ToolResult]], parse: Callable[[ToolResult], T]
    ) -> T:
        """The parsed result from the cache, or from a call where there is no cache or it lacks the key."""
        if self.cache is None:
            return parse(await call())
        return await self.cache.result(key, call, parse)

    async def close(self) -> None:
        """End the reader's process. The cache is its owner's to close."""
        await self.reader.close()


def hash_folder(folder: Path, *, extra: str = "") -> str:
    """Hash over a folder of rules: names and contents, and `extra` for whatever else decides a result.

    Raises:
        ToolError: the folder holds no file or can't be read.
    """
    try:
        paths = sorted(path for path in folder.rglob("*") if path.is_file() and path.name[0] not in "._")
        parts = [part for p in paths for part in (str(p.relative_to(folder)).encode(), p.read_bytes())]
    except OSError as error:
        raise ToolError(f"the rules can't be read: {error.strerror}", where=str(folder)) from error
    if not parts:
        raise ToolError(
            "there are no rules", where=str(folder), hint="Install the project again with make setup"
        )
    return content_hash(extra, *parts)


def decode(result: ToolResult) -> Any:
    """The JSON that a tool wrote.

    Raises:
        ToolError: it wrote something else.
    """
    try:
        return json.loads(result.stdout)
    except (ValueError, RecursionError) as error:
        said = (result.stderr or result.stdout).decode("utf-8", "replace").strip()[-300:]
        raise ToolError(
            f"{result.tool} {result.version} wrote no JSON (exit {result.returncode}): {said!r}"
        ) from error


def garbled(tool: str, version: str, why: str) -> ToolError:
    """The error for an answer that is not of the form that the adapter knows."""
    return ToolError(
        f"{tool} {version} answered in a form that its adapter does not know: {why}",
        hint="Install the pinned version with sv tools install",
    )


def result_of(value: Any, like: ToolResult) -> ToolResult:
    """A part of a tool's answer as a result of its own, so that it can be kept in the cache."""
    text = json.dumps(value, separators=(",", ":")).encode()
    return ToolResult(0, text, b"", like.duration_s, Ending.EXITED, like.tool, like.version)
