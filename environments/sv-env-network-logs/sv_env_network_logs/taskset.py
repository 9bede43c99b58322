"""The verifiers skin of E1: an item, its task, and the datasets it comes from."""

from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property

import verifiers.v1 as vf
from pydantic import Field

from sv_env_network_logs import rewards
from sv_env_network_logs.data import Attempted, check_mask
from sv_env_network_logs.flows import Example
from sv_env_network_logs.items import Items, open_items
from sv_env_network_logs.render import View, prompt
from sv_shared.answer_policies import answer_json
from sv_shared.environment import DatasetInfo
from sv_shared.grading import Grade
from sv_shared.rewards import ClassificationWeights, reward_bounds
from sv_shared.task import GradedData, GradedTask, last_answer
from sv_shared.taskset import DatasetConfig, DatasetTaskset


class NetworkLogsTaskConfig(vf.TaskConfig):
    """How answers are paid."""

    weights: ClassificationWeights = rewards.WEIGHTS
    """The reward's weights; the prompt states the points that they pay."""


class NetworkLogsConfig(DatasetConfig):
    """Which flows, and how they are shown."""

    task: NetworkLogsTaskConfig = NetworkLogsTaskConfig()
    view: View | None = None
    """"flow": one connection. "window": with the host's earlier ones. Unset: as public-mini has each row, and
    "flow" for everything else."""
    mask: list[str] = Field(default_factory=list)
    """Fields and groups of fields to hide, for shortcut studies: ports, addresses, service, state ..."""
    window_flows: int = Field(20, ge=1, le=200)
    """Most earlier flows in a window of a real source."""
    window_seconds: float = Field(3600.0, gt=0, allow_inf_nan=False)
    """How far back a window of a real source reaches, in seconds."""
    attempted: Attempted = "benign"
    """How rows that the corrected CIC-IDS-2017 marks "Attempted" count."""
    synth_rows: int = Field(1000, ge=2)
    """Rows of the dataset "synth"."""
    synth_seed: int | None = None
    """Seed of the dataset "synth"; unset takes the first of the split's range."""
    difficulty: str | None = None
    """One tier of public-mini or "synth"; unset takes all."""


class NetworkLogsData(GradedData):
    """One item. Only `system_prompt` and `prompt` reach a model."""

    view: str = "flow"
    """"flow" or "window"."""
    detail: str = ""
    """The source's finer label, or the recipe's scenario."""
    posterior: float | None = None
    """P(Malicious | prompt), where it is known exactly."""


class NetworkLogsTask(GradedTask[NetworkLogsData, vf.State, NetworkLogsTaskConfig]):
    """Judge one connection."""

    async def grade(self, trace: vf.Trace) -> Grade:
        answer = last_answer(trace)
        return rewards.grade(
            answer.text,
            self.data.truth,
            self.config.weights,
            finish_reason=answer.finish_reason,
            refusal=answer.refusal,
        )

    async def control(self) -> bool:
        known_good = rewards.grade(answer_json(self.data.truth, 1.0), self.data.truth, self.config.weights)
        return known_good.reward == self.bounds()[1]

    def bounds(self) -> tuple[float, float]:
        return reward_bounds(self.config.weights)

    def ungradable(self, cause: str) -> Grade:
        unanswered = rewards.grade("", self.data.truth, self.config.weights)
        return replace(super().ungradable(cause), metrics=unanswered.metrics)

    async def validate(self, runtime: vf.Runtime) -> bool:
        """verifiers' own gold check: the reference answer earns the maximum."""
        return await self.control()


def make_task(
    example: Example, view: View, config: NetworkLogsTaskConfig, mask: frozenset[str] = frozenset()
) -> NetworkLogsTask:
    """The task of a labelled example.

    Args:
        example: the item.
        view: what the prompt shows of it.
        config: the reward's weights.
        mask: fields and groups of fields that the prompt hides; a posterior is then unknown.

    Raises:
        DataError: the view needs fields that the example has not.
    """
    shown = prompt(example, view, rewards.payoffs(config.weights), mask)
    data = NetworkLogsData(
        id=example.row,
        system_prompt=shown.system,
        prompt=shown.user,
        truth=example.label,
        cluster=example.cluster,
        difficulty=example.difficulty,
        view=view,
        detail=example.detail,
        posterior=None if mask else example.posterior,
    )
    return NetworkLogsTask(data, config)


class NetworkLogsTaskset(DatasetTaskset, vf.Taskset[NetworkLogsTask, NetworkLogsConfig]):
    """E1 items from the configured source."""

    @cached_property
    def _items(self) -> Items:
        return open_items(self.config)

    def info(self) -> DatasetInfo:
        return self._items.info

    def load(self) -> Iterable[NetworkLogsTask]:
        return (self._task(i) for i in range(len(self._items)))

    def draw(self, tasks: int | None, seed: int) -> list[GradedTask]:
        return [self._task(i) for i in self._items.draw(tasks, seed)]

    def _task(self, i: int) -> NetworkLogsTask:
        view, example = self._items[i]
        return make_task(example, view, self.config.task, check_mask(self.config.mask))
