"""Metrics of a run: the mean of every number its grades carry, and what a classification adds to them."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from security_verifiers.stats import classification as c
from security_verifiers.stats.classification import Decision
from security_verifiers.stats.estimates import Estimate, cluster_mean
from sv_shared.environment import ClassificationSpec
from sv_shared.outcomes import Outcome
from sv_shared.storage import fingerprint


class MetricMeans:
    """Collects the grades' metrics line by line; a metric that a line lacks is not invented for it."""

    def __init__(self) -> None:
        self._values: dict[str, tuple[list[float], list[str]]] = {}

    def add(self, line: Mapping[str, Any]) -> None:
        """Take the metrics of one result line."""
        for name, value in line["metrics"].items():
            values, clusters = self._values.setdefault(name, ([], []))
            values.append(value)
            clusters.append(line["cluster"])

    def estimates(self) -> dict[str, Estimate]:
        """Mean and interval by name."""
        return {
            name: cluster_mean(np.array(values), np.array(clusters))
            for name, (values, clusters) in sorted(self._values.items())
        }


class ClassificationMetrics:
    """Collects classification answers line by line.

    Args:
        spec: which label is the positive one, and what errors cost.
        settings: the environment's settings in force.
    """

    def __init__(self, spec: ClassificationSpec, settings: Mapping[str, Any]) -> None:
        # Under the hash_only storage rule labels stand in the lines as their fingerprints.
        self._positive = (spec.positive, fingerprint(spec.positive))
        self._costs = spec.costs(settings)
        self._truth: list[bool] = []
        self._decision: list[int] = []
        self._confidence: list[float] = []
        self._p_positive: list[float] = []

    def add(self, line: Mapping[str, Any]) -> None:
        """Take one result line that is the model's own."""
        self._truth.append(line["truth"] in self._positive)
        parsed = line["parsed"] or {}
        decision = Decision.NONE
        if line["outcome"] == Outcome.ABSTAINED:
            decision = Decision.ABSTAIN
        elif line["outcome"] == Outcome.SCORED and parsed:
            decision = Decision.POSITIVE if parsed["label"] in self._positive else Decision.NEGATIVE
        self._decision.append(decision)
        stated = decision <= Decision.POSITIVE
        self._confidence.append(parsed["confidence"] if stated else np.nan)
        self._p_positive.append(parsed["p_positive"] if stated else np.nan)

    def values(self) -> dict[str, float | int | None]:
        """The metrics; None where the lines do not define one (no answers, one class)."""
        truth, decision = np.array(self._truth, dtype=bool), np.array(self._decision, dtype=np.intp)
        confidence, p_positive = np.array(self._confidence), np.array(self._p_positive)
        labelled = decision <= Decision.POSITIVE
        # An abstention states no probability and is neither right nor wrong; nothing at all counts as lost.
        lost = decision == Decision.NONE
        right = decision == truth
        false_negative, abstention = self._costs
        return {
            "accuracy": c.accuracy(truth, decision),
            "false_negative_rate": c.false_negative_rate(truth, decision),
            "false_positive_rate": c.false_positive_rate(truth, decision),
            "coverage": c.coverage(decision),
            "cost": c.cost_per_item(truth, decision, false_negative=false_negative, abstention=abstention),
            "brier": c.brier(p_positive[labelled], truth[labelled], missing=int(lost.sum())),
            "auroc": c.auroc(
                p_positive[labelled],
                truth[labelled],
                missing_positive=int((lost & truth).sum()),
                missing_negative=int((lost & ~truth).sum()),
            ),
            "ece": c.ece(confidence[labelled], right[labelled]),
            "distinct_confidences": c.distinct(confidence[labelled]),
        }
