"""What is written is what was meant: other parsers read the same values back."""

import random

import hcl2
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from sv_env_config_verification.synth.kubernetes import FAMILIES, kubernetes_scene
from sv_env_config_verification.synth.model import Edit, Item, apply
from sv_env_config_verification.synth.names import Names
from sv_env_config_verification.synth.terraform import FAMILIES as TERRAFORM
from sv_env_config_verification.synth.terraform import terraform_scene
from sv_env_config_verification.synth.text import Style, scalar, write

KEYS = st.text("abcdefgh/.-", min_size=1, max_size=8)
TEXTS = st.text(st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"]), max_size=12).filter(
    lambda text: "\n" not in text
)
SCALARS = st.one_of(st.booleans(), st.integers(-(10**6), 10**6), TEXTS)
VALUES = st.recursive(
    SCALARS, lambda v: st.lists(v, max_size=3) | st.dictionaries(KEYS, v, max_size=3), max_leaves=12
)


def style(items: tuple[Item, ...], ending: str, comments: float = 0.5, indented: bool = True) -> Style:
    ids = tuple(item.id for item in items)
    return Style("seed", comments, indented, ids, dict.fromkeys(ids, f"all.{ending}"))


def has_nested_list(value: object) -> bool:
    """A list directly in a list, which no manifest has and the writer does not write."""
    if isinstance(value, dict):
        return any(has_nested_list(item) for item in value.values())
    return isinstance(value, list) and any(isinstance(item, list) or has_nested_list(item) for item in value)


@given(
    st.dictionaries(KEYS, VALUES, min_size=1, max_size=4).filter(lambda v: not has_nested_list(v)),
    st.booleans(),
)
def test_yaml_reads_the_values_back(body: dict, indented: bool) -> None:
    items = (Item("a", body),)
    text = write(items, style(items, "yaml", indented=indented))["all.yaml"]
    assert yaml.safe_load(text) == body


@given(SCALARS)
def test_a_scalar_is_read_back(value: object) -> None:
    found = yaml.safe_load(f"k: {scalar(value)}")["k"]
    assert found == value
    assert type(found) is type(value)


def test_whole_scenes_are_read_back() -> None:
    scene = kubernetes_scene(Names(random.Random(1)), FAMILIES)
    text = write(scene.items, style(scene.items, "yaml"))["all.yaml"]
    assert list(yaml.safe_load_all(text)) == [item.body for item in scene.items]
    assert text.count("# ") > 10


def test_another_parser_reads_all_blocks() -> None:
    for family in TERRAFORM:
        scene = terraform_scene(Names(random.Random(2)), (family, family))
        text = write(scene.items, style(scene.items, "tf"))["all.tf"]
        blocks = hcl2.loads(text)
        count = sum(len(blocks.get(kind, [])) for kind in ("resource", "data", "terraform", "variable"))
        assert count == len(scene.items), family


def test_an_edit_changes_nothing_else_of_the_text() -> None:
    scene = kubernetes_scene(Names(random.Random(4)), ("web",))
    workload = next(item for item in scene.items if item.body["kind"] == "Deployment")
    edited = apply(scene.items, [Edit(workload.id, ("spec", "template", "spec", "hostPID"), True)])
    look = style(scene.items, "yaml")
    before, after = (write(items, look)["all.yaml"].split("\n") for items in (scene.items, edited))
    assert [line for line in after if line not in before] == ["      hostPID: true"]
    assert len(after) == len(before) + 1
    assert "hostPID" not in str(workload.body)


@pytest.mark.parametrize(
    "value", ["true", "No", "null", "off", "y", "1e3", "1:20", "2026-01-01", "~", "a: b", "- a"]
)
def test_a_text_that_looks_like_something_else_stays_a_text(value: str) -> None:
    assert yaml.safe_load(f"k: {scalar(value)}") == {"k": value}


def test_the_order_in_which_keys_were_made_does_not_show() -> None:
    body = {
        "kind": "Pod",
        "metadata": {"name": "a", "labels": {"x": "1"}},
        "spec": {"b": 1, "a": [{"z": 1, "c": 2}]},
    }

    def reversed_keys(value: object) -> object:
        if isinstance(value, dict):
            return {key: reversed_keys(value[key]) for key in reversed(value)}
        return [reversed_keys(item) for item in value] if isinstance(value, list) else value

    one, other = (Item("a", body),), (Item("a", dict(reversed_keys(body))),)  # type: ignore[call-overload]
    assert write(one, style(one, "yaml")) == write(other, style(other, "yaml"))
