"""The agent's tools: what a call answers, and what it may cost."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sv_env_config_verification.agent_tools import (
    MAX_CHARS,
    AuditTools,
    AuditToolsConfig,
    answer_call,
    read_table,
    table,
)
from sv_shared.findings import Finding, Severity
from tests.sv_env_config_verification.audit_rows import MENDED, WEB, to_file, toolbox

FILES = {"web.yaml": WEB}


def ask(patch: str = "", tool: str = "opa") -> str:
    box, _ = toolbox()
    return asyncio.run(answer_call(box, tool, FILES, patch))


def test_a_call_tells_the_findings_of_the_files_and_of_a_patch() -> None:
    assert read_table(ask()) == [("privileged-container", "Deployment/shop/web", Severity.CRITICAL)]
    mended = ask(to_file(WEB, MENDED))
    assert mended == "opa: 0 findings in the patched files"


@pytest.mark.parametrize("patch", ["hello", "--- a/x.yaml\n+++ b/x.yaml\n@@ -1 +1 @@\n-a\n+b\n"])
def test_a_patch_that_does_not_apply_is_told(patch: str) -> None:
    assert ask(patch).startswith("error: the patch does not apply")


def test_a_patch_that_breaks_the_file_is_told() -> None:
    assert ask(to_file(WEB, WEB.replace("kind: Service", "kind: [Service"))).startswith("error: the files")


def test_a_tool_that_is_not_there_is_told() -> None:
    assert ask(tool="semgrep") == "error: semgrep is not on offer; there are opa"


def test_the_budget_ends() -> None:
    server = AuditTools(AuditToolsConfig(calls=2))
    server._box, tool = toolbox()
    server.state.files = FILES

    async def calls() -> list[str]:
        return [await server.run_opa() for _ in range(4)]

    said = asyncio.run(calls())
    assert [text.startswith("opa: 1 findings") for text in said] == [True, True, False, False]
    assert said[2] == said[3] == "error: all 2 tool calls are spent; answer now"
    assert tool.scans == 2


def finding(number: int, message: str, weakness: str = "host-pid") -> Finding:
    return Finding(
        "opa", "opa", "1", "k8s.host-pid", weakness, Severity.HIGH, f"Pod/a/p{number}", "a.yaml", 1, message
    )


@given(st.integers(0, 400), st.text(max_size=200))
def test_a_table_is_short_and_counts_what_it_leaves_out(count: int, message: str) -> None:
    text = table("opa", [finding(n, message) for n in range(count)], patched=False)
    assert len(text) <= MAX_CHARS
    shown = len(read_table(text))
    left = text.splitlines()[-1]
    assert shown == count or left == f"({count - shown} more findings left out)"


def test_style_comes_last_and_shows_no_weakness() -> None:
    text = table("opa", [finding(1, "style", ""), finding(2, "bad")], patched=False)
    assert read_table(text) == [("host-pid", "Pod/a/p2", Severity.HIGH)]
    assert text.splitlines()[-1].split(" | ")[1] == "-"
