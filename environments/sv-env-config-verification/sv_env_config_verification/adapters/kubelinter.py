"""KubeLinter: all its built-in checks, many workspaces a call.

Each workspace gets a folder and each object a file in it. KubeLinter looks for objects that belong together
(a Service and its pods) inside one folder only, so workspaces do not mix, and no folder of ours lies in
another. It is given our parsed objects as JSON, not the files' text: what it judges is what the other tools
judge, and a finding belongs to one object even where two share a name.
"""

import json
import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sv_env_config_verification.adapters.base import Desk, Hit, decode, garbled, result_of
from sv_env_config_verification.adapters.batch import Batcher
from sv_env_config_verification.inputs import InputError, Problem, problem
from sv_env_config_verification.shapes import Document, Json
from sv_shared.errors import ToolError
from sv_shared.findings import Finding, tidy
from sv_shared.sarif import Notice
from sv_shared.tool_cache import CacheKey, content_hash
from sv_shared.tool_folder import find_installed
from sv_shared.tools import Tool, ToolFailed, ToolResult, run_tool

CONFIG = Path(__file__).with_name("kubelinter.yaml")

EXCLUDED = frozenset({"schema-validation"})
"""Built-in checks that are off, each for a reason that stands in the configuration."""

_LINGER_S = 0.02
_MOST = 64
"""Workspaces a call; its answer holds some 40 kB a workspace."""

_MAX_OUTPUT = 64 << 20
_REFUSED = re.compile(r"^Warning: failed to load object from (?P<path>.+?\.yaml): (?P<why>.*)$", re.MULTILINE)
_PLACE = re.compile(r"(\d{5})/(\d{5})\.yaml$")
_IGNORE = ("ignore-check.kube-linter.io/", "kube-linter.io/")
_GOOD = '{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"a"}}'


