"""Pinned baselines: deterministic runs of a release, stored small, that every later change is gated against.

baselines/<alias>/<policy>/{metadata.json, results.jsonl}: a run's own files, without the prompts, which the
task hashes stand for.
"""

import asyncio
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from security_verifiers.compare.gate import MARGIN, GateReport, gate
from security_verifiers.evals.artifacts import METADATA, file_sha256, read_json, write_json
from security_verifiers.evals.evaluate import Run
from security_verifiers.evals.launch import EvalRequest, Watcher, run_models
from security_verifiers.evals.results import RESULTS, Results
from security_verifiers.evals.stored import load_run
from sv_shared.environment import find
from sv_shared.errors import ArtifactError, UsageError
from sv_shared.rollout_logging import JsonlSink

FOLDER = Path("baselines")
CONFIG = "baselines.toml"


class Pinned(BaseModel):
    """What is pinned of one environment; one table of baselines.toml, named by the environment's alias."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    policies: tuple[str, ...] = Field(min_length=1)
    """Scripted policies of the evaluated seat, each deterministic under a seed."""
    tasks: int | None = Field(default=None, ge=1)
    """Tasks drawn; null takes all."""
    samples: int = Field(default=1, ge=1)
    seed: int = 42
    dataset: dict[str, Any] = {}
    """Settings of the task set."""

    def request(self, alias: str, output: Path) -> EvalRequest:
        """The evaluation that plays the policies."""
        return EvalRequest(
            environment=alias,
            models=tuple(f"policy:{policy}" for policy in self.policies),
            config=self.dataset,
            tasks=self.tasks,
            samples=self.samples,
            seed=self.seed,
            output_dir=output,
        )


@dataclass(frozen=True, slots=True)
class Check:
    """One pinned run against the same policy today."""

    alias: str
    policy: str
    report: GateReport

    @property
    def held(self) -> bool:
        """Whether the change may go on: between scripts nothing but a pass will do, while a sampled player
        that is not decided is only worth a warning."""
        verdict = self.report.verdict
        return verdict == "pass" or (verdict == "inconclusive" and not self.report.pairs.deterministic)


def read_pinned(folder: Path = FOLDER) -> dict[str, Pinned]:
    """The tables of baselines.toml by alias.

    Raises:
        UsageError: the file is missing or broken, or names an environment that does not exist.
    """
    path = folder / CONFIG
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
        pinned = {alias: Pinned.model_validate(table) for alias, table in tables.items()}
    except FileNotFoundError as error:
        raise UsageError(
            f"no {CONFIG} here", where=str(folder), hint="Run this in the project's folder, or name --folder"
        ) from error
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"can't read {CONFIG}: {error}", where=str(path)) from error
    except ValidationError as error:
        problem = error.errors()[0]
        raise UsageError(
            f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}", where=str(path)
        ) from error
    for alias in pinned:
        find(alias)
    return pinned


def choose(environments: Sequence[str], folder: Path = FOLDER) -> dict[str, Pinned]:
    """The tables of the named environments; of all where none is named.

    Raises:
        UsageError: as `read_pinned`, or an environment has no table.
    """
    pinned = read_pinned(folder)
    aliases = [find(name).alias for name in environments] or list(pinned)
    if lacking := [alias for alias in aliases if alias not in pinned]:
        raise UsageError(f"nothing is to be pinned of {', '.join(lacking)}", where=str(folder / CONFIG))
    return {alias: pinned[alias] for alias in aliases}


def pin(chosen: Mapping[str, Pinned], watcher: Watcher, folder: Path = FOLDER) -> Iterator[Path]:
    """Play each policy and store it in place of what was pinned; yields the folders written."""
    for alias, wanted in chosen.items():
        with TemporaryDirectory() as scratch:
            runs = asyncio.run(run_models(wanted.request(alias, Path(scratch)), watcher))
            for policy, run in zip(wanted.policies, runs, strict=True):
                yield _store(run, folder / alias / policy)


def check(
    chosen: Mapping[str, Pinned], watcher: Watcher, folder: Path = FOLDER, margin: float = MARGIN
) -> Iterator[Check]:
    """Play each policy today and gate it against what is pinned.

    Raises:
        ArtifactError: a policy of baselines.toml has nothing pinned.
        UsageError: the tasks or the reward scale are no longer those that were pinned.
    """
    for alias, wanted in chosen.items():
        bases = {policy: _load(folder / alias / policy) for policy in wanted.policies}
        with TemporaryDirectory() as scratch:
            runs = asyncio.run(run_models(wanted.request(alias, Path(scratch)), watcher))
            for policy, run in zip(wanted.policies, runs, strict=True):
                yield Check(alias, policy, gate(bases[policy], run, margin))


def _load(folder: Path) -> Run:
    try:
        return load_run(folder)
    except ArtifactError as error:
        raise ArtifactError(
            error.what, where=error.where, hint="Restore it, or pin it anew: sv baseline pin"
        ) from error


def _store(run: Run, folder: Path) -> Path:
    """A run's metadata and its lines without the prompts, in place of an earlier one."""
    metadata = read_json(run.folder / METADATA)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder.parent, prefix=".pin-") as scratch:
        fresh = Path(scratch) / "run"
        fresh.mkdir()
        with closing(JsonlSink(fresh / RESULTS)) as sink:
            for line in Results(run.folder):
                sink.write(_slim(line))
        write_json(fresh / METADATA, metadata | {"results_sha256": file_sha256(fresh / RESULTS)})
        if folder.exists():
            folder.rename(Path(scratch) / "earlier")
        fresh.rename(folder)
    return folder


def _slim(line: dict[str, Any]) -> dict[str, Any]:
    """A result line without prompts and timing: neither is compared, and timing differs each time."""
    seats = {name: {**seat, "prompt": []} for name, seat in line["seats"].items()}
    return {**line, "seats": seats, "seconds": {}}
