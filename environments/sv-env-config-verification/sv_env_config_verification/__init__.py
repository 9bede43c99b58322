"""E2: configuration verification, grounded in OPA, KubeLinter and Semgrep.

The names below are what verifiers looks for. They are found on first use: importing verifiers takes seconds,
and rows, rewards and adapters need none of it.
"""

from typing import Any

__all__ = ["AuditEnv", "ChatHarness", "ConfigVerificationTaskset"]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name == "ConfigVerificationTaskset":
        from sv_env_config_verification.taskset import ConfigVerificationTaskset

        return ConfigVerificationTaskset
    if name == "ChatHarness":
        from sv_shared.harness import ChatHarness

        return ChatHarness
    if name == "AuditEnv":
        from sv_env_config_verification.shared_box import AuditEnv

        return AuditEnv
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
