"""RolloutLogger: one stream of events, several sinks; and the JSON lines that survive a crash.

An event is {"type": "run_started" | "rollout" | "run_finished" | ..., ...} in plain JSON types.
"""

import errno
import json
import logging
import os
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from sv_shared.errors import ArtifactError
from sv_shared.storage import Redactor, Storage, apply_storage

Event = Mapping[str, Any]

_log = logging.getLogger(__name__)

_HINTS = {
    errno.ENOSPC: "Free space on this disk, then resume the run",
    errno.EDQUOT: "The disk quota is used up: free space, then resume the run",
    errno.EFBIG: "The file-size limit is reached: raise `ulimit -f`, then resume the run",
    errno.EIO: "The disk reports a fault: move the output folder to another disk, then resume the run",
    errno.EROFS: "The disk is read-only: choose another output folder",
    errno.EACCES: "Mend the rights or choose another output folder",
    errno.EPERM: "Mend the rights or choose another output folder",
    errno.ENOENT: "Make the folder first",
    errno.EISDIR: "Name a file, not a folder",
}

_encode = json.JSONEncoder(allow_nan=False, separators=(",", ":")).encode


class Sink(Protocol):
    """Takes events, each already stripped to what may be stored. It must not change them."""

    def write(self, event: Event) -> None:
        """Take one event."""
        ...

    def flush(self) -> None:
        """Bring everything taken so far to where it belongs."""
        ...

    def close(self) -> None:
        """Flush and let go; a second call does nothing."""
        ...


class RolloutLogger:
    """Writes each event to its sinks, after the event's storage rule has been applied to it.

    The first sink is the sink of record: it is written first and its errors propagate. The others are
    mirrors: an error of theirs is reported once and counted, and loses nothing.

    Args:
        sinks: the sink of record, then any mirrors.
        redactor: for events stored as `redacted`; None for the default one.
        warn: takes the one line about a failing mirror.
    """

    def __init__(
        self,
        sinks: Sequence[Sink],
        *,
        redactor: Redactor | None = None,
        warn: Callable[[str], None] = _log.warning,
    ) -> None:
        self._record, *self._mirrors = sinks
        self._redactor, self._warn = redactor, warn
        self.failures: Counter[str] = Counter()
        """Failed calls by mirror."""

    def rollout(self, record: Event, storage: Storage) -> None:
        """Write a rollout's record.

        Raises:
            ArtifactError: the sink of record can't take it.
        """
        self.event("rollout", record, storage)

    def event(self, kind: str, content: Event, storage: Storage) -> None:
        """Write {"type": kind, **content}.

        Raises:
            ArtifactError: the sink of record can't take it.
        """
        event = apply_storage({"type": kind, **content}, storage, self._redactor)
        self._record.write(event)
        self._each_mirror(lambda mirror: mirror.write(event))

    def flush(self) -> None:
        """Flush every sink."""
        self._record.flush()
        self._each_mirror(lambda mirror: mirror.flush())

    def close(self) -> None:
        """Close every sink, and say how much the mirrors missed."""
        try:
            self._record.close()
        finally:
            self._each_mirror(lambda mirror: mirror.close())
            for name, count in self.failures.items():
                self._warn(f"{name}: {count} calls failed in all; the run's own files are complete")

    def _each_mirror(self, call: Callable[[Sink], None]) -> None:
        for mirror in self._mirrors:
            try:
                call(mirror)
            except Exception as error:  # noqa: BLE001 - a tracker may raise anything and must not end a run
                name = type(mirror).__name__
                if not self.failures[name]:
                    self._warn(f"{name} failed ({type(error).__name__}: {error}); the run goes on without it")
                self.failures[name] += 1


