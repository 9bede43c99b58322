"""ToolStore: the SQLite file under a ToolCache. Blocking; one thread at a time, any number of processes."""

import contextlib
import fcntl
import hashlib
import re
import sqlite3
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from sv_shared.errors import ToolError
from sv_shared.tools import Ending, ToolResult

T = TypeVar("T")

GIB = 1 << 30
DAY_S = 86_400.0

SCHEMA_VERSION = 1
"""Stands in the file's name: versions of this package that differ in it live side by side."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS results (
    key TEXT PRIMARY KEY,
    tool TEXT NOT NULL,
    version TEXT NOT NULL,
    returncode INTEGER NOT NULL,
    stdout BLOB NOT NULL,
    stderr BLOB NOT NULL,
    duration_s REAL NOT NULL,
    checksum BLOB NOT NULL,
    created REAL NOT NULL
);
CREATE INDEX IF NOT EXISTS by_age ON results (created);
"""

_DELETE_OLDEST_TENTH = """
DELETE FROM results WHERE rowid IN (
    SELECT rowid FROM results ORDER BY created, rowid LIMIT (SELECT max(1, count(*) / 10) FROM results)
)
"""

_LOCK_WAIT_S = 20.0
_PRUNE_TO = 0.8
"""Share of the size limit that pruning leaves, so that it is not due again at once."""


