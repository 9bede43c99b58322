"""The tools that an auditing agent can call: each scans the rollout's own files, patched as it wishes."""

import verifiers.v1 as vf
from pydantic import Field

from sv_env_config_verification.adapters.toolbox import Toolbox
from sv_env_config_verification.inputs import InputError
from sv_env_config_verification.patches import PatchError, apply_patch
from sv_env_config_verification.shared_box import BoxSettings, open_box
from sv_shared.findings import Finding, Severity

MAX_CHARS = 6_000
"""Longest answer to a call; what does not fit is counted."""

MAX_MESSAGE = 120
SEPARATOR = " | "


class AuditState(vf.State):
    """One rollout's workspace and what it has spent."""

    files: dict[str, str] = Field(default_factory=dict)
    calls: int = 0


class AuditToolsConfig(vf.SharedToolsetConfig):
    """What the shared tool server holds."""

    without: tuple[str, ...] = ()
    """Tools that are left out."""
    allow_fallback: bool = False
    """Whether a fallback engine may stand in for OPA."""
    calls: int = Field(8, ge=0)
    """Calls a rollout."""


class AuditTools(vf.Toolset[AuditToolsConfig, AuditState]):
    """OPA, KubeLinter and Semgrep over a rollout's files; one server a worker."""

    TOOL_PREFIX = None

    async def setup(self) -> None:
        settings = BoxSettings(self.config.without, self.config.allow_fallback)
        self._box = await self._exit_stack.enter_async_context(await open_box(settings))

    @vf.tool
    async def run_opa(self, patch: str = "") -> str:
        """Findings of our OPA policies. patch: unified diff applied to the files first; empty for none."""
        return await self._run("opa", patch)

    @vf.tool
    async def run_kubelinter(self, patch: str = "") -> str:
        """Findings of KubeLinter. patch: unified diff applied to the files first; empty for none."""
        return await self._run("kubelinter", patch)

    @vf.tool
    async def run_semgrep(self, patch: str = "") -> str:
        """Findings of our Semgrep rules. patch: unified diff applied to the files first; empty for none."""
        return await self._run("semgrep", patch)

    async def _run(self, tool: str, patch: str) -> str:
        if self.state.calls >= self.config.calls:
            return f"error: all {self.config.calls} tool calls are spent; answer now"
        # Written back after the call: calls at the same time in one rollout would count once.
        self.state.calls += 1
        return await answer_call(self._box, tool, self.state.files, patch)


async def answer_call(box: Toolbox, tool: str, files: dict[str, str], patch: str) -> str:
    """What an agent reads for one call: a table, or what is wrong with its patch.

    Args:
        box: the tools.
        tool: the tool's name.
        files: the original files.
        patch: a unified diff; blank for none.

    Raises:
        ToolError: the tool failed.
    """
    if tool not in box.adapters:
        return f"error: {tool} is not on offer; there are {', '.join(sorted(box.adapters))}"
    try:
        after = apply_patch(files, patch) if patch.strip() else files
    except PatchError as error:
        return f"error: the patch does not apply: {error}"
    try:
        findings = await box.scan(after, [tool])
    except InputError as error:
        return f"error: the files can't be read: {error}"
    return table(tool, findings, patched=after is not files)


def table(tool: str, findings: list[Finding], *, patched: bool) -> str:
    """Findings as lines `severity | weakness | object | file:line | rule: message`, the worst first.

    A finding about style or reliability has "-" for a weakness. The text has at most MAX_CHARS characters;
    its last line says how many findings were left out.
    """
    ordered = sorted(findings, key=lambda f: (not f.weakness, -f.severity.rank, f.file, f.line or 0))
    where = "the patched files" if patched else "the files as they are"
    lines = [f"{tool}: {len(findings)} findings in {where}"]
    # The number of findings has few digits, so that this room is enough for the last line.
    room = MAX_CHARS - len(lines[0]) - 60
    for number, finding in enumerate(ordered):
        line = _line(finding)
        room -= len(line) + 1
        if room < 0:
            lines.append(f"({len(ordered) - number} more findings left out)")
            break
        lines.append(line)
    return "\n".join(lines)


def read_table(text: str) -> list[tuple[str, str, Severity]]:
    """(weakness, object, severity) of the lines of a `table` that show a weakness."""
    found = []
    for line in text.splitlines()[1:]:
        cells = line.split(SEPARATOR)
        if len(cells) >= 5 and cells[1] != "-":
            found.append((cells[1], cells[2], Severity(cells[0])))
    return found


def _line(finding: Finding) -> str:
    place = finding.file if finding.line is None else f"{finding.file}:{finding.line}"
    message = " ".join(finding.message.split())[:MAX_MESSAGE]
    cells = (
        finding.severity.value,
        finding.weakness or "-",
        finding.object,
        place,
        f"{finding.rule}: {message}",
    )
    return SEPARATOR.join(" ".join(cell.split()) for cell in cells)


if __name__ == "__main__":
    AuditTools.run()
