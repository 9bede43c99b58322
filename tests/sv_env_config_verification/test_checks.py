"""The audit's checks of E2: each holds on public-mini, and fails on what it is there to find."""

from collections.abc import Sequence
from functools import cache

import pytest

from sv_env_config_verification import checks
from sv_env_config_verification.public_mini import load_public_mini
from sv_env_config_verification.rows import Row
from sv_env_config_verification.shared_box import BoxSettings
from sv_env_config_verification.taskset import AuditTask, AuditTaskConfig, make_task


@cache
def tasks() -> Sequence[AuditTask]:
    return [make_task(item, AuditTaskConfig()) for item in load_public_mini()]


def changed(task: AuditTask, **update: object) -> AuditTask:
    return AuditTask(task.data.model_copy(update=update), task.config)


@pytest.mark.parametrize("name", ["format", "sets", "clean", "promise", "words", "classes"])
def test_a_check_holds_on_public_mini(name: str) -> None:
    result = getattr(checks, f"check_{name}")(tasks())
    assert result.passed, result.detail


def test_a_prompt_with_the_answer_in_it_is_found() -> None:
    one = next(task for task in tasks() if task.data.truth["patch"])
    shown = changed(one, prompt=f"{one.data.prompt}\n{one.data.truth['patch']}")
    assert not checks.check_promise([shown]).passed
    assert not checks.check_words([shown]).passed
    assert not checks.check_words([changed(one, prompt=f"{one.data.prompt} {one.data.id}")]).passed


def test_one_class_is_found() -> None:
    assert not checks.check_classes([task for task in tasks() if task.data.truth["patch"]]).passed


def test_a_telling_word_is_found() -> None:
    same = [changed(task, prompt="same", statement="same") for task in tasks()]
    assert checks.check_shallow(same).figures["words"] == pytest.approx(0.5)
    told = [changed(task, statement="wrong" if task.data.truth["patch"] else "right") for task in same]
    assert not checks.check_shallow(told).passed


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_truth_that_is_what_the_tools_say_is_found(share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    async def unions(rows: Sequence[Row], settings: BoxSettings) -> list[frozenset[tuple[str, str]]]:
        own = int(share * len(rows))
        return [row.pairs | ({("x", "y")} if n < own else set()) for n, row in enumerate(rows)]

    monkeypatch.setattr(checks, "_unions", unions)
    assert checks.check_tools(tasks()).passed is (share >= checks.MIN_DIFFERENT)
