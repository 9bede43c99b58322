"""Results that were touched by hand, cut, or written by another version are refused by file and line."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import sv_shared.environment
from security_verifiers.evals.results import RESULTS, Results
from security_verifiers.evals.stored import find_runs, load_run
from sv_shared.errors import ArtifactError, UsageError
from sv_test_quick import QUICK, follower

from .conftest import Play

Line = dict[str, Any]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of ten rollouts."""
    return Play()(QUICK, follower(), tmp_path_factory.mktemp("whole"), config={"rows": 10}).folder


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    """A copy of the run to break."""
    return Path(shutil.copytree(whole, tmp_path / "run"))


def edit(folder: Path, number: int, change: Callable[[Line], Any]) -> None:
    """Change line `number` (from 1) by hand."""
    lines = (folder / RESULTS).read_text().splitlines()
    line = json.loads(lines[number - 1])
    replaced = change(line)
    lines[number - 1] = json.dumps(line if replaced is None else replaced)
    (folder / RESULTS).write_text("\n".join(lines) + "\n")


def put(name: str, value: Any) -> Callable[[Line], None]:
    """Sets one field."""
    return lambda line: line.__setitem__(name, value)


def drop(*path: str) -> Callable[[Line], None]:
    """Takes one field away."""

    def change(line: Line) -> None:
        place = line
        for name in path[:-1]:
            place = place[name]
        del place[path[-1]]

    return change


EDITS: dict[str, tuple[Callable[[Line], Any], str]] = {
    "an older version": (put("schema_version", 0), "schema version 0; this version reads 1"),
    "no version": (drop("schema_version"), "schema version None"),
    "no key": (drop("key"), "a result without a key"),
    "half a key": (drop("key", "sample"), "a result without a key"),
    "odd key": (put("key", {"task": 3, "sample": 0, "seed": 42}), "a result without a key"),
    "key of text": (put("key", "first"), "a result without a key"),
    "no reward": (drop("reward"), "a result without 'reward'"),
    "no outcome": (drop("outcome"), "a result without 'outcome'"),
    "no cluster": (drop("cluster"), "a result without 'cluster'"),
    "no seats": (drop("seats"), "a result without 'seats'"),
    "unknown outcome": (put("outcome", "won"), "there is no outcome 'won'"),
    "reward of text": (put("reward", "1.0"), "'reward' can't be \"1.0\""),
    "scored without reward": (put("reward", None), "a reward of None with outcome"),
    "error with reward": (put("outcome", "infra_error"), "with outcome infra_error"),
    "metrics of a list": (put("metrics", [1]), "'metrics' can't be [1]"),
    "reward that is no number": (put("reward", float("nan")), "not JSON: NaN is not JSON"),
    "a list": (lambda line: [line], "not a JSON object"),
    "a number": (lambda line: 7, "not a JSON object"),
}


@pytest.mark.parametrize("name", EDITS)
def test_edited_lines_are_named(folder: Path, name: str) -> None:
    change, told = EDITS[name]
    edit(folder, 4, change)
    with pytest.raises(ArtifactError) as refused:
        Results(folder)
    assert told in str(refused.value)
    assert f"{folder / RESULTS}:4" in str(refused.value)


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        ("{'task': 1}", "not JSON"),
        ("", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ('{"schema_version": 1, "schema_', "not JSON"),
    ],
)
def test_lines_that_are_not_json_are_named(folder: Path, raw: str, told: str) -> None:
    lines = (folder / RESULTS).read_text().splitlines()
    (folder / RESULTS).write_text("\n".join([*lines[:6], raw, *lines[7:]]) + "\n")
    with pytest.raises(ArtifactError, match=told) as refused:
        Results(folder)
    assert refused.value.where == f"{folder / RESULTS}:7"


def test_a_rollout_that_stands_twice_is_named_with_both_lines(folder: Path) -> None:
    lines = (folder / RESULTS).read_text().splitlines()
    (folder / RESULTS).write_text("\n".join([*lines, lines[2]]) + "\n")
    with pytest.raises(ArtifactError, match="stands twice, first in line 3") as refused:
        Results(folder)
    assert refused.value.where == f"{folder / RESULTS}:11"


