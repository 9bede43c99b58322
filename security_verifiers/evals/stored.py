"""Runs on file: finding and loading them."""

import math
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from security_verifiers.evals.artifacts import CONFIG, METADATA, file_sha256
from security_verifiers.evals.evaluate import Run
from security_verifiers.evals.plan import dataset_hash
from security_verifiers.evals.record import SCHEMA_VERSION
from security_verifiers.evals.results import (
    LARGEST,
    OTHER_VERSION,
    RESULTS,
    Expected,
    Problem,
    Results,
    shown,
    strict_json,
)
from security_verifiers.evals.summary import summarise
from sv_shared.environment import Environment, find
from sv_shared.errors import ArtifactError, UsageError
from sv_shared.policies import PolicyKind

PROBLEMS_TOLD = 10
"""Problems of a partial run that its summary lists."""
REWRITE = "Restore the file from where it was copied, or run again"


def find_runs(path: Path) -> list[Path]:
    """The folder itself if it holds a run, else all runs below it, oldest first by run id.

    A folder that holds any file of a run counts as one, so that a run with a file missing is told of and not
    passed over.

    Raises:
        ArtifactError: there is none.
    """
    if any((path / name).exists() for name in (METADATA, RESULTS, CONFIG)):
        return [path]
    folders = {file.parent for name in (METADATA, RESULTS) for file in path.rglob(name)}
    if not folders:
        what = "no run here" if path.exists() else "no run here: there is no such folder"
        raise ArtifactError(what, where=str(path), hint="Name a run's folder or one above it")
    return sorted(folders, key=lambda folder: (folder.name, folder))


def load_run(folder: Path, allow_partial: bool = False) -> Run:
    """A run from its files. The summary is computed from the result lines, not read back.

    Its "partial" is None for a whole run, else {"lines_left_out": n, "problems": the first `PROBLEMS_TOLD`}.

    Args:
        folder: the run's folder.
        allow_partial: compute with what is sound of a run that is broken or did not end.

    Raises:
        ArtifactError: the metadata are broken, no sound line is there, or lines are not of this run's tasks;
            and, unless partial runs are allowed: a line is broken, or the run is not complete.
        UsageError: the environment is not installed.
    """
    path = folder / METADATA
    metadata = checked_metadata(path)
    try:
        environment = find(metadata["environment"]["id"])
    except UsageError as error:
        error.where = str(path)
        raise
    results = _open(folder, environment, metadata, allow_partial)
    if not len(results):
        what = "no result line is sound" if results.problems else "no results"
        first = f"; the first, {results.problems[0]}" if results.problems else ""
        raise ArtifactError(
            f"{what}{first}",
            where=str(results.path),
            hint=f"Play it: sv eval --resume {shlex.quote(str(folder))}",
        )
    unfinished = list(_unfinished(folder, metadata, results))
    if unfinished and not allow_partial:
        raise _error(folder, unfinished[0])
    _check_tasks(results, metadata)
    summary = summarise(environment, results, metadata)
    disagreeing = [] if results.problems or unfinished else list(_disagreeing(results, metadata, summary))
    if disagreeing and not allow_partial:
        raise _error(folder, disagreeing[0])
    partial = _partial(results.problems, [*unfinished, *disagreeing])
    return Run(folder, metadata, summary | {"partial": partial})


def run_results(run: Run) -> Results:
    """The result lines that a loaded run's summary was computed from.

    Raises:
        ArtifactError: the file was changed since.
    """
    environment = find(run.metadata["environment"]["id"])
    return _open(run.folder, environment, run.metadata, run.summary.get("partial") is not None)


def _open(
    folder: Path, environment: Environment, metadata: Mapping[str, Any], allow_partial: bool
) -> Results:
    return Results(folder, _expected(environment, metadata, folder / METADATA), allow_partial)


