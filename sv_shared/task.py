"""The verifiers skin of a task: data row, behaviour, and one grade a rollout.

An environment subclasses `GradedTask` and writes `grade`; engine, artifacts and audit read the `Grade` only.
"""

import asyncio
import hashlib
import json
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Generic, Self

import verifiers.v1 as vf
from typing_extensions import TypeVar

from sv_shared.grading import Grade
from sv_shared.outcomes import Outcome
from sv_shared.storage import Storage


class GradedData(vf.TaskData):
    """What every task row of ours carries besides verifiers' own fields."""

    cluster: str = ""
    """What is resampled together: capture, repository, campaign, scenario."""
    difficulty: str = ""
    """The tier, where the dataset has tiers."""
    storage: Storage = Storage.FULL
    """How much of this task's text may be written anywhere."""
    truth: Any = None
    """The truth that answers are compared with, as plain JSON types."""


DataT = TypeVar("DataT", bound=GradedData, default=GradedData)
StateT = TypeVar("StateT", bound=vf.State, default=vf.State)
ConfigT = TypeVar("ConfigT", bound=vf.TaskConfig, default=vf.TaskConfig)

GRADE_KEY = "grade"
"""Where a trace's `info` holds the grade (a trace's `state` is never serialised)."""
PROVIDER_KEY = "provider"
"""Where a trace's `info` holds the last call's finish reason and refusal in the provider's own words."""


def task_hash(data: vf.TaskData) -> str:
    """SHA-256 of a row's content; its position in a file (`idx`) and its name are not content."""
    content = data.model_dump(mode="json", exclude={"idx", "name"}, exclude_defaults=True)
    return hashlib.sha256(json.dumps(content, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


class GradedTask(vf.Task[DataT, StateT, ConfigT], Generic[DataT, StateT, ConfigT]):
    """A task whose reward is one `Grade`.

    `hash` and `key` are the content hash: computed once a row, because the engine reads them several times
    in every rollout.
    """

    grading_limit_s: ClassVar[float] = 120.0
    """Longest time that grading one answer may take, in seconds."""

    _hash: str | None = None

    @property
    def hash(self) -> str:
        if self._hash is None:
            self._hash = task_hash(self.data)
        return self._hash

    @property
    def key(self) -> str:
        return self.hash

    def with_data(self, **update: Any) -> Self:
        clone: Self = super().with_data(**update)
        if set(update) - {"idx", "name"}:
            clone._hash = None
        return clone

    def hooks(self, attr: str) -> list[Callable[..., Any]]:
        """verifiers' hooks of one kind, looked up once a class.

        `dir` of a task for every rollout is a tenth of a zero-latency rollout's CPU. A config that plugs
        functions in takes verifiers' own way.
        """
        plugged = {"stop": self.config.stops, "metric": self.config.metrics, "reward": self.config.rewards}
        if plugged[attr]:
            hooks: list[Callable[..., Any]] = super().hooks(attr)
            return hooks
        return [getattr(self, name) for name in _hook_names(type(self), attr)]  # type: ignore[arg-type]

    @abstractmethod
    async def grade(self, trace: vf.Trace) -> Grade:
        """The verdict on a finished rollout. No content of an answer makes it raise."""

    @abstractmethod
    def bounds(self) -> tuple[float, float]:
        """The reward's (floor, maximum) under the weights in force."""

    async def control(self) -> bool:
        """Whether the grader still grades a known-good answer right.

        Asked only after `grade` crashed or ran out of time: where the control holds, the answer's content
        did it and scores the floor; where it does not, the grader is broken and nobody is scored.
        """
        return False

    def ungradable(self, cause: str) -> Grade:
        """The floor, for an answer whose content made the grader fail.

        A task whose grades carry metrics gives them here too, or such answers would leave the metrics' means.
        """
        return Grade(Outcome.SCORED, {"floor": self.bounds()[0]}, truth=self.data.truth, cause=cause)

    @vf.reward
    async def graded(self, trace: vf.Trace) -> Mapping[str, float]:
        """The grade's components, each already weighted; their sum is the reward."""
        try:
            async with asyncio.timeout(self.grading_limit_s):
                grade = await self.grade(trace)
        except Exception as error:
            async with asyncio.timeout(self.grading_limit_s):
                holds = await self.control()
            if not holds:
                raise
            grade = self.ungradable(f"the answer made the grader fail: {type(error).__name__}")
        record_grade(trace, grade)
        return dict(grade.components)


@cache
def _hook_names(task: type[vf.Task], attr: str) -> tuple[str, ...]:
    """Names of the methods that carry a hook's mark, highest priority first, then by name."""
    marked = [name for name in dir(task) if getattr(getattr(task, name, None), attr, False)]
    rank = f"{attr}_priority"
    return tuple(sorted(marked, key=lambda name: (-getattr(getattr(task, name), rank, 0), name)))


def record_grade(trace: vf.Trace, grade: Grade) -> None:
    """Put a grade where the engine finds it, and its metrics where verifiers' own commands show them."""
    trace.info[GRADE_KEY] = grade
    trace.record_metrics(dict(grade.metrics))


@dataclass(frozen=True, slots=True)
class Answer:
    """The final assistant message of a rollout.

    Attributes:
        text: its content; reasoning that the provider returns apart from the content is not part of it.
        finish_reason: why the model stopped ("stop", "length", "content_filter" ...), where it is known.
        refusal: the provider's refusal text, where there is one.
    """

    text: str = ""
    finish_reason: str | None = None
    refusal: str | None = None


def last_answer(trace: vf.Trace) -> Answer:
    """The answer to grade; an empty one where the model never answered, or ended on a tool call."""
    for call in reversed(trace.calls):
        if call.node is not None:
            content = trace.nodes[call.node].message.content
            provider = trace.info.get(PROVIDER_KEY, {})
            return Answer(
                text=content if isinstance(content, str) else "",
                finish_reason=provider.get("finish_reason", call.finish_reason),
                refusal=provider.get("refusal"),
            )
    return Answer()
