"""Rescore: stored rollouts under today's code. No model is called and no result line is touched."""

import asyncio
import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from itertools import islice
from pathlib import Path
from typing import Any

import verifiers.v1 as vf
from verifiers.v1.trace import TraceTask

import security_verifiers
from security_verifiers.evals.artifacts import METADATA, RunFolder, read_json, write_json
from security_verifiers.evals.config import read_config
from security_verifiers.evals.engine import ROUNDING, grade_error, load_env
from security_verifiers.evals.metadata import differing, git_state, installed_version, now
from security_verifiers.evals.rebuild import StoredTasks, find_tasks, rebuild_trace, why_not
from security_verifiers.evals.record import SCHEMA_VERSION
from security_verifiers.evals.results import Results, line_key
from sv_shared.environment import Environment, find
from sv_shared.errors import ArtifactError
from sv_shared.grading import Grade
from sv_shared.outcomes import Outcome
from sv_shared.rollout_logging import JsonlSink
from sv_shared.storage import Storage, apply_storage
from sv_shared.task import GRADE_KEY, GradedTask

RESCORED = "rescored.jsonl"
COMPARED = ("outcome", "reward", "components", "metrics", "parsed", "truth", "flags")
"""What of a result line must come out the same."""
AT_ONCE = 8
"""Rollouts graded at once; a grader may wait for tools."""

UNSTEADY = "grader: two gradings today differ"
UNEXPLAINED = "nothing on record"
"""The stored line was changed, or the grader reads what no run records."""

Line = Mapping[str, Any]
Verdict = dict[str, Any]
"""The part of a result line that grading decides: `COMPARED` and the cause."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Something that a run had otherwise than today.

    Attributes:
        kind: "code", "environment", "package", "tool" or "setting".
        name: which one.
        then, now: both sides; of settings, the run's value and today's default, which was not used.
    """

    kind: str
    name: str
    then: Any
    now: Any

    def __str__(self) -> str:
        return f"{self.kind} {self.name}: {self.then} -> {self.now}"


@dataclass(frozen=True, slots=True)
class Changed:
    """A rollout that is graded otherwise today.

    Attributes:
        task: content hash.
        task_id, sample: which rollout.
        fields: what of `COMPARED` differs.
        then, now: the two verdicts.
        responsible: what may have done it, by kind and name; several where the record can't tell them apart.
    """

    task: str
    task_id: str
    sample: int
    fields: tuple[str, ...]
    then: Verdict
    now: Verdict
    responsible: tuple[str, ...]

    @property
    def components(self) -> dict[str, tuple[float | None, float | None]]:
        """(then, now) of each component that differs."""
        then, now_ = self.then["components"], self.now["components"]
        return {
            name: (then.get(name), now_.get(name))
            for name in sorted(then.keys() | now_.keys())
            if not _same(then.get(name), now_.get(name))
        }


@dataclass(slots=True)
class Rescored:
    """What came of a run; unchanged + changed + not rescorable = lines."""

    folder: Path
    environment: str
    differences: list[Difference]
    lines: int = 0
    unchanged: int = 0
    changed: list[Changed] = field(default_factory=list)
    not_rescorable: Counter[str] = field(default_factory=Counter)

    @property
    def graded(self) -> int:
        """Rollouts that could be graded again."""
        return self.unchanged + len(self.changed)

    def to_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return {
            "run": str(self.folder),
            "environment": self.environment,
            "lines": self.lines,
            "unchanged": self.unchanged,
            "changed": len(self.changed),
            "not_rescorable": dict(sorted(self.not_rescorable.items())),
            "differences": [asdict(difference) for difference in self.differences],
            "items": [asdict(one) for one in self.changed],
        }