def _expected(environment: Environment, metadata: Mapping[str, Any], path: Path) -> Expected:
    """What the metadata say of the result lines.

    Raises:
        ArtifactError: the settings are not the environment's.
    """
    spec = environment.classification
    if spec:
        try:
            costs = spec.costs(metadata["settings"])
            sound = all(0 <= cost <= LARGEST for cost in costs)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise _not_ours(path, f"settings: {error!r}") from error
        if not sound:
            raise _not_ours(path, f"settings: costs of {costs}")
    return Expected(
        seed=metadata["seed"],
        tasks=metadata["tasks"],
        samples=metadata["samples"],
        floor=metadata["reward"]["floor"],
        maximum=metadata["reward"]["maximum"],
        models={name: seat["model"] for name, seat in metadata["seats"].items()},
        positive=spec.positive if spec else None,
    )


def _check_tasks(results: Results, metadata: Mapping[str, Any]) -> None:
    """Lines of every task are lines of the run's own tasks: of fewer the data hash can't tell.

    Raises:
        ArtifactError: they are not.
    """
    tasks = {key.task for key in results.keys}
    digest = dataset_hash(tasks)
    if len(tasks) == metadata["tasks"] and digest != metadata["dataset"]["sha256"]:
        raise ArtifactError(
            "the tasks of these lines are not those of the run's data",
            where=str(results.path),
            hint=f"Their hash is {digest[:12]}, {METADATA} says {metadata['dataset']['sha256'][:12]}: "
            "restore the two files from one run",
        )


def _unfinished(folder: Path, metadata: Mapping[str, Any], results: Results) -> Iterator[Problem]:
    """Why a run is not all there, apart from broken lines."""
    resume = (
        f"Resume it: sv eval --resume {shlex.quote(str(folder))}; or read what is there with --allow-partial"
    )
    there = f"{len(results) + len(results.problems)} of {metadata['planned']} rollouts are on file"
    if metadata["status"] == "aborted":
        yield Problem(METADATA, f"the run was aborted: {there}", resume)
    elif metadata["status"] == "running":
        yield Problem(METADATA, f"the run is still going on, or was killed: {there}", resume)
    elif len(results) + len(results.problems) < metadata["planned"]:
        yield Problem(RESULTS, f"lines are missing: {there}, and the run was complete", resume)


def _disagreeing(
    results: Results, metadata: Mapping[str, Any], summary: Mapping[str, Any]
) -> Iterator[Problem]:
    """What a complete run's metadata say otherwise than its lines."""
    for name, unknown in (("counts", 0), ("tokens", None)):
        for part in metadata[name] | summary[name]:
            stored, found = (of.get(part, unknown) for of in (metadata[name], summary[name]))
            if stored != found:
                what = f"{name}.{part} is {_told(stored)} here and {_told(found)} in {RESULTS}"
                yield Problem(METADATA, what, "One of the two files was changed: restore it")
    written = metadata.get("results_sha256")
    if written is not None and written != (found := file_sha256(results.path)):
        what = f"not the file that the run wrote: its SHA-256 is {found[:12]}, {METADATA} says {written[:12]}"
        yield Problem(RESULTS, what, "Restore the file, or read it as it is with --allow-partial")


def _told(value: Any) -> str:
    """A count, or the counts of a seat."""
    return ", ".join(f"{k} {shown(v)}" for k, v in value.items()) if isinstance(value, dict) else shown(value)


def _partial(lines: list[Problem], others: list[Problem]) -> dict[str, Any] | None:
    problems = [*lines, *others]
    if not problems:
        return None
    return {"lines_left_out": len(lines), "problems": [str(problem) for problem in problems[:PROBLEMS_TOLD]]}


def _error(folder: Path, problem: Problem) -> ArtifactError:
    return ArtifactError(problem.what, where=str(folder / problem.where), hint=problem.hint)


KINDS = ("model", *PolicyKind)
Text = Annotated[str, Field(min_length=1)]
Count = Annotated[int, Field(ge=0, le=LARGEST)]
Natural = Annotated[int, Field(ge=1, le=LARGEST)]
Number = Annotated[float, Field(ge=-LARGEST, le=LARGEST, allow_inf_nan=False)]


class _Part(BaseModel):
    """Strict: no text is taken for a number, and no truth value either. What no reader needs may be there."""

    model_config = ConfigDict(strict=True, frozen=True)


class _Environment(_Part):
    id: Text
    version: str


