"""The gate's answer as a table and as JSON."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from security_verifiers.compare.baselines import Check
from security_verifiers.compare.gate import GatedMetric, GateReport
from security_verifiers.compare.pairing import name
from security_verifiers.reports.comparison import differing_facts, labelled, partial_facts
from security_verifiers.reports.partial import partial_lines
from security_verifiers.reports.tables import Table, interval, p_text, signed
from security_verifiers.stats.noninferiority import Verdict

MARKS = {Verdict.PASS: "pass", Verdict.FAIL: "FAIL", Verdict.INCONCLUSIVE: "inconclusive"}
ROUNDING = 1e-9
"""A smaller change is the order in which numbers were added."""
HEADINGS = (
    "metric",
    "base",
    "candidate",
    "change [95\N{NO-BREAK SPACE}%]",
    "relative",
    "margin",
    "p pass",
    "p fail",
    "detectable",
    "verdict",
)


def gate_table(report: GateReport) -> Table:
    """The gate of one candidate, metric by metric."""
    pairs = report.pairs
    what = f"{pairs.environment.alias.upper()} {pairs.base.metadata['dataset']['id']}"
    who = f"{name(pairs.candidate)} against {name(pairs.base)}"
    return Table(
        title=f"{MARKS[report.verdict]}: {what}, {who}, {len(pairs.before)} pairs, margin {report.margin:g}",
        headings=HEADINGS,
        rows=[_row(metric) for metric in report.metrics],
        notes=[*_reasons(report), *_notes(report)],
    )


def _row(metric: GatedMetric) -> tuple[str, ...]:
    label = labelled(metric.metric, metric.lower_is_better)
    values = ["-" if value is None else f"{value:.3f}" for value in (metric.base, metric.candidate)]
    d = metric.decision
    if d is None:
        return (label, *values, "not defined", "-", "-", "-", "-", "-", MARKS[metric.verdict])
    relative = "-" if metric.relative is None else f"{100 * metric.relative:+.1f} %"
    return (
        label,
        *values,
        _change(metric),
        relative,
        f"{d.margin:.4f}",
        p_text(d.p_pass_holm),
        p_text(d.p_fail_holm),
        "-" if d.detectable is None else f"{d.detectable:.3f}",
        MARKS[metric.verdict] + (", but worse" if d.significantly_worse else ""),
    )


def _change(metric: GatedMetric) -> str:
    """Candidate minus base in the metric's own direction, with its interval."""
    d = metric.decision
    assert d is not None
    if not metric.lower_is_better or d.lower is None or d.upper is None:
        return interval(-d.delta if metric.lower_is_better else d.delta, d.lower, d.upper)
    return interval(-d.delta, -d.upper, -d.lower)


def _reasons(report: GateReport) -> list[str]:
    """Every verdict that is not a plain pass, in words."""
    return [
        f"{metric.metric}: {_reason(metric)}"
        for metric in report.metrics
        if metric.verdict is not Verdict.PASS or (metric.decision and metric.decision.significantly_worse)
    ]


def _reason(metric: GatedMetric) -> str:
    if metric.decision is None:
        return "one of the runs does not define it."
    if metric.hidden:
        return (
            f"the pairs that were left out could hide a change of {signed(metric.worst)}, beyond the margin; "
            "resume the runs"
        )
    return metric.decision.reason


def _notes(report: GateReport) -> list[str]:
    decision, pairs = report.decision, report.pairs
    base = pairs.base.metadata
    notes = []
    if decision.pass_if_unchanged is not None and decision.fail_if_dropped is not None:
        notes.append(
            f"Power with these pairs: {_percent(decision.pass_if_unchanged)} to pass if nothing changed, "
            f"{_percent(decision.fail_if_dropped)} to fail if every metric dropped by twice its margin."
        )
    if decision.further:
        notes.append(
            f"{decision.further:,} further pairs would raise the first to 80 % (if nothing changed)."
        )
    notes.append(
        f"Drift since the base: run {base['run_id']} of {base['started'][:10]}, "
        f"code {str(base['code']['commit'])[:12]}. p-values and verdicts after Holm; "
        "intervals: Student's t by cluster, before it. The reward's margin is a share of its span from "
        "chance to reference."
    )
    if pairs.left_out:
        notes.append(f"{pairs.left_out} pairs left out: one side failed through us, or is not there.")
    return [*notes, *differing_facts(pairs), *partial_lines((pairs.base, pairs.candidate))]


def _percent(share: float) -> str:
    return "under 1 %" if share < 0.01 else f"{share:.0%}"


def baseline_table(checks: Sequence[Check]) -> Table:
    """All pinned runs against today's, one line each."""
    failed = sum(not check.held for check in checks)
    return Table(
        title=f"Regression gate: {len(checks) - failed} of {len(checks)} pinned runs held",
        headings=("run", "pairs", "reward", "then", "core metrics", "verdict"),
        rows=[_baseline_row(check) for check in checks],
        notes=[
            f"{check.alias} {check.policy}: {reason}" for check in checks for reason in _reasons(check.report)
        ],
    )


def _baseline_row(check: Check) -> tuple[str, ...]:
    reward, *core = check.report.metrics
    changed = [f"{m.metric} {signed(_delta(m))}" for m in core if abs(_delta(m) or 0.0) > ROUNDING]
    return (
        f"{check.alias} {check.policy}",
        str(len(check.report.pairs.before)),
        signed(reward.candidate),
        signed(reward.base),
        ", ".join(changed) or "unchanged",
        MARKS[check.report.verdict],
    )


def _delta(metric: GatedMetric) -> float | None:
    if metric.base is None or metric.candidate is None:
        return None
    return metric.candidate - metric.base


def gate_json(report: GateReport) -> dict[str, Any]:
    """The same for programs; a metric's `decision` is in the direction "higher is better"."""
    decision, pairs = report.decision, report.pairs
    return {
        "verdict": str(report.verdict),
        "environment": pairs.environment.id,
        "base": {"run": str(pairs.base.folder), "model": name(pairs.base)},
        "candidate": {"run": str(pairs.candidate.folder), "model": name(pairs.candidate)},
        "margin": report.margin,
        "pairs": len(pairs.before),
        "left_out": pairs.left_out,
        "deterministic": pairs.deterministic,
        "pass_if_unchanged": decision.pass_if_unchanged,
        "fail_if_dropped": decision.fail_if_dropped,
        "further_pairs": decision.further,
        "metrics": [
            {**asdict(metric), "verdict": str(metric.verdict), "relative": metric.relative}
            for metric in report.metrics
        ],
        "differs": differing_facts(pairs),
        "partial": partial_facts(pairs),
    }
