"""Rows a second of an environment's loader."""

import time
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sv_shared.environment import Environment
from sv_shared.errors import CheckFailed


@dataclass(frozen=True, slots=True)
class LoaderSpeed:
    """What was measured.

    Attributes:
        what: the format that was loaded.
        rows: rows in the file, which is written for the purpose.
        seconds: from opening the file to a complete table.
    """

    what: str
    rows: int
    seconds: float

    @property
    def per_second(self) -> float:
        """Rows a second."""
        return self.rows / self.seconds

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return asdict(self) | {"per_second": self.per_second}


def measure_loader(environment: Environment, rows: int) -> LoaderSpeed | None:
    """Write a file of `rows` rows and time its loading; None where the environment has no loader to measure.

    Raises:
        CheckFailed: the loader did not load every row.
    """
    sample = environment.loader_sample()
    if sample is None:
        return None
    with TemporaryDirectory(prefix="sv-bench-") as folder:
        path = sample.write(Path(folder), rows)
        started = time.perf_counter()
        loaded = sample.load(path)
        seconds = time.perf_counter() - started
    if loaded != rows:
        raise CheckFailed(f"{rows} rows were written and {loaded} loaded", where=sample.what)
    return LoaderSpeed(sample.what, rows, seconds)
