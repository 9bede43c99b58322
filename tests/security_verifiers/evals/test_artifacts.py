"""Names of folders, and files that are replaced whole or not at all."""

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from security_verifiers.evals.artifacts import RunFolder, folder_name, read_json, write_json
from security_verifiers.evals.config import read_config
from security_verifiers.evals.metadata import git_state
from security_verifiers.evals.plan import make_plan
from sv_shared.errors import ArtifactError, UsageError
from sv_test_quick import QUICK, follower

from .conftest import Play, Watching
from .doubles import Double, follow

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=300)


@given(ANY_TEXT)
def test_folder_names_are_one_plain_path_part(model: str) -> None:
    name = folder_name("sv-env-x", model)
    prefix, _, rest = name.partition("sv-env-x--")
    assert prefix == ""
    assert rest.isascii()
    assert rest[0] not in "-."
    assert Path(name).parts == (name,)
    assert "/" not in name
    assert "\\" not in name
    assert len(name.encode()) <= 160


@pytest.mark.parametrize(
    ("model", "folder"),
    [
        ("gpt-5-mini", "e--gpt-5-mini"),
        ("policy:random", "e--policy--random"),
        ("org/model-7b", "e--org--model-7b"),
        ("../../etc/passwd", "e--etc--passwd"),
        ("..", "e--model"),
        ("", "e--model"),
        ("a b\nc", "e--a--b--c"),
    ],
)
def test_folder_names(model: str, folder: str) -> None:
    assert folder_name("e", model) == folder


def test_long_names_stay_apart() -> None:
    names = {folder_name("e", "m" * 300 + end) for end in "abc"}
    assert len(names) == 3
    assert max(map(len, names)) < 160
    assert folder_name("e", "m" * 120) == "e--" + "m" * 120


@given(st.dictionaries(st.text(), JSON, max_size=4))
def test_json_files_round_trip(tmp_path_factory: pytest.TempPathFactory, content: dict[str, Any]) -> None:
    path = tmp_path_factory.getbasetemp() / "round-trip.json"
    write_json(path, content)
    assert read_json(path) == content
    assert path.read_bytes().isascii()
    assert path.read_bytes().endswith(b"}\n")


@pytest.mark.parametrize(
    "content", [{"a": float("nan")}, {"a": float("inf")}, {"a": {1, 2}}, {"a": object()}]
)
def test_what_json_cannot_hold_changes_nothing(tmp_path: Path, content: dict[str, Any]) -> None:
    path = tmp_path / "x.json"
    write_json(path, {"a": 1})
    with pytest.raises(ArtifactError, match=r"can't write x\.json"):
        write_json(path, content)
    assert read_json(path) == {"a": 1}
    assert list(tmp_path.iterdir()) == [path]


def test_text_that_utf8_cannot_hold_is_written(tmp_path: Path) -> None:
    """A path may hold bytes that are no text; Python shows them as halves of surrogate pairs."""
    path = tmp_path / "x.json"
    source = os.fsdecode(b"/data/caf\xe9.csv")
    write_json(path, {"source": source})
    assert json.loads(path.read_text())["source"] == source


def test_one_process_at_a_time(tmp_path: Path) -> None:
    with RunFolder(tmp_path / "run"), pytest.raises(ArtifactError, match="another process"):
        RunFolder(tmp_path / "run")
    with RunFolder(tmp_path / "run"):
        pass


def test_git_state_outside_a_checkout(tmp_path: Path) -> None:
    assert git_state(tmp_path) == {"commit": None, "dirty": None}