class KubeLinterAdapter:
    """Findings of KubeLinter. There is no fallback: where it is not installed, a scan is an error.

    Args:
        desk: what the adapters share.
        tool: the KubeLinter to use; None: the installed one.
        config: its configuration file.
        timeout_s: wall time of one call.
        linger_s: how long a workspace waits for others to share a call with, in seconds.

    Attributes:
        batches: how many calls the workspaces took.
    """

    name = "kubelinter"
    engine = "kubelinter"

    def __init__(
        self,
        desk: Desk,
        *,
        tool: Tool | None = None,
        config: Path = CONFIG,
        timeout_s: float = 60.0,
        linger_s: float = _LINGER_S,
    ) -> None:
        self._desk, self._tool, self._config, self._timeout_s = desk, tool, config, timeout_s
        self._batcher = Batcher(self._lint, linger_s=linger_s, most=_MOST)
        self.batches = self._batcher.stats

    async def version(self) -> str:
        """KubeLinter's version, such as "0.8.1"."""
        return (await self._find()).version

    async def scan(self, files: Mapping[str, str]) -> list[Finding]:
        """As `Adapter.scan`. Terraform is not for KubeLinter; a workspace without objects has no findings."""
        shapes = await self._desk.reader.read(files)
        tool = await self._find()
        if not shapes.kubernetes:
            return []
        documents = shapes.kubernetes
        texts = tuple(json.dumps(_without_ignores(document.object)) for document in documents)
        rules = content_hash(self._config.read_bytes(), "call 2")
        key = CacheKey(self.name, tool.version, rules, content_hash(*texts))
        told = await self._desk.cached(key, lambda: self._ask(texts, files), lambda r: _outcome(r, documents))
        if notices := [item for item in told if isinstance(item, Notice)]:
            raise InputError(notices)  # only here: what is raised while parsing is not kept in the cache
        hits = [item for item in told if isinstance(item, Hit)]
        return tidy(self._desk.findings(self.name, self.engine, tool.version, hits))

    async def close(self) -> None:
        """Cancel the calls under way."""
        await self._batcher.close()

    async def _find(self) -> Tool:
        if self._tool is None:
            self._tool = await find_installed(
                "kube-linter", version_args=("version",), timeout_s=self._timeout_s, max_output=_MAX_OUTPUT
            )
        return self._tool

    async def _ask(self, texts: tuple[str, ...], files: Mapping[str, str]) -> ToolResult:
        """KubeLinter's part for one workspace. Whether that was the cause of a failure, a good one tells."""
        try:
            return await self._batcher.submit(texts)
        except ToolFailed as error:
            await self._lint([])
            raise problem(
                Problem.REFUSED, f"KubeLinter did not survive it: {error.what}", min(files)
            ) from error

    async def _lint(self, batch: Sequence[tuple[str, ...]]) -> list[ToolResult]:
        """One call for many workspaces, and its answer split.

        A workspace of ours goes with them: where no object can be loaded, KubeLinter writes no answer at all.
        """
        workspaces = [*batch, (_GOOD,)]
        with tempfile.TemporaryDirectory(prefix="sv-kl-") as temp:
            for number, texts in enumerate(workspaces):
                folder = Path(temp) / f"{number:05d}"
                folder.mkdir()
                for index, text in enumerate(texts):
                    (folder / f"{index:05d}.yaml").write_text(text, encoding="utf-8")
            # Without --verbose, objects that could not be loaded are passed over in silence.
            args: list[str | Path] = ["lint", "--verbose", "--config", self._config, "--format", "json", temp]
            result = await run_tool(await self._find(), args)
        return self._split(result, [len(texts) for texts in workspaces])[:-1]

    def _split(self, result: ToolResult, sizes: Sequence[int]) -> list[ToolResult]:
        """The parts of an answer: {"reports": [[index, check, message]], "refused": [[index, why]]} each.

        Raises:
            ToolError: it is not what KubeLinter writes, other checks ran than the catalogue knows, or the
                exit status does not agree with the reports.
        """
        parts: list[dict[str, list[Any]]] = [{"reports": [], "refused": []} for _ in sizes]

        def place(path: str) -> tuple[int, int]:
            match = _PLACE.search(path)
            number, index = (int(match[1]), int(match[2])) if match else (-1, -1)
            if not 0 <= number < len(sizes) or not 0 <= index < sizes[number]:
                raise garbled(result.tool, result.version, f"it tells of the file {path[:200]!r}")
            return number, index

        stderr = result.stderr.decode("utf-8", "replace")
        for match in _REFUSED.finditer(stderr):
            number, index = place(match["path"])
            parts[number]["refused"].append([index, match["why"][:300]])
        reports = self._reports(result)
        for path, check, message in reports:
            number, index = place(path)
            parts[number]["reports"].append([index, check, message])
        return [result_of(part, result) for part in parts]

    def _reports(self, result: ToolResult) -> list[tuple[str, str, str]]:
        answer = decode(result)
        try:
            ran = {check["name"] for check in answer["Checks"]}
            reports = [
                (
                    report["Object"]["Metadata"]["FilePath"],
                    report["Check"],
                    report["Diagnostic"]["Message"],
                )
                for report in answer["Reports"] or []
            ]
        except (KeyError, TypeError) as error:
            raise garbled(result.tool, result.version, f"{type(error).__name__}: {error}") from error
        if not all(isinstance(text, str) for report in reports for text in report):
            raise garbled(result.tool, result.version, "a report has no text")
        if result.returncode != (1 if reports else 0):
            raise garbled(
                result.tool, result.version, f"exit {result.returncode} with {len(reports)} reports"
            )
        expected = set(self._desk.catalogue.rules.get(self.name, {})) - EXCLUDED
        if ran != expected:
            names = ", ".join(sorted(ran ^ expected)[:5])
            raise ToolError(
                f"{result.tool} {result.version} does not run the checks that the catalogue knows: {names}",
                hint="Install the pinned version with sv tools install",
            )
        return reports


def _without_ignores(manifest: dict[str, Json]) -> dict[str, Json]:
    """The manifest without the annotations by which it could switch checks off."""
    metadata = manifest.get("metadata")
    notes = metadata.get("annotations") if isinstance(metadata, dict) else None
    if not isinstance(metadata, dict) or not isinstance(notes, dict):
        return manifest
    kept = {key: value for key, value in notes.items() if not key.startswith(_IGNORE)}
    return {**manifest, "metadata": {**metadata, "annotations": kept}}


def _outcome(result: ToolResult, documents: Sequence[Document]) -> list[Hit] | list[Notice]:
    """The hits of one workspace's part; or, where KubeLinter could not load an object, what it says of it.

    Raises:
        ToolError: the part is damaged.
    """
    part = decode(result)
    try:
        refused = [(documents[index], str(why)) for index, why in part["refused"]]
        reports = [(documents[index], str(check), str(message)) for index, check, message in part["reports"]]
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise garbled(result.tool, result.version, str(part)[:200]) from error
    if refused:
        label = Problem.REFUSED.value
        return [Notice(d.file, d.line, label, f"KubeLinter can't load {d.id}: {why}") for d, why in refused]
    return [Hit(check, doc.id, doc.file, doc.line, message) for doc, check, message in reports]
