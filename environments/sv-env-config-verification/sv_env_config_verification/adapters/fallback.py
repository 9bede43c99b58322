"""The fallback engine for OPA: the same policies under regorus (PyPI opa-eval), inside this process.

Used only where a user allows it. Its findings carry `engine: "opa-eval"`. It agrees with OPA on
(rule, object); messages may be worded differently where a policy formats a value.
"""

import asyncio
import importlib.metadata
import json
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sv_env_config_verification.adapters.base import Desk, Hit, decode, garbled, hash_folder
from sv_env_config_verification.adapters.opa import POLICIES, check_hits
from sv_env_config_verification.inputs import Problem, problem
from sv_env_config_verification.shapes import Shapes
from sv_shared.errors import ToolError
from sv_shared.findings import Finding, tidy
from sv_shared.tool_cache import CacheKey, content_hash
from sv_shared.tools import Ending, ToolMissing, ToolResult

_PACKAGE = re.compile(r"^package[ \t]+(\S+)[ \t]*$", re.MULTILINE)
_IMPORT = re.compile(r"^import[ \t]+(\S+).*$", re.MULTILINE)
_EMPTY = json.dumps(Shapes().to_input())


class OpaEvalAdapter:
    """Findings of our Rego policies by regorus.

    Args:
        desk: what the adapters share.
        policies: as in `OpaAdapter`.
    """

    name = "opa"
    engine = "opa-eval"

    def __init__(self, desk: Desk, *, policies: Path = POLICIES) -> None:
        self._desk, self._policies = desk, policies
        self._engines: list[Any] = []
        self._rules = ""

    async def version(self) -> str:
        """opa-eval's version."""
        try:
            return importlib.metadata.version("opa-eval")
        except importlib.metadata.PackageNotFoundError as error:
            raise ToolMissing("opa-eval is not installed", hint="Run make setup") from error

    async def scan(self, files: Mapping[str, str]) -> list[Finding]:
        """As `Adapter.scan`."""
        shapes = await self._desk.reader.read(files)
        version = await self.version()
        if not self._engines:
            self._rules = hash_folder(self._policies)
            self._engines = await asyncio.to_thread(self._load)
        question = json.dumps(shapes.to_input())
        key = CacheKey(f"{self.name}/{self.engine}", version, self._rules, content_hash(question))

        async def call() -> ToolResult:
            return await asyncio.to_thread(self._evaluate, question, min(files), version)

        def parse(result: ToolResult) -> list[Hit]:
            rows = decode(result)
            if not isinstance(rows, list):
                raise garbled(self.engine, version, f"it says {str(rows)[:200]}")
            return check_hits(rows, shapes, self.engine, version)

        hits = await self._desk.cached(key, call, parse)
        return tidy(self._desk.findings(self.name, self.engine, version, hits))

    async def close(self) -> None:
        """Nothing is kept running."""

    def _load(self) -> list[Any]:
        import opa_eval

        engines = []
        with tempfile.TemporaryDirectory(prefix="sv-rego-") as temp:
            for package, text in _packages(self._policies).items():
                path = Path(temp) / f"{package}.rego"
                path.write_text(text, encoding="utf-8")
                try:
                    engine = opa_eval.OpaEval(str(path), query=f"data.{package}.findings")
                    engine.evaluate(_EMPTY)
                except (ValueError, RuntimeError) as error:
                    raise ToolError(
                        f"the fallback engine does not take the policies: {error}", where=package
                    ) from error
                engines.append(engine)
        return engines

    def _evaluate(self, question: str, file: str, version: str) -> ToolResult:
        rows: list[Any] = []
        try:
            for engine in self._engines:
                rows += json.loads(engine.evaluate(question))
        except (ValueError, RuntimeError, TypeError) as error:
            # The engine took the policies and an empty workspace before, so this text is the cause.
            raise problem(Problem.REFUSED, f"the fallback engine refuses it: {error}", file) from error
        return ToolResult(0, json.dumps(rows).encode(), b"", 0.0, Ending.EXITED, self.engine, version)


def _packages(policies: Path) -> dict[str, str]:
    """Each package below the policies' folders as one text: this engine takes one file at a time.

    Raises:
        ToolError: a file has no package, or imports another one.
    """
    texts: dict[str, list[str]] = {}
    for path in sorted(policies.glob("*/*.rego")):
        text = path.read_text(encoding="utf-8")
        package = _PACKAGE.search(text)
        imports = {match[1] for match in _IMPORT.finditer(text)}
        if package is None or imports - {"rego.v1"}:
            raise ToolError("the fallback engine takes packages that import nothing", where=str(path))
        texts.setdefault(package[1], []).append(_IMPORT.sub("", _PACKAGE.sub("", text)))
    return {name: f"package {name}\n\nimport rego.v1\n" + "\n".join(parts) for name, parts in texts.items()}
