"""E2's declaration: what `sv` needs to know of it. Nothing heavy is imported here."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sv_env_config_verification import __version__
from sv_shared.environment import Anchors, Environment, Requirement
from sv_shared.policies import PolicySpec

if TYPE_CHECKING:
    from sv_shared.reward_lint import LintResult
    from sv_shared.task import GradedTask

_BINARIES = {
    "opa": ("opa", "opa"),
    "kubelinter": ("kube-linter", "kube-linter"),
    "semgrep": ("semgrep", "semgrep"),
}
"""By tool of the toolbox: name for `sv tools install`, executable."""


def _missing(tool: str) -> Callable[[], str | None]:
    name, binary = _BINARIES[tool]

    def missing() -> str | None:
        from sv_shared.tool_folder import install_hint, tool_bin
        from sv_shared.tools import ToolMissing, find_binary

        try:
            find_binary(binary, install=install_hint(name), folders=[tool_bin(name)])
        except ToolMissing as error:
            return str(error)
        return None

    return missing


class ConfigVerification(Environment):
    """Audit and repair of configuration files, grounded in tools."""

    id = "sv-env-config-verification"
    alias = "e2"
    title = "configuration verification"
    version = __version__
    core_metrics = ("detection", "repaired")
    lower_is_better = frozenset({"tampering", "parse_fail", "refused"})
    sheet_metrics = (
        ("detection", "detection F1"),
        ("precision", "precision"),
        ("recall", "recall"),
        ("applies", "applies"),
        ("parses", "parses"),
        ("schema_valid", "schema"),
        ("targets_gone", "gone"),
        ("no_new_findings", "no new"),
        ("preserved", "preserved"),
        ("intent_holds", "intent"),
        ("repaired", "repaired"),
        ("tampering", "tampering"),
        ("tool_calls", "calls"),
    )
    requirements = tuple(Requirement(_BINARIES[tool][0], _missing(tool)) for tool in _BINARIES)
    default_policies = ("noop", "random", "flag-everything", "tool-oracle", "rule-fixer", "reference")

    def policies(self, seat: str) -> Mapping[str, PolicySpec]:
        from sv_env_config_verification.policies import policies

        return policies()

    def anchors(self, tasks: "Sequence[GradedTask]") -> Anchors:
        from sv_env_config_verification.anchors import anchors

        return anchors(tasks)

    def checks(self, tasks: "Sequence[GradedTask]") -> "Sequence[LintResult]":
        from sv_env_config_verification.checks import checks

        return checks(tasks)

    def answer_schema(self, settings: Mapping[str, Any]) -> Mapping[str, Any]:
        from sv_env_config_verification.answers import answer_schema

        return answer_schema()

    def tools(self) -> Mapping[str, Mapping[str, str]]:
        from sv_env_config_verification.shared_box import run_apart, tool_versions

        return run_apart(tool_versions())


CONFIG_VERIFICATION = ConfigVerification()