class TestConfig:
    """config.toml is enough to start the run again, nulls included."""

    CONFIG: ClassVar[dict[str, Any]] = {
        "rows": 4,
        "salt": "é",
        "task": {"weights": {"abstain": None, "cost": 2.0}},
    }

    def test_round_trip(self, play: Play, tmp_path: Path) -> None:
        run = play(QUICK, follower(), tmp_path, config={**self.CONFIG, "scripts": ["right"]})
        config = read_config(run.folder)
        assert config["dataset"] == {**self.CONFIG, "scripts": ["right"]}
        assert config["environment"] == "sv-test-quick"
        assert (config["tasks"], config["rollouts"], config["seed"]) == (4, 1, 42)
        assert config["seats"] == {"agent": {"model": "policy:follow", "sampling": {}}}
        again = make_plan(
            QUICK,
            config["dataset"],
            tasks=config["tasks"],
            samples=config["rollouts"],
            seed=config["seed"],
        )
        assert again.dataset_hash == run.metadata["dataset"]["sha256"]
        assert again.settings == run.metadata["settings"]

    def test_no_run_here(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match=r"no run to resume here .* Name the folder of a run"):
            read_config(tmp_path)
        (tmp_path / "file").write_text("")
        with pytest.raises(UsageError, match="no run to resume here"):
            read_config(tmp_path / "file")

    @pytest.mark.parametrize(
        ("change", "told"),
        [
            (("seed = 42", "seed = "), "can't read config.toml"),
            (("seed = 42", ""), "config.toml lacks seed"),
            (("nulls = []", 'nulls = ["rows.x"]'), "config.toml is not one of ours"),
            (("nulls = []", "nulls = 7"), "config.toml is not one of ours"),
        ],
    )
    def test_broken(self, play: Play, tmp_path: Path, change: tuple[str, str], told: str) -> None:
        run = play(QUICK, follower(), tmp_path, config={"rows": 2})
        path = run.folder / "config.toml"
        text = path.read_text()
        assert change[0] in text
        path.write_text(text.replace(*change))
        with pytest.raises(ArtifactError) as refused:
            read_config(run.folder)
        assert told in str(refused.value)


def test_metadata_say_what_the_run_was(play: Play, tmp_path: Path) -> None:
    watching = Watching()
    run = play(QUICK, follower(), tmp_path, config={"rows": 6}, tasks=5, samples=2, watching=watching)
    on_file = read_json(run.folder / "metadata.json")
    assert on_file == run.metadata
    assert read_json(run.folder / "summary.json") == run.summary
    assert on_file["schema_version"] == 1
    assert on_file["environment"] == {"id": "sv-test-quick", "alias": "quick", "version": "1"}
    assert (on_file["dataset"]["rows"], on_file["dataset"]["rows_used"]) == (6, 5)
    assert len(on_file["dataset"]["sha256"]) == 64
    assert (on_file["planned"], on_file["tasks"], on_file["samples"]) == (10, 5, 2)
    assert on_file["seats"]["agent"]["kind"] == "heuristic"
    assert on_file["settings"]["task"]["weights"]["cost_ratio"] == 5.0
    anchors = QUICK.anchors(make_plan(QUICK, {"rows": 6}, tasks=5).tasks)
    assert on_file["reward"] == {"floor": -4.0, "maximum": 1.5, **asdict(anchors)}
    assert on_file["cost_usd"] == 0.0
    assert on_file["status"] == "complete"
    assert on_file["finished"] >= on_file["started"]
    assert on_file["packages"]["verifiers"].startswith("0.4")
    assert run.folder.parent.name == "sv-test-quick--policy--follow"
    assert watching.started == [("quick policy:follow", 10, 0)]
    assert watching.finished == 1


def test_tokens_and_cost_add_up(play: Play, tmp_path: Path) -> None:
    """10 prompt tokens at $1 and 5 completion tokens at $10 a million in each of 12 rollouts."""
    run = play(QUICK, Double(follow), tmp_path, config={"rows": 6}, samples=2)
    assert run.metadata["tokens"] == {"agent": {"prompt": 120, "completion": 60, "cached": None}}
    assert run.metadata["cost_usd"] == pytest.approx(12 * (10 * 1 + 5 * 10) / 1e6)
    assert run.metadata["seats"]["agent"]["served_name"] == "double-1"
