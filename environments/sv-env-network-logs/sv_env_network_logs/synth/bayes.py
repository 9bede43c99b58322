"""The ceiling: what the best honest answerer gets where the posterior is known exactly."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sv_env_network_logs.flows import Example
from sv_env_network_logs.rewards import POSITIVE, WEIGHTS
from sv_shared.errors import DataError
from sv_shared.rewards import Call, ClassificationWeights, bayes_reward, expected_reward, optimal_answer


@dataclass(frozen=True, slots=True)
class Ceiling:
    """Expected figures of a reader of the prompts who knows the recipe.

    Attributes:
        items: how many items they are for.
        accuracy: of the more probable label, without abstaining.
        reward: of the best answer under the weights, abstention included.
    """

    items: int
    accuracy: float
    reward: float


def ceiling(examples: Sequence[Example], weights: ClassificationWeights = WEIGHTS) -> Ceiling:
    """The expected accuracy and reward of the best answers to these items.

    Raises:
        DataError: there are none, or an item's posterior is not known.
    """
    known = [example.posterior for example in examples if example.posterior is not None]
    if not known or len(known) < len(examples):
        raise DataError(
            f"{len(examples) - len(known)} of {len(examples)} items have no known posterior",
            hint="A ceiling exists for items of the synthetic recipe only",
        )
    p = np.array(known)
    return Ceiling(len(p), float(np.maximum(p, 1 - p).mean()), float(bayes_reward(weights, p).mean()))


def realised_reward(
    beliefs: npt.ArrayLike, examples: Sequence[Example], weights: ClassificationWeights = WEIGHTS
) -> float:
    """The mean reward of answering optimally by the given beliefs in Malicious, under the true labels.

    Args:
        beliefs: P(Malicious) as somebody estimates it, shape (n,).
        examples: the items, in the same order.
        weights: the weights in force.
    """
    answers = [optimal_answer(weights, float(belief)) for belief in np.asarray(beliefs)]
    truths = [float(example.label == POSITIVE) for example in examples]
    rewards = [
        expected_reward(weights, call, None if call is Call.ABSTAIN else confidence, truth)
        for (call, confidence), truth in zip(answers, truths, strict=True)
    ]
    return float(np.mean(rewards))
