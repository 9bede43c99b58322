"""The tasks of E2: which items they are, what a model sees of them, and what they pay."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from sv_env_config_verification import taskset as module
from sv_env_config_verification.adapters.toolbox import Toolbox
from sv_env_config_verification.public_mini import dumps
from sv_env_config_verification.rewards import Weights
from sv_env_config_verification.rows import Row
from sv_env_config_verification.shared_box import BoxSettings
from sv_env_config_verification.taskset import (
    AuditTask,
    AuditTaskConfig,
    ConfigVerificationConfig,
    ConfigVerificationTaskset,
    is_judgeable,
    make_task,
    open_items,
    row_of,
)
from sv_shared.errors import DataError, UsageError
from sv_shared.outcomes import Outcome
from tests.sv_env_config_verification.audit_rows import clean_row, row, toolbox

CONFIG = AuditTaskConfig()


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Grading asks a tool of the test's own, which knows privileged containers only."""
    box, _ = toolbox()

    async def shared(settings: BoxSettings) -> Toolbox:
        return box

    monkeypatch.setattr(module, "shared_toolbox", shared)


def judged() -> Row:
    """A row whose violations the stand-in tool sees."""
    return row(violations=[v.model_dump(mode="json") for v in row().violations[:1]])


def open_(**settings: Any) -> list[Row]:
    return list(open_items(ConfigVerificationConfig.model_validate(settings)).rows)


def test_a_row_survives_the_task_and_the_file() -> None:
    task = make_task(row(), CONFIG)
    loaded = type(task.data).model_validate_json(task.data.model_dump_json())
    assert AuditTask(loaded, CONFIG).hash == task.hash
    assert row_of(loaded) == row()


@pytest.mark.usefixtures("stand_in")
def test_the_gold_check_holds_and_can_fail() -> None:
    assert asyncio.run(make_task(judged(), CONFIG).validate(runtime=None))  # type: ignore[arg-type]
    assert asyncio.run(make_task(clean_row(), CONFIG).control())
    broken = make_task(judged(), CONFIG)
    broken.data.truth["patch"] = "no diff"
    assert not asyncio.run(broken.control())


@pytest.mark.usefixtures("stand_in")
@pytest.mark.parametrize(("tools", "paid"), [(True, 0.3), (False, 0.6)])
def test_detection_is_paid_by_the_weights_in_force(tools: bool, paid: float) -> None:
    task = make_task(judged(), AuditTaskConfig(tools=tools, weights=Weights()))
    reply = json.dumps({"violations": task.data.truth["violations"], "patch": None})
    assert asyncio.run(task._grade(reply)).reward == pytest.approx(paid)


def test_a_grader_that_breaks_leaves_the_metrics_their_names() -> None:
    floor = make_task(row(), CONFIG).ungradable("it broke")
    assert floor.outcome is Outcome.SCORED
    assert floor.reward == 0.0
    assert {"detection", "repaired", "applies", "intent_holds", "tool_calls"} <= set(floor.metrics)


def test_tools_switch_the_tool_server_and_the_prompt() -> None:
    on, off = ConfigVerificationConfig(), ConfigVerificationConfig(task=AuditTaskConfig(tools=False))
    (server,) = ConfigVerificationTaskset.toolsets(on)
    assert server.config.calls == 8
    assert ConfigVerificationTaskset.toolsets(off) == []
    assert "run_opa" in str(make_task(row(), on.task).data.system_prompt)
    assert "run_opa" not in str(make_task(row(), off.task).data.system_prompt)


def test_public_mini_is_the_default() -> None:
    assert len(open_()) == 200
    hard = open_(difficulty="hard")
    assert {item.difficulty for item in hard} == {"hard"}


def test_items_that_only_a_left_out_tool_can_judge_are_left_out() -> None:
    every = open_()
    config = ConfigVerificationConfig.model_validate({"task": {"without": ["kubelinter"]}})
    kept, info = open_items(config)
    gone = [item for item in every if item not in kept]
    assert info.details["unjudgeable_left_out"] == len(gone) == 200 - len(kept) > 0
    assert info.details["tools"] == ["opa", "semgrep"]
    assert all(not is_judgeable(item, ("opa", "semgrep")) for item in gone)


def test_a_file_of_rows_loads(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text(dumps([row()]))
    assert open_(dataset=str(path)) == [row()]
    with pytest.raises(DataError, match="no labelled items"):
        open_(dataset=str(tmp_path))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"split": "train"}, "test split only"),
        ({"dataset": "synth", "split": "odd"}, "unknown split"),
        ({"dataset": "synth", "split": "train", "synth_seed": 2_000_000}, "belongs to the test split"),
        ({"task": {"without": ["trivy"]}}, "no tool is called 'trivy'"),
        ({"task": {"without": ["opa", "kubelinter", "semgrep"]}}, "every tool is left out"),
    ],
)
def test_settings_that_do_not_fit_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        open_(**settings)
