"""The contracts that tool environments and games of several seats will rest on."""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from security_verifiers.evals.engine import Engine
from security_verifiers.evals.evaluate import Run, RunLimits, evaluate
from security_verifiers.evals.plan import make_plan
from security_verifiers.evals.record import Record
from security_verifiers.evals.results import Results
from security_verifiers.evals.seats import policy_seats
from sv_shared.interception import LOCAL_SERVERS
from sv_shared.outcomes import Outcome
from sv_test_duel import DUEL
from sv_test_pocket import POCKET
from sv_test_toolbox import TOOLBOX, caller

from .conftest import Play, Watching, bare_lines

ODD_CALLS: dict[str, tuple[str, str]] = {
    "not json": ('{"text": ', "not JSON"),
    "not a number": ('{"text": NaN}', "NaN is not JSON"),
    "a list": ("[1]", "must be a JSON object"),
    "deep": ('{"text": ' + "[" * 900 + "]" * 900 + "}", "must be a JSON object"),
    "bottomless": ('{"text": ' + "[" * 100_000, "must be a JSON object"),
    "many digits": ('{"text": ' + "9" * 5000 + "}", "not JSON"),
    "wrong type": ('{"text": 5}', "Input should be a valid string"),
    "surrogate": ('{"text": "\\ud83d"}', "1 notes"),
    "large": ('{"text": "' + "x" * 1_000_000 + '"}', "1 notes"),
}


class Toolbox(NamedTuple):
    """What was played against one tool server."""

    reference: Run
    over_http: Run
    clumsy: Run
    odd: Mapping[str, Record]


@pytest.fixture(scope="module")
def toolbox(tmp_path_factory: pytest.TempPathFactory) -> Toolbox:
    """Everything that is played against the toolbox's tool server, which takes seconds to start."""
    root = tmp_path_factory.mktemp("toolbox")

    async def main() -> Toolbox:
        plan = make_plan(TOOLBOX, {}, samples=2)
        task = plan.tasks[0]
        policies = TOOLBOX.policies("agent")
        async with Engine(TOOLBOX, plan.env, seed=42, time_limit_s=60) as engine:
            plan.env._default_harness.tool_timeout_s = 0.5  # type: ignore[attr-defined]
            plan.env._harnesses["agent"].config.tool_timeout_s = 0.5

            async def run(name: str) -> Run:
                seats = policy_seats(TOOLBOX, policies[name])
                return await evaluate(engine, plan, seats, root, limits=RunLimits(6, 60), observer=Watching())

            async def play(tool: str, arguments: str = "{}") -> Record:
                engine.take_seats(policy_seats(TOOLBOX, caller(tool, arguments)))
                return await engine.play(task, 0)

            reference, clumsy = await run("reference"), await run("clumsy")
            odd = {name: await play("box_write", arguments) for name, (arguments, _) in ODD_CALLS.items()}
            odd["failing tool"] = await play("box_fail")
            odd["slow tool"] = await play("box_sleep", '{"seconds": 30}')
            odd["after that"] = await play("box_read")
            LOCAL_SERVERS.clear()
            over_http = await run("reference")
            odd["dying server"] = await play("box_die")
            odd["dead server"] = await play("box_read")
            return Toolbox(reference, over_http, clumsy, odd)

    return asyncio.run(main())


def test_tool_rollouts_at_once_never_see_each_other(toolbox: Toolbox) -> None:
    lines = list(Results(toolbox.reference.folder))
    assert [line["reward"] for line in lines] == [1.0] * 12
    assert {line["parsed"]["kept"] for line in lines} == {f"word{i},word{i}" for i in range(6)}
    assert {line["seats"]["agent"]["tool_calls"] for line in lines} == {3}
    assert toolbox.reference.metadata["status"] == "complete"


def test_tool_rollouts_over_http_are_the_same(toolbox: Toolbox) -> None:
    assert bare_lines(toolbox.over_http.folder) == bare_lines(toolbox.reference.folder)


def test_mistakes_with_tools_are_told_to_the_model(toolbox: Toolbox) -> None:
    line = next(iter(Results(toolbox.clumsy.folder)))
    told = [m["content"] for m in line["seats"]["agent"]["completion"] if m["role"] == "tool"]
    assert line["outcome"] == "scored"
    assert "not JSON" in told[0]
    assert "must be a JSON object" in told[1]
    assert "no tool 'box_burn'" in told[2]
    assert "text" in told[3]


