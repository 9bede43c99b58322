"""What the tests of the tool cache play with: results, keys, a counting tool, self-closing caches."""

import asyncio
from pathlib import Path

from sv_shared.errors import ToolError
from sv_shared.tool_cache import CacheKey, ToolCache, content_hash
from sv_shared.tools import Ending, ToolResult


def result(stdout: bytes, returncode: int = 0) -> ToolResult:
    return ToolResult(returncode, stdout, b"warn", 0.25, Ending.EXITED, "opa", "1.0")


def key(name: str, version: str = "1.0") -> CacheKey:
    return CacheKey("opa", version, "rules", content_hash(name))


def text(raw: ToolResult) -> str:
    """A parser that knows one kind of output."""
    if not raw.stdout.startswith(b"ok"):
        raise ToolError("opa wrote something else")
    return raw.stdout.decode()


class Caller:
    """A tool that counts its calls."""

    def __init__(self, stdout: bytes = b"ok", seconds: float = 0.0) -> None:
        self.stdout, self.seconds, self.calls = stdout, seconds, 0

    async def __call__(self) -> ToolResult:
        self.calls += 1
        await asyncio.sleep(self.seconds)
        return result(self.stdout)


class Opened:
    """Opens caches on one folder and closes them at the end of a test."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.warnings, self._caches = folder, list[str](), list[ToolCache]()

    def __call__(self, **options: object) -> ToolCache:
        cache = ToolCache(self.folder, warn=self.warnings.append, **options)  # type: ignore[arg-type]
        self._caches.append(cache)
        return cache

    def close(self) -> None:
        for cache in self._caches:
            cache.close()
        self._caches.clear()
