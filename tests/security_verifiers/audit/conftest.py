"""What the tests of the audit share: E1 with faults planted in it, and audits in a line."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from security_verifiers.audit.report import AuditReport, audit
from sv_env_network_logs import taskset
from sv_env_network_logs.environment import NetworkLogs
from sv_env_network_logs.policies import best_answer
from sv_env_network_logs.taskset import NetworkLogsData
from sv_shared.environment import Anchors, Environment
from sv_shared.policies import Message, PolicyKind, PolicySpec, text_policy

SYNTH = {"dataset": "synth", "synth_rows": 210}
"""Just above the size below which rule 8 exempts a set."""
SMALL = {"dataset": "synth", "synth_rows": 40}
FEW = ("reference", "always-abstain", "echo")


def insider(task: Any, messages: Sequence[Message], seed: int) -> str:
    """The best answer there is: stands for an honest baseline without having to learn."""
    return best_answer(task.posterior, str(messages[-1]["content"]))


class Planted(NetworkLogs):
    """E1 with few policies and what a test puts beside them.

    Args:
        policies: added to the few, or in their place where a name is the same.
        keep: the policies of its own.
        honest: whether there is an honest baseline.
        ends: changes what the environment says of chance and reference.
    """

    def __init__(
        self,
        *policies: PolicySpec,
        keep: Sequence[str] = FEW,
        honest: bool = True,
        ends: Callable[[Anchors], Anchors] = lambda anchors: anchors,
    ) -> None:
        insiders = (
            [text_policy("insider", PolicyKind.HEURISTIC, "knows the posterior", insider)] if honest else []
        )
        self._own = {spec.name: spec for spec in [*insiders, *policies]}
        self._keep, self._ends = keep, ends

    def policies(self, seat: str) -> Mapping[str, PolicySpec]:
        every = super().policies(seat)
        return {**{name: every[name] for name in self._keep}, **self._own}

    def anchors(self, tasks: Any) -> Anchors:
        return self._ends(super().anchors(tasks))


def audited(environment: Environment, config: Mapping[str, Any] = SYNTH, **how: Any) -> AuditReport:
    """The audit of an environment, by default on 210 synthetic flows."""
    return asyncio.run(audit(environment, config, **how))


def failed(report: AuditReport) -> set[str]:
    """The names of the checks that failed."""
    return {check.check for check in report.checks if not check.passed}


def detail(report: AuditReport, check: str) -> str:
    """What a check says."""
    (found,) = [one.detail for one in report.checks if one.check == check]
    return found


def weights(**changed: Any) -> dict[str, Any]:
    """The settings of a few synthetic flows under other weights."""
    return {**SMALL, "task": {"weights": changed}}


@contextmanager
def rewritten(change: Callable[[NetworkLogsData], Mapping[str, Any]]) -> Iterator[None]:
    """E1 whose tasks are changed on the way to the model."""
    make = taskset.make_task

    def leaking(*how: Any) -> Any:
        task = make(*how)
        return task.with_data(**change(task.data))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(taskset, "make_task", leaking)
        yield
