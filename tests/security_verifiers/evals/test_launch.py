"""From a request to finished runs: nothing is played for a request that can't be carried out."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import sv_shared.environment
from security_verifiers.evals import casting
from security_verifiers.evals.launch import EvalRequest, resume_run, run_models
from security_verifiers.evals.results import Results
from sv_shared.errors import ModelError, SVError, UsageError
from sv_test_duel import DUEL
from sv_test_quick import QUICK

from .conftest import Watching, bare_lines
from .doubles import Double, follow


class Tracked(Double):
    """A double that notes being started and closed, and may refuse to start."""

    def __init__(self, log: list[str], *, broken: bool = False) -> None:
        super().__init__(follow)
        self._log, self._broken = log, broken

    async def start(self, *say: Any) -> None:
        self._log.append("start")
        if self._broken:
            raise ModelError("the model can't be reached")

    async def close(self) -> None:
        self._log.append("close")


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test environments can be found."""
    monkeypatch.setattr(sv_shared.environment, "installed", lambda: {"quick": QUICK, "duel": DUEL})


def request_of(root: Path, *models: str, **rest: Any) -> EvalRequest:
    """A request for the quick environment."""
    return replace(EvalRequest("quick", models, config={"rows": 6}, output_dir=root), **rest)


def test_models_play_the_same_tasks_one_after_the_other(tmp_path: Path) -> None:
    watching = Watching()
    runs = asyncio.run(run_models(request_of(tmp_path, "policy:coin", "policy:random"), watching))
    assert [label for label, _, _ in watching.started] == ["quick policy:coin", "quick policy:random"]
    tasks = [{line["key"]["task"] for line in Results(run.folder)} for run in runs]
    assert tasks[0] == tasks[1]
    assert len(tasks[0]) == 6


@pytest.mark.parametrize(
    ("change", "error", "told"),
    [
        ({"models": ()}, UsageError, "no model was named"),
        ({"models": ("policy:coin", "policy:none")}, ModelError, "no policy 'none' for the seat agent"),
        ({"models": ("policy:coin", "gpt-nonsense")}, ModelError, "gpt-nonsense"),
        ({"environment": "quack"}, UsageError, "Did you mean quick?"),
        ({"opponent": "policy:coin"}, UsageError, "quick has one seat"),
        ({"tools": True}, UsageError, "no valid setting 'tools'"),
        ({"tasks": 7}, SVError, "7 tasks were asked for"),
    ],
)
def test_requests_that_cannot_be_carried_out_leave_nothing(
    tmp_path: Path, change: dict[str, Any], error: type[SVError], told: str
) -> None:
    request = replace(request_of(tmp_path, "policy:coin"), **change)
    with pytest.raises(error) as refused:
        asyncio.run(run_models(request, Watching()))
    assert told in str(refused.value)
    assert list(tmp_path.iterdir()) == []


def test_a_policy_that_cannot_play_some_tasks_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    coin = replace(QUICK.policies("agent")["coin"], can_play=lambda data: data.difficulty == "easy")
    monkeypatch.setattr(type(QUICK), "policies", lambda self, seat: {"coin": coin})
    with pytest.raises(UsageError, match="policy:coin can't play 3 of the 6 tasks of quick"):
        asyncio.run(run_models(request_of(tmp_path, "policy:coin"), Watching()))
    assert list(tmp_path.iterdir()) == []


def test_an_opponent_takes_the_other_seat(tmp_path: Path) -> None:
    request = EvalRequest("duel", ("policy:bisect",), opponent="policy:honest", output_dir=tmp_path)
    (run,) = asyncio.run(run_models(request, Watching()))
    assert run.metadata["seats"]["keeper"]["model"] == "policy:honest"
    assert run.summary["reward"]["value"] == 1.0


def test_resume_takes_everything_from_the_folder(tmp_path: Path) -> None:
    request = request_of(tmp_path, "policy:coin", samples=2, seed=7, concurrency=3)
    (run,) = asyncio.run(run_models(request, Watching()))
    whole = bare_lines(run.folder)
    results = run.folder / "results.jsonl"
    results.write_text("".join(results.read_text().splitlines(keepends=True)[:5]))
    watching = Watching()
    resumed = asyncio.run(resume_run(run.folder, watching))
    assert watching.started == [("quick policy:coin", 12, 5)]
    assert bare_lines(run.folder) == whole
    assert resumed.summary == run.summary
    assert resumed.metadata["concurrency"] == 3
    assert asyncio.run(resume_run(run.folder, watching, concurrency=5)).metadata["concurrency"] == 5


class TestModels:
    """Models are started before their run and closed after it, whatever happens."""

    NAME = "openai:double@http://127.0.0.1:1/v1"

    def connected(self, monkeypatch: pytest.MonkeyPatch, *models: Double) -> None:
        """The names of the next requests lead to these models."""
        waiting = list(models)
        monkeypatch.setattr(casting, "connect", lambda *args, **rest: waiting.pop(0))

    def test_started_and_closed(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        log: list[str] = []
        self.connected(monkeypatch, Tracked(log), Tracked(log))
        (run,) = asyncio.run(run_models(request_of(tmp_path, self.NAME), Watching()))
        assert log == ["start", "close"]
        assert run.summary["counts"]["scored"] == 5
        assert run.metadata["cost_usd"] > 0
        results = run.folder / "results.jsonl"
        results.write_text(results.read_text().splitlines(keepends=True)[0])
        resumed = asyncio.run(resume_run(run.folder, Watching()))
        assert resumed.summary == run.summary
        assert log == ["start", "close"] * 2

    def test_a_model_that_does_not_start(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        log: list[str] = []
        self.connected(monkeypatch, Tracked(log, broken=True))
        with pytest.raises(ModelError, match="can't be reached"):
            asyncio.run(run_models(request_of(tmp_path, self.NAME), Watching()))
        assert log == ["start", "close"]
        assert list(tmp_path.iterdir()) == []

    def test_closed_after_an_interruption(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def stop(count: int) -> None:
            raise KeyboardInterrupt

        log: list[str] = []
        self.connected(monkeypatch, Tracked(log))
        with pytest.raises(KeyboardInterrupt):
            asyncio.run(run_models(request_of(tmp_path, self.NAME), Watching(stop)))
        assert log == ["start", "close"]

    def test_a_price_that_changed_makes_no_other_run(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        dearer = Tracked([])
        dearer.info = replace(dearer.info, price=dearer.info.price.model_copy(update={"input": 9.0}))
        other = Tracked([])
        other.info = replace(other.info, served_name="double-2")
        self.connected(monkeypatch, Tracked([]), dearer, other)
        (run,) = asyncio.run(run_models(request_of(tmp_path, self.NAME), Watching()))
        assert asyncio.run(resume_run(run.folder, Watching())).summary == run.summary
        with pytest.raises(SVError, match=r"seats\.agent\.served_name: 'double-1' then, 'double-2' now"):
            asyncio.run(resume_run(run.folder, Watching()))
