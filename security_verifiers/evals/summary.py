"""summary.json: a run in numbers, computed from its result lines alone."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from security_verifiers.evals.metrics import ClassificationMetrics, MetricMeans
from security_verifiers.evals.record import SCHEMA_VERSION, SeatTokens
from security_verifiers.evals.results import Results
from security_verifiers.stats.accounting import Bounds, bounds, is_invalid, ours
from security_verifiers.stats.estimates import cluster_mean
from sv_shared.environment import Anchors, Environment
from sv_shared.errors import ArtifactError
from sv_shared.outcomes import Outcome

NO_REWARD = "no interval: no rollout was graded"


def summarise(environment: Environment, folder: Path, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The summary of a run's folder.

    Every planned rollout is counted: those without a line are "missing", parse failures and refusals stay in
    every mean at the floor, and what was not measured (missing, grader and infrastructure errors) widens the
    reward into bounds.

    Raises:
        ArtifactError: the result lines can't be trusted.
    """
    results = Results(folder)
    counts = Counter({str(outcome): 0 for outcome in Outcome})
    flags: Counter[str] = Counter()
    tokens: dict[str, SeatTokens] = {}
    rewards = _Rewards()
    means = MetricMeans()
    spec = environment.classification
    classified = ClassificationMetrics(spec, metadata["settings"]) if spec else None
    for line in results:
        counts[line["outcome"]] += 1
        flags.update(line["flags"])
        for name, seat in line["seats"].items():
            tokens[name] = tokens.get(name, SeatTokens()).plus(SeatTokens(**seat["tokens"]))
        if not Outcome(line["outcome"]).is_ours:
            rewards.add(line)
            means.add(line)
            if classified:
                classified.add(line)
    declared = metadata["reward"]
    ends = Anchors(declared["chance"], declared["chance_answer"], declared["reference"], declared["ceiling"])
    reward = rewards.estimate()
    failed = ours(counts)
    missing = metadata["planned"] - len(results)
    if missing < 0:
        raise ArtifactError(
            f"{len(results)} results of {metadata['planned']} planned rollouts", where=str(results.path)
        )
    return {
        "schema_version": SCHEMA_VERSION,
        "run_id": metadata["run_id"],
        "planned": metadata["planned"],
        "counts": dict(counts),
        "missing": missing,
        "invalid": is_invalid(counts) or missing > 0,
        "reward": reward,
        "reward_bounds": asdict(rewards.bounds(failed + missing, declared["floor"], declared["maximum"])),
        "normalised": _normalised(reward, ends),
        "components": rewards.components(),
        "metrics": classified.values() if classified else {},
        "means": {name: asdict(estimate) for name, estimate in means.estimates().items()},
        "by_difficulty": rewards.by_difficulty(),
        "flags": dict(sorted(flags.items())),
        "tokens": {name: counted.as_dict() for name, counted in sorted(tokens.items())},
    }


class _Rewards:
    """The rewards of the lines that have one."""

    def __init__(self) -> None:
        self.values: list[float] = []
        self._clusters: list[str] = []
        self._tiers: list[str] = []
        self._components: dict[str, float] = {}

    def add(self, line: Mapping[str, Any]) -> None:
        self.values.append(line["reward"])
        self._clusters.append(line["cluster"])
        self._tiers.append(line["difficulty"])
        for name, value in line["components"].items():
            self._components[name] = self._components.get(name, 0.0) + value

    def estimate(self) -> dict[str, Any]:
        """The mean with its interval; a value of None where no rollout has a reward."""
        if not self.values:
            return {"value": None, "lower": None, "upper": None, "n": 0, "clusters": 0, "method": NO_REWARD}
        return asdict(cluster_mean(np.array(self.values), np.array(self._clusters)))

    def bounds(self, unmeasured: int, floor: float, maximum: float) -> Bounds:
        """Between what the unmeasured rollouts could have made of the mean."""
        # The engine lets no reward pass that is further outside than rounding goes.
        return bounds(np.clip(self.values, floor, maximum), unmeasured, floor, maximum)

    def components(self) -> dict[str, float]:
        """Contribution of each component to the mean reward."""
        return {name: value / len(self.values) for name, value in sorted(self._components.items())}

    def by_difficulty(self) -> dict[str, dict[str, Any]]:
        values, tiers = np.array(self.values), np.array(self._tiers)
        names = sorted(set(self._tiers) - {""})
        return {
            name: {"n": int((tiers == name).sum()), "reward": float(values[tiers == name].mean())}
            for name in names
        }


def _normalised(reward: Mapping[str, Any], ends: Anchors) -> dict[str, float | None]:
    values = {"score": reward["value"], "lower": reward["lower"], "upper": reward["upper"]}
    return {name: None if value is None else ends.normalise(value) for name, value in values.items()}
