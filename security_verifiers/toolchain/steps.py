"""Running one step of an installation: a time limit, and an error that says what to do about it."""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from sv_shared.errors import ToolError
from sv_shared.tools import Ending, Tool, ToolFailed, ToolResult, run_tool

TAIL_LINES = 12
"""Lines of a failed step's output that the message ends with."""

_CAUSES = (
    (
        r"no space left on device|disk quota exceeded",
        "The disk is full: make room, or set SV_TOOLS_DIR to another disk",
    ),
    (
        r"403 forbidden|404 not found|410 gone|no matching distribution|no solution found",
        "The package registry answers, but refuses this package or lacks it: name another registry"
        " (GOPROXY for Go, the index setting of pip or uv for Python), or put the tool on PATH yourself",
    ),
    (
        r"do not match the hashes|hash mismatch|checksum mismatch",
        "The registry served something other than what is pinned: nothing of it was kept; report it",
    ),
    (
        r"dial tcp|no such host|connection refused|i/o timeout|name resolution|name or service not known"
        r"|network is unreachable|failed to establish|dns error|error sending request|tls handshake",
        "The package registry can't be reached: check the network and the proxy settings; what was already"
        " fetched is kept for the next try",
    ),
)


def user_env(env: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    """The user's environment (proxies, registries, certificates) with changes; None removes a variable."""
    merged: dict[str, str | None] = {**env, **changes}
    return {name: value for name, value in merged.items() if value is not None}


async def run_step(
    name: str,
    binary: Path,
    args: Sequence[str | Path],
    *,
    env: Mapping[str, str],
    cwd: Path,
    timeout_s: float,
) -> ToolResult:
    """Run a program to its end.

    Raises:
        ToolError: it failed, ran too long or crashed; the note carries the end of what it wrote.
    """
    call = " ".join([os.path.basename(binary), *map(str, args)])
    try:
        result = await run_tool(Tool(name, binary, "", env, timeout_s), args, cwd=cwd)
    except ToolFailed as error:
        limit = error.result.ending is Ending.TIMED_OUT
        what = f"it was not done within {timeout_s:g} s" if limit else error.what
        hint = (
            "The network or the machine may be slow: run it again, what was fetched is kept" if limit else ""
        )
        raise _failure(what, call, hint, error.result) from error
    if result.returncode != 0:
        said = _said(result)
        cause = next((hint for pattern, hint in _CAUSES if re.search(pattern, said, re.IGNORECASE)), "")
        raise _failure(f"{name} failed with exit status {result.returncode}", call, cause, result)
    return result


def _failure(what: str, call: str, hint: str, result: ToolResult) -> ToolError:
    failure = ToolError(what, where=call, hint=hint)
    if tail := _said(result).strip().splitlines()[-TAIL_LINES:]:
        failure.add_note("\n".join(tail))
    return failure


def _said(result: ToolResult) -> str:
    return (result.stdout + b"\n" + result.stderr).decode("utf-8", "replace")
