"""E2's declaration."""

from pathlib import Path

import pytest

from sv_env_config_verification.environment import CONFIG_VERIFICATION
from sv_env_config_verification.grading import METRICS
from sv_env_config_verification.taskset import AuditTaskConfig, ConfigVerificationConfig
from tests.sv_env_config_verification.doubles import need


def test_metrics_of_gate_and_sheet_are_graded() -> None:
    graded = {*METRICS, "tool_calls"}
    assert set(CONFIG_VERIFICATION.core_metrics) <= graded
    assert {name for name, _ in CONFIG_VERIFICATION.sheet_metrics} <= graded


def test_default_policies_exist() -> None:
    assert set(CONFIG_VERIFICATION.default_policies) <= set(CONFIG_VERIFICATION.policies("agent"))


def test_a_missing_tool_is_told_with_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SV_TOOLS_DIR", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    unmet = CONFIG_VERIFICATION.unmet()
    assert len(unmet) == 3
    for name, reason in zip(("opa", "kube-linter", "semgrep"), unmet, strict=True):
        assert f"sv tools install {name}" in reason


def test_versions_are_told() -> None:
    need("opa", "opa")
    told = CONFIG_VERIFICATION.tools()
    assert told["opa"]["engine"] == "real"
    assert told["opa"]["version"]


def test_the_schema_admits_what_settings_admit() -> None:
    settings = ConfigVerificationConfig(task=AuditTaskConfig()).model_dump(mode="json")
    schema = CONFIG_VERIFICATION.answer_schema(settings)
    assert schema["required"] == ["violations", "patch"]