@pytest.mark.parametrize("name", ODD_CALLS)
def test_no_tool_call_of_a_model_is_our_failure(toolbox: Toolbox, name: str) -> None:
    record = toolbox.odd[name]
    assert record.outcome is Outcome.SCORED, record.error
    assert ODD_CALLS[name][1] in record.seats["agent"].completion[-1]["content"]


def test_failing_and_slow_tools_are_told_to_the_model(toolbox: Toolbox) -> None:
    said = {
        name: toolbox.odd[name].seats["agent"].completion[-1]["content"]
        for name in ("failing tool", "slow tool")
    }
    assert "the tool is broken" in said["failing tool"]
    assert said["slow tool"] == "error: box_sleep gave no answer within 0.5 s"
    assert toolbox.odd["after that"].outcome is Outcome.SCORED


@pytest.mark.parametrize("name", ["dying server", "dead server"])
def test_a_tool_server_that_is_gone_is_our_failure(toolbox: Toolbox, name: str) -> None:
    record = toolbox.odd[name]
    assert record.outcome is Outcome.INFRA_ERROR
    assert record.error is not None
    assert record.error.where == "tools"
    assert record.error.message.startswith("a tool server failed: ")
    assert "TaskGroup" not in record.error.message


@pytest.mark.slow
def test_a_tool_server_of_ones_own(play: Play, tmp_path: Path) -> None:
    run = play(POCKET, POCKET.policies("agent")["reference"], tmp_path, concurrency=2)
    lines = list(Results(run.folder))
    assert [line["reward"] for line in lines] == [1.0, 1.0], [line["error"] for line in lines]
    assert len({line["parsed"]["process"][0] for line in lines}) == 2


def test_two_seats_play_three_turns(play: Play, tmp_path: Path) -> None:
    watching = Watching()
    run = play(DUEL, DUEL.policies("guesser")["bisect"], tmp_path, watching=watching)
    assert run.summary["reward"]["value"] == 1.0
    by_number = {record.truth: record for record in watching.records}
    assert by_number[3].seats["guesser"].turns == 1
    assert by_number[6].seats["guesser"].turns == 3
    assert by_number[6].seats["keeper"].grade["reward"] == 0.0
    assert [m["content"] for m in by_number[6].seats["keeper"].completion if m["role"] == "assistant"] == [
        "higher",
        "higher",
        "right",
    ]


def test_two_seat_run_resumes(play: Play, tmp_path: Path) -> None:
    spec = DUEL.policies("guesser")["upwards"]
    whole = play(DUEL, spec, tmp_path / "whole")
    cut = play(DUEL, spec, tmp_path / "cut")
    results = cut.folder / "results.jsonl"
    lines = results.read_text().splitlines(keepends=True)
    results.write_text("".join(lines[:3]) + lines[3][:50])
    resumed = play(DUEL, spec, tmp_path / "cut", resume=cut.folder)
    assert {**resumed.summary, "run_id": ""} == {**whole.summary, "run_id": ""}
    assert json.loads((cut.folder / "metadata.json").read_text())["resumed"][0]["done"] == 3


def test_a_seat_that_fails_names_itself(play: Play, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The opponent's failure is no result of the evaluated seat."""
    from sv_shared.policies import PolicyKind, text_policy

    def broken(task: Any, messages: Any, seed: int) -> str:
        raise RuntimeError("no answer from me")

    policies = type(DUEL).policies
    honest = text_policy("honest", PolicyKind.REFERENCE, "fails", broken)
    monkeypatch.setattr(
        type(DUEL),
        "policies",
        lambda self, seat: {"honest": honest} if seat == "keeper" else policies(self, seat),
    )
    watching = Watching()
    play(DUEL, DUEL.policies("guesser")["bisect"], tmp_path, watching=watching)
    assert {record.outcome for record in watching.records} == {Outcome.INFRA_ERROR}
    assert {record.error and record.error.where for record in watching.records} == {"player"}
    assert watching.records[0].error is not None
    assert watching.records[0].error.message == "policy:honest raised RuntimeError: no answer from me"
