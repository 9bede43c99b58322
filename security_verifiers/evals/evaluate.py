"""evaluate(): one model on one plan, from the first file of its folder to the last."""

import asyncio
import json
import shlex
import time
from collections.abc import Mapping
from contextlib import aclosing, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

from security_verifiers.evals.artifacts import (
    METADATA,
    SUMMARY,
    RunFolder,
    file_sha256,
    folder_name,
    read_json,
    write_json,
)
from security_verifiers.evals.config import write_config
from security_verifiers.evals.engine import Engine
from security_verifiers.evals.metadata import differing, initial_metadata, now
from security_verifiers.evals.plan import Plan
from security_verifiers.evals.record import SCHEMA_VERSION, Record, RolloutKey, SeatTokens
from security_verifiers.evals.results import Results
from security_verifiers.evals.run import rollouts
from security_verifiers.evals.seats import Seat
from security_verifiers.evals.summary import summarise
from sv_shared.errors import ArtifactError
from sv_shared.rollout_logging import JsonlSink, RolloutLogger


@dataclass(frozen=True, slots=True)
class RunLimits:
    """How hard a run may push.

    Attributes:
        concurrency: rollouts in flight.
        time_limit_s: longest wall time of one rollout, in seconds.
    """

    concurrency: int = 8
    time_limit_s: float = 300.0


@dataclass(frozen=True, slots=True)
class Run:
    """A finished run: its folder and what its two JSON files say."""

    folder: Path
    metadata: Mapping[str, Any]
    summary: Mapping[str, Any]


class Observer(Protocol):
    """Watches a run; the command line shows it as a progress bar."""

    def start(self, label: str, planned: int, done: int) -> None:
        """A run begins, or goes on with `done` rollouts behind it."""
        ...

    def advance(self, record: Record, tally: "Tally") -> None:
        """A rollout ended."""
        ...

    def finish(self) -> None:
        """The run ended, however it did."""
        ...


class Tally:
    """Running totals of what this process played, for whoever watches."""

    def __init__(self, seats: Mapping[str, Seat]) -> None:
        self._seats = seats
        self.rollouts = 0
        self.scored = 0
        self.reward = 0.0
        self.tokens = {name: SeatTokens() for name in seats}

    def add(self, record: Record) -> None:
        """Count one record."""
        self.rollouts += 1
        if record.reward is not None:
            self.scored += 1
            self.reward += record.reward
        for name, seat in record.seats.items():
            self.tokens[name] = self.tokens[name].plus(seat.tokens)

    @property
    def mean_reward(self) -> float | None:
        """Mean reward so far, over rollouts that have one."""
        return self.reward / self.scored if self.scored else None

    @property
    def cost_usd(self) -> float | None:
        """US dollars so far; None where a price or a token count is unknown."""
        return total_cost(self._seats, self.tokens)


def total_cost(seats: Mapping[str, Seat], tokens: Mapping[str, SeatTokens]) -> float | None:
    """US dollars over all seats; None where one seat's price or token count is unknown."""
    costs = [seat.cost_usd(tokens.get(name, SeatTokens())) for name, seat in seats.items()]
    return None if None in costs else sum(cost for cost in costs if cost is not None)


async def evaluate(
    engine: Engine,
    plan: Plan,
    seats: Mapping[str, Seat],
    root: Path,
    *,
    limits: RunLimits,
    observer: Observer,
    resume: Path | None = None,
) -> Run:
    """Play every planned rollout that is not on file yet and write the run's artifacts.

    Args:
        engine: an entered engine of the plan's environment.
        plan: what to play.
        seats: who plays.
        root: the output root; the run lies under `<root>/evals/`.
        limits: concurrency and time limit.
        observer: is told of the progress.
        resume: an earlier run's folder to go on with.

    Raises:
        ArtifactError: the disk is full, a folder can't be written, or the run on file is another one.
    """
    engine.take_seats(seats)
    environment = plan.environment
    model = seats[environment.evaluated_seat].model
    run_id = f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{uuid4().hex[:6]}"
    path = resume or root / "evals" / folder_name(environment.id, model) / run_id
    with RunFolder(path) as folder:
        metadata = initial_metadata(plan, seats, run_id, concurrency=limits.concurrency)
        done = _resume(folder, plan, metadata) if resume else set()
        write_json(path / METADATA, metadata)
        write_config(path, plan, seats, concurrency=limits.concurrency, time_limit_s=limits.time_limit_s)
        tally = Tally(seats)
        before, started = metadata["seconds"], time.perf_counter()
        try:
            await _play(engine, plan, model, folder, done, tally, limits, observer)
            metadata |= _stamp(before, started)
            summary = summarise(environment, Results(path), metadata)
            write_json(path / SUMMARY, summary)
            metadata |= _totals(summary, seats) | {"results_sha256": file_sha256(folder.results)}
            write_json(path / METADATA, metadata)
        except BaseException as error:
            aborted: dict[str, Any] = {"status": "aborted", "aborted_by": type(error).__name__}
            aborted |= {"finished_rollouts": len(done) + tally.rollouts, **_stamp(before, started)}
            _keep_aborted(path, metadata | aborted, error)
            raise
    return Run(path, metadata, summary)


