"""Runs on file: finding and loading them."""

from pathlib import Path

from security_verifiers.evals.artifacts import METADATA, read_json
from security_verifiers.evals.evaluate import Run
from security_verifiers.evals.record import SCHEMA_VERSION
from security_verifiers.evals.summary import summarise
from sv_shared.environment import find
from sv_shared.errors import ArtifactError


def find_runs(path: Path) -> list[Path]:
    """The folder itself if it holds a run, else all runs below it, oldest first by run id.

    Raises:
        ArtifactError: there is none.
    """
    if (path / METADATA).is_file():
        return [path]
    found = sorted((file.parent for file in path.rglob(METADATA)), key=lambda folder: folder.name)
    if not found:
        raise ArtifactError("no run here", where=str(path), hint="Name a run's folder or one above it")
    return found


def load_run(folder: Path) -> Run:
    """A run from its files. The summary is computed from the result lines, not read back.

    Raises:
        ArtifactError: the files are broken.
    """
    path = folder / METADATA
    metadata = read_json(path)
    if metadata.get("schema_version") != SCHEMA_VERSION:
        found = metadata.get("schema_version")
        raise ArtifactError(f"schema version {found!r}; this version reads {SCHEMA_VERSION}", where=str(path))
    try:
        environment = find(metadata["environment"]["id"])
        return Run(folder, metadata, summarise(environment, folder, metadata))
    except (KeyError, TypeError) as error:
        raise ArtifactError(f"the metadata are not what a run writes: {error!r}", where=str(path)) from error
