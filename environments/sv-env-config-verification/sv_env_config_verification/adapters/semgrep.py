"""Semgrep: our rules over YAML and Terraform, many files a call.

Semgrep looks at each file alone, so results are kept by file. Files are written under numbers: a name can't
reach the command line, leave the folder, or be one that Semgrep passes over (tests/, .semgrepignore).
"""

import asyncio
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from sv_env_config_verification.adapters.base import Desk, Hit, decode, garbled, hash_folder, result_of
from sv_env_config_verification.adapters.batch import Batcher
from sv_env_config_verification.inputs import InputError, Problem, language, problem
from sv_env_config_verification.shapes import Shapes
from sv_shared.errors import ToolError
from sv_shared.findings import Finding, tidy
from sv_shared.sarif import Notice
from sv_shared.tool_cache import CacheKey, content_hash
from sv_shared.tool_folder import find_installed
from sv_shared.tools import Tool, ToolFailed, ToolResult, run_tool

RULES = Path(__file__).parents[1] / "semgrep_rules"

_LINGER_S = 0.05
_MOST = 256
"""Files a call; a file takes some 2 ms, the start 200 ms and more."""

_MAX_OUTPUT = 64 << 20
_FLAGS = (
    "scan",
    "--experimental",
    "-j1",
    "--metrics=off",
    "--disable-version-check",
    "--disable-nosem",
    "--no-git-ignore",
    "--max-target-bytes=0",
    "--timeout=10",
    "--json",
)
_ENV = {"SEMGREP_SEND_METRICS": "off", "SEMGREP_ENABLE_VERSION_CHECK": "0"}
_SUFFIXES = {"yaml": ".yaml", "hcl": ".tf", "tfvars": ".tfvars"}
_GOOD = (".yaml", "a: 1\n")

_File = tuple[str, str]
"""(suffix, text)"""


class SemgrepAdapter:
    """Findings of our Semgrep rules. There is no fallback: where it is not installed, a scan is an error.

    Args:
        desk: what the adapters share.
        tool: the Semgrep to use; None: the installed one.
        rules: folder of rule files.
        timeout_s: wall time of one call.
        linger_s: how long a file waits for others to share a call with, in seconds.

    Attributes:
        batches: how many calls the files took.
    """

    name = "semgrep"
    engine = "semgrep"

    def __init__(
        self,
        desk: Desk,
        *,
        tool: Tool | None = None,
        rules: Path = RULES,
        timeout_s: float = 60.0,
        linger_s: float = _LINGER_S,
    ) -> None:
        self._desk, self._tool, self._rules, self._timeout_s = desk, tool, rules, timeout_s
        self._rules_hash = ""
        self._finding = asyncio.Lock()
        self._batcher = Batcher(self._call, linger_s=linger_s, most=_MOST)
        self.batches = self._batcher.stats

    async def version(self) -> str:
        """Semgrep's version, such as "1.182.0"."""
        return (await self._find()).version

    async def scan(self, files: Mapping[str, str]) -> list[Finding]:
        """As `Adapter.scan`."""
        shapes = await self._desk.reader.read(files)
        tool = await self._find()
        names = sorted(files)
        # All settle before the first error is told: none is left running unheard.
        parts = await asyncio.gather(
            *(self._scan_file(name, files[name], shapes, tool) for name in names), return_exceptions=True
        )
        _raise_first(parts)
        hits = [hit for part in parts if isinstance(part, list) for hit in part]
        return tidy(self._desk.findings(self.name, self.engine, tool.version, hits))

    async def close(self) -> None:
        """Cancel the calls under way."""
        await self._batcher.close()

    async def _find(self) -> Tool:
        # First scans come together; without the lock each would start a `semgrep --version` of its own.
        async with self._finding:
            if self._tool is None:
                self._tool = await find_installed(
                    "semgrep", env=_ENV, timeout_s=self._timeout_s, max_output=_MAX_OUTPUT
                )
        if not self._rules_hash:
            self._rules_hash = hash_folder(self._rules, extra=" ".join(_FLAGS))
        return self._tool

    async def _scan_file(self, name: str, text: str, shapes: Shapes, tool: Tool) -> list[Hit]:
        file = (_SUFFIXES[language(name)], text)
        key = CacheKey(self.name, tool.version, self._rules_hash, content_hash(*file))
        told = await self._desk.cached(
            key, lambda: self._ask(file, name), lambda result: self._outcome(result, name, shapes)
        )
        if isinstance(told, Notice):
            raise InputError([told])  # only here: what is raised while parsing is not kept in the cache
        return told

    async def _ask(self, file: _File, name: str) -> ToolResult:
        """Semgrep's part for one file. Whether that was the cause of a failure, a good one tells."""
        try:
            return await self._batcher.submit(file)
        except ToolFailed as error:
            await self._call([_GOOD])
            raise problem(Problem.REFUSED, f"Semgrep did not survive it: {error.what}", name) from error

    async def _call(self, batch: Sequence[_File]) -> list[ToolResult]:
        """One call for many files, and its answer split."""
        tool = await self._find()
        with tempfile.TemporaryDirectory(prefix="sv-sg-") as temp:
            folder = Path(temp) / "files"
            folder.mkdir()
            names = [f"{number:05d}{suffix}" for number, (suffix, _) in enumerate(batch)]
            for name, (_, text) in zip(names, batch, strict=True):
                (folder / name).write_text(text, encoding="utf-8", newline="")
            own = replace(tool, env={**tool.env, "HOME": temp})
            result = await run_tool(own, [*_FLAGS, "--config", self._rules, folder], cwd=Path(temp))
        return _split(result, names)

    def _outcome(self, result: ToolResult, name: str, shapes: Shapes) -> list[Hit] | Notice:
        """The hits in one file's part; or, where Semgrep could not look at all of it, what it says.

        Raises:
            ToolError: the part is damaged.
        """
        part = decode(result)
        try:
            errors = [str(message) for message in part["errors"]]
            rows = [(str(rule), int(line), str(message)) for rule, line, message in part["results"]]
        except (KeyError, TypeError, ValueError) as error:
            raise garbled(result.tool, result.version, str(part)[:200]) from error
        if errors:
            return Notice(name, None, Problem.REFUSED.value, f"Semgrep can't read it: {errors[0][:300]}")
        return [
            Hit(self._rule(rule, result), shapes.object_at(name, line), name, line, message)
            for rule, line, message in rows
        ]

    def _rule(self, told: str, result: ToolResult) -> str:
        """A rule's own id: Semgrep puts the path of its file before it, with dots."""
        known = self._desk.catalogue.rules.get(self.name, {})
        own = [rule for rule in known if told == rule or told.endswith(f".{rule}")]
        if not own:
            raise ToolError(
                f"{result.tool} {result.version} reports {told!r}, which the catalogue does not know",
                hint="Add the rule to catalogue/rules.toml",
            )
        return max(own, key=len)


