"""Policies: what each says, and what it reads."""

import asyncio
import json
from functools import cache
from typing import Any

import pytest

from sv_env_config_verification.adapters.base import Desk
from sv_env_config_verification.agent_tools import answer_call
from sv_env_config_verification.answers import Answer, parse_answer
from sv_env_config_verification.patches import PatchError, apply_patch
from sv_env_config_verification.policies import objects_of, policies
from sv_env_config_verification.public_mini import load_public_mini
from sv_env_config_verification.reading import Reader
from sv_env_config_verification.rule_fixer import repair
from sv_env_config_verification.taskset import AuditData, AuditTaskConfig, make_task
from sv_shared.policies import PolicyKind
from tests.sv_env_config_verification.audit_rows import BUCKET, MENDED, WEB, row, toolbox

SPECS = policies()
VALID = (
    "reference",
    "noop",
    "constant-common",
    "rule-fixer",
    "random",
    "flag-everything",
    "repeated",
    "buried",
)
FORMLESS = ("empty", "echo", "keyword-salad", "two-contradicting", "reasoning-only")
TOOLS = [{"type": "function", "function": {"name": name}} for name in ("run_opa", "run_semgrep")]


@cache
def data(number: int) -> AuditData:
    return make_task(load_public_mini()[number], AuditTaskConfig()).data


def say(name: str, task: Any, seed: int = 1) -> str:
    messages = [{"role": "user", "content": task.prompt}]
    return str(SPECS[name].make(seed).act(task, messages, [])["content"])


@pytest.mark.parametrize("number", range(0, 200, 40))
def test_answers_parse_or_do_not_as_they_should(number: int) -> None:
    for name in VALID:
        assert isinstance(parse_answer(say(name, data(number))), Answer), name
    for name in FORMLESS:
        assert not isinstance(parse_answer(say(name, data(number))), Answer), name


@pytest.mark.parametrize("name", ["suppression", "resource-removal", "rename", "delete-all"])
def test_patches_of_exploits_apply(name: str) -> None:
    applied = 0
    for number in range(0, 200, 20):
        answer = parse_answer(say(name, data(number)))
        assert isinstance(answer, Answer)
        assert answer.patch
        try:
            applied += apply_patch(data(number).files, answer.patch) != data(number).files
        except PatchError:
            continue
    assert applied >= 8, "an exploit that is refused for its form tries nothing"


def converse(task: Any) -> str:
    """The tool oracle's answer, its calls answered by a tool of the test's own."""
    player, box = SPECS["tool-oracle"].make(1), toolbox()[0]
    messages: list[dict[str, Any]] = [{"role": "system", "content": task.system_prompt}]
    for _ in range(4):
        message = player.act(task, messages, TOOLS)
        if message["content"] is not None:
            return str(message["content"])
        name = message["tool_calls"][0]["function"]["name"].removeprefix("run_")
        said = asyncio.run(answer_call(box, name, dict(row().files), ""))
        messages.append({"role": "tool", "content": said})
    raise AssertionError("it calls without end")


def test_the_tool_oracle_says_what_the_tools_say_whatever_the_labels() -> None:
    task = make_task(row(), AuditTaskConfig()).data
    said = json.loads(converse(task))
    assert said == {
        "violations": [
            {"id": "privileged-container", "object": "Deployment/shop/web", "severity": "critical"}
        ],
        "patch": None,
    }
    lies = {"violations": [], "patch": "x", "intent": [], "fixes": {}}
    assert json.loads(converse(task.model_copy(update={"truth": lies}))) == said


def test_without_tools_their_copies_do_not_play() -> None:
    off = make_task(row(), AuditTaskConfig(tools=False)).data
    bound = [name for name, spec in SPECS.items() if not spec.can_play(off)]
    assert bound == ["tool-oracle", "raw-tool-output"]


def test_the_rule_fixer_reads_no_truth_and_mends() -> None:
    found = repair({"web.yaml": WEB, "main.tf": BUCKET})
    assert ("public-bucket", "aws_s3_bucket.logs") in found.claims
    assert ("privileged-container", "Deployment/shop/web") in found.claims
    assert found.patch
    after = apply_patch({"web.yaml": WEB, "main.tf": BUCKET}, found.patch)
    assert "privileged: true" not in after["web.yaml"]
    assert 'acl    = "private"' in after["main.tf"]
    assert repair({"web.yaml": MENDED}).patch is None
    assert repair({"web.yaml": "a: [", "x.tf": "}"}).claims == ()


def test_objects_are_those_that_the_parsers_find() -> None:
    async def parsed(files: dict[str, str]) -> set[str]:
        desk = Desk.open()
        reader: Reader = desk.reader
        try:
            return {item.id for item in (await reader.read(files)).items()}
        finally:
            await desk.close()

    for number in range(0, 200, 25):
        assert set(objects_of(data(number).files)) == asyncio.run(parsed(data(number).files))


def test_each_kind_is_there() -> None:
    kinds = {spec.kind for spec in SPECS.values()}
    assert kinds >= {PolicyKind.REFERENCE, PolicyKind.TOOL_ONLY, PolicyKind.HEURISTIC, PolicyKind.CONSTANT,
                     PolicyKind.DEGENERATE, PolicyKind.EXPLOIT}  # fmt: skip