def rescore(
    folder: Path, keep: Callable[[Line], None] = lambda line: None, *, allow_partial: bool = False
) -> Rescored:
    """Grade a run's stored rollouts with today's code, under the settings that were in force.

    A grader that fails today is a change like any other: its verdict is a grader error. The wording of a
    cause is kept and not compared.

    Args:
        folder: the run's folder.
        keep: is given a line for each rollout: its key, what came of it, and both verdicts.
        allow_partial: count broken lines as not rescorable instead of refusing the run.

    Raises:
        UsageError: no run here, or its environment or a setting of it does not exist any more.
        ArtifactError: the run's files are broken.
        DataError: its dataset can't be read.
    """
    metadata = _metadata(folder)
    try:
        environment = find(metadata["environment"]["id"])
        differences = list(since_then(environment, metadata, folder))
        results = Results(folder, allow_partial=allow_partial)
        tasks = find_tasks(environment, metadata, {key.task for key in results.keys})
    except (KeyError, TypeError) as error:
        raise ArtifactError(
            f"the metadata are not what a run writes: {error!r}", where=str(folder / METADATA)
        ) from error
    report = Rescored(folder, environment.id, differences)
    for problem in results.problems:
        report.lines += 1
        report.not_rescorable[f"a broken line: {problem.what}"] += 1
        keep({"where": problem.where, "status": "not rescorable", "reason": problem.what})
    asyncio.run(_rescore_all(results, tasks, report, keep))
    return report


def write_rescored(folder: Path, *, allow_partial: bool = False) -> Rescored:
    """`rescore`, with each rollout's line in rescored.jsonl and a note in metadata.json.

    An earlier rescored.jsonl is replaced once the new one is whole.
    """
    partial = folder / f"{RESCORED}.partial"
    _metadata(folder)
    with RunFolder(folder):
        partial.unlink(missing_ok=True)
        try:
            with closing(JsonlSink(partial)) as sink:
                report = rescore(folder, sink.write, allow_partial=allow_partial)
            partial.replace(folder / RESCORED)
        finally:
            partial.unlink(missing_ok=True)
        metadata = read_json(folder / METADATA)
        note = {"at": now(), **{name: value for name, value in report.to_json().items() if name != "items"}}
        write_json(folder / METADATA, metadata | {"rescored": [*metadata.get("rescored", []), note]})
    return report


def _metadata(folder: Path) -> dict[str, Any]:
    metadata = read_json(folder / METADATA)
    if (found := metadata.get("schema_version")) != SCHEMA_VERSION:
        raise ArtifactError(
            f"schema version {found!r}; this version reads {SCHEMA_VERSION}", where=str(folder / METADATA)
        )
    return metadata


async def _rescore_all(
    results: Results, tasks: StoredTasks, report: Rescored, keep: Callable[[Line], None]
) -> None:
    lines = iter(results)
    while batch := list(islice(lines, AT_ONCE)):
        ends = await asyncio.gather(*(_one(line, tasks, report) for line in batch))
        for line, ended in zip(batch, ends, strict=True):
            report.lines += 1
            told: dict[str, Any] = {"key": line["key"], "task_id": line["task_id"]}
            if isinstance(ended, str):
                report.not_rescorable[ended] += 1
                told |= {"status": "not rescorable", "reason": ended}
            elif isinstance(ended, Changed):
                report.changed.append(ended)
                told |= {"status": "changed", "fields": ended.fields, "responsible": ended.responsible}
                told |= {"then": ended.then, "now": ended.now}
            else:
                report.unchanged += 1
                told |= {"status": "unchanged"}
            keep(apply_storage(told, Storage(line.get("storage", Storage.FULL))))


async def _one(line: Line, tasks: StoredTasks, report: Rescored) -> Changed | str | None:
    """What changed in one rollout, why it can't be graded, or None where it is the same."""
    if reason := why_not(line, tasks):
        return reason
    task = tasks.by_hash[line["key"]["task"]]
    today = await regrade(line, task, tasks.env)
    then = {name: line[name] for name in (*COMPARED, "cause")}
    fields = changed_fields(then, today)
    if not fields:
        return None
    again = await regrade(line, task, tasks.env)
    key = line_key(line)
    told = _responsible(report.differences, steady=not changed_fields(today, again))
    return Changed(key.task, line["task_id"], key.sample, fields, then, today, told)


