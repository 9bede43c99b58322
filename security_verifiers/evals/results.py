"""Results: reading a run's lines back, in an order that does not depend on who finished first."""

import json
from collections.abc import Iterator
from pathlib import Path
from types import UnionType
from typing import Any

from security_verifiers.evals.record import SCHEMA_VERSION, RolloutKey
from sv_shared.errors import ArtifactError
from sv_shared.outcomes import Outcome

RESULTS = "results.jsonl"


def line_key(line: dict[str, Any]) -> RolloutKey:
    """The key of a result line."""
    key = line["key"]
    return RolloutKey(key["task"], key["sample"], key["seed"])


class Results:
    """The result lines of one run, checked once, then read in the order of their keys.

    Only keys and file positions are held, so a million lines cost no more than their index.

    Args:
        folder: the run's folder.

    Raises:
        ArtifactError: results.jsonl is missing, or a line is broken, of another schema version, or has the
            key of an earlier line; the message names file and line.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / RESULTS
        self._where: dict[RolloutKey, int] = {}
        numbers: dict[RolloutKey, int] = {}
        for number, offset, line in self._scan():
            key = _checked_key(line, f"{self.path}:{number}")
            if key in numbers:
                raise ArtifactError(
                    f"task {key.task[:12]} sample {key.sample} stands twice, first in line {numbers[key]}",
                    where=f"{self.path}:{number}",
                )
            numbers[key] = number
            self._where[key] = offset

    def __len__(self) -> int:
        return len(self._where)

    @property
    def keys(self) -> set[RolloutKey]:
        """The keys of all lines."""
        return set(self._where)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The lines, by (sample, task hash)."""
        with self.path.open("rb") as file:
            for key in sorted(self._where, key=lambda k: (k.sample, k.task, k.seed)):
                file.seek(self._where[key])
                yield json.loads(file.readline())

    def _scan(self) -> Iterator[tuple[int, int, dict[str, Any]]]:
        """(line number, byte offset, content) in file order."""
        try:
            file = self.path.open("rb")
        except OSError as error:
            raise ArtifactError(f"can't read the results: {error.strerror}", where=str(self.path)) from error
        offset = 0
        with file:
            for number, raw in enumerate(file, 1):
                if not raw.endswith(b"\n"):
                    raise ArtifactError(
                        f"the last line is cut off after {len(raw)} bytes",
                        where=f"{self.path}:{number}",
                        hint="The run was killed while writing it: resume the run",
                    )
                try:
                    line = json.loads(raw, parse_constant=_refuse_constant)
                except (ValueError, RecursionError) as error:
                    raise ArtifactError(f"not JSON: {error}", where=f"{self.path}:{number}") from error
                if not isinstance(line, dict):
                    raise ArtifactError("not a JSON object", where=f"{self.path}:{number}")
                yield number, offset, line
                offset += len(raw)


_KEY = {"task": str, "sample": int, "seed": int}
_FIELDS: dict[str, type | UnionType] = {
    "task_id": str,
    "cluster": str,
    "difficulty": str,
    "outcome": str,
    "reward": float | int | None,
    "components": dict,
    "metrics": dict,
    "parsed": dict | None,
    "truth": object,
    "flags": list,
    "seats": dict,
}
"""What every result line holds."""


def _checked_key(line: dict[str, Any], where: str) -> RolloutKey:
    """The key of a line, after a look at everything that readers rely on."""
    if line.get("schema_version") != SCHEMA_VERSION:
        found = line.get("schema_version")
        raise ArtifactError(f"schema version {found!r}; this version reads {SCHEMA_VERSION}", where=where)
    key = line.get("key")
    if not isinstance(key, dict) or any(not isinstance(key.get(name), kind) for name, kind in _KEY.items()):
        raise ArtifactError("a result without a key of task, sample and seed", where=where)
    for name, kind in _FIELDS.items():
        if name not in line:
            raise ArtifactError(f"a result without {name!r}", where=where)
        if not isinstance(line[name], kind):
            raise ArtifactError(f"{name!r} can't be {json.dumps(line[name])[:80]}", where=where)
    _check_outcome(line, where)
    return line_key(line)


def _check_outcome(line: dict[str, Any], where: str) -> None:
    """A known outcome, and a reward exactly where the outcome is the model's own."""
    if line["outcome"] not in set(Outcome):
        raise ArtifactError(f"there is no outcome {line['outcome']!r}", where=where)
    if Outcome(line["outcome"]).is_ours != (line["reward"] is None):
        raise ArtifactError(f"a reward of {line['reward']} with outcome {line['outcome']}", where=where)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
