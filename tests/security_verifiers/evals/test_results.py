"""Results that were touched by hand, cut, or written by another version are refused by file and line."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import sv_shared.environment
from security_verifiers.evals.artifacts import METADATA
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


def put(path: str, value: Any) -> Callable[[Line], None]:
    """Sets what stands at a dotted path."""

    def change(tree: Line) -> None:
        *before, last = path.split(".")
        for name in before:
            tree = tree[name]
        tree[last] = value

    return change


def drop(path: str) -> Callable[[Line], None]:
    """Takes away what stands at a dotted path."""

    def change(tree: Line) -> None:
        *before, last = path.split(".")
        for name in before:
            tree = tree[name]
        del tree[last]

    return change


EDITS: dict[str, tuple[Callable[[Line], Any], str]] = {
    "an older version": (put("schema_version", 0), "schema version 0; this version reads 1"),
    "no version": (drop("schema_version"), "schema version null"),
    "no key": (drop("key"), "a result without a key"),
    "half a key": (drop("key.sample"), "a result without a key"),
    "odd key": (put("key", {"task": 3, "sample": 0, "seed": 42}), "a result without a key"),
    "key of text": (put("key", "first"), "a result without a key"),
    "no reward": (drop("reward"), "a result without 'reward'"),
    "no outcome": (drop("outcome"), "a result without 'outcome'"),
    "no cluster": (drop("cluster"), "a result without 'cluster'"),
    "no seats": (drop("seats"), "a result without 'seats'"),
    "unknown outcome": (put("outcome", "won"), 'there is no outcome "won"'),
    "reward of text": (put("reward", "1.0"), "'reward' can't be \"1.0\""),
    "scored without reward": (put("reward", None), "a reward of null with outcome"),
    "error with reward": (put("outcome", "infra_error"), "with outcome infra_error"),
    "metrics of a list": (put("metrics", [1]), "'metrics' can't be a list of 1"),
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
        ("", "a blank line"),
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


INF = float("inf")
METADATA_EDITS: dict[str, tuple[Callable[[Line], Any], str]] = {
    "version true": (put("schema_version", True), "schema version true"),
    "running": (put("status", "running"), "still going on, or was killed: 10 of 10"),
    "aborted": (put("status", "aborted"), "the run was aborted: 10 of 10"),
    "unknown status": (put("status", "done"), "status: Input should be 'running', 'aborted' or 'complete'"),
    "no environment": (drop("environment"), "environment: Field required"),
    "environment of text": (put("environment", "quick"), "environment: "),
    "no dataset hash": (drop("dataset.sha256"), "dataset.sha256: Field required"),
    "short hash": (put("dataset.sha256", "abc"), "dataset.sha256: "),
    "another hash": (put("dataset.sha256", "0" * 64), "not those of the run's data"),
    "no details": (drop("dataset.details"), "dataset.details: Field required"),
    "no seats": (put("seats", {}), "evaluated_seat: 'agent' is not in seats"),
    "odd player": (put("seats.agent.kind", "human"), "there is no kind of player 'human'"),
    "no sampling": (drop("seats.agent.sampling"), "seats.agent.sampling: Field required"),
    "planned of text": (put("planned", "10"), "planned: "),
    "planned true": (put("tasks", True), "tasks: "),
    "more planned": (put("planned", 11), "11 rollouts are not 10 tasks x 1 samples"),
    "fewer tasks": (lambda m: m.update(tasks=9, planned=9), "one more than the 9 that were planned"),
    "no tasks": (lambda m: m.update(tasks=0, planned=0), "tasks: "),
    "huge seed": (put("seed", 10**30), "seed: "),
    "floor of text": (put("reward.floor", "-4"), "reward.floor: "),
    "floor 1e999": (put("reward.floor", INF), "a number too large"),
    "floor above maximum": (put("reward.floor", 9.0), "floor 9 is above maximum 1.5"),
    "no chance": (drop("reward.chance"), "reward.chance: Field required"),
    "far chance": (put("reward.chance", 1e300), "reward.chance: "),
    "counts that disagree": (put("counts.scored", 7), "counts.scored is 7 here and 8 in results.jsonl"),
    "no counts": (put("counts", {}), "a complete run has counted its outcomes"),
    "a count gone": (drop("counts.scored"), "counts.scored is 0 here and 8 in results.jsonl"),
    "negative count": (put("counts.scored", -1), "counts.scored: "),
    "tokens that disagree": (put("tokens.agent.prompt", 1), "cached null here and prompt null, completion"),
    "tokens of text": (put("tokens.agent", "many"), "tokens.agent: "),
    "cost of text": (put("cost_usd", "free"), "cost_usd"),
    "settings without weights": (put("settings", {}), "settings: KeyError('task')"),
    "settings of text": (put("settings.task.weights.cost_ratio", "5"), "settings: "),
    "settings below 0": (put("settings.task.weights.cost_ratio", -5), "settings: costs of"),
    "far detail": (put("dataset.details", {"files": [{"rows": INF}]}), "a number too large"),
    "half a pair": (put("dataset.id", "\ud800"), '"\\ud800" holds a character'),
    "half a pair in a name": (put("dataset.details", {"\udfff": 1}), '"\\udfff" holds a character'),
}  # fmt: skip


class TestStored:
    """Loading runs back."""

    @pytest.fixture(autouse=True)
    def installed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sv_shared.environment, "installed", lambda: {"quick": QUICK})

    def test_summary_is_computed_from_the_lines(self, folder: Path) -> None:
        stored = json.loads((folder / "summary.json").read_text())
        (folder / "summary.json").write_text('{"reward": "great"}')
        assert json.loads(json.dumps(load_run(folder).summary)) == stored | {"partial": None}

    def test_missing_lines_widen_the_bounds(self, folder: Path) -> None:
        lines = (folder / RESULTS).read_text().splitlines(keepends=True)
        (folder / RESULTS).write_text("".join(lines[:9]))
        with pytest.raises(ArtifactError, match="lines are missing: 9 of 10 rollouts"):
            load_run(folder)
        summary = load_run(folder, allow_partial=True).summary
        total = sum(line["reward"] for line in Results(folder))
        assert (summary["missing"], summary["invalid"]) == (1, True)
        assert summary["reward_bounds"]["worst"] == pytest.approx((total - 4.0) / 10)
        assert summary["reward_bounds"]["best"] == pytest.approx((total + 1.5) / 10)
        assert summary["partial"]["lines_left_out"] == 0

    def test_a_run_without_any_reward_has_bounds_only(self, tmp_path: Path) -> None:
        failing = {"rows": 10, "scripts": ["player crash"]}
        summary = load_run(Play()(QUICK, follower(), tmp_path, config=failing).folder).summary
        assert (summary["missing"], summary["invalid"]) == (0, True)
        assert summary["reward"]["value"] is None
        assert summary["reward_bounds"]["worst"] == -4.0
        assert summary["reward_bounds"]["best"] == 1.5

    @pytest.mark.parametrize(
        ("metadata", "told"),
        [
            ("{", "can't read metadata.json"),
            ("[]", "does not hold a JSON object"),
            ("{}", "schema version null; this version reads 1"),
            ('{"schema_version": 2}', "schema version 2; this version reads 1"),
            ('{"schema_version": 1}', "the metadata are not what a run writes: run_id: Field required"),
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

    @pytest.mark.parametrize("name", METADATA_EDITS)
    def test_edited_metadata_are_named(self, folder: Path, name: str) -> None:
        change, told = METADATA_EDITS[name]
        metadata = json.loads((folder / METADATA).read_text())
        change(metadata)
        (folder / METADATA).write_text(json.dumps(metadata).replace("Infinity", "1e999"))
        with pytest.raises(ArtifactError) as refused:
            load_run(folder)
        assert told in refused.value.what
        assert refused.value.where.startswith(str(folder))
        assert refused.value.hint

    @pytest.mark.parametrize(
        ("raw", "told"),
        [
            (
                b'{"schema_version": 1, "ru',
                "can't read metadata.json: Unterminated string starting at: line 1",
            ),
            (b"", "can't read metadata.json: Expecting value"),
            (b"\xff", "can't read metadata.json: 'utf-8' codec"),
            (b'\xef\xbb\xbf{"schema_version": 1}', "can't read metadata.json: a byte order mark"),
            (b"[" * 100_000, "can't read metadata.json: nested too deeply"),
            (b'{"schema_version": NaN}', "can't read metadata.json: NaN is not JSON"),
            (b'{"schema_version": 1}\0', "can't read metadata.json: Extra data"),
            (b"[1]", "does not hold a JSON object"),
        ],
    )
    def test_damaged_metadata_are_named(self, folder: Path, raw: bytes, told: str) -> None:
        (folder / METADATA).write_bytes(raw)
        with pytest.raises(ArtifactError) as refused:
            load_run(folder, allow_partial=True)
        assert told in refused.value.what
        assert refused.value.where == str(folder / METADATA)
