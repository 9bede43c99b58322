"""The benchmark sheet: what stands on it, in which order, and that it can be read."""

import io
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import sv_shared.environment
from security_verifiers.evals.evaluate import Run
from security_verifiers.reports.sheet import ORDER, make_sheets
from security_verifiers.reports.terminal import number, print_sheets, sheets_json
from sv_shared.answer_policies import answer_json
from sv_shared.policies import PolicyKind, PolicySpec, text_policy
from sv_test_duel import DUEL
from sv_test_quick import LABELS, QUICK, follower
from tests.security_verifiers.evals.conftest import Play
from tests.security_verifiers.evals.doubles import Double, follow

ROWS = {"rows": 60, "clusters": 15}
ALL_RIGHT = {"scripts": ["right"], **ROWS}


def wrong_first(count: int) -> Callable[[Any, Any, int], str]:
    """Wrong on the first `count` of 60 rows, right on the others."""

    def answer(task: Any, messages: Any, seed: int) -> str:
        right = int(task.id.removeprefix("row-")) >= count
        label = task.truth if right else LABELS[1 - LABELS.index(task.truth)]
        return answer_json(label, 0.9)

    return answer


def player(name: str, kind: PolicyKind, wrong: int) -> PolicySpec:
    """A policy that is wrong on so many rows."""
    return text_policy(name, kind, f"{wrong} wrong", wrong_first(wrong))


PLAYERS = [
    player("oracle", PolicyKind.REFERENCE, 0),
    player("ceiling", PolicyKind.CEILING, 3),
    player("heuristic", PolicyKind.HEURISTIC, 21),
    player("tool", PolicyKind.TOOL_ONLY, 30),
    player("shallow", PolicyKind.SHALLOW, 20),
    player("exploit", PolicyKind.EXPLOIT, 60),
    player("degenerate", PolicyKind.DEGENERATE, 55),
    player("constant-b", PolicyKind.CONSTANT, 50),
    player("constant-a", PolicyKind.CONSTANT, 40),
]


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test environments can be found."""
    monkeypatch.setattr(sv_shared.environment, "installed", lambda: {"quick": QUICK, "duel": DUEL})


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    """A run of each kind of player, and of a model, on the same rows."""
    root, play = tmp_path_factory.mktemp("runs"), Play()
    model = play(QUICK, Double(follow), root, config=ALL_RIGHT)
    return [*(play(QUICK, spec, root, config=ALL_RIGHT) for spec in PLAYERS), model]


def render(runs: list[Run], width: int) -> str:
    """The sheet on a terminal of a width, without colours."""
    out = io.StringIO()
    print_sheets(
        runs, Console(file=out, width=width, force_terminal=True, color_system=None, highlight=False)
    )
    return out.getvalue()


def test_lines_stand_in_the_order_that_keeps_readers_honest(runs: list[Run]) -> None:
    (sheet,) = make_sheets(runs)
    assert [line.model.removeprefix("policy:") for line in sheet.lines] == [
        "constant-a",
        "constant-b",
        "degenerate",
        "exploit",
        "shallow",
        "heuristic",
        "tool",
        "double",
        "ceiling",
        "oracle",
    ]
    assert {str(kind) for kind in PolicyKind} | {"model"} == set(ORDER)


def test_the_order_of_the_runs_does_not_matter(runs: list[Run]) -> None:
    (one,), (other,) = make_sheets(runs), make_sheets(list(reversed(runs)))
    names = [[(line.model, line.verdict) for line in sheet.lines] for sheet in (one, other)]
    assert names[0] == names[1]


def test_verdicts_against_the_shallow_model(runs: list[Run]) -> None:
    (sheet,) = make_sheets(runs)
    verdicts = {line.model.removeprefix("policy:"): line.verdict for line in sheet.lines}
    assert verdicts["shallow"] == ""
    assert verdicts["heuristic"] == "tie"
    assert {verdicts[name] for name in ("double", "ceiling", "oracle")} == {"above"}
    assert {verdicts[name] for name in ("exploit", "degenerate", "constant-b")} == {"below"}
    for line in sheet.lines:
        if line.versus_shallow is not None:
            assert line.versus_shallow.n == 60


def test_no_verdicts_without_a_shallow_model(runs: list[Run]) -> None:
    (sheet,) = make_sheets([run for run in runs if "shallow" not in run.folder.parent.name])
    assert {line.verdict for line in sheet.lines} == {""}


def test_runs_over_different_data_never_share_a_table(tmp_path: Path) -> None:
    play, spec = Play(), follower()

    def run(**options: Any) -> Run:
        config = {"rows": 8, **options.pop("config", {})}
        return play(QUICK, spec, tmp_path, config=config, **options)

    same = [run(), run()]
    others = [
        run(seed=43),
        run(samples=2),
        run(tasks=4),
        run(config={"salt": "!"}),
        run(config={"task": {"weights": {"cost_ratio": 2.0}}}),
        play(DUEL, DUEL.policies("guesser")["bisect"], tmp_path),
    ]
    sheets = make_sheets([*same, *others])
    assert sorted(len(sheet.lines) for sheet in sheets) == [1, 1, 1, 1, 1, 1, 2]
    assert all(len({line.run.metadata["dataset"]["sha256"] for line in s.lines}) == 1 for s in sheets)


def test_an_invalid_run_is_marked_and_not_judged(tmp_path: Path) -> None:
    play = Play()
    broken = {"scripts": ["right", "provider 500"], **ROWS}
    shallow = play(QUICK, player("shallow", PolicyKind.SHALLOW, 20), tmp_path, config=broken)
    model = play(QUICK, Double(follow), tmp_path, config=broken)
    (sheet,) = make_sheets([shallow, model])
    assert [line.verdict for line in sheet.lines] == ["", ""]
    text = render([shallow, model], 120)
    assert re.search(r"^double invalid .* 30 ", text, re.MULTILINE)
    assert not re.search(r"^shallow invalid", text, re.MULTILINE)


def test_a_run_without_any_reward_is_shown(tmp_path: Path) -> None:
    play = Play()
    config = {"scripts": ["provider 500"], **ROWS}
    lost = play(QUICK, Double(follow), tmp_path, config=config)
    shallow = play(QUICK, player("shallow", PolicyKind.SHALLOW, 20), tmp_path, config=config)
    text = render([lost, shallow], 120)
    assert re.search(r"^double invalid +- +- ", text, re.MULTILINE)
    assert "cluster-robust t" in text


@pytest.mark.parametrize("width", [80, 100, 120, 160])
def test_nothing_is_cut(runs: list[Run], width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However narrow the terminal: every name, heading and number stands there whole."""
    monkeypatch.setattr(
        type(QUICK),
        "sheet_metrics",
        (*QUICK.sheet_metrics, ("auroc", "AUROC"), ("ece", "ECE"), ("false_negative_rate", "missed attacks")),
    )
    text = render(runs, width)
    table = text.partition("Artifacts:")[0]
    assert "…" not in table
    assert max(map(len, table.splitlines())) <= width
    for run in runs:
        assert f"{run.summary['reward']['value']:+.3f}" in table
        assert f"{run.summary['metrics']['auroc']['value']:.3f}" in table
    for word in (
        "player",
        "reward",
        "score",
        "coverage",
        "Brier",
        "AUROC",
        "missed",
        "answer",
        "errors",
        "$",
    ):
        assert word in table
    assert str(runs[0].folder) in text
    assert table.count("player") == (1 if width >= 120 else 2)


