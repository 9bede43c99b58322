"""RunFolder: the files of one run, written so that a crash at any moment loses nothing that was finished.

    outputs/evals/sv-env-<name>--<model>/<run_id>/
        metadata.json   first, status "running"; replaced at the end
        config.toml     the plan, enough to start the run again
        results.jsonl   one line a rollout, appended and flushed
        retried.jsonl   lines of grader and infrastructure errors that a resume played again
        summary.json    last
"""

import fcntl
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sv_shared.errors import ArtifactError
from sv_shared.outcomes import Outcome
from sv_shared.rollout_logging import JsonlSink, repair_tail

from security_verifiers.evals.record import RolloutKey
from security_verifiers.evals.results import RESULTS, Results, line_key

METADATA, CONFIG, RETRIED, SUMMARY = "metadata.json", "config.toml", "retried.jsonl", "summary.json"


def folder_name(environment_id: str, model: str) -> str:
    """`sv-env-<name>--<model>`, with everything that could make a path of a model's name replaced by `--`."""
    safe = re.sub(r"[^A-Za-z0-9._+-]+", "--", model).strip("-.") or "model"
    return f"{environment_id}--{safe}"


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Replace a JSON file in one step, durably.

    Raises:
        ArtifactError: the file can't be written (the old content stays).
    """
    partial = path.with_suffix(path.suffix + ".partial")
    try:
        with partial.open("w", encoding="utf-8") as file:
            json.dump(content, file, indent=2, allow_nan=False, ensure_ascii=False)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise ArtifactError(
            f"can't write {path.name}: {error.strerror}", where=str(path), hint="Free space or mend rights, then resume"
        ) from error


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file.

    Raises:
        ArtifactError: missing, unreadable, or not a JSON object.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ArtifactError(f"no {path.name} here", where=str(path), hint="Is this the folder of a run?") from error
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise ArtifactError(f"can't read {path.name}: {error}", where=str(path)) from error
    if not isinstance(content, dict):
        raise ArtifactError(f"{path.name} does not hold a JSON object", where=str(path))
    return content


class RunFolder:
    """One run's folder, held by one process at a time.

    Args:
        path: the folder; made when missing.

    Raises:
        ArtifactError: it can't be made, or another process is writing it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._lock = (path / ".lock").open("w")
        except OSError as error:
            raise ArtifactError(
                f"can't write a run here: {error.strerror}", where=str(path), hint="Choose another --output-dir"
            ) from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._lock.close()
            raise ArtifactError("another process is writing this run", where=str(path), hint="Wait for it") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.close()

    @property
    def results(self) -> Path:
        """Path of results.jsonl."""
        return self.path / RESULTS

    def prepare_resume(self) -> tuple[set[RolloutKey], int, int]:
        """Make results.jsonl hold exactly the rollouts that stand.

        A line torn by a kill is cut off; lines of grader and infrastructure errors move to retried.jsonl,
        so that they are played again and remain on record.

        Returns:
            The keys that are done, the number of lines moved, the bytes cut off.
        """
        if not self.results.exists():
            return set(), 0, 0
        cut = repair_tail(self.results)
        done, moved = set(), 0
        results = Results(self.path)
        partial = self.path / f"{RESULTS}.partial"
        partial.unlink(missing_ok=True)
        kept, again = JsonlSink(partial), JsonlSink(self.path / RETRIED)
        for line in results:
            if Outcome(line["outcome"]).is_ours:
                again.write(line)
                moved += 1
            else:
                kept.write(line)
                done.add(line_key(line))
        kept.close()
        again.close()
        partial.replace(self.results)
        return done, moved, cut