async def regrade(line: Line, task: GradedTask, env: vf.Env) -> Verdict:
    """Today's verdict on a stored rollout, by the rules of a live one.

    Where a game grades its seats together, its `finalize` is given the rebuilt traces of all of them.

    Args:
        line: a result line that `why_not` has nothing against.
        task: its task, which may carry another configuration than the one that was played.
        env: the task's environment.
    """
    traces = {name: rebuild_trace(name, seat, task) for name, seat in line["seats"].items()}
    trace, failed = traces[line["seat"]], Outcome.GRADER_ERROR
    try:
        if not task.scoring_deferred:
            await task.graded(trace)
        if type(env).finalize is not vf.Env.finalize:
            failed = Outcome.INFRA_ERROR
            await _finalize(env, task, traces)
    except Exception as error:  # noqa: BLE001 - whatever a grader raises is its verdict, as in a run
        return _verdict(
            Grade(failed, {}, truth=task.data.truth, cause=f"{type(error).__name__}: {error}"), None
        )
    grade: Grade | None = trace.info.get(GRADE_KEY)
    if broken := grade_error(task, grade):
        grade = Grade(Outcome.GRADER_ERROR, {}, truth=task.data.truth, cause=broken.message)
    assert grade is not None
    return _verdict(grade, None if broken else grade.reward)


async def _finalize(env: vf.Env, task: GradedTask, traces: Mapping[str, vf.Trace]) -> None:
    row = TraceTask(type=type(task).__name__, data=task.data, key=task.key, hash=task.hash)
    async with asyncio.timeout(env.config.timeout.finalize):
        await env.finalize(task, vf.Episode(task=row, traces=list(traces.values()), ok=True))


def _verdict(grade: Grade, reward: float | None) -> Verdict:
    """A grade as it would stand in a result line."""
    verdict: Verdict = json.loads(
        json.dumps(
            {
                "outcome": str(grade.outcome),
                "reward": reward,
                "components": dict(grade.components),
                "metrics": dict(grade.metrics),
                "parsed": grade.parsed,
                "truth": grade.truth,
                "cause": grade.cause,
                "flags": list(grade.flags),
            }
        )
    )
    return verdict


def changed_fields(then: Line, today: Line) -> tuple[str, ...]:
    """The fields of `COMPARED` in which two verdicts differ; numbers may differ by rounding."""
    return tuple(name for name in COMPARED if not _same(then[name], today[name]))


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_same(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, float) or isinstance(other, float):
        numbers = isinstance(one, int | float) and isinstance(other, int | float)
        return numbers and math.isclose(one, other, rel_tol=ROUNDING, abs_tol=ROUNDING)
    return bool(one == other)


def _responsible(differences: list[Difference], *, steady: bool) -> tuple[str, ...]:
    """What may have changed a verdict. Settings can't: a run is graded under its own."""
    if not steady:
        return (UNSTEADY,)
    return tuple(f"{one.kind} {one.name}" for one in differences if one.kind != "setting") or (UNEXPLAINED,)


def since_then(environment: Environment, metadata: Mapping[str, Any], folder: Path) -> Iterator[Difference]:
    """What grading may depend on and is not, or not surely, as it was in a run.

    Code that differs from its commit counts as different even where the commit is the same.
    """
    code = git_state(Path(security_verifiers.__file__).parent)
    earlier = [metadata["code"], *([metadata["earlier_code"]] if "earlier_code" in metadata else [])]
    for then in earlier:
        if then != code or then["dirty"] or code["dirty"]:
            yield Difference("code", "commit", _told(then), _told(code))
    for name, then_ in metadata["packages"].items():
        if then_ != (today := installed_version(name)):
            yield Difference("package", name, then_, today)
    if (declared := metadata["environment"]["version"]) != environment.version:
        yield Difference("environment", environment.id, declared, environment.version)
    for path, then_, today in differing(metadata["tools"], environment.tools()):
        yield Difference("tool", path, then_, today)
    as_given = load_env(environment, read_config(folder)["dataset"]).taskset.config.model_dump(mode="json")
    for path, then_, today in differing(metadata["settings"], as_given):
        yield Difference("setting", path, then_, today)


def _told(code: Mapping[str, Any]) -> str:
    return f"{(code['commit'] or 'no checkout')[:12]}{' with uncommitted changes' if code['dirty'] else ''}"


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
