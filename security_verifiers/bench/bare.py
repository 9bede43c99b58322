"""The bare engine: verifiers, our harness, an empty task and a constant reward. Nothing of an environment."""

import sys
from collections.abc import Iterable, Mapping, Sequence

import verifiers.v1 as vf

from sv_shared.environment import Anchors, DatasetInfo, Environment
from sv_shared.grading import Grade
from sv_shared.harness import ChatHarness
from sv_shared.outcomes import Outcome
from sv_shared.policies import PolicyKind, PolicySpec, text_policy
from sv_shared.reward_lint import LintResult
from sv_shared.solo import SoloEnv
from sv_shared.task import GradedData, GradedTask
from sv_shared.taskset import DatasetConfig, DatasetTaskset

__all__ = ["BareTaskset", "ChatHarness", "SoloEnv"]

TASKS = 64


class BareTask(GradedTask[GradedData]):
    """Nothing to solve."""

    async def grade(self, trace: vf.Trace) -> Grade:
        return Grade(Outcome.SCORED, {"constant": 1.0})

    def bounds(self) -> tuple[float, float]:
        return 0.0, 1.0


class BareTaskset(DatasetTaskset, vf.Taskset[BareTask, DatasetConfig]):
    """The same empty prompt under different ids."""

    def load(self) -> Iterable[BareTask]:
        for i in range(TASKS):
            yield BareTask(GradedData(id=str(i), prompt="."), self.config.task)

    def info(self) -> DatasetInfo:
        return DatasetInfo("bare", "made up", self.config.split, TASKS, "task")


class BareEnvironment(Environment):
    """Declared for the engine, not registered."""

    id = "sv-bare-engine"
    alias = "bare"
    title = "Bare engine"
    version = "1"
    core_metrics = ()
    sheet_metrics = ()
    default_policies = ("constant",)

    def policies(self, seat: str) -> Mapping[str, PolicySpec]:
        return {
            "constant": text_policy(
                "constant", PolicyKind.CONSTANT, "a dot", lambda task, messages, seed: "."
            )
        }

    def anchors(self, tasks: Sequence[GradedTask]) -> Anchors:
        return Anchors(0.0, "none", 1.0)

    def checks(self, tasks: Sequence[GradedTask]) -> Sequence[LintResult]:
        return ()


BARE = BareEnvironment()

# verifiers finds a taskset by a top-level module's name; this one is for the bench alone and not installed.
sys.modules["sv_bare_engine"] = sys.modules[__name__]