class ToolStore:
    """Results by key.

    SQLite keeps a killed writer's half-written transaction out and lets readers work beside one writer. Each
    row carries a checksum, because SQLite does not notice a flipped bit inside a value. Where SQLite finds
    the file damaged, a new one with the next number is begun beside it and `warn` is told. It is not renamed
    or deleted: another process may have it open, and would take the new file's log away when it closes.

    Args:
        folder: made if missing.
        max_bytes, max_age_s, clock, warn: as in `ToolCache`.

    Raises:
        ToolError: the folder can't be written.
    """

    def __init__(
        self,
        folder: Path,
        *,
        max_bytes: int,
        max_age_s: float,
        clock: Callable[[], float],
        warn: Callable[[str], None],
    ) -> None:
        self._folder, self._max_bytes, self._max_age_s = folder, max_bytes, max_age_s
        self._clock, self._warn = clock, warn
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self._failure(str(error)) from error
        self._number = max(self._numbers(), default=0)
        self._db = self._open()
        self.prune()

    @property
    def path(self) -> Path:
        """The file in use."""
        return self._file(self._number)

    def get(self, key: str) -> tuple[ToolResult | None, bool]:
        """(the stored result or None, whether an entry was there but damaged; it has been removed then).

        Raises:
            ToolError: the file can't be read.
        """
        row = self._guarded(
            lambda db: db.execute(
                "SELECT tool, version, returncode, stdout, stderr, duration_s, checksum"
                " FROM results WHERE key = ?",
                (key,),
            ).fetchone()
        )
        if row is None:
            return None, False
        try:
            tool, version, returncode, stdout, stderr, duration_s, checksum = row
            result = ToolResult(returncode, stdout, stderr, duration_s, Ending.EXITED, tool, version)
            whole = checksum == _checksum(key, result)
        except (TypeError, AttributeError, struct.error):
            whole = False  # the damage changed the type of a value
        if whole:
            return result, False
        self._warn(f"a damaged entry of the tool cache was removed ({self.path})")
        self._guarded(lambda db: db.execute("DELETE FROM results WHERE key = ?", (key,)))
        return None, True

    def put(self, key: str, result: ToolResult) -> None:
        """Store a result; an earlier one under the same key is replaced.

        Raises:
            ToolError: the disk is full, the file can't be written, or it was locked for too long.
        """
        row = (
            key,
            result.tool,
            result.version,
            result.returncode,
            result.stdout,
            result.stderr,
            result.duration_s,
            _checksum(key, result),
            self._clock(),
        )
        self._guarded(
            lambda db: db.execute("INSERT OR REPLACE INTO results VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
        )

    def prune(self) -> None:
        """Remove what is too old, then the oldest until the live data is well within `max_bytes`.

        Raises:
            ToolError: as `put`.
        """
        oldest = self._clock() - self._max_age_s
        self._guarded(lambda db: db.execute("DELETE FROM results WHERE created < ?", (oldest,)))
        if self.live_bytes() <= self._max_bytes:
            return
        while self.live_bytes() > _PRUNE_TO * self._max_bytes:
            removed = self._guarded(lambda db: db.execute(_DELETE_OLDEST_TENTH).rowcount)
            if not removed:
                break
        self._guarded(lambda db: db.execute("PRAGMA incremental_vacuum").fetchall())

    def clear(self) -> None:
        """Remove every result, and the damaged files that were left behind.

        Raises:
            ToolError: as `put`.
        """
        if (newest := max(self._numbers(), default=0)) > self._number:
            self.close()
            self._number = newest
            self._db = self._open()
        self._guarded(lambda db: db.execute("DELETE FROM results"))
        self._guarded(lambda db: db.execute("PRAGMA incremental_vacuum").fetchall())
        for number in self._numbers():
            if number < self._number:
                for part in ("", "-wal", "-shm"):
                    Path(f"{self._file(number)}{part}").unlink(missing_ok=True)

    def live_bytes(self) -> int:
        """Bytes that the file's pages in use take."""
        (used, free, size) = self._guarded(
            lambda db: tuple(
                db.execute(f"PRAGMA {name}").fetchone()[0]
                for name in ("page_count", "freelist_count", "page_size")
            )
        )
        return int((used - free) * size)

    def close(self) -> None:
        """Close the file. A second call does nothing."""
        with contextlib.suppress(sqlite3.Error):  # a damaged file may refuse its last checkpoint
            self._db.close()

    def _guarded(self, action: Callable[[sqlite3.Connection], T]) -> T:
        """The action's result; where the file turns out damaged, its result on a new file."""
        try:
            try:
                return action(self._db)
            except sqlite3.DatabaseError as error:
                if not _is_damage(error):
                    raise
                self._begin_anew(error)
                return action(self._db)
        except sqlite3.Error as error:
            raise self._failure(str(error)) from error

    def _open(self) -> sqlite3.Connection:
        """A connection to the file in use, which is made, or replaced by the next one where it is damaged."""
        try:
            with self._opening():
                try:
                    return self._connect()
                except sqlite3.DatabaseError as error:
                    if not _is_damage(error):
                        raise
                    self._next_number(error)
                    return self._connect()
        except (OSError, sqlite3.Error) as error:
            raise self._failure(str(error)) from error

    def _begin_anew(self, error: sqlite3.DatabaseError) -> None:
        self.close()
        with self._opening():
            self._next_number(error)
            self._db = self._connect()

    def _next_number(self, error: sqlite3.DatabaseError) -> None:
        """Go on to the file that another process began after the same damage, or to a new one."""
        damaged = self.path
        newest = max(self._numbers(), default=0)
        self._number = newest if newest > self._number else self._number + 1
        self._warn(
            f"the tool cache {damaged} is damaged ({error}) and is no longer used; "
            f"going on with {self.path.name}. Clearing the cache removes the damaged file"
        )

    def _connect(self) -> sqlite3.Connection:
        db = sqlite3.connect(self.path, timeout=_LOCK_WAIT_S, isolation_level=None, check_same_thread=False)
        try:
            db.execute("PRAGMA auto_vacuum = INCREMENTAL")
            db.execute("PRAGMA journal_mode = WAL")
            # A power cut may cost the newest results, never the file: that is what a cache needs.
            db.execute("PRAGMA synchronous = NORMAL")
            db.executescript(_SCHEMA)
        except sqlite3.Error:
            db.close()
            raise
        return db

    @contextlib.contextmanager
    def _opening(self) -> Iterator[None]:
        """Held while a file is made: two processes must not turn on the write-ahead log at once."""
        with (self._folder / "opening.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _file(self, number: int) -> Path:
        return self._folder / f"results-v{SCHEMA_VERSION}{f'.{number}' if number else ''}.sqlite"

    def _numbers(self) -> list[int]:
        pattern = re.compile(rf"results-v{SCHEMA_VERSION}(?:\.(\d+))?\.sqlite")
        found = (pattern.fullmatch(path.name) for path in self._folder.glob("results-v*.sqlite"))
        return [int(match[1] or 0) for match in found if match]

    def _failure(self, why: str) -> ToolError:
        return ToolError(
            f"the tool cache can't be used: {why}",
            where=str(self._folder),
            hint="Free space, mend the folder's rights, or choose another folder for the cache",
        )


def _is_damage(error: sqlite3.DatabaseError) -> bool:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def _checksum(key: str, result: ToolResult) -> bytes:
    total = hashlib.sha256(struct.pack(">qd", result.returncode, result.duration_s))
    for part in (key.encode(), result.tool.encode(), result.version.encode(), result.stdout, result.stderr):
        total.update(len(part).to_bytes(8, "big") + part)
    return total.digest()