def test_the_published_lines_stand_before_the_models(
    runs: list[Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        type(QUICK), "published", lambda self, dataset: (("F1 0.980", f"someone on {dataset['id']}"),)
    )
    for width in (80, 120):
        lines = [line.split()[0] for line in render(runs, width).splitlines() if line.strip()]
        assert lines.count("published") == 1
        assert render(runs, width).count("someone on") == 1
        assert lines.index("tool") < lines.index("published") < lines.index("double")


def test_a_pipe_gets_the_whole_width(runs: list[Run]) -> None:
    out = io.StringIO()
    print_sheets(runs, Console(file=out, width=40))
    assert max(map(len, out.getvalue().partition("Artifacts:")[0].splitlines())) > 80


def test_json_says_the_same(runs: list[Run]) -> None:
    (sheet,) = json.loads(json.dumps(sheets_json(runs), allow_nan=False))
    assert sheet["environment"] == "sv-test-quick"
    assert sheet["lines"][0]["model"] == "policy:constant-a"
    by_model: Mapping[str, Any] = {line["model"]: line for line in sheet["lines"]}
    assert by_model["double"]["verdict"] == "above"
    assert by_model["double"]["kind"] == "model"
    assert by_model["policy:oracle"]["summary"]["metrics"]["accuracy"]["value"] == 1.0


@pytest.mark.parametrize(("value", "shown"), [(None, "-"), (0.5, "0.500"), (-0.0004, "-0.000"), (3, "3")])
def test_numbers(value: float | None, shown: str) -> None:
    assert number(value) == shown
