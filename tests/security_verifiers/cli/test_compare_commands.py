"""`sv compare` and `sv gate` as a user calls them: exit codes, Markdown, JSON, and one line for bad use."""

import json
import shutil
import sys
from pathlib import Path

import pytest

import sv_shared.environment
from security_verifiers.cli.main import main
from security_verifiers.evals.results import RESULTS
from sv_test_quick import QUICK
from tests.security_verifiers.compare.conftest import ROWS, wrong_every
from tests.security_verifiers.evals.conftest import Play


@pytest.fixture(scope="module", autouse=True)
def _installed() -> object:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sv_shared.environment, "installed", lambda: {"quick": QUICK})
        yield


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[int, str]:
    """Folders of runs that are wrong on none, on every tenth and on every 57th row."""
    root = tmp_path_factory.mktemp("runs")
    return {step: str(Play()(QUICK, wrong_every(step), root, config=ROWS).folder) for step in (0, 10, 57)}


def sv(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *words: str
) -> tuple[int, str, str]:
    """(exit code, standard output, standard error)."""
    monkeypatch.setattr(sys, "argv", ["sv", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    said = capsys.readouterr()
    assert isinstance(ended.value.code, int)
    return ended.value.code, said.out, said.err


@pytest.mark.parametrize(("step", "code", "word"), [(0, 0, "pass"), (10, 1, "FAIL"), (57, 3, "inconclusive")])
def test_the_gates_exit_code(
    runs: dict[int, str],
    step: int,
    code: int,
    word: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    got, out, _ = sv(capsys, monkeypatch, "gate", runs[0], runs[step], "--margin", "0.15")
    assert (got, out.startswith(f"{word}:")) == (code, True), out
    got, out, _ = sv(capsys, monkeypatch, "gate", runs[0], runs[step], "--margin=0.15", "--markdown")
    assert (got, out.startswith(f"**{word}:")) == (code, True), out


def test_compare_in_every_form(
    runs: dict[int, str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, _ = sv(capsys, monkeypatch, "compare", runs[0], runs[10], runs[57])
    assert code == 0
    assert out.count("400 pairs") == 2
    assert "…" not in out
    code, out, _ = sv(capsys, monkeypatch, "compare", runs[0], runs[10], "--markdown")
    assert "| reward |" in out
    assert "| --- | ---: |" in out
    code, out, _ = sv(capsys, monkeypatch, "compare", runs[0], runs[10], "--json")
    (told,) = json.loads(out)
    assert told["metrics"][1]["verdict"] == "worse"


@pytest.mark.parametrize("bad", ["nan", "inf", "0", "-1", "2", "x"])
def test_a_margin_that_is_none_is_bad_use(
    runs: dict[int, str], bad: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, err = sv(capsys, monkeypatch, "gate", runs[0], runs[0], "--margin", bad)
    assert (code, out) == (2, "")
    assert "--margin" in err
    assert "defect" not in err


def test_a_damaged_run_needs_permission_and_is_marked(
    runs: dict[int, str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = Path(shutil.copytree(runs[10], tmp_path / "broken"))
    path = broken / RESULTS
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines[:4], "{}\n", *lines[5:]]))
    for command in ("compare", "gate"):
        code, out, err = sv(capsys, monkeypatch, command, runs[0], str(broken))
        assert (code, out) == (2, ""), command
        assert f"{path}:5" in err
        code, out, _ = sv(capsys, monkeypatch, command, runs[0], str(broken), "--allow-partial")
        assert code in (0, 1, 3), command
        assert "399 pairs" in out
        assert "partial: 1 of 400 lines left out" in " ".join(out.split())
