"""The tools confirm the recipe, and a claim that they do not bear out is refused."""

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace

import pytest
import pytest_asyncio

from sv_env_config_verification.adapters.toolbox import Toolbox
from sv_env_config_verification.funnel import run_funnel
from sv_env_config_verification.intent import ObjectExists
from sv_env_config_verification.synth import kubernetes, terraform
from sv_env_config_verification.synth.confirm import confirm, known_pairs, tool_pairs
from sv_env_config_verification.synth.kubernetes_choices import kubernetes_choices
from sv_env_config_verification.synth.kubernetes_flaws import kubernetes_flaws
from sv_env_config_verification.synth.kubernetes_unseen import kubernetes_unseen
from sv_env_config_verification.synth.model import Scene, apply
from sv_env_config_verification.synth.names import Names
from sv_env_config_verification.synth.recipe import Draft, draft
from sv_env_config_verification.synth.terraform_choices import terraform_choices
from sv_env_config_verification.synth.terraform_flaws import terraform_flaws
from sv_env_config_verification.synth.terraform_unseen import terraform_unseen
from sv_env_config_verification.synth.text import Style, write
from sv_shared.errors import DataError


@pytest_asyncio.fixture
async def toolbox() -> AsyncIterator[Toolbox]:
    """The tools that are here; at least OPA and Semgrep."""
    box = await Toolbox.open(allow_missing=True)
    async with box:
        if missing := sorted(set(box.missing) - {"kubelinter"}):
            pytest.skip(f"{missing[0]} is not installed; run sv tools install")
        yield box


@pytest.fixture(scope="module")
def drafts() -> list[Draft]:
    return draft(20, seed=11, split="train")


async def test_a_batch_is_as_the_recipe_says(toolbox: Toolbox, drafts: list[Draft]) -> None:
    found = await confirm(drafts, toolbox)
    for one, pairs in zip(drafts, found, strict=True):
        together = frozenset().union(*pairs.values())
        assert together == known_pairs(one.seen | one.alarms, sorted(toolbox.adapters))


async def test_reference_patches_repair(toolbox: Toolbox, drafts: list[Draft]) -> None:
    if toolbox.missing:
        pytest.skip("the funnel asks every tool; run sv tools install kube-linter")
    for one in drafts:
        if one.row.patch:
            result = await run_funnel(one.row, one.row.patch, toolbox)
            assert result.repaired, (one.row.id, result.cause)


async def test_a_claim_that_no_tool_bears_out_is_refused(toolbox: Toolbox, drafts: list[Draft]) -> None:
    one = next(one for one in drafts if one.row.kind == "tools-agree")
    pair = ("host-ipc", "Pod/none/there")
    with pytest.raises(DataError, match=r"missing \[\('host-ipc'"):
        await confirm([replace(one, seen=one.seen | {pair})], toolbox)
    with pytest.raises(DataError, match="besides"):
        await confirm([replace(one, seen=frozenset(sorted(one.seen)[1:]))], toolbox)


async def test_files_that_are_not_mended_are_refused(toolbox: Toolbox, drafts: list[Draft]) -> None:
    one = next(one for one in drafts if one.row.kind == "tools-agree")
    with pytest.raises(DataError, match="of its mended files"):
        await confirm([replace(one, secure=one.row.files)], toolbox)


async def test_a_fix_that_does_not_tell_is_refused(toolbox: Toolbox, drafts: list[Draft]) -> None:
    one = next(one for one in drafts if one.row.kind == "unseen")
    clause = one.row.intent[0] if one.row.intent else ObjectExists(object="none")
    row = one.row.model_copy(update={"fixes": dict.fromkeys(one.row.fixes, (clause,))})
    with pytest.raises(DataError, match="does not tell broken from mended"):
        await confirm([replace(one, row=row)], toolbox)
    row = one.row.model_copy(update={"intent": (ObjectExists(object="aws_vpc.none"),)})
    with pytest.raises(DataError, match="the intent does not hold"):
        await confirm([replace(one, row=row)], toolbox)


def scenes() -> Iterator[Scene]:
    for family in kubernetes.FAMILIES:
        yield kubernetes.kubernetes_scene(Names(random.Random(f"one {family}")), (family,))
    for family in terraform.FAMILIES:
        yield terraform.terraform_scene(Names(random.Random(f"one {family}")), (family,))


@pytest.mark.slow
async def test_each_flaw_and_choice_by_itself(toolbox: Toolbox) -> None:
    """Every way to break every template brings what it says; no template is reported by itself."""
    tools = sorted(toolbox.adapters)
    for scene in scenes():
        names = Names(random.Random(5))
        if scene.format == "kubernetes":
            seen, unseen = list(kubernetes_flaws(scene, names)), list(kubernetes_unseen(scene, names))
            choices = list(kubernetes_choices(scene, names))
        else:
            seen, unseen = list(terraform_flaws(scene, names)), list(terraform_unseen(scene, names))
            choices = list(terraform_choices(scene, names))
        name = f"all.{'yaml' if scene.format == 'kubernetes' else 'tf'}"
        ids = tuple(item.id for item in scene.items)
        look = Style("x", 0.1, True, ids, dict.fromkeys(ids, name))
        parts = [((), frozenset()), *((p.edits, p.pairs) for p in (*seen, *choices))]
        parts += [(flaw.edits, flaw.also) for flaw in unseen]
        texts = [write(apply(scene.items, edits), look) for edits, _ in parts]
        findings = await asyncio.gather(*map(toolbox.scan, texts))
        for (edits, pairs), found in zip(parts, findings, strict=True):
            assert tool_pairs(found) == known_pairs(frozenset(pairs), tools), (scene.families, edits)
