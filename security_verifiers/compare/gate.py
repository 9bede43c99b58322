"""The regression gate: may a candidate take the place of the base?"""

from dataclasses import dataclass

import numpy as np

from security_verifiers.compare.comparison import difference_bounds, paired_metrics, span
from security_verifiers.compare.pairing import Pairs, pair
from security_verifiers.evals.evaluate import Run
from security_verifiers.evals.metrics import Metric
from security_verifiers.stats.arrays import Floats
from security_verifiers.stats.noninferiority import GateDecision, MetricDecision, Verdict, decide
from sv_shared.errors import UsageError

MARGIN = 0.03
"""Of the reward's span from chance to reference; absolute for proportions."""


@dataclass(frozen=True, slots=True)
class GatedMetric:
    """One core metric at the gate.

    Attributes:
        metric: its name; "reward" first.
        lower_is_better: whether a fall is an improvement.
        base, candidate: its values; None where a run's rollouts do not define it.
        decision: in the direction "higher is better"; None where it is not defined.
        worst: the change in that direction, if all pairs that were left out had gone against the candidate.
    """

    metric: str
    lower_is_better: bool
    base: float | None
    candidate: float | None
    decision: MetricDecision | None
    worst: float | None = None

    @property
    def verdict(self) -> Verdict:
        """What follows. A metric that neither run defines can't have fallen; one that only one of them
        defines can't be compared.
        """
        if self.decision is not None:
            return Verdict.INCONCLUSIVE if self.hidden else self.decision.verdict
        return Verdict.PASS if self.base is None and self.candidate is None else Verdict.INCONCLUSIVE

    @property
    def hidden(self) -> bool:
        """Whether it passes only as long as nobody asks what the pairs that were left out would have been."""
        d = self.decision
        passes = d is not None and d.verdict is Verdict.PASS
        return passes and d is not None and self.worst is not None and self.worst <= -d.margin

    @property
    def relative(self) -> float | None:
        """candidate / base - 1, the plan's relative change; None for a base of 0."""
        if self.base is None or self.candidate is None or not self.base:
            return None
        return (self.candidate - self.base) / abs(self.base)


@dataclass(frozen=True, slots=True)
class GateReport:
    """The gate's answer.

    Attributes:
        pairs: the runs.
        margin: the margin asked for.
        metrics: the reward and the core metrics.
        decision: of those that are defined in both runs.
    """

    pairs: Pairs
    margin: float
    metrics: tuple[GatedMetric, ...]
    decision: GateDecision

    @property
    def verdict(self) -> Verdict:
        """pass, fail or inconclusive."""
        if self.decision.verdict is Verdict.FAIL:
            return Verdict.FAIL
        passes = all(metric.verdict is Verdict.PASS for metric in self.metrics)
        return Verdict.PASS if passes else Verdict.INCONCLUSIVE


def gate(base: Run, candidate: Run, margin: float = MARGIN) -> GateReport:
    """Non-inferiority of the candidate on the reward and each core metric: `stats.noninferiority.decide`.

    The reward's margin is a share of its span from chance to reference, which the tasks fix; any other's is a
    share of its range, so absolute for a proportion. A pass that the pairs left out could undo is none.

    Raises:
        UsageError: the runs can't be compared, no pair is left, the tasks have no span, or a core metric is
            not one that this environment's rollouts carry.
    """
    pairs = pair(base, candidate)
    core = pairs.environment.core_metrics
    values = paired_metrics(pairs, core)
    if lacking := [name for name in core if name not in values]:
        raise UsageError(
            f"core metrics that no rollout carries: {', '.join(lacking)}", where=pairs.environment.id
        )
    oriented = {name: _oriented(pairs, name, *both) for name, both in values.items()}
    defined = {name: row for name, row in oriented.items() if row is not None}
    decision = decide(
        list(defined),
        np.array(list(defined.values())),
        pairs.before.cluster,
        [_margin(pairs, name, values[name][0], margin) for name in defined],
        spans=[span(*values[name]) for name in defined],
        deterministic=pairs.deterministic,
    )
    decided = {metric.name: metric for metric in decision.metrics}
    gated = (
        GatedMetric(
            metric=name,
            lower_is_better=name in pairs.environment.lower_is_better,
            base=before.ratio.value,
            candidate=after.ratio.value,
            decision=decided.get(name),
            worst=_worst(pairs, name, before, after),
        )
        for name, (before, after) in values.items()
    )
    return GateReport(pairs, margin, tuple(gated), decision)


def _oriented(pairs: Pairs, name: str, before: Metric, after: Metric) -> Floats | None:
    """float[n]: candidate minus base by pair, higher is better; None where one side is not defined."""
    base, candidate = before.ratio.values, after.ratio.values
    if base is None or candidate is None:
        return None
    return base - candidate if name in pairs.environment.lower_is_better else candidate - base


def _worst(pairs: Pairs, name: str, before: Metric, after: Metric) -> float | None:
    """The change if all pairs that were left out had gone against the candidate, higher is better."""
    bounds = difference_bounds(before, after, pairs.left_out)
    if bounds is None or bounds.worst is None or bounds.best is None:
        return None
    return -bounds.best if name in pairs.environment.lower_is_better else bounds.worst


def _margin(pairs: Pairs, name: str, metric: Metric, margin: float) -> float:
    """The margin of one metric, in its own unit."""
    if name != "reward":
        return margin * (metric.high - metric.low)
    declared = pairs.base.metadata["reward"]
    span = float(declared["reference"] - declared["chance"])
    if span <= 0:
        raise UsageError(
            f"these tasks have no span from chance ({declared['chance']:g}) to reference "
            f"({declared['reference']:g}), so the reward has no margin",
            where=str(pairs.base.folder),
            hint="Gate on more tasks",
        )
    return margin * span
