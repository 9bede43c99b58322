"""The benchmark sheet: one table an environment and dataset, lines in the order that keeps readers honest.

Constant policies first, then the shallow model, the heuristic and tool-only baselines, published lines, and
the models; the reference last. Every number stands over all planned rollouts.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from security_verifiers.evals.evaluate import Run
from security_verifiers.evals.results import Results
from security_verifiers.stats.multiple import holm
from security_verifiers.stats.paired import PairedDifference, paired_difference
from sv_shared.environment import Environment, find
from sv_shared.policies import PolicyKind

ORDER: tuple[str, ...] = (
    PolicyKind.CONSTANT,
    PolicyKind.DEGENERATE,
    PolicyKind.EXPLOIT,
    PolicyKind.SHALLOW,
    PolicyKind.HEURISTIC,
    PolicyKind.TOOL_ONLY,
    "model",
    PolicyKind.CEILING,
    PolicyKind.REFERENCE,
)
SIGNIFICANCE = 0.05


@dataclass(frozen=True, slots=True)
class Line:
    """One run's line.

    Attributes:
        run: the run.
        kind: what its player is, of `ORDER`.
        versus_shallow: its reward minus the shallow model's, paired; None without such a model.
        verdict: "above", "below" or "tie" after Holm's correction over the sheet, or "".
    """

    run: Run
    kind: str
    versus_shallow: PairedDifference | None = None
    verdict: str = ""

    @property
    def model(self) -> str:
        """The player's name."""
        return str(self.run.metadata["seats"][self.run.metadata["evaluated_seat"]]["model"])


@dataclass(frozen=True, slots=True)
class Sheet:
    """Runs of one environment on the same tasks with the same settings."""

    environment: Environment
    lines: tuple[Line, ...]

    @property
    def first(self) -> Run:
        """Any of the runs, for what they share."""
        return self.lines[0].run


def make_sheets(runs: Iterable[Run]) -> list[Sheet]:
    """Group runs that can be compared, and put them in order."""
    groups: dict[tuple[Any, ...], list[Run]] = {}
    for run in runs:
        m = run.metadata
        key = (
            m["environment"]["id"],
            m["environment"]["version"],
            m["dataset"]["sha256"],
            m["seed"],
            m["samples"],
        )
        groups.setdefault((*key, repr(m["settings"])), []).append(run)
    return [_sheet(find(key[0]), group) for key, group in groups.items()]


def _sheet(environment: Environment, runs: Sequence[Run]) -> Sheet:
    lines = [Line(run, run.metadata["seats"][run.metadata["evaluated_seat"]]["kind"]) for run in runs]
    lines.sort(
        key=lambda line: (ORDER.index(line.kind), -(line.run.summary["reward"]["value"] or 0.0), line.model)
    )
    shallow = next((line for line in lines if line.kind == PolicyKind.SHALLOW), None)
    if shallow is not None:
        lines = _judge(lines, shallow)
    return Sheet(environment, tuple(lines))


def _judge(lines: list[Line], shallow: Line) -> list[Line]:
    """Compare every other line with the shallow model's, task by task."""
    base = _rewards(shallow.run)
    others = [line for line in lines if line is not shallow]
    differences = [_difference(base, _rewards(line.run)) for line in others]
    judged = {id(shallow): shallow}
    corrected = holm([1.0 if d.p_value is None else d.p_value for d in differences])
    for line, difference, p in zip(others, differences, corrected, strict=True):
        delta = difference.delta or 0.0
        known = difference.p_value is not None
        verdict = ("above" if delta > 0 else "below") if p < SIGNIFICANCE else "tie" if known else ""
        judged[id(line)] = Line(line.run, line.kind, difference, verdict)
    return [judged[id(line)] for line in lines]


Rewards = dict[tuple[str, int], tuple[float, str]]


def _rewards(run: Run) -> Rewards:
    return {
        (line["key"]["task"], line["key"]["sample"]): (line["reward"], line["cluster"])
        for line in Results(run.folder)
        if line["reward"] is not None
    }


def _difference(base: Rewards, candidate: Rewards) -> PairedDifference:
    keys = sorted(base.keys() & candidate.keys())
    return paired_difference(
        np.array([base[k][0] for k in keys]),
        np.array([candidate[k][0] for k in keys]),
        np.array([base[k][1] for k in keys]),
        0,
        resamples=2_000,
    )
