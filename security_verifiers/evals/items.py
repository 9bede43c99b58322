"""Items: the result lines of a run as columns, which metrics and comparisons are computed from."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from security_verifiers.evals.record import SeatTokens
from security_verifiers.stats.arrays import Bools, Floats
from security_verifiers.stats.classification import Decision
from sv_shared.environment import ClassificationSpec
from sv_shared.outcomes import Outcome
from sv_shared.storage import fingerprint

Texts = NDArray[np.str_]


@dataclass(frozen=True, slots=True)
class Answers:
    """What classification answers said, by item.

    Attributes:
        truth: bool[n], True for the positive label.
        decision: Decision codes [n].
        confidence: float[n], the stated probability that the label is right; NaN where none was stated.
        p_positive: float[n], the stated probability of the positive label; NaN where none was stated.
    """

    truth: Bools
    decision: NDArray[np.intp]
    confidence: Floats
    p_positive: Floats

    def select(self, rows: NDArray[Any]) -> "Answers":
        """Some of the answers, by a mask or by row numbers."""
        return Answers(*(getattr(self, f.name)[rows] for f in fields(self)))


@dataclass(frozen=True, slots=True)
class Items:
    """Columns of n result lines, in the order of their keys.

    Attributes:
        task, task_id, cluster, tier, outcome: strings [n]; `task` is the content hash.
        sample: integers [n].
        reward: float[n], NaN where the rollout failed through us.
        metrics, components: by name float[n], NaN where a line lacks it.
        answers: for classifications, else None.
    """

    task: Texts
    task_id: Texts
    sample: NDArray[np.intp]
    cluster: Texts
    tier: Texts
    outcome: Texts
    reward: Floats
    metrics: Mapping[str, Floats]
    components: Mapping[str, Floats]
    answers: Answers | None

    def __len__(self) -> int:
        return len(self.reward)

    @property
    def ours(self) -> Bools:
        """bool[n]: rollouts that failed through us and say nothing of the model."""
        return np.isnan(self.reward)

    @property
    def counts(self) -> dict[str, int]:
        """Rollouts by outcome; outcomes that did not occur count 0."""
        found = Counter(self.outcome.tolist())
        return {str(outcome): found[str(outcome)] for outcome in Outcome}

    def select(self, rows: NDArray[Any]) -> "Items":
        """Some of the items, by a mask or by row numbers.

        Args:
            rows: bool[n], or integers.
        """
        plain = {
            name: getattr(self, name)[rows]
            for name in ("task", "task_id", "sample", "cluster", "tier", "outcome", "reward")
        }
        return Items(
            **plain,
            metrics={name: column[rows] for name, column in self.metrics.items()},
            components={name: column[rows] for name, column in self.components.items()},
            answers=self.answers and self.answers.select(rows),
        )


@dataclass(slots=True)
class Totals:
    """What is only counted, not kept by item."""

    flags: Counter[str] = field(default_factory=Counter)
    tokens: dict[str, SeatTokens] = field(default_factory=dict)

    def add(self, line: Mapping[str, Any]) -> None:
        """Count one result line."""
        self.flags.update(line["flags"])
        for name, seat in line["seats"].items():
            self.tokens[name] = self.tokens.get(name, SeatTokens()).plus(SeatTokens(**seat["tokens"]))


def load_items(lines: Iterable[Mapping[str, Any]], spec: ClassificationSpec | None) -> tuple[Items, Totals]:
    """The columns of a run's result lines, and its totals.

    Args:
        lines: the result lines, in the order of their keys.
        spec: how classification answers read; None where answers are something else.
    """
    totals = Totals()
    texts: dict[str, list[str]] = {name: [] for name in ("task", "task_id", "cluster", "tier", "outcome")}
    samples: list[int] = []
    rewards: list[float] = []
    metrics, components = _Columns(), _Columns()
    answers = _Answers(spec) if spec else None
    for line in lines:
        totals.add(line)
        for name, value in zip(
            texts,
            (line["key"]["task"], line["task_id"], line["cluster"], line["difficulty"], line["outcome"]),
            strict=True,
        ):
            texts[name].append(value)
        samples.append(line["key"]["sample"])
        rewards.append(np.nan if line["reward"] is None else line["reward"])
        metrics.add(line["metrics"])
        components.add(line["components"])
        if answers:
            answers.add(line)
    columns = {name: np.array(values, dtype=np.str_) for name, values in texts.items()}
    items = Items(
        **columns,
        sample=np.array(samples, dtype=np.intp),
        reward=np.array(rewards, dtype=np.float64),
        metrics=metrics.arrays(),
        components=components.arrays(),
        answers=answers.columns() if answers else None,
    )
    return items, totals


class _Columns:
    """Columns of named numbers that not every line has; a number that a line lacks is not invented for it."""

    def __init__(self) -> None:
        self._columns: dict[str, list[float]] = {}
        self._lines = 0

    def add(self, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            column = self._columns.setdefault(name, [])
            column.extend([np.nan] * (self._lines - len(column)))
            column.append(value)
        self._lines += 1

    def arrays(self) -> dict[str, Floats]:
        return {
            name: np.array([*column, *[np.nan] * (self._lines - len(column))], dtype=np.float64)
            for name, column in sorted(self._columns.items())
        }


class _Answers:
    """Columns of classification answers."""

    def __init__(self, spec: ClassificationSpec) -> None:
        # Under the hash_only storage rule labels stand in the lines as their fingerprints.
        self._positive = (spec.positive, fingerprint(spec.positive))
        self._rows: list[tuple[bool, int, float, float]] = []

    def add(self, line: Mapping[str, Any]) -> None:
        parsed = line["parsed"] or {}
        decision, confidence, p_positive = Decision.NONE, np.nan, np.nan
        if line["outcome"] == Outcome.ABSTAINED:
            decision = Decision.ABSTAIN
        elif line["outcome"] == Outcome.SCORED and parsed:
            decision = Decision.POSITIVE if parsed["label"] in self._positive else Decision.NEGATIVE
            confidence, p_positive = parsed["confidence"], parsed["p_positive"]
        self._rows.append((line["truth"] in self._positive, decision, confidence, p_positive))

    def columns(self) -> Answers:
        truth, decision, confidence, p_positive = zip(*self._rows, strict=True) if self._rows else ((),) * 4
        return Answers(
            np.array(truth, dtype=np.bool_),
            np.array(decision, dtype=np.intp),
            np.array(confidence, dtype=np.float64),
            np.array(p_positive, dtype=np.float64),
        )
