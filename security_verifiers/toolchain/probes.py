"""Does a tool work? A tiny run of each on an input whose answer is known."""

import importlib
import json
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sv_shared.errors import ToolError
from sv_shared.tools import Tool, ToolResult, run_tool

QUIET_SEMGREP: Mapping[str, str] = {"SEMGREP_SEND_METRICS": "off", "SEMGREP_ENABLE_VERSION_CHECK": "0"}
"""Keeps Semgrep from calling home; without it even `--version` waits for the network."""

_REGO = """\
package sv.probe

import rego.v1

findings contains "privileged" if input.privileged
"""

_POD = """\
apiVersion: v1
kind: Pod
metadata:
  name: probe
spec:
  containers:
    - name: main
      image: registry.example/probe:1
      securityContext:
        privileged: {privileged}
"""

_SEMGREP_RULE = """\
rules:
  - id: probe
    languages: [python]
    severity: ERROR
    message: eval is called
    pattern: eval(...)
"""

_GIT_HASH = "ce013625030ba8dba906f756967f9e9ca394464a"
"""The object id that git gives to the text "hello" and a line feed: SHA-1 of a header and the text."""


async def probe_opa(tool: Tool, folder: Path) -> None:
    """A rule that holds for one of two inputs."""
    (folder / "probe.rego").write_text(_REGO, encoding="utf-8")
    found = []
    for text in (b'{"privileged": true}', b'{"privileged": false}'):
        args = ("eval", "--format", "json", "--data", "probe.rego", "--stdin-input", "data.sv.probe.findings")
        said = _json(tool, await run_tool(tool, args, stdin=text, cwd=folder), (0,))
        found.append(_get(tool, said, "result", 0, "expressions", 0, "value"))
    _expect(tool, found, [["privileged"], []])


async def probe_opa_eval() -> None:
    """The same with the engine that may stand in for OPA.

    Raises:
        ToolError: it is not installed, or answers something else.
    """
    try:
        opa_eval: Any = importlib.import_module("opa_eval")
    except ImportError as error:
        raise ToolError("opa-eval is not installed") from error
    with tempfile.TemporaryDirectory(prefix="sv-probe-") as name:
        policy = Path(name) / "probe.rego"
        policy.write_text(_REGO, encoding="utf-8")
        try:
            engine = opa_eval.OpaEval(str(policy), query="data.sv.probe.findings")
            found = [list(engine.evaluate_parsed(json.dumps({"privileged": p}))) for p in (True, False)]
        except RuntimeError as error:
            raise ToolError(f"opa-eval fails on a known input: {error}") from error
    if found != [["privileged"], []]:
        raise ToolError(f"opa-eval finds {found} where it should find the privileged input alone")


async def probe_kube_linter(tool: Tool, folder: Path) -> None:
    """A privileged container and one that is not."""
    found = []
    for privileged, status in (("true", 1), ("false", 0)):
        (folder / "pod.yaml").write_text(_POD.format(privileged=privileged), encoding="utf-8")
        args = ("lint", "--format", "json", "--do-not-auto-add-defaults")
        only = ("--include", "privileged-container", "pod.yaml")
        said = _json(tool, await run_tool(tool, (*args, *only), cwd=folder), (status,))
        found.append([_get(tool, report, "Check") for report in _get(tool, said, "Reports") or []])
    _expect(tool, found, [["privileged-container"], []])


async def probe_semgrep(tool: Tool, folder: Path) -> None:
    """One rule over a file that breaks it and a file that does not."""
    (folder / "rule.yml").write_text(_SEMGREP_RULE, encoding="utf-8")
    (folder / "bad.py").write_text("eval(text)\n", encoding="utf-8")
    (folder / "good.py").write_text("print(text)\n", encoding="utf-8")
    args = ("scan", "--experimental", "-j1", "--metrics=off", "--config", "rule.yml", "--json")
    quiet = Tool(tool.name, tool.binary, tool.version, {**QUIET_SEMGREP, "HOME": str(folder)}, tool.timeout_s)
    said = _json(tool, await run_tool(quiet, (*args, "bad.py", "good.py"), cwd=folder), (0,))
    found = [Path(_get(tool, match, "path")).name for match in _get(tool, said, "results")]
    _expect(tool, found, ["bad.py"])


async def probe_git(tool: Tool, folder: Path) -> None:
    """The object id of a known text."""
    result = await run_tool(tool, ("hash-object", "--stdin"), stdin=b"hello\n", cwd=folder)
    _expect(tool, result.stdout.decode("utf-8", "replace").strip(), _GIT_HASH)


async def probe_bubblewrap(tool: Tool, folder: Path) -> None:
    """A program in namespaces of its own: it is process 2 at most, and its exit status comes back."""
    args = ("--unshare-all", "--die-with-parent", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev")
    result = await run_tool(tool, (*args, "/bin/sh", "-c", "echo $$; exit 7"), cwd=folder)
    if result.returncode != 7:
        said = result.stderr.decode("utf-8", "replace").strip()
        raise ToolError(
            f"it can't make a sandbox here: exit status {result.returncode}, {said[-200:]!r}",
            where=str(tool.binary),
            hint="The kernel or the container must allow user namespaces",
        )
    _expect(tool, result.stdout.strip() in (b"1", b"2"), True)


PROBES: Mapping[str, Callable[[Tool, Path], Awaitable[None]]] = {
    "opa": probe_opa,
    "kube-linter": probe_kube_linter,
    "semgrep": probe_semgrep,
    "git": probe_git,
    "bubblewrap": probe_bubblewrap,
}
"""Per tool: raises ToolError unless the tool gives the known answer. The folder is empty at first."""


def _json(tool: Tool, result: ToolResult, statuses: Sequence[int]) -> Any:
    if result.returncode not in statuses:
        said = (result.stderr or result.stdout).decode("utf-8", "replace").strip()
        raise ToolError(
            f"it fails on a known input: exit status {result.returncode}, {said[-200:]!r}",
            where=str(tool.binary),
        )
    try:
        return json.loads(result.stdout)
    except ValueError as error:
        raise ToolError(
            f"it answers a known input with something that is no JSON: {result.stdout[:100]!r}",
            where=str(tool.binary),
        ) from error


def _get(tool: Tool, content: Any, *path: str | int) -> Any:
    for key in path:
        try:
            content = content[key]
        except (KeyError, IndexError, TypeError) as error:
            raise ToolError(
                f"its answer to a known input lacks {'.'.join(map(str, path))}", where=str(tool.binary)
            ) from error
    return content


def _expect(tool: Tool, found: object, wanted: object) -> None:
    if found != wanted:
        raise ToolError(
            f"it answers a known input with {found!r} instead of {wanted!r}", where=str(tool.binary)
        )
