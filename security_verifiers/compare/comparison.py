"""Comparison: candidates against one base, metric by metric, over the same rollouts."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from security_verifiers.compare.pairing import Pairs, pair
from security_verifiers.evals.evaluate import Run
from security_verifiers.evals.metrics import SEED, Metric, item_metrics
from security_verifiers.stats.accounting import Bounds
from security_verifiers.stats.arrays import Floats
from security_verifiers.stats.mcnemar import McNemar, mcnemar
from security_verifiers.stats.multiple import holm
from security_verifiers.stats.paired import PairedDifference, paired_difference
from security_verifiers.stats.power import minimum_detectable
from security_verifiers.stats.ratio import Ratio
from sv_shared.environment import Environment
from sv_shared.errors import UsageError

SIGNIFICANCE = 0.05
POWER = 0.8


@dataclass(frozen=True, slots=True)
class MetricDifference:
    """One metric of a candidate against the base.

    Attributes:
        metric: its name; "reward" first.
        lower_is_better: whether a fall is an improvement; None where neither direction is (coverage).
        base, candidate: its values.
        difference: candidate minus base, paired; None where no pair takes part.
        detectable: the smallest true difference that this many pairs show with a power of 80 % at 5 %, before
            Holm; None where no interval can be given.
        bounds: the difference between the worst and the best that the pairs left out could have made of it.
        corrected: the p-value after Holm over the whole report; None where there is none.
        mcnemar: for the accuracy.
    """

    metric: str
    lower_is_better: bool | None
    base: float | None
    candidate: float | None
    difference: PairedDifference | None
    detectable: float | None = None
    bounds: Bounds | None = None
    corrected: float | None = None
    mcnemar: McNemar | None = None

    @property
    def verdict(self) -> str:
        """ "better", "worse", "higher", "lower" or "tie" after Holm's correction; "" without a test."""
        if self.corrected is None or self.difference is None:
            return ""
        fell = self.difference.delta < 0
        if self.corrected >= SIGNIFICANCE:
            return "tie"
        if self.lower_is_better is None:
            return "lower" if fell else "higher"
        return "better" if fell == self.lower_is_better else "worse"


@dataclass(frozen=True, slots=True)
class Comparison:
    """One candidate against the base."""

    pairs: Pairs
    metrics: tuple[MetricDifference, ...]


def compare(base: Run, candidates: Sequence[Run]) -> list[Comparison]:
    """Compare each candidate with the base: reward, core metrics and the sheet's metrics that have items.

    p-values are corrected by Holm over all metrics and candidates of the report.

    Raises:
        UsageError: a candidate can't be compared with the base, or no pair is left.
    """
    all_pairs = [pair(base, candidate) for candidate in candidates]
    drafts = [(pairs, _differences(pairs)) for pairs in all_pairs]
    tests = [m.difference.p_value for _, metrics in drafts for m in metrics if m.difference]
    corrected = iter(holm([p for p in tests if p is not None]))
    return [
        Comparison(
            pairs,
            tuple(
                replace(m, corrected=next(corrected))
                if m.difference and m.difference.p_value is not None
                else m
                for m in metrics
            ),
        )
        for pairs, metrics in drafts
    ]


def compared_metrics(environment: Environment) -> tuple[str, ...]:
    """Names of the metrics that a comparison shows: the core ones, then the sheet's."""
    return tuple(dict.fromkeys((*environment.core_metrics, *(m for m, _ in environment.sheet_metrics))))


def paired_metrics(pairs: Pairs, names: Sequence[str]) -> dict[str, tuple[Metric, Metric]]:
    """(base, candidate) by name: the reward, then those of the named metrics that have values by item.

    Raises:
        UsageError: no pair is left.
    """
    check_some(pairs)
    settings = pairs.base.metadata["settings"]
    before, after = (
        {"reward": _reward(pairs, items.reward), **item_metrics(pairs.environment, items, settings)}
        for items in (pairs.before, pairs.after)
    )
    return {m: (before[m], after[m]) for m in ("reward", *names) if m in before and m in after}


def check_some(pairs: Pairs) -> None:
    """Refuses an empty comparison.

    Raises:
        UsageError: no pair is left.
    """
    if not len(pairs.before):
        raise UsageError("no pair of rollouts is left to compare", where=str(pairs.candidate.folder))


def _reward(pairs: Pairs, rewards: Floats) -> Metric:
    declared = pairs.base.metadata["reward"]
    return Metric(Ratio.of(rewards), declared["floor"], declared["maximum"])


def _differences(pairs: Pairs) -> list[MetricDifference]:
    shown = paired_metrics(pairs, compared_metrics(pairs.environment))
    return [_difference(pairs, metric, *both) for metric, both in shown.items()]


def _difference(pairs: Pairs, metric: str, before: Metric, after: Metric) -> MetricDifference:
    base, candidate = before.ratio.values, after.ratio.values
    difference = None
    if base is not None and candidate is not None:
        difference = paired_difference(base, candidate, pairs.before.cluster, SEED)
    return MetricDifference(
        metric=metric,
        lower_is_better=_direction(pairs.environment, metric),
        base=before.ratio.value,
        candidate=after.ratio.value,
        difference=difference,
        detectable=_detectable(pairs, difference, span(before, after)),
        bounds=difference_bounds(before, after, pairs.left_out),
        mcnemar=_mcnemar(before, after) if metric == "accuracy" else None,
    )


def _direction(environment: Environment, metric: str) -> bool | None:
    if metric in environment.lower_is_better:
        return True
    return False if metric in ("reward", "accuracy", "f1", "precision", *environment.core_metrics) else None


def difference_bounds(before: Metric, after: Metric, left_out: int) -> Bounds | None:
    """Candidate minus base, whatever the pairs that were left out would have been; None where not defined."""
    base, candidate = (metric.ratio.bounds(left_out, metric.low, metric.high) for metric in (before, after))
    if base.measured is None or candidate.measured is None:
        return None
    assert base.worst is not None
    assert base.best is not None
    assert candidate.worst is not None
    assert candidate.best is not None
    measured = candidate.measured - base.measured
    worst, best = candidate.worst - base.best, candidate.best - base.worst
    return Bounds(measured, *((worst, best) if left_out else (measured, measured)), candidate.n, left_out)


def span(before: Metric, after: Metric) -> float:
    """The most by which one pair can move the linearised values of a metric; 0 where it is not defined."""
    share = min(float(metric.ratio.denominator.mean()) for metric in (before, after))
    return (before.high - before.low) / share if share else 0.0


def _detectable(pairs: Pairs, difference: PairedDifference | None, most: float) -> float | None:
    if difference is None or difference.se is None:
        return None
    # The floor of `noninferiority.decide`: few sampled pairs that agree can't show that all would.
    floor = 0.0 if pairs.deterministic else most / difference.n
    return minimum_detectable(math.hypot(difference.se, floor), difference.clusters - 1, power=POWER)


def _mcnemar(before: Metric, after: Metric) -> McNemar:
    return mcnemar(before.ratio.numerator > 0, after.ratio.numerator > 0)


def reward_difference(pairs: Pairs) -> PairedDifference:
    """The candidate's reward minus the base's.

    Raises:
        UsageError: no pair is left.
    """
    check_some(pairs)
    return paired_difference(pairs.before.reward, pairs.after.reward, pairs.before.cluster, SEED)
