"""The contracts that tool environments and games of several seats will rest on."""

import json
from pathlib import Path

from security_verifiers.evals.results import Results
from sv_test_duel import DUEL
from sv_test_toolbox import TOOLBOX

from .conftest import Play, Watching


def test_tool_rollouts_at_once_never_see_each_other(play: Play, tmp_path: Path) -> None:
    reference = TOOLBOX.policies("agent")["reference"]
    run = play(TOOLBOX, reference, tmp_path, samples=2, concurrency=6)
    lines = list(Results(run.folder))
    assert [line["reward"] for line in lines] == [1.0] * 12
    assert {line["parsed"]["kept"] for line in lines} == {f"word{i},word{i}" for i in range(6)}
    assert {line["seats"]["agent"]["tool_calls"] for line in lines} == {3}
    assert run.metadata["status"] == "complete"


def test_mistakes_with_tools_are_told_to_the_model(play: Play, tmp_path: Path) -> None:
    run = play(TOOLBOX, TOOLBOX.policies("agent")["clumsy"], tmp_path, config={"words": 1})
    (line,) = Results(run.folder)
    told = [m["content"] for m in line["seats"]["agent"]["completion"] if m["role"] == "tool"]
    assert line["outcome"] == "scored"
    assert "not JSON" in told[0]
    assert "must be a JSON object" in told[1]
    assert "no tool 'box_burn'" in told[2]
    assert "text" in told[3]


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