def _split(result: ToolResult, names: Sequence[str]) -> list[ToolResult]:
    """The parts of an answer: {"results": [[rule, line, message]], "errors": [message]} for each file.

    Raises:
        ToolError: it is not what Semgrep writes, a rule is damaged, or a file was passed over.
    """
    answer = decode(result)
    parts: dict[str, dict[str, list[Any]]] = {name: {"results": [], "errors": []} for name in names}
    try:
        scanned = {PurePosixPath(path).name for path in answer["paths"]["scanned"]}
        for row in answer["results"]:
            found = [row["check_id"], row["start"]["line"], row["extra"]["message"]]
            parts[PurePosixPath(row["path"]).name]["results"].append(found)
        for row in answer["errors"]:
            path = row.get("path") or (row.get("location") or {}).get("path") or ""
            message = f"{row.get('type')}: {row.get('message') or row.get('long_msg')}"
            if PurePosixPath(path).name not in parts:
                raise garbled(result.tool, result.version, message[:300])
            parts[PurePosixPath(path).name]["errors"].append(message)
    except (KeyError, TypeError, AttributeError) as error:
        raise garbled(result.tool, result.version, f"{type(error).__name__}: {error}") from error
    if result.returncode not in (0, 1):
        raise garbled(result.tool, result.version, f"exit {result.returncode}")
    if answer.get("skipped_rules"):
        raise garbled(result.tool, result.version, f"rules were passed over: {answer['skipped_rules']}"[:300])
    if missed := [name for name in names if name not in scanned and not parts[name]["errors"]]:
        raise garbled(
            result.tool, result.version, f"{len(missed)} files were passed over, such as {missed[0]}"
        )
    return [result_of(parts[name], result) for name in names]


def _raise_first(parts: Sequence[object]) -> None:
    """Raise what is worst: a defect or a tool's failure before all the files' problems together."""
    notices: list[Notice] = []
    for part in parts:
        if isinstance(part, InputError):
            notices += part.notices
        elif isinstance(part, BaseException):
            raise part
    if notices:
        raise InputError(notices)
