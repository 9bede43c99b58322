"""A run that is killed at any moment goes on where it stopped: nothing lost, nothing doubled."""

import json
import multiprocessing
import random
import shutil
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from security_verifiers.evals.artifacts import RunFolder
from security_verifiers.evals.evaluate import Run
from security_verifiers.evals.results import Results
from sv_shared.errors import ArtifactError
from sv_test_quick import QUICK, follower

from .conftest import Play, Watching, bare, bare_lines
from .doubles import Double, call_failed, follow

MIXED = {"scripts": ["right", "wrong", "abstain", "garbage", "refuse"], "rows": 40}
FORK = multiprocessing.get_context("fork")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The run that nobody interrupted."""
    return Play()(QUICK, follower(), tmp_path_factory.mktemp("whole"), config=MIXED)


def in_child(play: Callable[[], Any]) -> Any:
    """A started child process that plays; it shares what this process has imported."""

    def main() -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        play()

    child = FORK.Process(target=main)
    child.start()
    return child


def the_run(root: Path) -> Path:
    """The only run below a root."""
    (metadata,) = root.rglob("metadata.json")
    return metadata.parent


def lines_on_file(root: Path) -> int:
    """How many finished lines there are below a root, whoever is writing."""
    return sum(path.read_bytes().count(b"\n") for path in root.rglob("results.jsonl"))


def wait_for_lines(root: Path, count: int, limit_s: float = 30.0) -> None:
    """Returns once that many finished lines are below a root."""
    deadline = time.monotonic() + limit_s
    while lines_on_file(root) < count:
        assert time.monotonic() < deadline
        time.sleep(0.002)


def test_killed_at_random_moments(play: Play, tmp_path: Path, whole: Run) -> None:
    rng = random.Random(7)
    policy = follower(0.01)
    child = in_child(lambda: play(QUICK, policy, tmp_path, config=MIXED))
    kills = 0
    while True:
        wait_for_lines(tmp_path, min(40, lines_on_file(tmp_path) + 1 + rng.randrange(8)))
        time.sleep(rng.random() * 0.01)
        child.kill()
        child.join()
        kills += 1
        folder = the_run(tmp_path)
        if len(json.loads((folder / "metadata.json").read_text())["resumed"]) >= 4:
            break
        child = in_child(partial(play, QUICK, policy, tmp_path, config=MIXED, resume=folder))
    done = lines_on_file(tmp_path)
    run = play(QUICK, policy, tmp_path, config=MIXED, resume=folder)
    assert kills == 5
    assert bare_lines(folder) == bare_lines(whole.folder)
    assert {**run.summary, "run_id": ""} == {**whole.summary, "run_id": ""}
    assert run.metadata["status"] == "complete"
    assert [step["done"] for step in run.metadata["resumed"]][-1] == done
    assert run.metadata["run_id"] == folder.name


def test_killed_while_writing_a_line(play: Play, tmp_path: Path, whole: Run) -> None:
    lines = (whole.folder / "results.jsonl").read_bytes().splitlines(keepends=True)
    torn = lines[5]
    for length in (1, 2, len(torn) // 2, len(torn) - 2, len(torn) - 1, *range(7, len(torn) - 1, 211)):
        folder = tmp_path / f"cut-{length}"
        shutil.copytree(whole.folder, folder)
        (folder / "results.jsonl").write_bytes(b"".join(lines[:5]) + torn[:length])
        with RunFolder(folder) as held:
            done, moved, cut = held.prepare_resume()
        assert (len(done), moved, cut) == (5, 0, length)
        assert (folder / "results.jsonl").read_bytes() == b"".join(lines[:5])
    run = play(QUICK, follower(), tmp_path, config=MIXED, resume=folder)
    assert {**run.summary, "run_id": ""} == {**whole.summary, "run_id": ""}
    assert bare_lines(folder) == bare_lines(whole.folder)


def test_a_second_process_is_refused(play: Play, tmp_path: Path) -> None:
    child = in_child(lambda: play(QUICK, follower(0.05), tmp_path, config=MIXED))
    try:
        wait_for_lines(tmp_path, 1)
        before = (the_run(tmp_path) / "metadata.json").read_bytes()
        with pytest.raises(ArtifactError, match="another process is writing this run"):
            play(QUICK, follower(), tmp_path, config=MIXED, resume=the_run(tmp_path))
        assert (the_run(tmp_path) / "metadata.json").read_bytes() == before
        assert child.is_alive()
    finally:
        child.kill()
        child.join()


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"seed": 43}, "seed: 42 then, 43 now"),
        ({"config": {**MIXED, "salt": "!"}}, "dataset.sha256"),
        (
            {"config": {**MIXED, "task": {"weights": {"cost": 2.0}}}},
            "settings.task.weights.cost: 1.0 then, 2.0",
        ),
        ({"samples": 2}, "samples: 1 then, 2 now"),
        ({"tasks": 20}, "planned: 40 then, 20 now"),
        (
            {"player": QUICK.policies("agent")["coin"]},
            "seats.agent.model: 'policy:follow' then, 'policy:coin' now",
        ),
    ],
)
def test_another_run_is_refused(
    play: Play, tmp_path: Path, whole: Run, changed: dict[str, Any], named: str
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(whole.folder, folder)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    asked = {"config": MIXED, "player": follower(), **changed}
    with pytest.raises(ArtifactError, match="another run than the one on file") as refused:
        play(QUICK, asked.pop("player"), tmp_path, resume=folder, **asked)
    assert named in str(refused.value)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_failures_of_ours_are_played_again(play: Play, tmp_path: Path) -> None:
    config = {"scripts": ["right", "provider 500", "wrong", "garbage"], "rows": 40}
    first = play(QUICK, Double(follow), tmp_path, config=config)
    assert first.summary["counts"]["infra_error"] == 10
    assert first.summary["invalid"]
    failed = [line for line in Results(first.folder) if line["outcome"] == "infra_error"]

    healed = Double(lambda messages, sampling: follow(mend(messages), sampling))
    run = play(QUICK, healed, tmp_path, config=config, resume=first.folder)
    assert healed.calls == 10
    assert run.summary["counts"]["infra_error"] == 0
    assert not run.summary["invalid"]
    assert run.metadata["resumed"][0] | {"at": ""} == {
        "at": "",
        "done": 30,
        "played_again": 10,
        "bytes_cut": 0,
    }
    kept = [json.loads(line) for line in (run.folder / "retried.jsonl").read_text().splitlines()]
    assert kept == failed
    assert len(Results(run.folder)) == 40


def mend(messages: Any) -> Any:
    """The prompt with its failing script replaced."""
    return [{**messages[-1], "content": messages[-1]["content"].replace("provider 500", "right")}]


def test_killed_while_sorting_out_failures(play: Play, tmp_path: Path) -> None:
    """A resume that is killed between its two files leaves no line twice and does not block the next."""
    config = {"scripts": ["right", "provider 429"], "rows": 8}
    first = play(QUICK, Double(follow), tmp_path, config=config)
    failed = [line for line in Results(first.folder) if line["outcome"] == "infra_error"]
    halfway = [json.dumps(line, separators=(",", ":")) + "\n" for line in failed]
    (first.folder / "retried.jsonl").write_text("".join(halfway[:2]) + halfway[2][:40])
    (first.folder / "results.jsonl.partial").write_text("half a li")
    with RunFolder(first.folder) as held:
        done, moved, _ = held.prepare_resume()
    assert (len(done), moved) == (4, 4)
    kept = [json.loads(line) for line in (first.folder / "retried.jsonl").read_text().splitlines()]
    assert kept == failed
    assert [line["outcome"] for line in Results(first.folder)] == ["scored"] * 4
    assert not (first.folder / "results.jsonl.partial").exists()


def test_failing_twice_is_kept_twice(play: Play, tmp_path: Path) -> None:
    config = {"scripts": ["right", "provider 500"], "rows": 4}
    first = play(QUICK, Double(follow), tmp_path, config=config)
    play(QUICK, Double(follow), tmp_path, config=config, resume=first.folder)
    run = play(QUICK, Double(follow), tmp_path, config=config, resume=first.folder)
    kept = [json.loads(line) for line in (run.folder / "retried.jsonl").read_text().splitlines()]
    assert len(kept) == 4
    assert len({line["key"]["task"] for line in kept}) == 2
    assert run.summary["counts"]["infra_error"] == 2


def test_a_line_of_another_plan_is_refused(play: Play, tmp_path: Path, whole: Run) -> None:
    folder = tmp_path / "run"
    shutil.copytree(whole.folder, folder)
    *lines, last = (folder / "results.jsonl").read_text().splitlines(keepends=True)
    foreign = json.loads(last)
    foreign["key"]["task"] = "0" * 64
    (folder / "results.jsonl").write_text("".join(lines) + json.dumps(foreign) + "\n")
    with pytest.raises(ArtifactError, match="1 lines are not of this run's plan"):
        play(QUICK, follower(), tmp_path, config=MIXED, resume=folder)


def test_a_complete_run_resumes_to_itself(play: Play, tmp_path: Path, whole: Run) -> None:
    folder = tmp_path / "elsewhere"
    shutil.copytree(whole.folder, folder)
    lines = (folder / "results.jsonl").read_bytes()
    run = play(QUICK, follower(), tmp_path, config=MIXED, resume=folder)
    assert (folder / "results.jsonl").read_bytes() == lines
    assert run.summary == whole.summary
    assert run.metadata["run_id"] == whole.metadata["run_id"]


@pytest.mark.parametrize("broken", ["{", "[]", '{"schema_version": 1}', '{"schema_version": 0}'])
def test_broken_metadata_are_refused(play: Play, tmp_path: Path, whole: Run, broken: str) -> None:
    folder = tmp_path / "run"
    shutil.copytree(whole.folder, folder)
    (folder / "metadata.json").write_text(broken)
    with pytest.raises(ArtifactError, match=r"metadata\.json|schema version"):
        play(QUICK, follower(), tmp_path, config=MIXED, resume=folder)
    assert bare_lines(folder) == [bare(line) for line in Results(whole.folder)]


def test_nothing_of_a_cut_run_passes_for_a_whole_one(play: Play, tmp_path: Path) -> None:
    """Stopped from within after ten records: no summary, no counts, and the metadata say why."""

    def stop(count: int) -> None:
        if count == 10:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as stopped:
        play(QUICK, follower(), tmp_path, config=MIXED, watching=Watching(stop))
    folder = the_run(tmp_path)
    metadata = json.loads((folder / "metadata.json").read_text())
    assert metadata["status"] == "aborted"
    assert metadata["aborted_by"] == "KeyboardInterrupt"
    assert metadata["finished_rollouts"] == len(Results(folder)) == 10
    assert not (folder / "summary.json").exists()
    assert stopped.value.__notes__ == [f"resume with: sv eval --resume {folder}"]


def test_time_adds_up_over_resumes(play: Play, tmp_path: Path) -> None:
    config = {"rows": 8}

    def fail_late(messages: Any, sampling: Any) -> Any:
        time.sleep(0.02)
        if "number 7" in messages[-1]["content"]:
            raise call_failed(500)
        return follow(messages, sampling)

    first = play(QUICK, Double(fail_late), tmp_path, config=config)
    again = play(QUICK, Double(follow), tmp_path, config=config, resume=first.folder)
    assert first.metadata["seconds"] >= 8 * 0.02
    assert again.metadata["seconds"] > first.metadata["seconds"]
    assert again.metadata["started"] == first.metadata["started"]


def test_resumed_from_inside_its_folder(
    play: Play, tmp_path: Path, whole: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "moved"
    shutil.copytree(whole.folder, folder)
    lines = (folder / "results.jsonl").read_text().splitlines(keepends=True)
    (folder / "results.jsonl").write_text("".join(lines[:7]))
    monkeypatch.chdir(folder)
    run = play(QUICK, follower(), tmp_path, config=MIXED, resume=Path())
    assert run.summary == whole.summary
    assert run.metadata["run_id"] == whole.metadata["run_id"]
