"""A fast classification environment for tests: each task carries a script of what happens in it."""

import asyncio
import random
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import verifiers.v1 as vf
from pydantic import Field

from sv_shared.answer_policies import answer_json, classification_policies
from sv_shared.classification import grade_classification
from sv_shared.environment import Anchors, ClassificationSpec, DatasetInfo, Environment
from sv_shared.grading import Grade
from sv_shared.harness import ChatHarness
from sv_shared.outcomes import Outcome
from sv_shared.parsers import JsonClassificationParser
from sv_shared.policies import Message, PolicyKind, PolicySpec, text_policy
from sv_shared.rewards import ClassificationWeights, best_constant, reward_bounds
from sv_shared.solo import SoloEnv
from sv_shared.storage import Storage
from sv_shared.task import GradedData, GradedTask, last_answer
from sv_shared.taskset import DatasetConfig, DatasetTaskset

__all__ = ["ChatHarness", "QuickTaskset", "SoloEnv"]

LABELS = ("Risky", "Safe")
POISON = "POISON"
"""A reply with this word makes the grader crash, time out or pay nonsense, as the script says."""

ENDS: dict[str, Outcome] = {
    "right": Outcome.SCORED,
    "wrong": Outcome.SCORED,
    "abstain": Outcome.ABSTAINED,
    "garbage": Outcome.PARSE_FAIL,
    "refuse": Outcome.REFUSED,
    "poison": Outcome.SCORED,
    "grader crash": Outcome.GRADER_ERROR,
    "grader nan": Outcome.GRADER_ERROR,
    "grader overpays": Outcome.GRADER_ERROR,
    "player crash": Outcome.INFRA_ERROR,
}
"""Script: how a rollout that follows it has to end."""


class QuickData(GradedData):
    """A row with its script."""

    script: str = "right"


class QuickTaskConfig(vf.TaskConfig):
    """How answers are paid."""

    weights: ClassificationWeights = ClassificationWeights()


class QuickTask(GradedTask[QuickData, vf.State, QuickTaskConfig]):
    """Say whether a number is risky."""

    grading_limit_s = 5.0

    async def grade(self, trace: vf.Trace) -> Grade:
        answer, script = last_answer(trace), self.data.script
        if script in ("grader crash", "poison") and POISON in answer.text:
            raise RuntimeError("the grader choked")
        if script == "grader hang" and POISON in answer.text:
            await asyncio.sleep(3600)
        if script in ("grader nan", "grader overpays") and POISON in answer.text:
            paid = float("nan") if script == "grader nan" else 1e6
            return Grade(Outcome.SCORED, {"accuracy": paid}, truth=self.data.truth)
        return self._classify(answer.text, answer.finish_reason, answer.refusal)

    @vf.stop
    async def enough(self, trace: vf.Trace) -> bool:
        return self.data.script == "stop" and trace.num_turns >= 2

    async def control(self) -> bool:
        if self.data.script == "grader hang":
            await asyncio.sleep(3600)
        return self.data.script == "poison"

    def bounds(self) -> tuple[float, float]:
        return reward_bounds(self.config.weights)

    def ungradable(self, cause: str) -> Grade:
        return replace(super().ungradable(cause), metrics=self._classify("").metrics)

    def _classify(self, text: str, finish_reason: str | None = None, refusal: str | None = None) -> Grade:
        return grade_classification(
            text,
            self.data.truth,
            parser=JsonClassificationParser(LABELS, "Abstain" if self.config.weights.abstain else None),
            weights=self.config.weights,
            positive="Risky",
            finish_reason=finish_reason,
            refusal=refusal,
        )


class QuickConfig(DatasetConfig):
    """Which scripts, and how the rows look."""

    scripts: list[str] = Field(default_factory=lambda: ["right", "wrong", "abstain", "right"])
    """One task each, repeated until there are `rows`."""
    rows: int = 24
    clusters: int = 8
    salt: str = ""
    """Part of every prompt: another salt is another dataset."""
    storage: Storage = Storage.FULL
    task: QuickTaskConfig = QuickTaskConfig()


