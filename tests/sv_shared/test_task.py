"""Graded tasks: content hashes, hooks, and the line between a bad answer and a broken grader."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest
import verifiers.v1 as vf
from hypothesis import given
from hypothesis import strategies as st
from verifiers.v1.trace import AgentInfo, Trace, TraceTask

from sv_shared.grading import Grade
from sv_shared.outcomes import Outcome
from sv_shared.storage import Storage
from sv_shared.task import GRADE_KEY, PROVIDER_KEY, GradedData, GradedTask, last_answer, task_hash

NONE = GradedData(prompt="p", truth="t")


class Plain(GradedTask[GradedData]):
    """Grades with what it is told to."""

    grading_limit_s = 0.1
    how: Callable[[], Any] = staticmethod(lambda: Grade(Outcome.SCORED, {"a": 0.25, "b": 0.5}, {"m": 2.0}))
    sound: Callable[[], Any] = staticmethod(lambda: False)

    async def grade(self, trace: vf.Trace) -> Grade:
        grade = self.how()
        return await grade if asyncio.iscoroutine(grade) else grade

    async def control(self) -> bool:
        sound = self.sound()
        return bool(await sound if asyncio.iscoroutine(sound) else sound)

    def bounds(self) -> tuple[float, float]:
        return -2.0, 1.0


def trace_of(task: Plain) -> vf.Trace:
    """A finished trace of a task."""
    info = TraceTask(type="Plain", data=task.data, key=task.key, hash=task.hash)
    return Trace(task=info, state=vf.State(), agent=AgentInfo(config=vf.AgentConfig()))


def plain(how: Callable[[], Any] | None = None, sound: Callable[[], Any] = lambda: False) -> Plain:
    """A task with a grader and a control."""
    task = Plain(NONE)
    if how is not None:
        task.how = how
    task.sound = sound
    return task


def crash() -> Grade:
    """A grader that fails."""
    raise ValueError("no")


async def hang() -> Any:
    """A grader or control that never comes back."""
    await asyncio.sleep(60)


async def test_a_grade_becomes_rewards_and_metrics() -> None:
    task = plain()
    trace = trace_of(task)
    assert await task.graded(trace) == {"a": 0.25, "b": 0.5}
    assert trace.info[GRADE_KEY].reward == 0.75
    assert trace.metrics["m"] == 2.0


@pytest.mark.parametrize(("how", "name"), [(crash, "ValueError"), (hang, "TimeoutError")])
async def test_a_sound_grader_that_fails_on_an_answer_scores_the_floor(
    how: Callable[[], Any], name: str
) -> None:
    task = plain(how, sound=lambda: True)
    trace = trace_of(task)
    assert await task.graded(trace) == {"floor": -2.0}
    grade = trace.info[GRADE_KEY]
    assert (grade.outcome, grade.reward, grade.truth) == (Outcome.SCORED, -2.0, "t")
    assert grade.cause == f"the answer made the grader fail: {name}"


@pytest.mark.parametrize("how", [crash, hang])
@pytest.mark.parametrize("sound", [lambda: False, crash, hang])
async def test_a_grader_that_fails_its_control_too_grades_nothing(
    how: Callable[[], Any], sound: Callable[[], Any]
) -> None:
    task = plain(how, sound)
    trace = trace_of(task)
    begun = time.monotonic()
    with pytest.raises((ValueError, TimeoutError)):
        await asyncio.wait_for(task.graded(trace), 5)
    assert time.monotonic() - begun < 2
    assert GRADE_KEY not in trace.info


async def test_cancelling_is_not_a_crash_of_the_grader() -> None:
    task = plain(hang, sound=lambda: True)
    trace = trace_of(task)
    grading = asyncio.create_task(task.graded(trace))
    await asyncio.sleep(0.01)
    grading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await grading
    assert GRADE_KEY not in trace.info


@given(st.text(min_size=1), st.text(), st.sampled_from(Storage), st.integers(0, 9))
def test_the_hash_is_of_the_content(prompt: str, truth: str, storage: Storage, idx: int) -> None:
    data = GradedData(prompt=prompt, truth=truth, storage=storage)
    moved = data.model_copy(update={"idx": idx, "name": "another name"})
    assert task_hash(moved) == task_hash(data)
    assert task_hash(GradedData.model_validate_json(data.model_dump_json())) == task_hash(data)
    assert task_hash(data.model_copy(update={"prompt": prompt + "!"})) != task_hash(data)
    assert task_hash(data.model_copy(update={"truth": truth + "!"})) != task_hash(data)


def test_a_changed_copy_has_a_hash_of_its_own() -> None:
    task = plain()
    before = task.hash
    assert task.with_data(idx=5).hash == before
    assert task.with_data(prompt="other").hash != before
    assert task.hash == task.key == before


class Hooked(Plain):
    """Marks of several kinds and priorities."""

    @vf.stop(priority=1)
    async def late(self, trace: vf.Trace) -> bool:
        return False

    @vf.stop(priority=9)
    async def zealous(self, trace: vf.Trace) -> bool:
        return False

    @vf.stop
    async def early(self, trace: vf.Trace) -> bool:
        return False

    @vf.metric
    async def length(self, trace: vf.Trace) -> float:
        return 1.0


@pytest.mark.parametrize("attr", ["stop", "metric", "reward"])
def test_hooks_are_those_that_verifiers_finds(attr: str) -> None:
    task = Hooked(NONE)
    ours = [hook.__name__ for hook in task.hooks(attr)]
    assert ours == [hook.__name__ for hook in vf.Task.hooks(task, attr)]
    assert len(ours) == {"stop": 3, "metric": 1, "reward": 1}[attr]
    assert all(hook.__self__ is task for hook in task.hooks(attr))


def test_an_answer_of_a_model_that_never_answered_is_empty() -> None:
    trace = trace_of(plain())
    assert last_answer(trace).text == ""
    trace.info[PROVIDER_KEY] = {"finish_reason": "content_filter", "refusal": "no"}
    assert last_answer(trace).text == ""
