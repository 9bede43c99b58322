"""Contrast: one player under one arm of an ablation, beside the same player under the control arm."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from security_verifiers.compare.comparison import SIGNIFICANCE, compared_metrics
from security_verifiers.evals.items import Items
from security_verifiers.evals.metrics import SEED, curve_metrics, item_metrics
from security_verifiers.stats.bootstrap import Statistic, bca, jackknife_t
from security_verifiers.stats.calibration import distinct, ece_statistic
from security_verifiers.stats.classification import Decision
from security_verifiers.stats.estimates import Estimate, cut_to_unit
from security_verifiers.stats.multiple import holm
from security_verifiers.stats.paired import paired_difference
from security_verifiers.stats.ratio import Ratio
from sv_shared.environment import Anchors, Environment
from sv_shared.errors import UsageError

REWARD, NORMALISED, ECE, DISTINCT = "reward", "normalised", "ece", "distinct confidences"

Both = tuple[Items, Items]
"""Items of the control and of the arm."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One player under one arm.

    Attributes:
        arm, player: their names.
        folder: the run; of a rescored arm the control's.
        items: all graded rollouts, those that failed through us among them.
        ends: chance and reference under the arm's settings.
        invalid: whether so much failed through us that the run has to be resumed first.
        not_graded: stored rollouts that could not be graded again, by reason; None where the arm was played.
    """

    arm: str
    player: str
    folder: Path
    items: Items
    ends: Anchors
    invalid: bool = False
    not_graded: Mapping[str, int] | None = None

    @property
    def rescored(self) -> bool:
        """Whether these are the control's answers."""
        return self.not_graded is not None


@dataclass(frozen=True, slots=True)
class Contrast:
    """Arm minus control over the same rollouts.

    Attributes:
        delta, lower, upper: the difference and its 95 % interval; no ends where none can be given.
        p_value: of delta = 0; None where there is no test (curves have an interval only).
        corrected: the p-value after Holm over the player's table.
        n, clusters: pairs, and clusters among them.
        method: how the interval was made.
    """

    delta: float
    lower: float | None
    upper: float | None
    p_value: float | None
    n: int
    clusters: int | None
    method: str
    corrected: float | None = None

    @property
    def verdict(self) -> str:
        """ "higher", "lower" or "tie" after Holm's correction; "" without a test."""
        if self.corrected is None:
            return ""
        return "tie" if self.corrected >= SIGNIFICANCE else "higher" if self.delta > 0 else "lower"


@dataclass(frozen=True, slots=True)
class Row:
    """One metric under the control and under an arm; None where the rollouts do not define it."""

    metric: str
    control: Estimate | None
    arm: Estimate | None
    contrast: Contrast | None


@dataclass(frozen=True, slots=True)
class ArmResult:
    """One player's arm beside the same player's control.

    Attributes:
        measured: the arm.
        paired_by: "content" where both saw the same tasks, "task id" where the prompts differ.
        pairs, left_out: rollouts that both have, and those that one of them lacks or lost through us.
        rows: by metric.
    """

    measured: Measured
    paired_by: str
    pairs: int
    left_out: int
    rows: tuple[Row, ...]


def contrast(
    environment: Environment, control: Measured, arm: Measured, settings: Mapping[str, Any]
) -> ArmResult:
    """An arm beside its control, before Holm's correction.

    Args:
        environment: what was played.
        control, arm: one player under both.
        settings: the control's, which price errors in every arm, so that costs are on one scale.
    """
    before, after, left_out, paired_by = align(control.items, arm.items, arm.arm)
    own = control.items.select(~control.items.ours), arm.items.select(~arm.items.ours)
    pairs = before, after
    rows = [Row(REWARD, _reward(own[0]), _reward(own[1]), None)]
    rows += _normalised(own, pairs, (control.ends, arm.ends))
    names = compared_metrics(environment)
    rows += _by_item(environment, names, own, pairs, settings)
    rows += _curves(names, own, pairs)
    if arm.rescored:
        rows = [_without_idle_test(row) for row in rows]
    if all(one.answers is not None for one in own):
        rows.append(Row(DISTINCT, _distinct(own[0]), _distinct(own[1]), None))
    return ArmResult(arm, paired_by, len(before), left_out, tuple(rows))


def _without_idle_test(row: Row) -> Row:
    """The same answers are no evidence of anything: a test of them would only cost the others power."""
    d = row.contrast
    idle = d is not None and d.delta == d.lower == d.upper == 0
    return replace(row, contrast=replace(d, p_value=None)) if d and idle else row


def corrected(results: Sequence[ArmResult]) -> list[ArmResult]:
    """One player's arms with Holm's correction over all their tests together."""
    p_values = [row.contrast.p_value for one in results for row in one.rows if row.contrast]
    adjusted = iter(holm([p for p in p_values if p is not None]))
    return [replace(one, rows=tuple(_with_next(row, adjusted) for row in one.rows)) for one in results]


def _with_next(row: Row, adjusted: Iterator[float]) -> Row:
    if row.contrast is None or row.contrast.p_value is None:
        return row
    return replace(row, contrast=replace(row.contrast, corrected=next(adjusted)))


