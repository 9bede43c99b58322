"""What the shared options make of their arguments."""

import contextlib
import json
from typing import Any

import click
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from security_verifiers.cli.options import dataset_config, dataset_options, echo_json, parse_settings

NAMES = st.text("abcdefghij_", min_size=1, max_size=6)
PLAIN = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
)
VALUES = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3)
)
TREES = st.recursive(
    st.dictionaries(NAMES, PLAIN, min_size=1, max_size=3),
    lambda inner: st.dictionaries(NAMES, PLAIN | inner, min_size=1, max_size=3),
    max_leaves=6,
)


def paths(tree: dict[str, Any], before: str = "") -> list[str]:
    """A tree of settings as the arguments that name each leaf."""
    out = []
    for name, value in tree.items():
        place = f"{before}{name}"
        out += paths(value, f"{place}.") if isinstance(value, dict) else [f"{place}={json.dumps(value)}"]
    return out


@given(TREES)
def test_any_tree_of_settings_can_be_named_leaf_by_leaf(tree: dict[str, Any]) -> None:
    assert parse_settings(tuple(paths(tree))) == tree


@given(name=NAMES, value=VALUES)
def test_a_json_value_is_that_value(name: str, value: Any) -> None:
    assert parse_settings((f"{name}={json.dumps(value)}",)) == {name: value}


def is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


@given(name=NAMES, text=st.text().filter(lambda text: not is_json(text)))
def test_anything_else_is_text_as_it_stands(name: str, text: str) -> None:
    assert parse_settings((f"{name}={text}",)) == {name: text}


@given(st.lists(st.text(max_size=12) | st.tuples(NAMES, st.text(max_size=5)).map("=".join), max_size=4))
def test_any_arguments_give_settings_or_a_message(arguments: list[str]) -> None:
    settings: dict[str, Any] = {}
    with contextlib.suppress(click.BadParameter):
        settings = parse_settings(tuple(arguments))
        assert bool(settings) == bool(arguments)
    assert all(settings)


@pytest.mark.parametrize(
    ("arguments", "settings"),
    [
        (["view=window"], {"view": "window"}),
        (["task.weights.cost=2", "task.weights.a=0"], {"task": {"weights": {"cost": 2, "a": 0}}}),
        (["dataset=a=b"], {"dataset": "a=b"}),
        (['mask=["ports"]'], {"mask": ["ports"]}),
        (["x=", " y =1"], {"x": "", "y": 1}),
        (["x=1", "x=2"], {"x": 2}),
        (['a={"b": 1}', "a.c=2"], {"a": {"b": 1, "c": 2}}),
        (["difficulty=null"], {"difficulty": None}),
    ],
)  # fmt: skip
def test_settings(arguments: list[str], settings: dict[str, Any]) -> None:
    assert parse_settings(tuple(arguments)) == settings


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["view"], "not of the form NAME=VALUE"),
        (["=1"], "not of the form NAME=VALUE"),
        ([" =1"], "not of the form NAME=VALUE"),
        (["a..b=1"], "'a..b' has an empty part"),
        ([".a=1"], "has an empty part"),
        (["a.=1"], "has an empty part"),
        (["a=1", "a.b=2"], "'a.b' goes through a value"),
        (["a=[1]", "a.b.c=2"], "'a.b.c' goes through a value"),
    ],
)
def test_what_is_no_setting_is_refused(arguments: list[str], said: str) -> None:
    with pytest.raises(click.BadParameter, match=said):
        parse_settings(tuple(arguments))


def test_options_of_their_own_outweigh_settings() -> None:
    settings = ("dataset=one", "split=dev", "view=flow")
    assert dataset_config(None, None, settings) == {"dataset": "one", "split": "dev", "view": "flow"}
    assert dataset_config("two", "test", settings) == {"dataset": "two", "split": "test", "view": "flow"}
    assert dataset_config(None, None, ()) == {}


def test_the_options_of_a_command() -> None:
    @click.command()
    @dataset_options
    def command(dataset: str | None, split: str | None, settings: tuple[str, ...]) -> None:
        echo_json(dataset_config(dataset, split, settings))

    ran = CliRunner().invoke(command, ["--dataset", "5", "--set", "a.b=1", "--set", "c=é"])
    assert ran.exit_code == 0
    assert json.loads(ran.output) == {"a": {"b": 1}, "c": "é", "dataset": "5"}
    assert CliRunner().invoke(command, ["--set", "nothing"]).exit_code == 2
