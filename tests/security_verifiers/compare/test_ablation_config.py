"""Experiments on file: what a right one says, and the one line that a wrong one gets."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sv_shared.environment
from security_verifiers.compare.ablation import check_arms
from security_verifiers.compare.ablation_config import PLACES, load_config, merged, nested, newest_config
from sv_env_network_logs.environment import NETWORK_LOGS
from sv_shared.environment import find
from sv_shared.errors import UsageError
from sv_test_quick import QUICK

EVERY = sv_shared.environment.installed
NAMES = st.text("abc", min_size=1, max_size=2)
TREES = st.recursive(
    st.dictionaries(NAMES, st.none() | st.integers() | st.text(max_size=3), min_size=1, max_size=3),
    lambda below: st.dictionaries(NAMES, below | st.integers(), min_size=1, max_size=3),
    max_leaves=8,
)
GOOD = """
environment: quick
players: [policy:coin]
arms:
  full: {}
  other: {settings: {rows: 3}}
"""


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is installed and a test environment."""
    monkeypatch.setattr(sv_shared.environment, "installed", lambda: {**EVERY(), "quick": QUICK})


def leaves(tree: Any, path: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    """The values of a tree by their paths."""
    if not isinstance(tree, dict) or not tree:
        return {path: tree}
    return {at: value for name, below in tree.items() for at, value in leaves(below, (*path, name)).items()}


@given(TREES, st.data())
def test_dotted_names_are_the_same_as_nested_ones(tree: dict[str, Any], data: st.DataObject) -> None:
    def dotted(tree: Any) -> Any:
        """Some groups of the tree written with dots."""
        if not isinstance(tree, dict):
            return tree
        flat: dict[str, Any] = {}
        for name, below in tree.items():
            if isinstance(below, dict) and below and data.draw(st.booleans()):
                flat |= {f"{name}.{inner}": value for inner, value in dotted(below).items()}
            else:
                flat[name] = dotted(below)
        return flat

    assert nested(dotted(tree)) == tree


@given(TREES, TREES)
def test_settings_laid_over_others_win_leaf_by_leaf(base: dict[str, Any], over: dict[str, Any]) -> None:
    result = leaves(merged(base, over))
    wins = leaves(over)
    kept = {
        path: value
        for path, value in leaves(base).items()
        if not any(path[: len(at)] == at or at[: len(path)] == path for at in wins)
    }
    assert result == {**kept, **wins}


def written(folder: Path, text: str) -> Path:
    """A file with this text."""
    path = folder / "2026-01-01.yaml"
    path.write_text(text)
    return path


def test_a_good_file_with_its_defaults(tmp_path: Path) -> None:
    config = load_config(written(tmp_path, GOOD + "settings: {task.weights.cost: 2, rows: 9}\n"))
    assert (config.control, config.seed, config.rollouts, config.tasks) == ("full", 42, 1, None)
    assert config.settings_of("full") == {"task": {"weights": {"cost": 2}}, "rows": 9}
    assert config.settings_of("other") == {"task": {"weights": {"cost": 2}}, "rows": 3}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (GOOD + "colour: 1\n", "colour: Extra inputs are not permitted"),
        (GOOD.replace("{}", "{colour: 1}"), "arms.full.colour: Extra inputs"),
        (GOOD.replace("{}", "{how: twice}"), "arms.full.how: Input should be 'run' or 'rescore'"),
        (GOOD.replace("{}", "{how: rescore}"), "the first arm, full, is the control"),
        (GOOD + "tasks: 0\n", "tasks: Input should be greater than or equal to 1"),
        (GOOD.replace("[policy:coin]", "[]"), "players: List should have at least 1 item"),
        (GOOD.replace("other:", "full:"), "'full' stands twice"),
        (GOOD.replace("  other: {settings: {rows: 3}}\n", ""), "arms: Dictionary should have at least 2"),
        (GOOD.replace("rows: 3", "rows: 2026-01-01"), "arms.other.settings.rows"),
        (GOOD.replace("rows: 3", "a.b: 1, a: {b: 2}"), "arms.other.settings: a.b is set twice"),
        (GOOD.replace("rows: 3", "a..b: 1"), "'a..b' is not the name of a setting"),
        (GOOD.replace("rows: 3", "7: 1"), "7 is not the name of a setting"),
        ("environment: [quick\n", "the experiment is no YAML"),
        ("[1, 2]\n", "valid dictionary"),
        ("", "valid dictionary"),
        (GOOD.replace("environment: quick", ""), "environment: Field required"),
        ("!!python/object/apply:os.getcwd []\n", "no YAML: could not determine a constructor"),
    ],
    ids=lambda value: value[-30:].replace("\n", " "),
)
def test_a_wrong_file_gets_one_line_with_file_and_key(tmp_path: Path, text: str, said: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(UsageError) as refused:
        load_config(path)
    told = str(refused.value)
    assert said in told
    assert str(path) in told
    assert "\n" not in told


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        load_config(tmp_path / "none.yaml")
    (tmp_path / "odd.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="not UTF-8"):
        load_config(tmp_path / "odd.yaml")


def test_arms_that_are_named_come_with_the_control(tmp_path: Path) -> None:
    config = load_config(written(tmp_path, GOOD + "  third: {}\n"))
    assert list(config.only(["third"]).arms) == ["full", "third"]
    assert list(config.only(["third", "other", "full"]).arms) == ["full", "other", "third"]
    with pytest.raises(UsageError, match=r"no arm 'fourth'.*It has full, other, third"):
        config.only(["fourth"])
    with pytest.raises(UsageError, match="full is the control"):
        config.only(["full"])


def test_the_newest_file_of_an_environment_is_found(tmp_path: Path) -> None:
    folder = tmp_path / "quick"
    folder.mkdir()
    for name in ("2026-02-01.yaml", "2026-10-01.yaml", "2026-10-01-notes.md", "zz.yaml", "2025-12-31.yml"):
        (folder / name).write_text(GOOD)
    assert newest_config(QUICK, [tmp_path / "elsewhere", tmp_path]).name == "2026-10-01.yaml"
    with pytest.raises(UsageError, match="no experiment is planned for quick"):
        newest_config(QUICK, [tmp_path / "elsewhere"])


def test_the_projects_own_experiments_can_be_carried_out() -> None:
    found = [path for place in PLACES for path in place.glob("*/*.yaml")]
    assert found
    for path in found:
        config = load_config(path)
        environment = find(config.environment)
        assert environment.alias == path.parent.name
        check_arms(environment, config)


def test_e1_takes_each_part_of_its_reward_away() -> None:
    config = load_config(newest_config(NETWORK_LOGS))
    weights = {name: arm.settings.get("task", {}).get("weights") for name, arm in config.arms.items()}
    assert weights["full"] is None
    assert weights["no-calibration"] == weights["no-calibration-rescored"] == {"calibration": 0}
    assert weights["linear"] == weights["linear-rescored"] == {"calibration_form": "linear"}
    assert weights["no-cost"] == {"cost": 0}
    assert weights["no-abstain"] == {"abstain": None}
    assert [name for name, arm in config.arms.items() if arm.how == "rescore"] == [
        "no-calibration-rescored",
        "linear-rescored",
    ]
