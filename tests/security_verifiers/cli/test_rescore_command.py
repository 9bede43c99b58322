"""`sv rescore`: exit codes, what is printed, what is written."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import sv_shared.environment
from security_verifiers.cli.main import COMMANDS, cli
from security_verifiers.evals.evaluate import Run
from security_verifiers.evals.results import Results
from sv_shared.errors import SVError
from sv_test_quick import QUICK, follower
from tests.security_verifiers.evals.conftest import Play

CONFIG = {"scripts": ["right", "wrong", "abstain", "player crash"], "rows": 80}


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """A run of 80 rollouts of which 20 have no answer."""
    monkeypatch.setattr(sv_shared.environment, "installed", lambda: {"quick": QUICK})
    return Play()(QUICK, follower(), tmp_path, config=CONFIG)


def call(*arguments: str | Path) -> Result:
    """The command, by way of the group that users call."""
    return CliRunner().invoke(cli, ["rescore", *map(str, arguments)], standalone_mode=False)


def spoil(run: Run, count: int) -> list[str]:
    """Other components in the first answers on file; returns their task ids."""
    path = run.folder / "results.jsonl"
    lines: list[dict[str, Any]] = [json.loads(text) for text in path.read_text().splitlines()]
    chosen = [line for line in lines if line["reward"] is not None][:count]
    for line in chosen:
        line |= {"reward": 0.25, "components": {"accuracy": 0.25}}
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return [line["task_id"] for line in chosen]


def flat(text: str) -> str:
    """A printed text with its lines joined."""
    return " ".join(text.split())


def test_what_is_the_same_ends_with_0(run: Run) -> None:
    assert "rescore" in COMMANDS
    ended = call(run.folder)
    assert ended.return_value == 0
    assert "80 rollouts = 60 unchanged + 0 changed + 20 not rescorable" in flat(ended.stdout)
    assert "not rescorable: 20, infra_error: there is no answer to grade" in flat(ended.stdout)
    assert sorted(path.name for path in run.folder.glob("rescored*")) == []


def test_what_changed_ends_with_1_and_is_listed(run: Run) -> None:
    (name,) = spoil(run, 1)
    stored = {line["task_id"]: line for line in Results(run.folder)}[name]
    ended = call(run.folder, "--write")
    assert ended.return_value == 1
    assert "59 unchanged + 1 changed + 20 not rescorable" in flat(ended.stdout)
    row = next(line for line in ended.stdout.splitlines() if line.startswith(name))
    assert f"{stored['outcome']} 0.25 -> " in flat(row)
    assert "responsible for 1: " in ended.stdout
    assert (run.folder / "rescored.jsonl").read_text().count("\n") == 80
    markdown = call(run.folder, "--markdown").stdout
    assert f"| {name} | 0 | {stored['outcome']} 0.25 -> " in markdown


def test_long_lists_are_cut_and_say_so(run: Run) -> None:
    spoil(run, 55)
    ended = call(run.folder)
    assert sum(line.startswith("row-") for line in ended.stdout.splitlines()) == 50
    assert "5 more changed: --json lists all" in ended.stdout


def test_json_is_all_that_is_printed(run: Run) -> None:
    names = spoil(run, 3)
    ended = call(run.folder, "--json")
    content = json.loads(ended.stdout)
    assert ended.stderr == ""
    assert ended.return_value == 1
    assert (content["lines"], content["unchanged"], content["changed"]) == (80, 57, 3)
    assert sum(content["not_rescorable"].values()) == 20
    assert sorted(item["task_id"] for item in content["items"]) == sorted(names)
    assert all(item["then"]["reward"] == 0.25 != item["now"]["reward"] for item in content["items"])


def test_where_nothing_can_be_graded_nothing_is_said_to_hold(run: Run, tmp_path: Path) -> None:
    hashed = Play()(QUICK, follower(), tmp_path, config={"rows": 2, "storage": "hash_only"})
    assert call(hashed.folder).return_value == 3


def test_broken_lines_are_refused_or_counted(run: Run) -> None:
    with (run.folder / "results.jsonl").open("a") as file:
        file.write("{")
    refused = call(run.folder)
    assert isinstance(refused.exception, SVError)
    assert refused.exception.exit_code == 2
    assert "results.jsonl:81" in str(refused.exception)
    allowed = call(run.folder, "--allow-partial")
    assert allowed.return_value == 0
    assert "81 rollouts = 60 unchanged + 0 changed + 21 not rescorable" in flat(allowed.stdout)


@pytest.mark.parametrize("what", ["no folder", "no run"])
def test_what_is_no_run_is_refused(tmp_path: Path, what: str) -> None:
    refused = call(tmp_path / "none" if what == "no folder" else tmp_path)
    assert isinstance(refused.exception, SVError)
    assert refused.exception.exit_code == 2
    assert "Is this the folder of a run?" in str(refused.exception)
