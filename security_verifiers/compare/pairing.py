"""Pairs: two runs, rollout by rollout, or the reason why they can't be compared."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from security_verifiers.evals.evaluate import Run
from security_verifiers.evals.items import Items, load_items
from security_verifiers.evals.metadata import differing
from security_verifiers.evals.stored import run_results
from sv_shared.environment import Environment, find
from sv_shared.errors import UsageError


@dataclass(frozen=True, slots=True)
class Pairs:
    """Two runs over the same rollouts.

    Attributes:
        environment: what both played.
        base, candidate: the runs.
        before, after: their items; row i of both is the same task, sample and seed, and both were measured.
        left_out: planned pairs of which one side failed through us, or is left out of a partial run; they
            say nothing of either model.
    """

    environment: Environment
    base: Run
    candidate: Run
    before: Items
    after: Items
    left_out: int

    @property
    def deterministic(self) -> bool:
        """Whether both players are scripted, so that a difference between them is no matter of sampling."""
        return all(is_deterministic(run) for run in (self.base, self.candidate))


def player(run: Run) -> Mapping[str, Any]:
    """The evaluated seat in a run's metadata."""
    seat: Mapping[str, Any] = run.metadata["seats"][run.metadata["evaluated_seat"]]
    return seat


def name(run: Run) -> str:
    """The evaluated player's name."""
    return str(player(run)["model"])


def is_deterministic(run: Run) -> bool:
    """Whether every seat of a run was played by a script."""
    return all(seat.get("deterministic", False) for seat in run.metadata["seats"].values())


def pair(base: Run, candidate: Run) -> Pairs:
    """Align two runs by the keys of their rollouts.

    Raises:
        UsageError: the runs can't be compared; the message names every reason.
    """
    if reasons := [*_reasons(base, candidate)]:
        raise UsageError(
            f"these two runs can't be compared: {'; '.join(reasons)}",
            where=f"{base.folder} and {candidate.folder}",
        )
    environment = find(base.metadata["environment"]["id"])
    before, after = (load_items(run_results(run), environment.classification)[0] for run in (base, candidate))
    rows = _common_rows(before, after)
    before, after = before.select(rows[0]), after.select(rows[1])
    measured = ~(before.ours | after.ours)
    left_out = int(base.metadata["planned"]) - int(measured.sum())
    return Pairs(environment, base, candidate, before.select(measured), after.select(measured), left_out)


def _common_rows(before: Items, after: Items) -> NDArray[np.intp]:
    """Row numbers [2, n] of the rollouts that both hold, in the base's order; partial runs lack some."""
    keys = zip(after.task.tolist(), after.sample.tolist(), strict=True)
    there = {key: row for row, key in enumerate(keys)}
    common = [
        (row, there[key])
        for row, key in enumerate(zip(before.task.tolist(), before.sample.tolist(), strict=True))
        if key in there
    ]
    return np.array(common, dtype=np.intp).reshape(-1, 2).T


def _reasons(base: Run, candidate: Run) -> Iterator[str]:
    """Why two runs can't be compared."""
    for run in (base, candidate):
        # What a user allowed to be partial is compared as far as it goes, and the report says how far.
        if run.summary["invalid"] and run.summary.get("partial") is None:
            yield f"{run.folder.name} is invalid ({_why_invalid(run)})"
    for what, before, after in zip(
        ("environment", "tasks", "data hash", "seed", "samples a task", "evaluated seat"),
        _identity(base.metadata),
        _identity(candidate.metadata),
        strict=True,
    ):
        if before != after:
            yield f"{what} {_short(before)} against {_short(after)}"
    for end in ("floor", "maximum", "chance", "reference"):
        before, after = base.metadata["reward"][end], candidate.metadata["reward"][end]
        if not math.isclose(before, after, rel_tol=1e-9, abs_tol=1e-12):
            yield f"reward scale: {end} {_short(before)} against {_short(after)}"
    for setting, before, after in differing(
        base.metadata["settings"].get("task"), candidate.metadata["settings"].get("task")
    ):
        yield f"task setting {setting} {_short(before)} against {_short(after)}"


def _identity(metadata: Mapping[str, Any]) -> tuple[Any, ...]:
    return (
        metadata["environment"]["id"],
        metadata["tasks"],
        metadata["dataset"]["sha256"],
        metadata["seed"],
        metadata["samples"],
        metadata["evaluated_seat"],
    )


def _why_invalid(run: Run) -> str:
    counts, missing = run.summary["counts"], run.summary["missing"]
    failed = counts["grader_error"] + counts["infra_error"]
    return f"{failed} failed through us, {missing} missing of {run.summary['planned']}: resume it"


def _short(value: Any) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return f"{text[:12]}..." if len(text) > 40 else text
