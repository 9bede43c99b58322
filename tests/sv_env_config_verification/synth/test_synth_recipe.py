"""Drafts: the same seed gives the same bytes; what a row is made of fits together."""

import random
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from sv_env_config_verification.catalogue import load_catalogue
from sv_env_config_verification.public_mini import dumps
from sv_env_config_verification.synth.kubernetes import FAMILIES, kubernetes_scene
from sv_env_config_verification.synth.kubernetes_choices import kubernetes_choices
from sv_env_config_verification.synth.kubernetes_flaws import kubernetes_flaws
from sv_env_config_verification.synth.model import compatible
from sv_env_config_verification.synth.names import Names
from sv_env_config_verification.synth.recipe import BATCH, LINES, PLANS, Draft, draft
from sv_shared.errors import UsageError


@pytest.fixture(scope="module")
def drafts() -> list[Draft]:
    return draft(5 * BATCH, seed=7, split="train")


def test_same_seed_same_bytes(drafts: list[Draft]) -> None:
    again = draft(2 * BATCH, seed=7, split="train")
    assert dumps(one.row for one in again) == dumps(one.row for one in drafts[: 2 * BATCH])
    assert [one.secure for one in again] == [one.secure for one in drafts[: 2 * BATCH]]
    other = draft(2 * BATCH, seed=8, split="train")
    assert not {str(one.row.files) for one in other} & {str(one.row.files) for one in again}


def test_mixture(drafts: list[Draft]) -> None:
    rows = [one.row for one in drafts]
    assert Counter(row.kind for row in rows) == Counter(plan.kind for plan in PLANS for _ in range(5))
    assert Counter(row.format for row in rows) == {"kubernetes": 60, "terraform": 40}
    assert sum(row.is_clean for row in rows) == 35
    differs = [one for one in drafts if one.row.pairs != one.seen | one.alarms]
    assert len(differs) == 50


def test_sizes(drafts: list[Draft]) -> None:
    sizes = [sum(text.count("\n") for text in one.row.files.values()) for one in drafts]
    assert all(size in LINES for size in sizes)
    assert min(sizes) < 60
    assert max(sizes) > 250
    numbers = {len(one.row.violations) for one in drafts}
    assert max(numbers) <= 8
    assert len(numbers) >= 7


def test_claims_fit_together(drafts: list[Draft]) -> None:
    known = load_catalogue().weaknesses
    for one in drafts:
        row = one.row
        unseen = {tuple(key.split(" ", 1)) for key in row.fixes}
        assert row.pairs == one.seen | unseen
        assert not one.seen & unseen
        assert not row.pairs & one.alarms
        assert all(known[v.id].severity is v.severity for v in row.violations)
        assert bool(unseen) == (row.kind == "unseen")
        assert row.statement
        assert len(row.intent) >= (row.format == "terraform")


def test_git_applies_the_patch_and_gets_the_mended_files(drafts: list[Draft], tmp_path: Path) -> None:
    """Git is the reference: the patch is the exact way back, to the byte."""
    for number, one in enumerate(drafts):
        if one.row.patch is None:
            assert one.row.files == one.secure
            continue
        folder = tmp_path / str(number)
        folder.mkdir()
        for name, text in one.row.files.items():
            (folder / name).write_text(text, encoding="utf-8")
        command = ["git", "apply", "-"]
        env = {"GIT_CEILING_DIRECTORIES": str(tmp_path), "PATH": "/usr/bin:/bin"}
        subprocess.run(command, input=one.row.patch.encode(), cwd=folder, env=env, check=True)
        assert {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()} == one.secure


def test_a_patch_touches_no_comment(drafts: list[Draft]) -> None:
    changed = [
        line
        for one in drafts
        for line in (one.row.patch or "").split("\n")
        if line[:1] in "+-" and not line.startswith(("+++", "---"))
    ]
    assert len(changed) > 100
    assert not [line for line in changed if line[1:].lstrip().startswith("#")]


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(UsageError, match="belongs to the test split"):
        draft(1, seed=2_000_000, split="train")
    with pytest.raises(UsageError, match="out of range"):
        draft(-1, seed=0, split="train")


def test_compatible_parts_meet_nowhere() -> None:
    names = Names(random.Random(3))
    scene = kubernetes_scene(names, FAMILIES)
    flaws = list(kubernetes_flaws(scene, names))
    choices = list(kubernetes_choices(scene, names))
    assert len({flaw.pair[0] for flaw in flaws}) > 40
    for one in flaws:
        assert not compatible(one, one)
        for other in choices:
            same_place = {e.path for e in one.edits if e.object in {x.object for x in other.edits}} & {
                e.path for e in other.edits
            }
            if same_place or one.pairs & other.pairs:
                assert not compatible(one, other)
                assert not compatible(other, one)
