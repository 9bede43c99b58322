"""Environment: what a package declares to join; and the registry of those installed.

A package joins by one line in its pyproject.toml:

    [project.entry-points."security_verifiers.environments"]
    e1 = "sv_env_network_logs.environment:NETWORK_LOGS"
"""

import difflib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from sv_shared.errors import UsageError
from sv_shared.policies import PolicySpec

if TYPE_CHECKING:
    from sv_shared.reward_lint import LintResult
    from sv_shared.task import GradedTask

GROUP = "security_verifiers.environments"

CLASSIFICATION_LOSSES = frozenset(
    ("false_negative_rate", "false_positive_rate", "cost", "brier", "log_loss", "ece", "aurc", "e_aurc")
)
"""Metrics of every classification in which a fall is an improvement."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """A tool or kernel feature without which an environment can't run.

    Attributes:
        name: what is needed.
        missing: returns None where it is there, else why it is not and how to get it.
    """

    name: str
    missing: Callable[[], str | None]


@dataclass(frozen=True, slots=True)
class DatasetInfo:
    """Where a task set comes from; it stands in every run's metadata.

    Attributes:
        id: the dataset's name, such as "public-mini/e1".
        source: path, hub id or recipe.
        split: "train", "dev", "test".
        rows: labelled rows in the source before selection.
        cluster_kind: what a cluster is here ("capture", "generation batch", "host-hour").
        details: further provenance (files with SHA-256, label counts, rows skipped by reason, seeds).
    """

    id: str
    source: str
    split: str
    rows: int
    cluster_kind: str
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Anchors:
    """The two ends of the normalised score (R - chance) / (reference - chance), on one set of tasks.

    Attributes:
        chance: the best constant answer's mean reward, searched.
        chance_answer: which answer that is.
        reference: the reference answers' mean reward.
        ceiling: the best honest policy's expected reward where the posterior is known, else None.
    """

    chance: float
    chance_answer: str
    reference: float
    ceiling: float | None = None

    def normalise(self, reward: float) -> float | None:
        """The normalised score, or None where the two ends coincide."""
        span = self.reference - self.chance
        return (reward - self.chance) / span if span > 0 else None


@dataclass(frozen=True, slots=True)
class LoaderSample:
    """A loader and a way to feed it.

    Attributes:
        what: the format, for the report.
        write: (folder, rows) -> path of a file of that many rows.
        load: path -> rows loaded.
    """

    what: str
    write: Callable[[Path, int], Path]
    load: Callable[[Path], int]


@dataclass(frozen=True, slots=True)
class ClassificationSpec:
    """Marks an environment whose answers are a label of two with a confidence.

    Attributes:
        positive: the label whose miss costs more.
        costs: (false negative, abstention) in units of one false positive, under the settings in force.
    """

    positive: str
    costs: Callable[[Mapping[str, Any]], tuple[float, float]]


class Environment(ABC):
    """One environment. Subclasses fill the class attributes and the three methods."""

    id: ClassVar[str]
    """The distribution's name, "sv-env-network-logs"; also the verifiers taskset id."""
    alias: ClassVar[str]
    """"e1" ... "e6", or any short name that no other environment has."""
    title: ClassVar[str]
    version: ClassVar[str]
    core_metrics: ClassVar[tuple[str, ...]]
    """Metrics that the regression gate watches, besides the reward; each lies in [0, 1]."""
    lower_is_better: ClassVar[frozenset[str]] = CLASSIFICATION_LOSSES
    """Metrics, of those that it names, in which a fall is an improvement."""
    sheet_metrics: ClassVar[tuple[tuple[str, str], ...]]
    """(metric, column heading) of the benchmark sheet, left to right."""
    classification: ClassVar[ClassificationSpec | None] = None
    """Set where answers are classifications; their metrics are computed for it."""
    seats: ClassVar[tuple[str, ...]] = ("agent",)
    evaluated_seat: ClassVar[str] = "agent"
    default_opponents: ClassVar[Mapping[str, str]] = {}
    """The policy that plays each other seat in audits and where no --opponent is named."""
    requirements: ClassVar[tuple[Requirement, ...]] = ()
    default_policies: ClassVar[tuple[str, ...]]
    """Policies that the quickstart shows beside the models."""

    @abstractmethod
    def policies(self, seat: str) -> Mapping[str, PolicySpec]:
        """The scripted policies that can play a seat, by name."""

    @abstractmethod
    def anchors(self, tasks: "Sequence[GradedTask]") -> Anchors:
        """The ends of the normalised score on these tasks."""

    @abstractmethod
    def checks(self, tasks: "Sequence[GradedTask]") -> "Sequence[LintResult]":
        """The audit's checks of this environment's own reward (properness, cost, abstention, leaks)."""

    def answer_schema(self, settings: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """The answer's form as a JSON schema, for models that a server can force into it; None where free.

        Args:
            settings: the settings in force, as in a run's metadata.
        """
        return None

    def published(self, dataset: Mapping[str, Any]) -> Sequence[tuple[str, str]]:
        """Published lines for the sheet of a dataset: (figure, source and split).

        Args:
            dataset: the "dataset" object of a run's metadata.
        """
        return ()

    def loader_sample(self) -> "LoaderSample | None":
        """How the speed of this environment's main loader is measured; None where there is none."""
        return None

    def tools(self) -> Mapping[str, Mapping[str, str]]:
        """The external tools that grade here, for a run's metadata: name -> {"version", "engine"}.

        An engine of "real" is the tool itself, anything else a stand-in that the user allowed.
        """
        return {}

    def unmet(self) -> list[str]:
        """Why this environment can't run here; empty where it can."""
        return [reason for need in self.requirements if (reason := need.missing()) is not None]


@cache
def installed() -> dict[str, Environment]:
    """The installed environments by alias, in alias order."""
    points = sorted(entry_points(group=GROUP), key=lambda point: point.name)
    return {point.name: point.load() for point in points}


def find(name: str) -> Environment:
    """The environment named by alias or full id.

    Raises:
        UsageError: no such environment; the message lists those that are installed.
    """
    known = installed()
    for alias, environment in known.items():
        if name.lower() in (alias, environment.id):
            return environment
    names = [name for alias, environment in known.items() for name in (alias, environment.id)]
    close = difflib.get_close_matches(name.lower(), names, n=1)
    hint = f"Did you mean {close[0]}?" if close else f"Installed: {', '.join(names) or 'none'}"
    raise UsageError(f"no environment named {name!r}", hint=hint)