class QuickTaskset(DatasetTaskset, vf.Taskset[QuickTask, QuickConfig]):
    """Numbered rows; every other one is risky."""

    def load(self) -> Iterable[QuickTask]:
        for number in range(self.config.rows):
            script = self.config.scripts[number % len(self.config.scripts)]
            data = QuickData(
                id=f"row-{number}",
                prompt=f"Is number {number}{self.config.salt} risky? ({script})",
                truth=LABELS[number % 2],
                cluster=f"cluster-{number % self.config.clusters}",
                difficulty=("easy", "hard")[number % 2],
                storage=self.config.storage,
                script=script,
            )
            yield QuickTask(data, self.config.task)

    def info(self) -> DatasetInfo:
        return DatasetInfo("quick", "made up", self.config.split, self.config.rows, "cluster")


def reply(script: str, truth: str) -> Message:
    """What a player that follows the script says.

    Raises:
        RuntimeError: the script is "player crash".
    """
    if script == "player crash":
        raise RuntimeError("the player fell over")
    wrong = LABELS[1 - LABELS.index(truth)]
    texts = {
        "right": answer_json(truth, 0.9),
        "wrong": answer_json(wrong, 0.8),
        "abstain": answer_json("Abstain", None),
        "garbage": "7 bananas",
        "refuse": "",
    }
    message: dict[str, Any] = {"role": "assistant", "content": texts.get(script, POISON)}
    if script == "refuse":
        message["refusal"] = "I would rather not."
    return message


class Follower:
    """Follows each row's script, after a pause that holds up everything else."""

    def __init__(self, pause_s: float = 0.0) -> None:
        self._pause_s = pause_s

    def act(self, task: Any, messages: Sequence[Message], tools: Sequence[Any]) -> Message:
        if self._pause_s:
            time.sleep(self._pause_s)
        return reply(task.script, task.truth)


def follower(pause_s: float = 0.0) -> PolicySpec:
    """The policy that follows the scripts, `pause_s` seconds a call."""
    return PolicySpec("follow", PolicyKind.HEURISTIC, "follows the script", lambda seed: Follower(pause_s))


def coin(task: Any, messages: Sequence[Message], seed: int) -> str:
    """Right three times in four, by the rollout's seed alone."""
    rng = random.Random(seed)
    script = "right" if rng.random() < 0.75 else "wrong"
    return str(reply(script, task.truth)["content"])


class QuickEnvironment(Environment):
    """The declaration."""

    id = "sv-test-quick"
    alias = "quick"
    title = "Quick"
    version = "1"
    core_metrics = ("accuracy",)
    sheet_metrics = (("accuracy", "acc"), ("coverage", "coverage"), ("brier", "Brier"))
    classification = ClassificationSpec(
        positive="Risky",
        costs=lambda settings: (settings["task"]["weights"]["cost_ratio"], 0.5),
    )
    default_policies = ("reference", "random")

    def policies(self, seat: str) -> Mapping[str, PolicySpec]:
        common = classification_policies(LABELS, "Abstain", lambda task: str(task.truth))
        own = [
            follower(),
            text_policy("coin", PolicyKind.SHALLOW, "right three times in four", coin),
            PolicySpec("slow", PolicyKind.HEURISTIC, "20 ms a call", lambda seed: Follower(0.02)),
        ]
        return {spec.name: spec for spec in [*common, *own]}

    def anchors(self, tasks: Sequence[GradedTask]) -> Anchors:
        weights = tasks[0].config.weights
        best = best_constant(weights, sum(task.data.truth == "Risky" for task in tasks) / len(tasks))
        return Anchors(best.reward, best.call, reward_bounds(weights)[1])

    def checks(self, tasks: Sequence[GradedTask]) -> Sequence[Any]:
        return []


QUICK = QuickEnvironment()
