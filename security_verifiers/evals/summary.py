"""summary.json: a run in numbers, computed from its result lines alone."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from security_verifiers.evals.items import Items, load_items
from security_verifiers.evals.metrics import calibration_of, estimates
from security_verifiers.evals.results import Results
from security_verifiers.stats.accounting import is_invalid
from security_verifiers.stats.estimates import cluster_mean
from security_verifiers.stats.ratio import Ratio
from sv_shared.environment import Anchors, Environment
from sv_shared.errors import ArtifactError

SUMMARY_VERSION = 2
"""2: every metric stands with its interval and bounds."""

NO_REWARD = {
    "value": None,
    "lower": None,
    "upper": None,
    "n": 0,
    "clusters": 0,
    "method": "no interval: no rollout was graded",
}


def summarise(environment: Environment, results: Results, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The summary of a run.

    Every planned rollout is counted: those without a line are "missing", parse failures and refusals stay in
    every mean at the floor, and what was not measured (missing, grader and infrastructure errors) widens
    every metric into bounds.

    Raises:
        ArtifactError: the result lines can't be trusted.
    """
    missing = metadata["planned"] - len(results)
    if missing < 0:
        raise ArtifactError(
            f"{len(results)} results of {metadata['planned']} planned rollouts", where=str(results.path)
        )
    items, totals = load_items(results, environment.classification)
    own = items.select(~items.ours)
    unmeasured = metadata["planned"] - len(own)
    declared = metadata["reward"]
    ends = Anchors(declared["chance"], declared["chance_answer"], declared["reference"], declared["ceiling"])
    # The engine lets no reward pass that is further outside than rounding goes.
    rewards = Ratio.of(np.clip(own.reward, declared["floor"], declared["maximum"]))
    reward = _reward(own)
    return {
        "schema_version": SUMMARY_VERSION,
        "run_id": metadata["run_id"],
        "planned": metadata["planned"],
        "counts": items.counts,
        "missing": missing,
        "invalid": is_invalid(items.counts) or missing > 0,
        "reward": reward,
        "reward_bounds": asdict(rewards.bounds(unmeasured, declared["floor"], declared["maximum"])),
        "normalised": _normalised(reward, ends),
        "components": _components(own),
        "metrics": estimates(environment, own, metadata["settings"], unmeasured),
        "calibration": calibration_of(own),
        "by_difficulty": _by_difficulty(own),
        "flags": dict(sorted(totals.flags.items())),
        "tokens": {name: counted.as_dict() for name, counted in sorted(totals.tokens.items())},
    }


def _reward(own: Items) -> dict[str, Any]:
    """The mean reward with its interval."""
    return asdict(cluster_mean(own.reward, own.cluster)) if len(own) else NO_REWARD


def _components(own: Items) -> dict[str, float]:
    """Contribution of each component to the mean reward."""
    return {name: float(np.nansum(column)) / len(own) for name, column in own.components.items()}


def _by_difficulty(own: Items) -> dict[str, dict[str, Any]]:
    tiers = sorted(set(own.tier.tolist()) - {""})
    return {
        tier: {"n": int((own.tier == tier).sum()), "reward": _reward(own.select(own.tier == tier))}
        for tier in tiers
    }


def _normalised(reward: Mapping[str, Any], ends: Anchors) -> dict[str, float | None]:
    values = {"score": reward["value"], "lower": reward["lower"], "upper": reward["upper"]}
    return {name: None if value is None else ends.normalise(value) for name, value in values.items()}