class MemorySink:
    """Keeps events in a list; for tests and for callers that want the records themselves."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def write(self, event: Event) -> None:
        """Append the event."""
        self.events.append(event)

    def flush(self) -> None:
        """Nothing to do."""

    def close(self) -> None:
        """Nothing to do."""


class JsonlSink:
    """Appends one JSON line an event.

    Each line is handed to the system whole, in one call, before `write` returns: a killed process loses no
    finished line and tears at most the one that it was writing. A line that the disk did not take whole is
    taken back, so that writing can go on once the cause is gone. One process writes a file at a time (its
    owner sees to that). Text is escaped to ASCII, so that lone surrogates and odd line separators survive.

    Args:
        path: the file, made if missing; its folder must exist.
        kinds: the types of the events to write; None for all.
        sync_lines: also force the file to the disk after so many lines; None leaves that to the system, and
            then a power cut (not a crash) can cost the last seconds.
        sync_seconds: the same after so many seconds, looked at when a line is written.
        clock: seconds, for sync_seconds.

    Raises:
        ArtifactError: the file can't be opened, or its last line is torn.
    """

    def __init__(
        self,
        path: Path,
        *,
        kinds: Collection[str] | None = None,
        sync_lines: int | None = None,
        sync_seconds: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.path = path
        self._kinds, self._sync_lines, self._sync_seconds, self._clock = (
            kinds,
            sync_lines,
            sync_seconds,
            clock,
        )
        if torn := _torn_bytes(path):
            raise ArtifactError(
                f"the last line is torn ({torn} bytes without an end)",
                where=str(path),
                hint="Cut it off (`repair_tail`, which a resume does) before writing on",
            )
        try:
            self._file = path.open("ab", buffering=0)
        except OSError as error:
            raise _unwritable(path, error) from error
        self._end = os.fstat(self._file.fileno()).st_size
        self._unsynced, self._synced_at, self._torn = 0, clock(), False

    def write(self, event: Event) -> None:
        """Append the event as one line.

        Raises:
            ArtifactError: the event holds what JSON can't (the key is named), or the disk does not take it.
        """
        if self._kinds is not None and event.get("type") not in self._kinds:
            return
        line = encode_line(event, where=str(self.path))
        if self._torn:
            raise ArtifactError("an earlier line is torn, so none can follow it", where=str(self.path))
        try:
            written = 0
            while written < len(line):
                written += self._file.write(line[written:]) or 0
        except OSError as error:
            self._take_back()
            raise _unwritable(self.path, error) from error
        self._end += len(line)
        self._unsynced += 1
        if self._sync_is_due():
            self.flush()

    def flush(self) -> None:
        """Force what was written to the disk.

        Raises:
            ArtifactError: the disk reports a fault.
        """
        try:
            os.fsync(self._file.fileno())
        except OSError as error:
            if error.errno != errno.EINVAL:  # a pipe or a device has nothing to force
                raise _unwritable(self.path, error) from error
        self._unsynced, self._synced_at = 0, self._clock()

    def close(self) -> None:
        """Force to the disk and close; a second call does nothing.

        Raises:
            ArtifactError: the disk reports a fault.
        """
        if self._file.closed:
            return
        try:
            self.flush()
        finally:
            self._file.close()

    def _sync_is_due(self) -> bool:
        if self._sync_lines is not None and self._unsynced >= self._sync_lines:
            return True
        return self._sync_seconds is not None and self._clock() - self._synced_at >= self._sync_seconds

    def _take_back(self) -> None:
        try:
            os.ftruncate(self._file.fileno(), self._end)
        except OSError:
            self._torn = True


def encode_line(event: Event, *, where: str) -> bytes:
    """The event as one line of ASCII JSON, newline included.

    Args:
        event: plain JSON types; finite numbers.
        where: what to name in an error.

    Raises:
        ArtifactError: a value that JSON can't hold; the message names its key, never its text.
    """
    try:
        return _encode(event).encode("ascii") + b"\n"
    except (ValueError, TypeError, RecursionError) as error:
        key, why = _offender(event, ()) or ("the event", "is nested too deeply")
        raise ArtifactError(f"{key} {why}, which JSON can't hold", where=where) from error


def _offender(value: Any, path: tuple[str, ...]) -> tuple[str, str] | None:
    """(key path, what is wrong) of the first value that JSON can't hold; at most 100 levels deep."""
    if isinstance(value, float) and value - value != 0:
        return ".".join(path), f"is {value}"
    if value is None or isinstance(value, str | int | float) or len(path) > 100:
        return None
    if isinstance(value, Mapping | list | tuple):
        items = value.items() if isinstance(value, Mapping) else enumerate(value)
        found = (_offender(item, (*path, str(key))) for key, item in items)
        return next((offence for offence in found if offence), None)
    return ".".join(path), f"is a {type(value).__name__}"


class JsonlRead(NamedTuple):
    """What was read of a JSON lines file.

    Attributes:
        records: the complete lines, in file order.
        torn_tail: the bytes of a last line without an end, as a kill leaves it; None where there is none.
    """

    records: list[dict[str, Any]]
    torn_tail: bytes | None


def read_jsonl(
    path: Path, keep: Callable[[dict[str, Any]], dict[str, Any]] = lambda record: record
) -> JsonlRead:
    """Read a JSON lines file.

    Args:
        path: the file.
        keep: what to keep of each record; reading only the keys of a long run need not hold its texts.

    Raises:
        ArtifactError: the file can't be read, or a line other than a torn last one is not a JSON object with
            finite numbers; the message names file and line.
    """
    records: list[dict[str, Any]] = []
    for number, raw in enumerate(_raw_lines(path), 1):
        if not raw.endswith(b"\n"):
            return JsonlRead(records, raw)
        records.append(keep(_decode(raw, f"{path}:{number}")))
    return JsonlRead(records, None)


def repair_tail(path: Path) -> int:
    """Cut off a torn last line; returns how many bytes that were (0 where the file was whole).

    Raises:
        ArtifactError: the file can't be read or changed.
    """
    torn = _torn_bytes(path, must_exist=True)
    if torn:
        try:
            with path.open("r+b") as file:
                file.truncate(path.stat().st_size - torn)
                os.fsync(file.fileno())
        except OSError as error:
            raise _unwritable(path, error) from error
    return torn


def _raw_lines(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            yield from file
    except OSError as error:
        raise ArtifactError(f"can't read: {error.strerror}", where=str(path)) from error


def _decode(raw: bytes, where: str) -> dict[str, Any]:
    try:
        record = json.loads(raw.decode("utf-8"), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ArtifactError(
            f"not a line of JSON: {error}", where=where, hint="Restore the file or remove the line by hand"
        ) from error
    if not isinstance(record, dict):
        raise ArtifactError(f"a JSON {type(record).__name__} where an object belongs", where=where)
    return record


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _torn_bytes(path: Path, *, must_exist: bool = False) -> int:
    """Bytes after the last newline; 0 for an empty file, a device, a missing file unless it must exist."""
    block = 1 << 16
    try:
        with path.open("rb") as file:
            size = end = os.fstat(file.fileno()).st_size
            while end:
                start = max(0, end - block)
                file.seek(start)
                if (at := file.read(end - start).rfind(b"\n")) >= 0:
                    return size - (start + at + 1)
                end = start
            return size
    except FileNotFoundError as error:
        if must_exist:
            raise ArtifactError("no such file", where=str(path)) from error
        return 0
    except OSError as error:
        raise ArtifactError(f"can't read: {error.strerror}", where=str(path)) from error


def _unwritable(path: Path, error: OSError) -> ArtifactError:
    hint = _HINTS.get(error.errno or 0, "")
    return ArtifactError(f"can't write: {error.strerror}", where=str(path), hint=hint)
