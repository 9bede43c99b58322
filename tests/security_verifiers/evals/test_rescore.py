"""Stored rollouts under today's code: what is the same is said to be, and exactly what changed is found."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import sv_shared.environment
from security_verifiers.evals.evaluate import Run
from security_verifiers.evals.rebuild import NO_ANSWER
from security_verifiers.evals.rescore import (
    RESCORED,
    UNEXPLAINED,
    UNSTEADY,
    Rescored,
    rescore,
    write_rescored,
)
from security_verifiers.evals.results import Results
from sv_env_network_logs import rewards
from sv_env_network_logs.environment import NETWORK_LOGS
from sv_shared.answer_policies import answer_json
from sv_shared.environment import Environment
from sv_shared.errors import ArtifactError, SVError
from sv_shared.grading import Grade
from sv_shared.outcomes import Outcome
from sv_test_duel import DUEL
from sv_test_quick import ENDS, QUICK, QuickTask, follower

from .conftest import Play
from .doubles import Double, follow, said

QUICKEST = ("reference", "always-abstain", "empty", "bayes")
"""E1's policies that are rescored in every run of the tests: one of each way to end, and the best."""
MIXED = {"scripts": ["right", "wrong", "abstain", "garbage", "refuse"], "rows": 20}
EVERY_END = {"scripts": list(ENDS), "rows": 2 * len(ENDS)}


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """All environments of these tests can be found."""
    known = {one.alias: one for one in (NETWORK_LOGS, QUICK, DUEL)}
    monkeypatch.setattr(sv_shared.environment, "installed", lambda: known)


def totals(report: Rescored) -> tuple[int, int, int]:
    """(unchanged, changed, not rescorable), after checking that they are all lines."""
    counted = report.unchanged, len(report.changed), sum(report.not_rescorable.values())
    assert sum(counted) == report.lines
    return counted


def edit(
    run: Run, change: Callable[[dict[str, Any]], None], which: Callable[[int], bool] = bool
) -> list[str]:
    """Change stored lines by hand; returns the task ids of those changed."""
    path = run.folder / "results.jsonl"
    lines = [json.loads(text) for text in path.read_text().splitlines()]
    chosen = [line for i, line in enumerate(lines) if which(i)]
    for line in chosen:
        change(line)
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return sorted(line["task_id"] for line in chosen)


def every_policy(environment: Environment) -> list[str]:
    """Names of all policies of the evaluated seat."""
    return list(environment.policies(environment.evaluated_seat))


@pytest.mark.parametrize(
    "name",
    [
        name if name in QUICKEST else pytest.param(name, marks=pytest.mark.slow)
        for name in every_policy(NETWORK_LOGS)
    ],
)
def test_nothing_flips_on_any_policy_of_e1(play: Play, tmp_path: Path, name: str) -> None:
    run = play(NETWORK_LOGS, NETWORK_LOGS.policies("agent")[name], tmp_path, tasks=30)
    assert totals(rescore(run.folder)) == (30, 0, 0)


@pytest.mark.parametrize(
    ("environment", "name"),
    [(one, name) for one in (QUICK, DUEL) for name in every_policy(one) if name not in ("follow", "slow")],
    ids=lambda value: getattr(value, "alias", value),
)
def test_nothing_flips_with_one_seat_or_two(
    play: Play, tmp_path: Path, environment: Environment, name: str
) -> None:
    run = play(environment, environment.policies(environment.evaluated_seat)[name], tmp_path)
    assert totals(rescore(run.folder)) == (run.metadata["planned"], 0, 0)


def test_every_way_to_end_comes_out_the_same(play: Play, tmp_path: Path) -> None:
    run = play(QUICK, follower(), tmp_path, config=EVERY_END, samples=2)
    report = rescore(run.folder)
    assert totals(report) == (4 * (len(ENDS) - 1), 0, 4)
    assert report.not_rescorable == {NO_ANSWER: 4}


def test_what_a_model_said_is_graded_with_its_reasons(play: Play, tmp_path: Path) -> None:
    """Cut off, filtered, refused beside an answer, whole: grades hang on more than the text."""
    good = answer_json("Risky", 0.9)
    ends = {
        0: said(f"{good} and", finish_reason="length"),
        1: said("", finish_reason="content_filter"),
        2: said(good, refusal="I would rather not."),
        3: said(good, reasoning_content="hm"),
    }
    double = Double(lambda messages, sampling: ends[int(str(messages[-1]["content"]).split()[2])])
    run = play(QUICK, double, tmp_path, config={"rows": 4})
    assert run.summary["counts"]["refused"] == 2
    assert totals(rescore(run.folder)) == (4, 0, 0)
    refused = [line for line in Results(run.folder) if line["task_id"] == "row-2"]
    assert refused[0]["seats"]["agent"]["refusal"] == "I would rather not."


