"""The hash of a run's lines in its metadata: an edit that keeps every other rule is found all the same."""

from pathlib import Path

import pytest

import sv_shared.environment
from security_verifiers.evals.results import RESULTS
from security_verifiers.evals.stored import load_run
from sv_shared.errors import ArtifactError
from sv_test_quick import QUICK, follower

from .conftest import Play


def test_an_edit_that_nothing_else_shows_changes_the_files_hash(
    play: Play, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sv_shared.environment, "installed", lambda: {"quick": QUICK})
    run = play(QUICK, follower(), tmp_path)
    path = run.folder / RESULTS
    whole = path.read_bytes()
    assert b"cluster-1" in whole
    path.write_bytes(whole.replace(b"cluster-1", b"cluster-2"))
    with pytest.raises(ArtifactError, match="not the file that the run wrote"):
        load_run(run.folder)
    assert "SHA-256" in load_run(run.folder, allow_partial=True).summary["partial"]["problems"][0]
    path.write_bytes(whole)
    assert load_run(run.folder).summary["partial"] is None
