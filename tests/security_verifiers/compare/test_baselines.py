"""Pinned baselines: an A/A change holds, a planted drop does not, and a pin is small and complete."""

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace as Stub
from typing import Any

import pytest

import sv_shared.environment
from security_verifiers.cli.main import cli
from security_verifiers.compare.baselines import CONFIG, Check, check, choose, pin, read_pinned
from security_verifiers.evals.results import Results
from sv_shared.errors import ArtifactError, UsageError
from sv_shared.policies import PolicySpec
from sv_test_quick import QuickEnvironment
from tests.security_verifiers.evals.conftest import Watching

from .conftest import wrong_every

ROWS = """[quick]
policies = ["player", "reference"]
dataset = {rows = 400, clusters = 100, scripts = ["right"]}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that says what is to be pinned."""
    (tmp_path / CONFIG).write_text(ROWS)
    return tmp_path


def with_player(monkeypatch: pytest.MonkeyPatch, player: PolicySpec) -> None:
    """Today's code: `policy:player` plays like this."""

    class Changed(QuickEnvironment):
        def policies(self, seat: str) -> Mapping[str, PolicySpec]:
            return {**super().policies(seat), "player": player}

    monkeypatch.setattr(sv_shared.environment, "installed", lambda: {"quick": Changed()})


def exit_code(*arguments: str) -> int:
    """What `sv` returns for these arguments."""
    status = cli.main(args=list(arguments), standalone_mode=False)
    assert isinstance(status, int)
    return status


def test_an_unchanged_player_holds_and_a_worse_one_does_not(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("baseline", "check", "--folder", str(folder))
    with_player(monkeypatch, wrong_every(100))
    assert exit_code("baseline", "pin", "--folder", str(folder)) == 0
    assert exit_code(*arguments) == 0
    assert "2 of 2 pinned runs held" in capsys.readouterr().out
    with_player(monkeypatch, wrong_every(10))  # 9 points of accuracy more are lost
    assert exit_code(*arguments) == 1
    shown = capsys.readouterr().out
    assert "1 of 2 pinned runs held" in shown
    assert "FAIL" in shown
    with_player(monkeypatch, wrong_every(25))  # 3 points: a fall beyond the margin is not ruled out
    assert exit_code(*arguments) == 1
    assert "inconclusive" in capsys.readouterr().out


def test_a_pin_has_every_line_and_no_prompt(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_player(monkeypatch, wrong_every(50))
    written = list(pin(choose((), folder), Watching(), folder))
    assert written == [folder / "quick" / "player", folder / "quick" / "reference"]
    lines = list(Results(written[0]))
    assert len(lines) == 400
    assert all(line["seats"]["agent"]["prompt"] == [] for line in lines)
    assert "risky?" not in (written[0] / "results.jsonl").read_text()


def test_a_second_pin_replaces_the_first(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for player in (wrong_every(0), wrong_every(2)):
        with_player(monkeypatch, player)
        list(pin(choose((), folder), Watching(), folder))
    (first, _) = check(choose(("quick",), folder), Watching(), folder)
    assert first.held
    assert first.report.metrics[1].base == 0.5


def test_changed_tasks_are_refused_with_what_to_do(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_player(monkeypatch, wrong_every(0))
    list(pin(choose((), folder), Watching(), folder))
    (folder / CONFIG).write_text(ROWS.replace("400", "399"))
    with pytest.raises(UsageError, match="data hash"):
        list(check(choose((), folder), Watching(), folder))


def test_nothing_pinned_says_how_to_pin(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_player(monkeypatch, wrong_every(0))
    with pytest.raises(ArtifactError, match="sv baseline pin"):
        list(check(choose((), folder), Watching(), folder))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[quick]\npolicies = []\n", "policies"),
        ('[quick]\npolicies = ["a"]\ntask = 3\n', "task"),
        ("[quick\n", "can't read"),
        ('[nowhere]\npolicies = ["a"]\n', "no environment named 'nowhere'"),
    ],
)
def test_a_broken_file_is_refused_in_a_line(folder: Path, text: str, told: str) -> None:
    (folder / CONFIG).write_text(text)
    with pytest.raises(UsageError, match=told):
        read_pinned(folder)


def test_a_missing_file_and_an_unlisted_environment(folder: Path) -> None:
    with pytest.raises(UsageError, match=r"no baselines\.toml here"):
        read_pinned(folder / "nowhere")
    with pytest.raises(UsageError, match="nothing is to be pinned of duel"):
        choose(("duel",), folder)


def test_a_sampled_player_that_is_not_decided_only_warns() -> None:
    def verdict(name: str, deterministic: bool) -> bool:
        report: Any = Stub(verdict=name, pairs=Stub(deterministic=deterministic))
        return Check("quick", "player", report).held

    assert verdict("pass", True)
    assert verdict("inconclusive", False)
    assert not verdict("inconclusive", True)
    assert not verdict("fail", False)


def test_what_is_pinned_here_is_what_the_file_lists() -> None:
    root = Path(__file__).resolve().parents[3] / "baselines"
    for alias, table in tomllib.loads((root / CONFIG).read_text()).items():
        pinned = {path.parent.name for path in (root / alias).glob("*/metadata.json")}
        assert pinned == set(table["policies"]), alias
        for path in (root / alias).glob("*/metadata.json"):
            facts = json.loads(path.read_text())
            assert facts["status"] == "complete"
            assert str(Path.home()) not in path.read_text()