def test_a_changed_weight_flips_exactly_the_answers_it_pays(
    play: Play, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = play(NETWORK_LOGS, NETWORK_LOGS.policies("agent")["random"], tmp_path)
    components = rewards.grade_classification.__globals__["classification_components"]

    def cheaper(weights: Any, **answer: Any) -> dict[str, float]:
        paid: dict[str, float] = components(weights, **answer)
        return paid | {"cost": paid["cost"] * 0.75}

    monkeypatch.setitem(rewards.grade_classification.__globals__, "classification_components", cheaper)
    missed = {line["task_id"]: line for line in Results(run.folder) if line["components"].get("cost")}
    report = rescore(run.folder)
    assert {one.task_id for one in report.changed} == set(missed)
    assert totals(report) == (300 - len(missed), len(missed), 0)
    assert len(missed) > 5
    for one in report.changed:
        stored = missed[one.task_id]
        assert one.components == {"cost": (-4.0, -3.0)}
        assert one.then["reward"] == stored["reward"]
        assert one.now["reward"] == pytest.approx(stored["reward"] + 1.0)


def test_a_changed_parser_flips_exactly_what_it_reads_otherwise(
    play: Play, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = play(QUICK, follower(), tmp_path, config=MIXED)
    classify = QuickTask._classify

    def lenient(self: QuickTask, text: str, *more: Any) -> Grade:
        return classify(self, answer_json("Risky", 1.0) if text == "7 bananas" else text, *more)

    monkeypatch.setattr(QuickTask, "_classify", lenient)
    garbage = {line["task_id"] for line in Results(run.folder) if line["outcome"] == "parse_fail"}
    report = rescore(run.folder)
    assert {one.task_id for one in report.changed} == garbage
    assert totals(report) == (16, 4, 0)
    assert all(one.fields == ("outcome", *one.fields[1:]) for one in report.changed)
    assert {one.now["outcome"] for one in report.changed} == {"scored"}
    assert report.changed[0].components["floor"][1] is None


@pytest.mark.parametrize(
    ("change", "fields"),
    [
        ({"components": {"accuracy": 0.5}, "reward": 0.5}, ("reward", "components")),
        ({"outcome": "abstained"}, ("outcome",)),
        ({"truth": "Odd"}, ("truth",)),
        ({"parsed": {"label": "Safe", "confidence": 1, "p_positive": 0}}, ("parsed",)),
        ({"flags": ["tampering"]}, ("flags",)),
        ({"metrics": {}}, ("metrics",)),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_a_line_changed_by_hand_is_found(
    play: Play, tmp_path: Path, change: Mapping[str, Any], fields: tuple[str, ...]
) -> None:
    run = play(QUICK, follower(), tmp_path, config={"scripts": ["right"], "rows": 12})
    edited = edit(run, lambda line: line.update(change), lambda i: i in (2, 7))
    report = rescore(run.folder)
    assert sorted(one.task_id for one in report.changed) == edited
    assert totals(report) == (10, 2, 0)
    assert {one.fields for one in report.changed} == {fields}


def test_where_nothing_else_differs_the_line_is_suspected(
    play: Play, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clean = {"commit": "a" * 40, "dirty": False}
    for module in ("rescore", "metadata"):
        monkeypatch.setattr(f"security_verifiers.evals.{module}.git_state", lambda folder: dict(clean))
    run = play(QUICK, follower(), tmp_path, config={"rows": 4})
    edit(run, lambda line: line.update(truth="Odd"), lambda i: i == 2)
    report = rescore(run.folder)
    assert report.differences == []
    assert [one.responsible for one in report.changed] == [(UNEXPLAINED,)]
    clean["dirty"] = True
    dirty = rescore(run.folder)
    assert [one.responsible for one in dirty.changed] == [("code commit",)]
    assert "with uncommitted changes" in str(dirty.differences[0])


def test_a_reward_that_is_not_its_components_sum_is_refused_by_line(play: Play, tmp_path: Path) -> None:
    run = play(QUICK, follower(), tmp_path, config={"rows": 12})
    edit(run, lambda line: line.update(reward=0.123), lambda i: i in (2, 7))
    with pytest.raises(ArtifactError, match=r"components that add up to .*results.jsonl:3"):
        rescore(run.folder)
    assert totals(rescore(run.folder, allow_partial=True)) == (10, 0, 2)


def test_an_edited_answer_is_graded_as_edited(play: Play, tmp_path: Path) -> None:
    run = play(QUICK, follower(), tmp_path, config={"scripts": ["right"], "rows": 6})
    edit(run, lambda line: line["seats"]["agent"]["completion"][-1].update(content="?"), lambda i: i == 3)
    (one,) = rescore(run.folder).changed
    assert (one.then["outcome"], one.now["outcome"]) == ("scored", "parse_fail")


def test_a_grader_that_fails_today_is_a_change(
    play: Play, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = play(QUICK, follower(), tmp_path, config={"scripts": ["right"], "rows": 4})

    async def broken(self: QuickTask, trace: Any) -> Grade:
        raise RuntimeError("no parser today")

    monkeypatch.setattr(QuickTask, "grade", broken)
    report = rescore(run.folder)
    assert totals(report) == (0, 4, 0)
    assert {(one.now["outcome"], one.now["reward"]) for one in report.changed} == {("grader_error", None)}
    assert "no parser today" in report.changed[0].now["cause"]


def test_a_grader_that_flips_a_coin_is_told_from_changed_code(
    play: Play, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = play(QUICK, follower(), tmp_path, config={"scripts": ["right"], "rows": 2})
    paid = iter(range(1, 100))

    async def coin(self: QuickTask, trace: Any) -> Grade:
        return Grade(Outcome.SCORED, {"accuracy": next(paid) / 100}, truth=self.data.truth)

    monkeypatch.setattr(QuickTask, "grade", coin)
    assert {one.responsible for one in rescore(run.folder).changed} == {(UNSTEADY,)}


def test_what_is_not_as_it_was_is_named(play: Play, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = play(QUICK, follower(), tmp_path, config={"scripts": ["right"], "rows": 2})
    path = run.folder / "metadata.json"
    metadata = json.loads(path.read_text())
    metadata["code"] = {"commit": "a" * 40, "dirty": False}
    metadata["packages"]["sv-shared"] = "0.0.1"
    metadata["environment"]["version"] = "0"
    metadata["tools"] = {"linter": "1.2"}
    metadata["settings"]["task"]["weights"]["cost_ratio"] = 9.0
    path.write_text(json.dumps(metadata))
    edit(run, lambda line: line.update(flags=["odd"]))
    report = rescore(run.folder)
    found = {(d.kind, d.name): (d.then, d.now) for d in report.differences}
    assert found["code", "commit"][0] == "a" * 12
    assert found["package", "sv-shared"][0] == "0.0.1"
    assert found["environment", "sv-test-quick"] == ("0", "1")
    assert found["tool", "linter"] == ("1.2", None)
    assert found["setting", "task.weights.cost_ratio"] == (9.0, 5.0)
    told = " ".join(report.changed[0].responsible)
    assert all(name in told for name in ("commit", "sv-shared", "linter"))
    assert "cost_ratio" not in told


def test_writing_keeps_the_results_and_notes_the_outcome(play: Play, tmp_path: Path) -> None:
    run = play(QUICK, follower(), tmp_path, config=MIXED)
    edited = edit(run, lambda line: line.update(reward=0.3, components={"odd": 0.3}), lambda i: i == 0)
    before = (run.folder / "results.jsonl").read_bytes()
    for _ in range(2):
        report = write_rescored(run.folder)
    assert (run.folder / "results.jsonl").read_bytes() == before
    lines = [json.loads(text) for text in (run.folder / RESCORED).read_text().splitlines()]
    assert len(lines) == report.lines == 20
    changed = [line for line in lines if line["status"] == "changed"]
    assert [line["task_id"] for line in changed] == edited
    assert changed[0]["then"]["reward"] == 0.3 != changed[0]["now"]["reward"]
    notes = json.loads((run.folder / "metadata.json").read_text())["rescored"]
    assert [(note["changed"], note["unchanged"]) for note in notes] == [(1, 19)] * 2
    assert not list(run.folder.glob("*.partial"))


@pytest.mark.parametrize("broken", ["results.jsonl", "metadata.json"])
def test_broken_files_are_refused_and_nothing_is_written(play: Play, tmp_path: Path, broken: str) -> None:
    run = play(QUICK, follower(), tmp_path, config={"rows": 2})
    (run.folder / broken).write_text("{")
    with pytest.raises(SVError, match=broken):
        write_rescored(run.folder)
    assert not (run.folder / RESCORED).exists()
    with pytest.raises(ArtifactError, match="folder of a run"):
        write_rescored(tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()


def test_no_model_is_called(play: Play, tmp_path: Path) -> None:
    double = Double(follow)
    run = play(QUICK, double, tmp_path, config=MIXED)
    calls = double.calls
    assert totals(rescore(run.folder)) == (20, 0, 0)
    assert double.calls == calls > 0
