"""The verifiers skin of an E1 item."""

import verifiers.v1 as vf

from sv_env_network_logs import rewards
from sv_env_network_logs.flows import Example
from sv_env_network_logs.render import View, prompt
from sv_shared.answer_policies import answer_json
from sv_shared.grading import Grade
from sv_shared.rewards import ClassificationWeights, reward_bounds
from sv_shared.task import GradedData, GradedTask, last_answer


class NetworkLogsTaskConfig(vf.TaskConfig):
    """How answers are paid."""

    weights: ClassificationWeights = rewards.WEIGHTS
    """The reward's weights; the prompt states the points that they pay."""


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
        mask: groups of fields that the prompt hides.

    Raises:
        DataError: the view needs fields that the example has not.
    """
    shown = prompt(example, view, payoffs=rewards.payoffs(config.weights), mask=mask)
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
