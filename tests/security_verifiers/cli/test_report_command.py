"""`sv report` on broken runs: one line on stderr, nothing on stdout, exit code 2, no traceback."""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import sv_shared.environment
from security_verifiers.cli.main import main
from sv_test_quick import QUICK

from ..evals.conftest import Play
from ..evals.doubles import Double, follow

RESULTS, METADATA = "results.jsonl", "metadata.json"


class Ended(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str


Report = Callable[..., Ended]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of twelve rollouts."""
    config = {"rows": 12, "scripts": ["right", "wrong", "abstain", "garbage"]}
    return Play()(QUICK, Double(follow), tmp_path_factory.mktemp("whole"), config=config).folder


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    """A copy of the run to break."""
    return Path(shutil.copytree(whole, tmp_path / "a run"))


@pytest.fixture
def report(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Report:
    """Runs `sv report` as the shell does."""
    monkeypatch.setattr(sv_shared.environment, "installed", lambda: {"quick": QUICK})

    def run(*arguments: Any) -> Ended:
        monkeypatch.setattr(sys, "argv", ["sv", "report", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        return Ended(int(ended.value.code or 0), *capsys.readouterr())

    return run


def cut_tail(folder: Path) -> None:
    """As a kill leaves the file."""
    (folder / RESULTS).write_bytes((folder / RESULTS).read_bytes()[:-20])


def edit(number: int, change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    """Changes one result line, from 1."""

    def run(folder: Path) -> None:
        lines = (folder / RESULTS).read_text().splitlines()
        line = json.loads(lines[number - 1])
        change(line)
        lines[number - 1] = json.dumps(line)
        (folder / RESULTS).write_text("".join(f"{line}\n" for line in lines))

    return run


def metadata(change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    """Changes the metadata."""

    def run(folder: Path) -> None:
        content = json.loads((folder / METADATA).read_text())
        change(content)
        (folder / METADATA).write_text(json.dumps(content))

    return run


def repeat(folder: Path) -> None:
    """The first line again at the end."""
    raw = (folder / RESULTS).read_bytes()
    (folder / RESULTS).write_bytes(raw + raw[: raw.index(b"\n") + 1])


def write(name: str, raw: bytes) -> Callable[[Path], Any]:
    """Replaces a file."""
    return lambda folder: (folder / name).write_bytes(raw)


def remove(*names: str) -> Callable[[Path], None]:
    """Takes files away."""
    return lambda folder: [(folder / name).unlink() for name in names] and None


BROKEN: dict[str, tuple[Callable[[Path], Any], str]] = {
    "torn tail": (cut_tail, f"{RESULTS}:12"),
    "not a number": (edit(3, lambda line: line.update(reward=float("nan"))), f"{RESULTS}:3"),
    "reward of text": (edit(4, lambda line: line.update(reward="0.5")), f"{RESULTS}:4"),
    "older version": (edit(5, lambda line: line.update(schema_version=0)), f"{RESULTS}:5"),
    "no tokens": (edit(6, lambda line: line["seats"]["agent"].pop("tokens")), f"{RESULTS}:6"),
    "twice": (repeat, f"{RESULTS}:13"),
    "no UTF-8": (write(RESULTS, b"\xff\n"), f"{RESULTS}:1"),
    "deep": (write(RESULTS, b"[" * 100_000 + b"\n"), f"{RESULTS}:1"),
    "empty": (write(RESULTS, b""), RESULTS),
    "no results": (remove(RESULTS), RESULTS),
    "no metadata": (remove(METADATA), METADATA),
    "config only": (remove(METADATA, RESULTS, "summary.json"), METADATA),
    "empty metadata": (write(METADATA, b""), METADATA),
    "metadata of a list": (write(METADATA, b"[]"), METADATA),
    "metadata deep": (write(METADATA, b"[" * 100_000), METADATA),
    "no seats": (metadata(lambda content: content.pop("seats")), METADATA),
    "odd player": (metadata(lambda content: content["seats"]["agent"].update(kind="x")), METADATA),
    "no environment": (metadata(lambda content: content["environment"].update(id="sv-x")), METADATA),
    "aborted": (metadata(lambda content: content.update(status="aborted")), METADATA),
    "other counts": (metadata(lambda content: content["counts"].update(scored=1)), METADATA),
}


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_run_is_one_message(
    whole: Path, folder: Path, report: Report, name: str, as_json: bool
) -> None:
    damage, where = BROKEN[name]
    damage(folder)
    ended = report(whole, folder, *["--json"] * as_json)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("sv: ")
    assert ended.err.count("\n") == 1
    assert str(folder / where) in ended.err
    assert "Traceback" not in ended.err
    assert "defect" not in ended.err


def test_an_empty_folder_is_one_message(tmp_path: Path, report: Report) -> None:
    ended = report(tmp_path)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == f"sv: no run here ({tmp_path}). Name a run's folder or one above it\n"


def test_a_whole_run_is_shown_once(whole: Path, report: Report) -> None:
    ended = report(whole, whole.parent)
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.count(str(whole)) == 1
    assert "partial" not in ended.out
    assert report(whole, "--allow-partial").out == report(whole).out


@pytest.mark.parametrize(("name", "left_out", "total"), [("torn tail", 1, 12), ("no tokens", 1, 12)])
def test_a_partial_run_says_so_before_its_numbers(
    folder: Path, report: Report, name: str, left_out: int, total: int
) -> None:
    damage, where = BROKEN[name]
    damage(folder)
    ended = report(folder, "--allow-partial")
    assert (ended.code, ended.err) == (1, "")
    first, *rest = ended.out.splitlines()
    assert first.startswith(f"partial: {left_out} of {total} lines left out: {where}: ")
    assert str(folder) in first
    assert any("double" in line and "invalid" in line for line in rest)


def test_a_line_that_stands_twice_leaves_the_run_valid(folder: Path, report: Report) -> None:
    repeat(folder)
    ended = report(folder, "--allow-partial")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith("partial: 1 of 13 lines left out: results.jsonl:13: task ")


def test_many_problems_are_counted(folder: Path, report: Report) -> None:
    (folder / RESULTS).write_text("{}\n" * 14 + (folder / RESULTS).read_text())
    ended = report(folder, "--allow-partial")
    assert ended.code == 0
    assert ended.out.startswith("partial: 14 of 26 lines left out: results.jsonl:1: schema version null")
    assert "; and 11 more (" in ended.out.splitlines()[0]


def test_json_carries_what_is_left_out(folder: Path, report: Report) -> None:
    cut_tail(folder)
    ended = report(folder, "--allow-partial", "--json")
    ((line,),) = (sheet["lines"] for sheet in json.loads(ended.out))
    assert (ended.code, ended.err) == (1, "")
    assert line["summary"]["partial"]["lines_left_out"] == 1
    assert line["summary"]["partial"]["problems"][0].startswith("results.jsonl:12: the last line is cut off")
    assert (line["summary"]["missing"], line["summary"]["reward"]["n"]) == (1, 11)
