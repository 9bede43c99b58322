"""Chance and reference of a set of E2 items, computed from the weights in force."""

from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from typing import Any

from sv_env_config_verification.rewards import MAXIMUM, Weights, components, detection_score
from sv_shared.environment import Anchors
from sv_shared.task import GradedTask

Pair = tuple[str, str]

CANDIDATES = 20
"""How many of the most frequent true pairs are tried, one by one and added up."""
EXHAUSTIVE = 6
"""How many of them are tried in every combination."""


def anchors(tasks: Sequence[GradedTask[Any, Any, Any]]) -> Anchors:
    """The ends of the normalised score.

    Args:
        tasks: E2 tasks, at least one, under one set of weights.

    Chance is the best constant answer: no patch, for one patch fits no two workspaces, and a list that is
    searched over the most frequent true pairs: in every combination of a few, then greedily
    over more. The reference earns the maximum.
    """
    weights, tools = tasks[0].config.weights, tasks[0].data.tools
    truths = [pairs_of(task) for task in tasks]
    claims, reward = best_list(truths, weights, tools)
    said = ", ".join(f"{weakness} of {identity}" for weakness, identity in sorted(claims))
    return Anchors(chance=reward, chance_answer=said or "nothing is wrong, no patch", reference=MAXIMUM)


def best_list(
    truths: Sequence[frozenset[Pair]], weights: Weights, tools: bool
) -> tuple[frozenset[Pair], float]:
    """The list of violations that pays most as the constant answer without a patch, and its mean reward.

    Args:
        truths: each item's true pairs.
        weights: the weights in force.
        tools: whether the agent can run the tools.
    """
    counts = Counter(pair for truth in truths for pair in truth)
    pool = [pair for pair, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:CANDIDATES]]
    first = pool[:EXHAUSTIVE]
    starts = [frozenset(some) for size in range(len(first) + 1) for some in combinations(first, size)]
    best = max(
        [*starts, *(frozenset({pair}) for pair in pool)], key=lambda c: _mean(c, truths, weights, tools)
    )
    for pair in pool:
        more = best | {pair}
        if best and _mean(more, truths, weights, tools) > _mean(best, truths, weights, tools):
            best = more
    return best, _mean(best, truths, weights, tools)


def pairs_of(task: GradedTask[Any, Any, Any]) -> frozenset[Pair]:
    """The true (weakness, object) pairs of a task."""
    return frozenset((v["id"], v["object"]) for v in task.data.truth["violations"])


def _mean(claims: frozenset[Pair], truths: Sequence[frozenset[Pair]], weights: Weights, tools: bool) -> float:
    paid = [
        sum(
            components(
                weights, tools=tools, detection=detection_score(claims, truth), repaired=not truth
            ).values()
        )
        for truth in truths
    ]
    return sum(paid) / len(paid)
