"""RunFolder: the files of one run, written so that a crash at any moment loses nothing that was finished.

outputs/evals/sv-env-<name>--<model>/<run_id>/
    metadata.json   first, status "running"; replaced at the end
    config.toml     the plan, enough to start the run again
    results.jsonl   one line a rollout, appended and flushed
    retried.jsonl   lines of grader and infrastructure errors that a resume played again
    summary.json    last
"""

import fcntl
import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping
from contextlib import closing, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from security_verifiers.evals.record import RolloutKey
from security_verifiers.evals.results import RESULTS, Results, line_key
from sv_shared.errors import ArtifactError
from sv_shared.outcomes import Outcome
from sv_shared.rollout_logging import JsonlSink, encode_line, read_jsonl, repair_tail

METADATA, CONFIG, RETRIED, SUMMARY = "metadata.json", "config.toml", "retried.jsonl", "summary.json"


LONGEST_NAME = 120
"""Characters of a model's name that its folder keeps; a file system takes 255 bytes a name."""


def folder_name(environment_id: str, model: str) -> str:
    """`sv-env-<name>--<model>`, with everything that could make a path of a model's name replaced by `--`.

    A name longer than `LONGEST_NAME` ends in a hash of the whole instead.
    """
    safe = re.sub(r"[^A-Za-z0-9._+-]+", "--", model).strip("-.") or "model"
    if len(safe) > LONGEST_NAME:
        digest = hashlib.sha256(model.encode("utf-8", "surrogatepass")).hexdigest()[:12]
        safe = f"{safe[: LONGEST_NAME - 13]}-{digest}"
    return f"{environment_id}--{safe}"


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Replace a JSON file in one step, durably. Escaped to ASCII, as the result lines are.

    Raises:
        ArtifactError: the file can't be written, or a value is not JSON (the old content stays).
    """
    try:
        text = json.dumps(content, indent=2, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ArtifactError(f"can't write {path.name}: {error}", where=str(path)) from error
    write_text(path, f"{text}\n")


def write_text(path: Path, text: str) -> None:
    """Replace a text file in one step, durably.

    Raises:
        ArtifactError: the file can't be written (the old content stays).
    """
    partial = path.with_suffix(path.suffix + ".partial")
    try:
        with partial.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        raise ArtifactError(
            f"can't write {path.name}: {error.strerror}",
            where=str(path),
            hint="Free space or mend rights, then resume",
        ) from error


def file_sha256(path: Path) -> str:
    """SHA-256 of a file's content.

    Raises:
        ArtifactError: it can't be read.
    """
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ArtifactError(f"can't read {path.name}: {error.strerror}", where=str(path)) from error


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file.

    Raises:
        ArtifactError: missing, unreadable, or not a JSON object.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ArtifactError(
            f"no {path.name} here", where=str(path), hint="Is this the folder of a run?"
        ) from error
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
                f"can't write a run here: {error.strerror}",
                where=str(path),
                hint="Choose another --output-dir",
            ) from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self._lock.close()
            raise ArtifactError(
                "another process is writing this run", where=str(path), hint="Wait for it"
            ) from error
        except OSError as error:
            self._lock.close()
            raise ArtifactError(
                f"can't lock the run: {error.strerror}",
                where=str(path),
                hint="Choose an --output-dir on a disk with file locks",
            ) from error

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
        results = Results(self.path)
        failed = {line_key(line) for line in results if Outcome(line["outcome"]).is_ours}
        if failed:
            self._keep_for_the_record(line for line in results if line_key(line) in failed)
            self._rewrite(line for line in results if line_key(line) not in failed)
        return results.keys - failed, len(failed), cut

    def _keep_for_the_record(self, failed: Iterable[Mapping[str, Any]]) -> None:
        """Append lines to retried.jsonl, but for those that a resume which was killed here left there."""
        path = self.path / RETRIED
        there: set[bytes] = set()
        if path.exists():
            repair_tail(path)
            there.update(encode_line(line, where=str(path)) for line in read_jsonl(path).records)
        with closing(JsonlSink(path)) as sink:
            for line in failed:
                if encode_line(line, where=str(path)) not in there:
                    sink.write(line)

    def _rewrite(self, lines: Iterable[Mapping[str, Any]]) -> None:
        """Make results.jsonl hold these lines, in one step."""
        partial = self.path / f"{RESULTS}.partial"
        partial.unlink(missing_ok=True)
        try:
            with closing(JsonlSink(partial)) as sink:
                for line in lines:
                    sink.write(line)
            partial.replace(self.results)
        except ArtifactError:
            partial.unlink(missing_ok=True)
            raise
