"""evaluate(): one model on one plan, from the first file of its folder to the last."""

import asyncio
import time
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

import tomli_w
from sv_shared.errors import ArtifactError, UsageError
from sv_shared.rollout_logging import JsonlSink, RolloutLogger

from security_verifiers.evals.artifacts import CONFIG, METADATA, SUMMARY, RunFolder, folder_name, read_json, write_json
from security_verifiers.evals.engine import Engine
from security_verifiers.evals.metadata import initial_metadata, now
from security_verifiers.evals.plan import Plan
from security_verifiers.evals.record import Record, RolloutKey, SeatTokens
from security_verifiers.evals.run import rollouts
from security_verifiers.evals.seats import Seat
from security_verifiers.evals.summary import summarise


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
    model = seats[plan.environment.evaluated_seat].model
    run_id = resume.name if resume else f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{uuid4().hex[:6]}"
    path = resume or root / "evals" / folder_name(plan.environment.id, model) / run_id
    with RunFolder(path) as folder:
        metadata = initial_metadata(plan, seats, run_id, concurrency=limits.concurrency)
        done: set[RolloutKey] = set()
        if resume:
            earlier = _same_run(read_json(path / METADATA), metadata)
            done, moved, cut = folder.prepare_resume()
            step = {"at": now(), "done": len(done), "played_again": moved, "bytes_cut": cut}
            metadata |= {"started": earlier["started"], "seconds": earlier["seconds"]}
            metadata |= {"resumed": [*earlier["resumed"], step], "earlier_code": earlier["code"]}
        write_json(path / METADATA, metadata)
        _write_config(path / CONFIG, plan, seats, limits)
        await _play(engine, plan, seats, folder, metadata, done, limits, observer)
        summary = summarise(plan.environment, path, metadata)
        write_json(path / SUMMARY, summary)
        metadata["status"] = "complete" if not summary["missing"] else "aborted"
        metadata["counts"] = summary["counts"]
        metadata["tokens"] = summary["tokens"]
        tokens = {name: SeatTokens(**counted) for name, counted in summary["tokens"].items()}
        metadata["cost_usd"] = total_cost(seats, tokens)
        write_json(path / METADATA, metadata)
    return Run(path, metadata, summary)


async def _play(
    engine: Engine,
    plan: Plan,
    seats: Mapping[str, Seat],
    folder: RunFolder,
    metadata: dict[str, Any],
    done: set[RolloutKey],
    limits: RunLimits,
    observer: Observer,
) -> None:
    """Play and write; on any interruption the metadata say "aborted" and what is on file stays good."""
    tally = Tally(seats)
    before, started = metadata["seconds"], time.perf_counter()
    evaluated = seats[plan.environment.evaluated_seat]
    engine.take_seats(seats)
    logger = RolloutLogger([JsonlSink(folder.results)])
    observer.start(f"{plan.environment.alias} {evaluated.model}", plan.size, len(done))
    try:
        async for record in rollouts(engine, plan.rollouts(done), concurrency=limits.concurrency):
            logger.rollout(record.to_json(), record.storage)
            tally.add(record)
            observer.advance(record, tally)
        logger.close()
    except BaseException as error:
        metadata |= {"status": "aborted", "aborted_by": type(error).__name__}
        metadata |= {"finished_rollouts": len(done) + tally.rollouts}
        _stamp(metadata, before + time.perf_counter() - started)
        _keep_aborted(folder.path, metadata, error)
        raise
    finally:
        observer.finish()
    _stamp(metadata, before + time.perf_counter() - started)


def _stamp(metadata: dict[str, Any], seconds: float) -> None:
    metadata |= {"finished": now(), "seconds": round(seconds, 3)}


def _keep_aborted(path: Path, metadata: Mapping[str, Any], error: BaseException) -> None:
    try:
        write_json(path / METADATA, metadata)
    except ArtifactError as second:
        # The disk that failed the run fails this file too: metadata.json still says "running", and a resume
        # tells the two apart by the lock. The first error is the one to report.
        error.add_note(str(second))
    if isinstance(error, asyncio.CancelledError | KeyboardInterrupt | ArtifactError):
        error.add_note(f"resume with: sv eval --resume {path}")


def _same_run(earlier: Mapping[str, Any], today: Mapping[str, Any]) -> Mapping[str, Any]:
    """The earlier metadata, after checking that today's plan is the same run."""
    for what, was, now_ in (
        ("dataset", earlier["dataset"]["sha256"], today["dataset"]["sha256"]),
        ("settings", earlier["settings"], today["settings"]),
        ("seed", earlier["seed"], today["seed"]),
        ("number of rollouts", earlier["planned"], today["planned"]),
        ("environment version", earlier["environment"], today["environment"]),
        ("players", earlier["seats"], today["seats"]),
    ):
        if was != now_:
            raise ArtifactError(
                f"the {what} changed since this run was started: {was!r} then, {now_!r} now",
                hint="Start a new run; results of two different plans can't stand in one file",
            )
    return earlier


def _write_config(path: Path, plan: Plan, seats: Mapping[str, Seat], limits: RunLimits) -> None:
    content = {
        "environment": plan.environment.id,
        "tasks": len(plan.tasks),
        "rollouts": plan.samples,
        "seed": plan.seed,
        "concurrency": limits.concurrency,
        "time_limit_s": limits.time_limit_s,
        "dataset": dict(plan.config),
        "seats": {name: {"model": seat.model, "sampling": seat.sampling.as_dict()} for name, seat in seats.items()},
    }
    path.write_text(tomli_w.dumps(content), encoding="utf-8")


def read_config(folder: Path) -> dict[str, Any]:
    """The config.toml of a run's folder.

    Raises:
        UsageError: the folder holds no run.
    """
    try:
        return tomllib.loads((folder / CONFIG).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise UsageError("no run to resume here", where=str(folder), hint="Name the folder of a run") from error
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ArtifactError(f"can't read {CONFIG}: {error}", where=str(folder)) from error
