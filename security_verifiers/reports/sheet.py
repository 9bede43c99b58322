"""The benchmark sheet: one table an environment and dataset, lines in the order that keeps readers honest.

Constant policies first, then the shallow model, the heuristic and tool-only baselines, published lines, and
the models; the reference last. Every number stands over all planned rollouts.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from security_verifiers.compare.comparison import SIGNIFICANCE, reward_difference
from security_verifiers.compare.pairing import name, pair, player
from security_verifiers.evals.evaluate import Run
from security_verifiers.stats.multiple import holm
from security_verifiers.stats.paired import PairedDifference
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


@dataclass(frozen=True, slots=True)
class Line:
    """One run's line.

    Attributes:
        run: the run.
        kind: what its player is, of `ORDER`.
        versus_shallow: its reward minus the shallow model's, paired; None where one of them is not valid.
        verdict: "above", "below" or "tie" after Holm's correction over the sheet, or "".
    """

    run: Run
    kind: str
    versus_shallow: PairedDifference | None = None
    verdict: str = ""

    @property
    def model(self) -> str:
        """The player's name."""
        return name(self.run)

    @property
    def forced_form(self) -> bool:
        """Whether the model's server forced its answers into the form, so that none could fail to parse."""
        return "answer_schema" in player(self.run)["sampling"]


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
    lines = [Line(run, player(run)["kind"]) for run in runs]
    lines.sort(key=lambda line: (ORDER.index(line.kind), -_reward_or_last(line.run), line.model))
    valid = [line for line in lines if not line.run.summary["invalid"]]
    shallow = next((line for line in valid if line.kind == PolicyKind.SHALLOW), None)
    if shallow is not None:
        lines = _judge(lines, shallow)
    return Sheet(environment, tuple(lines))


def _reward_or_last(run: Run) -> float:
    """The mean reward; a run without any comes after all others of its kind."""
    value = run.summary["reward"]["value"]
    return -math.inf if value is None else float(value)


def _judge(lines: list[Line], shallow: Line) -> list[Line]:
    """Compare every other valid line with the shallow model's, task by task."""
    others = [line for line in lines if line is not shallow and not line.run.summary["invalid"]]
    differences = [reward_difference(pair(shallow.run, line.run)) for line in others]
    corrected = iter(holm([d.p_value for d in differences if d.p_value is not None]))
    judged = {
        id(line): Line(
            line.run, line.kind, d, "" if d.p_value is None else _verdict(d.delta, next(corrected))
        )
        for line, d in zip(others, differences, strict=True)
    }
    return [judged.get(id(line), line) for line in lines]


def _verdict(delta: float, p_value: float) -> str:
    if p_value >= SIGNIFICANCE:
        return "tie"
    return "above" if delta > 0 else "below"