class _Dataset(_Part):
    id: str
    split: str
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    cluster_kind: str
    details: dict[str, Any]


class _Seat(_Part):
    model: Text
    kind: str
    sampling: dict[str, Any]
    deterministic: bool = False


class _Reward(_Part):
    floor: Number
    maximum: Number
    chance: Number
    chance_answer: str
    reference: Number
    ceiling: Number | None


class _SeatCounts(_Part):
    prompt: Count | None
    completion: Count | None
    cached: Count | None


class _Metadata(_Part):
    """What readers of a stored run rely on."""

    run_id: Text
    status: Literal["running", "aborted", "complete"]
    environment: _Environment
    dataset: _Dataset
    seats: dict[str, _Seat]
    evaluated_seat: str
    settings: dict[str, Any]
    seed: Annotated[int, Field(ge=-LARGEST, le=LARGEST)]
    tasks: Natural
    samples: Natural
    planned: Natural
    reward: _Reward
    counts: dict[str, Count]
    tokens: dict[str, _SeatCounts]
    cost_usd: Annotated[Number, Field(ge=0)] | None
    results_sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None = None

    def contradiction(self) -> str | None:
        """What does not fit together, or None."""
        if self.planned != self.tasks * self.samples:
            return f"planned: {self.planned} rollouts are not {self.tasks} tasks x {self.samples} samples"
        if self.evaluated_seat not in self.seats:
            return f"evaluated_seat: {self.evaluated_seat!r} is not in seats"
        for name, seat in self.seats.items():
            if seat.kind not in KINDS:
                return f"seats.{name}.kind: there is no kind of player {seat.kind!r}"
        if not self.reward.floor <= self.reward.maximum:
            return f"reward: floor {self.reward.floor:g} is above maximum {self.reward.maximum:g}"
        if self.status == "complete" and not self.counts:
            return "counts: a complete run has counted its outcomes"
        return None


def checked_metadata(path: Path) -> dict[str, Any]:
    """The content of a run's metadata.json, after a look at everything that readers rely on.

    Raises:
        ArtifactError: the file is missing, is not JSON, is of another schema version, lacks something, holds
            something of a wrong type, or contradicts itself; the message names the file and the place in it.
    """
    metadata = _read(path)
    version = metadata.get("schema_version")
    if type(version) is not int or version != SCHEMA_VERSION:
        what = f"schema version {shown(version)}; this version reads {SCHEMA_VERSION}"
        raise ArtifactError(what, where=str(path), hint=OTHER_VERSION)
    if odd := _odd_leaf(metadata):
        raise _not_ours(path, odd)
    try:
        contradiction = _Metadata.model_validate(metadata).contradiction()
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, problem["loc"]))
        raise _not_ours(path, f"{place}: {problem['msg']}") from error
    if contradiction:
        raise _not_ours(path, contradiction)
    return metadata


def _read(path: Path) -> dict[str, Any]:
    try:
        content = strict_json(path.read_bytes())
    except FileNotFoundError as error:
        raise ArtifactError(
            f"no {METADATA} here", where=str(path), hint="Is this the folder of a run?"
        ) from error
    except OSError as error:
        raise ArtifactError(f"can't read {METADATA}: {error.strerror}", where=str(path)) from error
    except ValueError as error:
        raise ArtifactError(f"can't read {METADATA}: {error}", where=str(path), hint=REWRITE) from error
    if type(content) is not dict:
        raise ArtifactError(f"{METADATA} does not hold a JSON object", where=str(path), hint=REWRITE)
    return content


def _odd_leaf(tree: Any) -> str | None:
    """A name or value anywhere in the tree that can't be printed or written again, or None."""
    waiting = [tree]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting += [*value, *value.values()]
        elif isinstance(value, list):
            waiting += value
        elif isinstance(value, float) and not math.isfinite(value):
            return "a number too large for any computer"
        elif isinstance(value, str) and any("\ud800" <= c <= "\udfff" for c in value):
            return f"{shown(value)} holds a character that is no text"
    return None


def _not_ours(path: Path, what: str) -> ArtifactError:
    return ArtifactError(f"the metadata are not what a run writes: {what}", where=str(path), hint=REWRITE)