def align(control: Items, arm: Items, name: str) -> tuple[Items, Items, int, str]:
    """(control, arm, left out, how): the rollouts of both row by row, without those that failed through us.

    By content hash and sample; where the arm's tasks read otherwise, by task id and sample.

    Raises:
        UsageError: the tasks differ and have no ids of their own, or nothing is left to pair.
    """
    by_content = set(arm.task.tolist()) <= set(control.task.tolist())
    names = [items.task if by_content else items.task_id for items in (control, arm)]
    keys = [
        list(zip(n.tolist(), i.sample.tolist(), strict=True))
        for n, i in zip(names, (control, arm), strict=True)
    ]
    if any(len(set(one)) < len(one) or ("", 0) in one for one in keys):
        raise UsageError(f"arm {name}: its tasks differ from the control's and have no ids to pair them by")
    there = {key: row for row, key in enumerate(keys[1])}
    rows = np.array([(row, there[key]) for row, key in enumerate(keys[0]) if key in there], dtype=np.intp)
    if not len(rows):
        raise UsageError(f"arm {name} shares no task with the control")
    before, after = control.select(rows[:, 0]), arm.select(rows[:, 1])
    measured = ~(before.ours | after.ours)
    pairs = int(measured.sum())
    how = "content" if by_content else "task id"
    left_out = len(set(keys[0]) | set(keys[1])) - pairs
    return before.select(measured), after.select(measured), left_out, how


def _reward(items: Items) -> Estimate | None:
    """The mean on the arm's own scale, which no other arm shares."""
    return _estimate(Ratio.of(items.reward), items)


def _normalised(own: Both, pairs: Both, ends: tuple[Anchors, Anchors]) -> list[Row]:
    """The reward between each arm's own chance and reference, which are taken as known."""
    spans = [end.reference - end.chance for end in ends]
    if min(spans) <= 0:
        return []

    def scale(items: Items, arm: int) -> Ratio:
        return Ratio.of((items.reward - ends[arm].chance) / spans[arm])

    before, after = (_estimate(scale(items, arm), items) for arm, items in enumerate(own))
    return [Row(NORMALISED, before, after, _paired(scale(pairs[0], 0), scale(pairs[1], 1), pairs[0]))]


def _by_item(
    environment: Environment,
    names: Sequence[str],
    own: Both,
    pairs: Both,
    settings: Mapping[str, Any],
) -> Iterator[Row]:
    """Metrics that are means over items, errors priced alike in both arms."""
    control, arm = (item_metrics(environment, items, settings) for items in own)
    before, after = (item_metrics(environment, items, settings) for items in pairs)
    for name in names:
        if name in control and name in arm:
            contrast = None
            if name in before and name in after:
                contrast = _paired(before[name].ratio, after[name].ratio, pairs[0])
            values = _estimate(control[name].ratio, own[0]), _estimate(arm[name].ratio, own[1])
            yield Row(name, *values, contrast)


def _estimate(ratio: Ratio, items: Items) -> Estimate | None:
    return ratio.estimate(items.cluster) if len(items) else None


def _paired(before: Ratio, after: Ratio, items: Items) -> Contrast | None:
    base, candidate = before.values, after.values
    if base is None or candidate is None or not len(items):
        return None
    d = paired_difference(base, candidate, items.cluster, SEED)
    return Contrast(d.delta, d.lower, d.upper, d.p_value, d.n, d.clusters, d.method)


def _curves(names: Sequence[str], own: Both, pairs: Both) -> Iterator[Row]:
    """Metrics that are no means over items: an interval each and no test."""
    control, arm = map(_statistics, own)
    before, after = map(_statistics, pairs)
    for name in names:
        if name in control and name in arm:
            values = _value(name, control[name], own[0]), _value(name, arm[name], own[1])
            yield Row(name, *values, _curve_contrast(name, before[name], after[name], pairs[0]))


def _statistics(items: Items) -> dict[str, Statistic]:
    if items.answers is None:
        return {}
    a = items.answers
    right = (a.decision <= Decision.POSITIVE) & (a.decision == a.truth)
    return {**curve_metrics(items), ECE: ece_statistic(a.confidence, right)}


def _curve(name: str, statistic: Statistic, items: Items) -> Estimate | None:
    if not len(items):
        return None
    return (jackknife_t if name == ECE else bca)(statistic, items.cluster, SEED)


def _value(name: str, statistic: Statistic, items: Items) -> Estimate | None:
    estimate = _curve(name, statistic, items)
    return cut_to_unit(estimate) if estimate is not None and name == ECE else estimate


def _curve_contrast(name: str, before: Statistic, after: Statistic, items: Items) -> Contrast | None:
    d = _curve(name, lambda weights: after(weights) - before(weights), items)
    return None if d is None else Contrast(d.value, d.lower, d.upper, None, d.n, d.clusters, d.method)


def _distinct(items: Items) -> Estimate:
    """How many different confidences were stated."""
    assert items.answers is not None
    stated = items.answers.confidence[~np.isnan(items.answers.confidence)]
    return Estimate(float(distinct(stated)), None, None, len(stated), None, "a count")
