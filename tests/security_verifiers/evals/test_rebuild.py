"""Tasks and traces of stored rollouts: what a grader needs is there, or the reason why it is not."""

import asyncio
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import sv_shared.environment
from security_verifiers.evals.engine import Engine
from security_verifiers.evals.evaluate import Run, RunLimits, evaluate
from security_verifiers.evals.plan import make_plan
from security_verifiers.evals.rescore import rescore
from security_verifiers.evals.results import Results
from security_verifiers.evals.seats import policy_seats
from sv_shared.grading import Grade
from sv_test_duel import DUEL, DuelEnv
from sv_test_pocket import POCKET
from sv_test_quick import QUICK, QuickTask, QuickTaskset, follower
from sv_test_toolbox import TOOLBOX

from .conftest import Play, Watching
from .test_rescore import MIXED, edit, totals


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """All environments of these tests can be found."""
    known = {one.alias: one for one in (QUICK, DUEL, TOOLBOX, POCKET)}
    monkeypatch.setattr(sv_shared.environment, "installed", lambda: known)


@pytest.fixture(scope="module")
def tool_runs(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    """Every policy with the shared tool server, and one with a server a rollout. Starting servers is slow."""
    root = tmp_path_factory.mktemp("tools")

    async def with_one_server() -> list[Run]:
        plan = make_plan(TOOLBOX, {"words": 4})
        runs = []
        async with Engine(TOOLBOX, plan.env, seed=42, time_limit_s=300) as engine:
            for policy in TOOLBOX.policies("agent").values():
                seats, limits = policy_seats(TOOLBOX, policy), RunLimits(4, 300)
                runs.append(await evaluate(engine, plan, seats, root, limits=limits, observer=Watching()))
        return runs

    reference = POCKET.policies("agent")["reference"]
    return [*asyncio.run(with_one_server()), Play()(POCKET, reference, root, tasks=1, time_limit_s=300)]


def copied(run: Run, root: Path) -> Run:
    """A copy of a run that a test may change."""
    return replace(run, folder=Path(shutil.copytree(run.folder, root / run.folder.name)))


def test_nothing_flips_with_tools(tool_runs: list[Run]) -> None:
    assert [run.summary["reward"]["value"] for run in tool_runs] == [1.0, 0.0, 0.0, 1.0]
    for run in tool_runs:
        assert totals(rescore(run.folder)) == (run.metadata["planned"], 0, 0)


def test_games_and_tool_rollouts_are_graded_by_what_happened_in_them(
    play: Play, tmp_path: Path, tool_runs: list[Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The keeper's last word decides a duel and the notes in the tool server's state a tool task."""
    duel = play(DUEL, DUEL.policies("guesser")["bisect"], tmp_path)
    edit(
        duel, lambda line: line["seats"]["keeper"]["completion"][-1].update(content="lower"), lambda i: i < 3
    )
    assert totals(rescore(duel.folder)) == (4, 3, 0)
    tools = copied(tool_runs[0], tmp_path)
    edit(tools, lambda line: line["seats"]["agent"]["world"]["state"].update(notes=[]), lambda i: i < 1)
    assert totals(rescore(tools.folder)) == (3, 1, 0)

    async def crash(self: DuelEnv, task: Any, episode: Any) -> None:
        raise RuntimeError("no referee")

    monkeypatch.setattr(DuelEnv, "finalize", crash)
    assert {one.now["outcome"] for one in rescore(duel.folder).changed} == {"infra_error"}


@pytest.mark.parametrize("storage", ["redacted", "hash_only"])
def test_texts_that_were_not_kept_cannot_be_graded(play: Play, tmp_path: Path, storage: str) -> None:
    run = play(QUICK, follower(), tmp_path, config={**MIXED, "storage": storage})
    report = rescore(run.folder)
    assert totals(report) == (0, 0, 20)
    assert report.not_rescorable == {f"its text was stored as {storage}": 20}
    kept: list[Any] = []
    rescore(run.folder, kept.append)
    assert "Risky" not in json.dumps(kept)


def test_lines_of_before_are_readable_and_lack_what_they_lack(
    play: Play, tmp_path: Path, tool_runs: list[Run]
) -> None:
    """Lines from before states and refusals were stored."""
    tools = copied(tool_runs[0], tmp_path)
    edit(tools, lambda line: line["seats"]["agent"].pop("world"), lambda i: True)
    assert rescore(tools.folder).not_rescorable == {"the rollout's state was not stored": 4}
    quick = play(QUICK, follower(), tmp_path, config={**MIXED, "rows": 10})
    edit(quick, lambda line: line["seats"]["agent"].pop("refusal", None), lambda i: True)
    report = rescore(quick.folder)
    assert totals(report) == (8, 0, 2)
    assert report.not_rescorable == {"the provider's refusal text was not stored": 2}


def test_states_that_cannot_be_stored_say_so(
    play: Play, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grade = QuickTask.grade
    odd = {"row-0": object(), "row-1": float("nan"), "row-2": "x" * (1 << 21), "row-3": "kept"}

    async def hoarding(self: QuickTask, trace: Any) -> Grade:
        trace.info["hoard"] = odd[self.data.id or ""]
        return await grade(self, trace)

    monkeypatch.setattr(QuickTask, "grade", hoarding)
    run = play(QUICK, follower(), tmp_path, config={"rows": 4})
    report = rescore(run.folder)
    assert totals(report) == (1, 0, 3)
    assert sum(reason.startswith("the rollout's state ") for reason in report.not_rescorable) == 3


def test_tasks_that_are_gone_or_read_otherwise_are_told_apart(
    play: Play, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = play(QUICK, follower(), tmp_path, config={"rows": 12}, tasks=10)
    played = {int(line["task_id"].removeprefix("row-")) for line in Results(run.folder)}
    load = QuickTaskset.load

    def today(self: QuickTaskset) -> Any:
        for number, task in enumerate(load(self)):
            if number < 9:
                yield task.with_data(prompt="Reworded.") if number < 2 else task

    monkeypatch.setattr(QuickTaskset, "load", today)
    report = rescore(run.folder)
    gone, reworded = len(played - set(range(9))), len(played & {0, 1})
    assert report.not_rescorable == {
        "its task is not in the dataset any more": gone,
        "its task reads differently now": reworded,
    }
    assert totals(report) == (10 - gone - reworded, 0, gone + reworded)