def _resume(folder: RunFolder, plan: Plan, metadata: dict[str, Any]) -> set[RolloutKey]:
    """Take over an earlier run's folder: what it has done, its history put into today's metadata.

    Raises:
        ArtifactError: it holds another run, or its files are broken.
    """
    try:
        earlier = _same_run(read_json(folder.path / METADATA), metadata)
    except (KeyError, TypeError) as error:
        raise ArtifactError(
            f"{METADATA} is not one of ours: {error!r}", where=str(folder.path / METADATA)
        ) from error
    done, moved, cut = folder.prepare_resume()
    if foreign := done - {plan.key(*planned) for planned in plan.rollouts(set())}:
        raise ArtifactError(f"{len(foreign)} lines are not of this run's plan", where=str(folder.results))
    (folder.path / SUMMARY).unlink(missing_ok=True)
    step = {"at": now(), "done": len(done), "played_again": moved, "bytes_cut": cut}
    metadata |= {name: earlier[name] for name in ("run_id", "started", "seconds")}
    metadata |= {"resumed": [*earlier["resumed"], step], "earlier_code": earlier["code"]}
    return done


async def _play(
    engine: Engine,
    plan: Plan,
    model: str,
    folder: RunFolder,
    done: set[RolloutKey],
    tally: Tally,
    limits: RunLimits,
    observer: Observer,
) -> None:
    """Play what is not done and append each record; what is on file stays good, however this ends."""
    observer.start(f"{plan.environment.alias} {model}", plan.size, len(done))
    try:
        async with aclosing(rollouts(engine, plan.rollouts(done), concurrency=limits.concurrency)) as records:
            with closing(RolloutLogger([JsonlSink(folder.results)])) as logger:
                async for record in records:
                    logger.rollout(record.to_json(), record.storage)
                    tally.add(record)
                    observer.advance(record, tally)
    finally:
        observer.finish()


def _stamp(seconds_before: float, started: float) -> dict[str, Any]:
    return {"finished": now(), "seconds": round(seconds_before + time.perf_counter() - started, 3)}


def _totals(summary: Mapping[str, Any], seats: Mapping[str, Seat]) -> dict[str, Any]:
    """What the end of a run adds to its metadata."""
    tokens = {name: SeatTokens(**counted) for name, counted in summary["tokens"].items()}
    return {
        "status": "aborted" if summary["missing"] else "complete",
        "counts": summary["counts"],
        "tokens": summary["tokens"],
        "cost_usd": total_cost(seats, tokens),
    }


def _keep_aborted(path: Path, metadata: Mapping[str, Any], error: BaseException) -> None:
    try:
        write_json(path / METADATA, metadata)
    except ArtifactError as second:
        # The disk that failed the run fails this file too: metadata.json still says "running", and a resume
        # tells the two apart by the lock. The first error is the one to report.
        error.add_note(str(second))
    if isinstance(error, asyncio.CancelledError | KeyboardInterrupt | ArtifactError):
        error.add_note(f"resume with: sv eval --resume {shlex.quote(str(path))}")


def _same_run(earlier: Mapping[str, Any], today: Mapping[str, Any]) -> Mapping[str, Any]:
    """The earlier metadata, after checking that today's plan is the same run."""
    if earlier.get("schema_version") != SCHEMA_VERSION:
        raise ArtifactError(
            f"the run has schema version {earlier.get('schema_version')!r}, not {SCHEMA_VERSION}",
            hint="Start a new run",
        )
    changed = list(differing(_identity(earlier), _identity(json.loads(json.dumps(today)))))
    if changed:
        told = "; ".join(f"{name}: {then!r} then, {now_!r} now" for name, then, now_ in changed)
        raise ArtifactError(
            f"this is another run than the one on file: {told}",
            hint="Start a new run; results of two different plans can't stand in one file",
        )
    return earlier


def _identity(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """What makes a run that run."""
    parts = {name: metadata[name] for name in ("environment", "settings", "seed", "samples", "planned")}
    parts["dataset"] = {"sha256": metadata["dataset"]["sha256"]}
    # A new price in the portfolio makes no other run.
    parts["seats"] = {
        seat: {name: value for name, value in facts.items() if name != "price"}
        for seat, facts in metadata["seats"].items()
    }
    return parts
