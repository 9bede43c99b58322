"""Ctrl-C and SIGTERM end a run cleanly: resumable, exit code 130, and the message says how to go on."""

import json
import multiprocessing
import os
import shlex
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import sv_shared.environment
from security_verifiers.cli.main import main
from security_verifiers.evals.results import Results
from sv_test_quick import QUICK

FORK = multiprocessing.get_context("fork")


class Sv:
    """`sv` in a child process that knows the quick environment; its standard error goes to a file."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.error = folder / "stderr.txt"
        monkeypatch.setattr(sv_shared.environment, "installed", lambda: {"quick": QUICK})

    def start(
        self, *arguments: str, before: Callable[[], None] = lambda: None
    ) -> multiprocessing.process.BaseProcess:
        """Start `sv` with these arguments."""

        def child() -> None:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            before()
            os.dup2(os.open(self.error, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
            sys.argv = ["sv", *arguments]
            main()

        process = FORK.Process(target=child)
        process.start()
        return process

    def told(self) -> str:
        """What it wrote to standard error."""
        return self.error.read_text()


@pytest.fixture
def sv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sv:
    """Starts `sv` in child processes."""
    return Sv(tmp_path, monkeypatch)


def results_of(root: Path) -> list[Path]:
    """Result files below a root."""
    return list(root.rglob("results.jsonl"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_interrupted_run_is_aborted_and_resumes(sv: Sv, tmp_path: Path, number: signal.Signals) -> None:
    root = tmp_path / "out put"
    asked = ["eval", "quick", "--model", "policy:slow", "--set", "rows=24", "--output-dir", str(root)]
    child = sv.start(*asked)
    deadline = time.monotonic() + 30
    while not (results_of(root) and results_of(root)[0].stat().st_size > 3000):
        assert time.monotonic() < deadline
        assert child.is_alive(), sv.told()
        time.sleep(0.01)
    assert child.pid is not None
    os.kill(child.pid, number)
    child.join(10)
    assert child.exitcode == 130
    folder = results_of(root)[0].parent
    metadata = json.loads((folder / "metadata.json").read_text())
    assert metadata["status"] == "aborted"
    assert 0 < len(Results(folder)) == metadata["finished_rollouts"] < 24
    assert "sv: interrupted" in sv.told()
    (advice,) = [line for line in sv.told().splitlines() if "resume with" in line]
    command = shlex.split(advice.partition("resume with: ")[2])
    assert command[:3] == ["sv", "eval", "--resume"]

    child = sv.start(*command[1:])
    child.join(60)
    assert child.exitcode == 0, sv.told()
    metadata = json.loads((folder / "metadata.json").read_text())
    assert metadata["status"] == "complete"
    assert sum(metadata["counts"].values()) == 24


def test_nohup_is_respected(sv: Sv, tmp_path: Path) -> None:
    """A run that was started to outlive its terminal does."""
    asked = ["eval", "quick", "-m", "policy:slow", "--set", "rows=20", "--output-dir", str(tmp_path)]
    child = sv.start(*asked, before=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN) and None)
    while not results_of(tmp_path):
        assert child.is_alive(), sv.told()
        time.sleep(0.01)
    assert child.pid is not None
    os.kill(child.pid, signal.SIGHUP)
    child.join(60)
    assert child.exitcode == 0, sv.told()
    assert len(Results(results_of(tmp_path)[0].parent)) == 20
