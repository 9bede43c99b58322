"""`sv ablate`: options, exit codes, what is printed."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import sv_shared.environment
from security_verifiers.cli.main import COMMANDS, cli
from sv_shared.errors import SVError
from sv_test_duel import DUEL
from sv_test_quick import QUICK

EXPERIMENT = """
environment: quick
players: [policy:follow]
settings: {rows: 24, scripts: [right, wrong, abstain]}
arms:
  full: {note: As it is.}
  dear: {settings: {task.weights.cost_ratio: 9}, note: Misses cost more.}
  again: {how: rescore}
"""


@pytest.fixture
def experiment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An experiment on the quick environment, with its runs to be written beside it."""
    monkeypatch.setattr(sv_shared.environment, "installed", lambda: {"quick": QUICK, "duel": DUEL})
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "2026-01-01.yaml"
    path.write_text(EXPERIMENT)
    return path


def call(*arguments: str | Path) -> Result:
    """The command, by way of the group that users call."""
    return CliRunner().invoke(cli, ["ablate", *map(str, arguments)], standalone_mode=False)


def test_every_arm_has_its_table(experiment: Path, tmp_path: Path) -> None:
    assert "ablate" in COMMANDS
    ended = call("quick", "--config", experiment)
    assert ended.return_value == 0
    for said in (
        "policy:follow by arm",
        "dear against full, 24 pairs",
        "again against full",
        "Misses cost more.",
    ):
        assert said in ended.stdout
    # The control and one arm were played; the other was graded from the control's answers.
    assert len(list(tmp_path.glob("outputs/**/results.jsonl"))) == 2


def test_options_replace_what_the_experiment_says(experiment: Path, tmp_path: Path) -> None:
    where = tmp_path / "elsewhere"
    options = ["--arms", "again", "-n", "6", "-m", "policy:coin,policy:random", "--output-dir", where]
    ended = call("quick", "--config", experiment, "--json", *options)
    content = json.loads(ended.stdout)
    assert ended.stderr == ""
    assert list(content["arms"]) == ["full", "again"]
    assert list(content["controls"]) == ["policy:coin", "policy:random"]
    assert {one["pairs"] for one in content["results"]} == {6}
    assert len(list(where.glob("**/results.jsonl"))) == 2


def test_markdown(experiment: Path) -> None:
    ended = call("quick", "--config", experiment, "--markdown", "--arms", "dear")
    assert "| metric | control [95 %] | arm [95 %] |" in ended.stdout


def test_a_run_that_failed_through_us_ends_with_1(experiment: Path) -> None:
    experiment.write_text(EXPERIMENT.replace("abstain", "player crash"))
    assert call("quick", "--config", experiment, "--arms", "again").return_value == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["quack"], "no environment named 'quack'"),
        (["quick"], "no experiment is planned for quick"),
        (["quick", "--config", "none.yaml"], "none.yaml"),
        (["duel", "--config", "2026-01-01.yaml"], "the experiment is one of quick, not duel"),
        (["quick", "--config", "2026-01-01.yaml", "--arms", "fourth"], "no arm 'fourth'"),
        (["quick", "--config", "2026-01-01.yaml", "-m", "policy:nobody"], "no policy 'nobody'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_use_is_refused_and_nothing_is_played(
    experiment: Path, tmp_path: Path, arguments: list[str], said: str
) -> None:
    refused = call(*arguments)
    assert isinstance(refused.exception, SVError)
    assert refused.exception.exit_code == 2
    assert said in str(refused.exception)
    assert not (tmp_path / "outputs").exists()
