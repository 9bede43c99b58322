"""Chance, reference and ceiling of a set of E1 items, computed from the weights in force."""

from collections.abc import Sequence
from typing import Any

from sv_env_network_logs.rewards import POSITIVE, SPELLED
from sv_shared.environment import Anchors
from sv_shared.rewards import bayes_reward, best_constant, reward_bounds
from sv_shared.task import GradedTask


def anchors(tasks: Sequence[GradedTask[Any, Any, Any]]) -> Anchors:
    """The ends of the normalised score.

    Args:
        tasks: E1 tasks, at least one, under one set of weights.

    Chance is the best constant answer over labels, confidences and abstention, at these items' own share of
    attacks. The reference earns the maximum. The ceiling is the mean expected reward of the best honest
    answer, where every item's posterior is known.
    """
    weights = tasks[0].config.weights
    share = sum(task.data.truth == POSITIVE for task in tasks) / len(tasks)
    constant = best_constant(weights, share)
    stated = "" if constant.confidence is None else f" at {constant.confidence:.2f}"
    posteriors = [task.data.posterior for task in tasks]
    known = all(p is not None for p in posteriors)
    return Anchors(
        chance=constant.reward,
        chance_answer=f"{SPELLED[constant.call]}{stated}",
        reference=reward_bounds(weights)[1],
        ceiling=float(bayes_reward(weights, posteriors).mean()) if known else None,
    )
