"""E1: calibrated anomaly detection over network flow records.

The names below are what verifiers looks for. They are found on first use: importing verifiers takes seconds,
and loaders, rewards and the recipe need none of it.
"""

from typing import Any

__all__ = ["ChatHarness", "NetworkLogsTaskset", "SoloEnv"]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name == "NetworkLogsTaskset":
        from sv_env_network_logs.taskset import NetworkLogsTaskset

        return NetworkLogsTaskset
    if name == "ChatHarness":
        from sv_shared.harness import ChatHarness

        return ChatHarness
    if name == "SoloEnv":
        from sv_shared.solo import SoloEnv

        return SoloEnv
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