def test_a_torn_tail_is_named(folder: Path) -> None:
    whole = (folder / RESULTS).read_bytes()
    (folder / RESULTS).write_bytes(whole[:-5])
    with pytest.raises(ArtifactError, match=r"the last line is cut off after .* resume the run") as refused:
        Results(folder)
    assert refused.value.where == f"{folder / RESULTS}:10"


def test_a_missing_file_is_named(folder: Path) -> None:
    (folder / RESULTS).unlink()
    with pytest.raises(ArtifactError, match="can't read the results: No such file"):
        Results(folder)


def test_order_is_by_key_and_not_by_file(folder: Path) -> None:
    in_order = list(Results(folder))
    lines = (folder / RESULTS).read_text().splitlines()
    (folder / RESULTS).write_text("\n".join(reversed(lines)) + "\n")
    assert list(Results(folder)) == in_order
    keys = [(line["key"]["sample"], line["key"]["task"]) for line in in_order]
    assert keys == sorted(keys)
    assert len(Results(folder)) == len(Results(folder).keys) == 10


class TestStored:
    """Loading runs back."""

    @pytest.fixture(autouse=True)
    def installed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sv_shared.environment, "installed", lambda: {"quick": QUICK})

    def test_summary_is_computed_from_the_lines(self, folder: Path) -> None:
        stored = json.loads((folder / "summary.json").read_text())
        (folder / "summary.json").write_text('{"reward": "great"}')
        assert load_run(folder).summary == stored
        edit(folder, 1, lambda line: line.update(outcome="infra_error", reward=None))
        changed = load_run(folder).summary
        assert changed["counts"]["infra_error"] == 1
        assert changed["invalid"]

    def test_no_lines_at_all(self, folder: Path) -> None:
        (folder / RESULTS).write_text("")
        summary = load_run(folder).summary
        assert (summary["missing"], summary["invalid"]) == (10, True)
        assert summary["reward"]["value"] is None
        assert summary["reward_bounds"]["worst"] == -4.0
        assert summary["reward_bounds"]["best"] == 1.5

    def test_missing_lines_widen_the_bounds(self, folder: Path) -> None:
        lines = (folder / RESULTS).read_text().splitlines(keepends=True)
        (folder / RESULTS).write_text("".join(lines[:9]))
        summary = load_run(folder).summary
        total = sum(line["reward"] for line in Results(folder))
        assert (summary["missing"], summary["invalid"]) == (1, True)
        assert summary["reward_bounds"]["worst"] == pytest.approx((total - 4.0) / 10)
        assert summary["reward_bounds"]["best"] == pytest.approx((total + 1.5) / 10)

    def test_more_lines_than_planned(self, folder: Path) -> None:
        lines = (folder / RESULTS).read_text().splitlines(keepends=True)
        extra = json.loads(lines[0])
        extra["key"]["sample"] = 1
        (folder / RESULTS).write_text("".join(lines) + json.dumps(extra) + "\n")
        with pytest.raises(ArtifactError, match="11 results of 10 planned rollouts"):
            load_run(folder)

    @pytest.mark.parametrize(
        ("metadata", "told"),
        [
            ("{", "can't read metadata.json"),
            ("[]", "does not hold a JSON object"),
            ("{}", "schema version None; this version reads 1"),
            ('{"schema_version": 2}', "schema version 2; this version reads 1"),
            ('{"schema_version": 1}', "the metadata are not what a run writes: KeyError('environment')"),
            ('{"schema_version": 1, "environment": "e1"}', "the metadata are not what a run writes"),
        ],
    )
    def test_broken_metadata_are_named(self, folder: Path, metadata: str, told: str) -> None:
        (folder / "metadata.json").write_text(metadata)
        with pytest.raises(ArtifactError) as refused:
            load_run(folder)
        assert told in str(refused.value)
        assert str(folder / "metadata.json") in str(refused.value)

    def test_a_run_of_an_environment_that_is_not_here(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sv_shared.environment, "installed", dict)
        with pytest.raises(UsageError, match="no environment named 'sv-test-quick'"):
            load_run(folder)

    def test_runs_are_found_below_a_folder(self, folder: Path, tmp_path: Path) -> None:
        later = Path(shutil.copytree(folder, tmp_path / "deep" / "er" / "zz"))
        assert find_runs(tmp_path) == [folder, later]
        assert find_runs(folder) == [folder]
        with pytest.raises(ArtifactError, match="no run here"):
            find_runs(tmp_path / "deep" / "er" / "nothing")
