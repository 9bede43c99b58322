"""What a prompt says, and that it says nothing of the truth."""

import pytest

from sv_env_config_verification.answers import Answer, parse_answer
from sv_env_config_verification.prompts import system_prompt, user_prompt, weaknesses_for
from sv_env_config_verification.public_mini import load_public_mini
from sv_env_config_verification.rewards import Weights
from sv_env_config_verification.rows import Format
from tests.sv_env_config_verification.audit_rows import row

TOOLS = ("opa", "kubelinter", "semgrep")


@pytest.mark.parametrize(
    ("format_", "has", "lacks"),
    [("kubernetes", "host-pid", "public-bucket"), ("terraform", "public-bucket", "host-pid")],
)
def test_a_format_lists_its_own_weaknesses(format_: Format, has: str, lacks: str) -> None:
    listed = [w.id for w in weaknesses_for(format_)]
    assert has in listed
    assert lacks not in listed
    assert len(set(listed)) == len(listed)


def test_every_truth_of_public_mini_can_be_said() -> None:
    for item in load_public_mini():
        assert {v.id for v in item.violations} <= {w.id for w in weaknesses_for(item.format)}


@pytest.mark.parametrize(("tools", "detection", "repair"), [(TOOLS, "0.3", "0.7"), ((), "0.6", "0.4")])
def test_the_points_in_force_are_stated(tools: tuple[str, ...], detection: str, repair: str) -> None:
    said = system_prompt(Weights(), tools, 8)
    assert f"up to {detection} for detection" in said
    assert f"- {repair} for repair" in said
    assert ("8 calls in all" in said) is bool(tools)


def test_a_tool_that_is_left_out_is_not_offered() -> None:
    said = system_prompt(Weights(), ("opa", "semgrep"), 3)
    assert "run_opa, run_semgrep; 3 calls" in said
    assert "kubelinter" not in said


def test_files_are_shown_as_they_are() -> None:
    shown = user_prompt({"b.yaml": "b: 1", "a.yaml": "a: 1\n"}, "kubernetes", "")
    assert shown.endswith("=== a.yaml\na: 1\n\n=== b.yaml\nb: 1\n")
    assert "statement: none" in shown


def test_a_prompt_is_no_answer() -> None:
    item = row()
    shown = system_prompt(Weights(), TOOLS, 8) + user_prompt(item.files, item.format, item.statement)
    assert not isinstance(parse_answer(shown), Answer)
