"""An ablation as tables and as JSON."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from security_verifiers.compare.ablation import Ablation
from security_verifiers.compare.contrast import DISTINCT, NORMALISED, REWARD, ArmResult, Measured, Row
from security_verifiers.reports.tables import Table, interval, p_text
from security_verifiers.stats.estimates import Estimate

OWN_SCALE = "reward: on each arm's own scale. It can't be compared across arms; every other column can."
NORMALISED_MEANS = "normalised: 0 is the best constant answer, 1 the reference, under the arm's own payoffs."
DISTINCT_MEANS = "confidences: how many different ones were stated; 1 carries no information."
DECIDED = "Brier and ECE: over the answers that decide, so read them beside the coverage."
ONE_PRICE = "cost: errors are priced as in the control, in every arm."


def ablation_tables(ablation: Ablation) -> list[Table]:
    """An overview of each player, then one table for each of its arms."""
    tables = []
    for player, control in ablation.controls.items():
        results = [one for one in ablation.results if one.measured.player == player]
        tables += [_overview(ablation, control, results), *(_arm(ablation, one) for one in results)]
    return tables


def _overview(ablation: Ablation, control: Measured, results: list[ArmResult]) -> Table:
    metrics = [row.metric for row in max(results, key=lambda one: len(one.rows)).rows]
    first = {row.metric: _value(row.control) for one in results for row in one.rows}
    rows = [[control.arm, *(first[metric] for metric in metrics)]]
    for one in results:
        cells = {row.metric: f"{_value(row.arm)}{_mark(row)}" for row in one.rows}
        rows.append([one.measured.arm, *(cells.get(metric, "-") for metric in metrics)])
    notes = [f"* differs from {control.arm} after Holm over all of the player's tests.", OWN_SCALE]
    notes += [NORMALISED_MEANS] if NORMALISED in metrics else []
    notes += [ONE_PRICE] if "cost" in metrics else []
    notes += [DISTINCT_MEANS, DECIDED] if DISTINCT in metrics else []
    methods = (row.contrast.method for one in results for row in one.rows if row.contrast)
    notes += [f"Intervals of differences: {method}." for method in dict.fromkeys(methods)]
    where = f"{ablation.environment.alias.upper()} {ablation.dataset['id']}"
    short = {**dict(ablation.environment.sheet_metrics), DISTINCT: "confidences"}
    headings = ["arm", *(short.get(metric, metric) for metric in metrics)]
    return Table(f"{where}: {control.player} by arm", headings, rows, notes)


def _arm(ablation: Ablation, one: ArmResult) -> Table:
    arm, control = one.measured.arm, ablation.config.control
    return Table(
        f"{one.measured.player}: {arm} against {control}, {one.pairs} pairs",
        ["metric", "control [95 %]", "arm [95 %]", "difference [95 %]", "p (Holm)", "verdict"],
        [_cells(row) for row in one.rows],
        list(_notes(ablation, one)),
    )


def _cells(row: Row) -> tuple[str, ...]:
    d = row.contrast
    return (
        row.metric,
        _spread(row.control),
        _spread(row.arm),
        "-" if d is None else interval(d.delta, d.lower, d.upper),
        p_text(d.corrected if d else None),
        (d.verdict if d else "") or "no test",
    )


def _notes(ablation: Ablation, one: ArmResult) -> Iterator[str]:
    plan = ablation.config.arms[one.measured.arm]
    if plan.note:
        yield plan.note
    if plan.how == "rescore":
        yield "Rescored: the control's answers, given under the control's prompt, graded under this arm."
    else:
        yield "Played anew: the prompt states the payoffs in force."
    if one.paired_by != "content":
        yield f"The prompts differ from the control's, so rollouts are paired by {one.paired_by} and sample."
    if one.left_out:
        yield f"{one.left_out} rollouts left out: one side lacks them or they failed through us."
    for reason, count in sorted((one.measured.not_graded or {}).items()):
        yield f"{count} of the control's rollouts could not be graded again: {reason}."
    if one.measured.invalid:
        yield f"The run {one.measured.folder.name} is invalid until it is resumed."


def _value(estimate: Estimate | None) -> str:
    return "-" if estimate is None else f"{estimate.value:.3f}".removesuffix(".000")


def _spread(estimate: Estimate | None) -> str:
    if estimate is None or estimate.lower is None or estimate.upper is None:
        return _value(estimate)
    return f"{estimate.value:.3f} [{estimate.lower:.3f}, {estimate.upper:.3f}]"


def _mark(row: Row) -> str:
    return "*" if row.contrast and row.contrast.verdict in ("higher", "lower") else ""


def ablation_json(ablation: Ablation) -> dict[str, Any]:
    """The same for programs."""
    control = ablation.config.control
    return {
        "environment": ablation.environment.id,
        "dataset": dict(ablation.dataset),
        "seed": ablation.config.seed,
        "rollouts": ablation.config.rollouts,
        "control": control,
        "comparable": {"not across arms": [REWARD]},
        "arms": {name: arm.model_dump(mode="json") for name, arm in ablation.config.arms.items()},
        "controls": {player: _told(one) for player, one in ablation.controls.items()},
        "results": [
            {
                **_told(one.measured),
                "paired_by": one.paired_by,
                "pairs": one.pairs,
                "left_out": one.left_out,
                "metrics": {row.metric: _row_json(row) for row in one.rows},
            }
            for one in ablation.results
        ],
    }


def _told(one: Measured) -> dict[str, Any]:
    return {
        "arm": one.arm,
        "player": one.player,
        "run": str(one.folder),
        "invalid": one.invalid,
        "counts": one.items.counts,
        "not_graded": dict(one.not_graded or {}),
        "reward_ends": asdict(one.ends),
    }


def _row_json(row: Row) -> dict[str, Any]:
    told = {name: part and asdict(part) for name, part in (("control", row.control), ("arm", row.arm))}
    if row.contrast is None:
        return {**told, "difference": None}
    return {**told, "difference": {**asdict(row.contrast), "verdict": row.contrast.verdict}}
