"""Disks that fill up and folders that can't be written: one clear error, nothing lost, resumable."""

import json
import multiprocessing
import os
import resource
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from security_verifiers.evals.results import Results
from sv_shared.errors import ArtifactError
from sv_test_quick import QUICK, follower

from .conftest import Play, Watching, bare_lines

CONFIG = {"scripts": ["right", "wrong", "garbage"], "rows": 60}
FORK = multiprocessing.get_context("fork")


@pytest.fixture
def whole(play: Play, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the same run on a disk with room."""
    return play(QUICK, follower(), tmp_path_factory.mktemp("whole"), config=CONFIG).folder


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 64 KiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small disk needs root; test_file_size_limit covers the same code without")
    try:
        yield disk
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_full_disk(play: Play, small_disk: Path, whole: Path) -> None:
    """The results do not fit: what was finished stays, and after space is made the run is completed."""
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"x" * 32 * 1024)
    with pytest.raises(ArtifactError, match=r"can't write: No space left on device .*results\.jsonl") as full:
        play(QUICK, follower(), small_disk, config=CONFIG)
    assert full.value.exit_code == 2
    (folder,) = (small_disk / "evals").glob("*/*")
    assert any(f"resume with: sv eval --resume {folder}" in note for note in full.value.__notes__)
    done = len(Results(folder))
    assert 0 < done < 60
    assert json.loads((folder / "metadata.json").read_text())["status"] in ("running", "aborted")

    with pytest.raises(ArtifactError, match="No space left"):
        play(QUICK, follower(), small_disk, config=CONFIG, resume=folder)
    assert len(Results(folder)) >= done
    assert (folder / "config.toml").stat().st_size > 0

    ballast.unlink()
    subprocess.run(["mount", "-o", "remount,size=1m", str(small_disk)], check=True)
    run = play(QUICK, follower(), small_disk, config=CONFIG, resume=folder)
    assert run.metadata["status"] == "complete"
    assert bare_lines(folder) == bare_lines(whole)


def test_file_size_limit(play: Play, tmp_path: Path, whole: Path) -> None:
    """The same without root: a limit on the size of files stops the results in a child process."""

    def limited() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
        with pytest.raises(ArtifactError, match=r"File too large .*results\.jsonl.*resume the run"):
            play(QUICK, follower(), tmp_path, config=CONFIG)

    assert ended(limited) == 0
    (folder,) = (tmp_path / "evals").glob("*/*")
    metadata = json.loads((folder / "metadata.json").read_text())
    assert metadata["status"] == "aborted"
    assert metadata["aborted_by"] == "ArtifactError"
    assert 0 < len(Results(folder)) < 60
    play(QUICK, follower(), tmp_path, config=CONFIG, resume=folder)
    assert bare_lines(folder) == bare_lines(whole)


def ended(work: Callable[[], Any]) -> int | None:
    """Exit code of a child process that does the work."""
    child = FORK.Process(target=work)
    child.start()
    child.join(60)
    return child.exitcode


@pytest.mark.parametrize("name", ["summary.json", "metadata.json", "config.toml"])
def test_disk_full_at_one_file(
    play: Play, tmp_path: Path, whole: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Each small file in turn can't be written once all rollouts are on file; what was there stays."""
    first = play(QUICK, follower(), tmp_path, config=CONFIG)
    before = {path.name: path.read_bytes() for path in first.folder.iterdir()}

    def no_space(path: Path, mode: str = "r", **rest: Any) -> Any:
        if path.name == f"{name}.partial":
            return open("/dev/full", mode, **rest)
        return opened(path, mode, **rest)

    opened = Path.open
    monkeypatch.setattr(Path, "open", no_space)
    with pytest.raises(ArtifactError, match=f"can't write {name}: No space left"):
        play(QUICK, follower(), tmp_path, config=CONFIG, resume=first.folder)
    monkeypatch.undo()
    after = {path.name: path.read_bytes() for path in first.folder.iterdir()}
    assert after["results.jsonl"] == before["results.jsonl"]
    if name != "summary.json":
        assert after[name] == before[name]
    assert not any(file.endswith(".partial") for file in after)
    run = play(QUICK, follower(), tmp_path, config=CONFIG, resume=first.folder)
    assert run.metadata["status"] == "complete"
    assert bare_lines(run.folder) == bare_lines(whole)


def test_output_path_is_a_file(play: Play, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("mine")
    watching = Watching()
    with pytest.raises(
        ArtifactError, match=r"can't write a run here: .* Choose another --output-dir"
    ) as refused:
        play(QUICK, follower(), tmp_path / "out", config=CONFIG, watching=watching)
    assert refused.value.exit_code == 2
    assert watching.records == []
    assert (tmp_path / "out").read_text() == "mine"


def test_unwritable_folder(play: Play, tmp_path: Path) -> None:
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o555)

    def as_nobody() -> None:
        if os.geteuid() == 0:
            os.chmod(tmp_path, 0o755)
            os.setuid(65534)
        with pytest.raises(ArtifactError, match="can't write a run here: Permission denied"):
            play(QUICK, follower(), locked, config=CONFIG)

    assert ended(as_nobody) == 0
    assert list(locked.iterdir()) == []


def test_results_can_no_longer_be_written_while_running(play: Play, tmp_path: Path) -> None:
    """The folder is taken away in the middle of a run: an error that names it, not a defect of ours."""

    def take_away(count: int) -> None:
        if count == 5:
            (folder,) = (tmp_path / "evals").glob("*/*")
            for file in folder.iterdir():
                file.unlink()
            folder.rmdir()

    with pytest.raises(ArtifactError, match="can't"):
        play(QUICK, follower(), tmp_path, config=CONFIG, watching=Watching(take_away))
