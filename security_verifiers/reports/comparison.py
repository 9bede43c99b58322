"""A comparison as tables and as JSON."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from security_verifiers.compare.comparison import POWER, SIGNIFICANCE, Comparison, MetricDifference
from security_verifiers.compare.pairing import Pairs, name
from security_verifiers.reports.partial import partial_lines
from security_verifiers.reports.tables import Table, interval, p_text, signed

HEADINGS = (
    "metric",
    "base",
    "candidate",
    "difference [95\N{NO-BREAK SPACE}%]",
    "p (Holm)",
    "detectable",
    "verdict",
)


def comparison_tables(comparisons: Sequence[Comparison]) -> list[Table]:
    """One table a candidate."""
    return [_table(comparison, len(comparisons)) for comparison in comparisons]


def _table(comparison: Comparison, candidates: int) -> Table:
    pairs = comparison.pairs
    m = pairs.base.metadata
    return Table(
        title=f"{pairs.environment.alias.upper()} {m['dataset']['id']}: "
        f"{name(pairs.candidate)} against {name(pairs.base)}, {len(pairs.before)} pairs",
        headings=HEADINGS,
        rows=[_row(metric) for metric in comparison.metrics],
        notes=_notes(comparison, candidates),
    )


def _row(metric: MetricDifference) -> tuple[str, ...]:
    d = metric.difference
    return (
        labelled(metric.metric, metric.lower_is_better),
        "-" if metric.base is None else f"{metric.base:.3f}",
        "-" if metric.candidate is None else f"{metric.candidate:.3f}",
        "not defined" if d is None else interval(d.delta, d.lower, d.upper),
        p_text(metric.corrected),
        signed(metric.detectable).lstrip("+"),
        metric.verdict or "no test",
    )


def labelled(metric: str, lower_is_better: bool | None) -> str:
    """A metric's name with the mark of those that should be low."""
    return f"{metric} ↓" if lower_is_better else metric


def _notes(comparison: Comparison, candidates: int) -> list[str]:
    pairs = comparison.pairs
    reward = next(m for m in comparison.metrics if m.metric == "reward")
    scope = f", over {candidates} candidates" if candidates > 1 else ""
    notes = [
        f"detectable: the smallest true difference that this comparison shows with {POWER:.0%} power at "
        f"{SIGNIFICANCE:.0%}, before Holm. Verdicts after Holm over all lines{scope}. ↓: lower is better.",
        f"Base run {pairs.base.folder.name}, candidate run {pairs.candidate.folder.name}, "
        f"data {pairs.base.metadata['dataset']['sha256'][:12]}, seed {pairs.base.metadata['seed']}.",
    ]
    if reward.difference is not None:
        kind = pairs.base.metadata["dataset"]["cluster_kind"]
        notes.append(
            f"Intervals: {reward.difference.method}; {reward.difference.clusters} clusters ({kind})."
        )
    for metric in comparison.metrics:
        if metric.mcnemar is not None:
            n = metric.mcnemar
            notes.append(
                f"McNemar, {metric.metric}: {n.gained} gained, {n.lost} lost, p {p_text(n.p_value)} "
                "(exact; takes the pairs as independent)."
            )
    if pairs.base.folder == pairs.candidate.folder:
        notes.append("Both are the same run.")
    if pairs.left_out:
        worst, best = (reward.bounds.worst, reward.bounds.best) if reward.bounds else (None, None)
        notes.append(
            f"{pairs.left_out} pairs left out: one side failed through us, or is not there. Whatever they "
            f"were, the reward's difference lies in {signed(worst)} to {signed(best)}."
        )
    return [*notes, *differing_facts(pairs), *partial_lines((pairs.base, pairs.candidate))]


def differing_facts(pairs: Pairs) -> list[str]:
    """What differs between the runs and does not forbid comparing them."""
    base, candidate = pairs.base.metadata, pairs.candidate.metadata
    notes = []
    for what, before, after in (
        ("environment version", base["environment"]["version"], candidate["environment"]["version"]),
        ("code", base["code"]["commit"], candidate["code"]["commit"]),
        ("tools", base["tools"], candidate["tools"]),
        ("judges", base["judges"], candidate["judges"]),
    ):
        if before != after:
            notes.append(f"The {what} changed: {_short(before)} then, {_short(after)} now.")
    return notes


def partial_facts(pairs: Pairs) -> dict[str, Any]:
    """What is left out of either run; null for a whole one."""
    return {
        side: run.summary.get("partial")
        for side, run in (("base", pairs.base), ("candidate", pairs.candidate))
    }


def _short(value: Any) -> str:
    return value[:12] if isinstance(value, str) else str(value)


def comparison_json(comparisons: Sequence[Comparison]) -> list[dict[str, Any]]:
    """The same for programs."""
    return [
        {
            "environment": comparison.pairs.environment.id,
            "base": {"run": str(comparison.pairs.base.folder), "model": name(comparison.pairs.base)},
            "candidate": {
                "run": str(comparison.pairs.candidate.folder),
                "model": name(comparison.pairs.candidate),
            },
            "pairs": len(comparison.pairs.before),
            "left_out": comparison.pairs.left_out,
            "metrics": [{**asdict(metric), "verdict": metric.verdict} for metric in comparison.metrics],
            "differs": differing_facts(comparison.pairs),
            "partial": partial_facts(comparison.pairs),
        }
        for comparison in comparisons
    ]
