"""One warm toolbox for each event loop: what grading asks, opened on first use, closed with the environment.

Starting the tools takes longer than asking them, so all rollouts of a worker share theirs, and the cache of
results on disk.
"""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

from sv_env_config_verification.adapters.toolbox import TOOLS, Toolbox, cache_folder
from sv_shared.errors import UsageError
from sv_shared.solo import SoloEnv

T = TypeVar("T")


class BoxSettings(NamedTuple):
    """Which tools a box holds.

    Attributes:
        without: names of the tools that are left out.
        allow_fallback: whether a fallback engine may stand in for a tool that is not installed.
    """

    without: tuple[str, ...] = ()
    allow_fallback: bool = False

    @property
    def tools(self) -> tuple[str, ...]:
        """The tools that it holds.

        Raises:
            UsageError: there is no such tool to leave out, or none is left.
        """
        if unknown := [name for name in self.without if name not in TOOLS]:
            raise UsageError(f"no tool is called {unknown[0]!r}", hint=f"The tools are {', '.join(TOOLS)}")
        left = tuple(name for name in TOOLS if name not in self.without)
        if not left:
            raise UsageError("every tool is left out, so that nothing can be graded")
        return left


_Boxes = dict[BoxSettings, "asyncio.Task[Toolbox]"]
_BOXES: "WeakKeyDictionary[asyncio.AbstractEventLoop, _Boxes]" = WeakKeyDictionary()


async def open_box(settings: BoxSettings) -> Toolbox:
    """A toolbox of one's own, with the cache on disk; the caller closes it.

    Raises:
        UsageError: as `BoxSettings.tools`.
        ToolMissing: a tool is not installed.
    """
    return await Toolbox.open(settings.tools, allow_fallback=settings.allow_fallback, cache=cache_folder())


async def tool_versions() -> dict[str, dict[str, str]]:
    """What is installed here, for a run's metadata: tool -> {"version", "engine"}; "real" is the tool."""
    async with await Toolbox.open(allow_missing=True) as box:
        return {
            facts.tool: {
                "version": facts.version,
                "engine": "real" if facts.engine == facts.tool else facts.engine,
            }
            for facts in box.versions
        }


async def shared_toolbox(settings: BoxSettings) -> Toolbox:
    """The running loop's toolbox, opened by whoever asks first.

    Raises:
        UsageError, ToolMissing: as `open_box`; the next call tries again.
    """
    boxes = _BOXES.setdefault(asyncio.get_running_loop(), {})
    if settings not in boxes:
        boxes[settings] = asyncio.create_task(open_box(settings))
    opening = boxes[settings]
    try:
        # Shielded: a rollout that is given up must not take the box from the others that wait for it.
        return await asyncio.shield(opening)
    except Exception:
        boxes.pop(settings, None)
        raise


async def close_toolboxes() -> None:
    """Close the running loop's toolboxes. Without any, nothing happens."""
    for opening in _BOXES.pop(asyncio.get_running_loop(), {}).values():
        if not opening.done():
            opening.cancel()
        elif not opening.cancelled() and opening.exception() is None:
            await opening.result().close()


def run_apart(work: Coroutine[Any, Any, T]) -> T:
    """The result of async work, from code that can't await, whether or not a loop runs in this thread."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()


class AuditEnv(SoloEnv):
    """One seat; closes the tools that graded it."""

    async def stop(self) -> None:
        try:
            await close_toolboxes()
        finally:
            await super().stop()
