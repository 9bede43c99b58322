"""Plan: which rollouts a run consists of, decided before the first one is played."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import verifiers.v1 as vf

from security_verifiers.evals.engine import load_env
from security_verifiers.evals.record import RolloutKey
from sv_shared.environment import Anchors, DatasetInfo, Environment
from sv_shared.errors import DataError, ToolError, UsageError
from sv_shared.task import GradedTask
from sv_shared.taskset import DatasetTaskset

DEFAULT_SEED = 42


@dataclass(frozen=True, slots=True)
class Plan:
    """A set of tasks, and how often each is played.

    Attributes:
        environment: what is played.
        config: the dataset's settings as given.
        settings: every setting in force, defaults included (reward weights among them).
        env: verifiers' environment with the dataset loaded.
        info: where the tasks come from.
        tasks: the tasks, in the order of play.
        samples: rollouts a task.
        seed: seeds the draw of tasks and every rollout.
        dataset_hash: SHA-256 over the content hashes of the tasks, sorted.
        anchors: chance and reference reward on these tasks.
        bounds: the reward's (floor, maximum).
    """

    environment: Environment
    config: Mapping[str, Any]
    settings: Mapping[str, Any]
    env: vf.Env
    info: DatasetInfo
    tasks: Sequence[GradedTask]
    samples: int
    seed: int
    dataset_hash: str
    anchors: Anchors
    bounds: tuple[float, float]

    @property
    def size(self) -> int:
        """The number of planned rollouts."""
        return len(self.tasks) * self.samples

    def key(self, task: GradedTask, sample: int) -> RolloutKey:
        """The key of one planned rollout."""
        return RolloutKey(task.hash, sample, self.seed)

    def rollouts(self, done: frozenset[RolloutKey] | set[RolloutKey]) -> Iterator[tuple[GradedTask, int]]:
        """The planned rollouts that are not done, sample by sample."""
        for sample in range(self.samples):
            for task in self.tasks:
                if self.key(task, sample) not in done:
                    yield task, sample


def dataset_hash(tasks: Iterable[str]) -> str:
    """SHA-256 over the content hashes of the tasks, in an order that does not depend on theirs."""
    return hashlib.sha256("\n".join(sorted(tasks)).encode()).hexdigest()


def make_plan(
    environment: Environment,
    config: Mapping[str, Any],
    *,
    tasks: int | None = None,
    samples: int = 1,
    seed: int = DEFAULT_SEED,
) -> Plan:
    """Load the dataset and draw the tasks.

    Raises:
        ToolError: the environment needs something that is not here.
        DataError: the dataset is missing, broken, too small, or holds one task twice.
        UsageError: a setting does not exist, or a number is out of range.
    """
    if tasks is not None and tasks < 1:
        raise UsageError(f"{tasks} tasks were asked for", hint="-n takes 1 or more")
    if samples < 1:
        raise UsageError(f"{samples} rollouts a task were asked for", hint="--rollouts takes 1 or more")
    if unmet := environment.unmet():
        raise ToolError(f"{environment.alias} can't run here: {'; '.join(unmet)}")
    env = load_env(environment, config)
    taskset = env.taskset
    assert isinstance(taskset, DatasetTaskset)
    drawn: list[GradedTask] = taskset.draw(tasks, seed)
    if not drawn:
        raise DataError(f"{taskset.info().id} has no tasks", where=f"split {taskset.info().split}")
    hashes = [task.hash for task in drawn]
    if len(set(hashes)) < len(hashes):
        twice, _ = Counter(hashes).most_common(1)[0]
        raise DataError(
            f"a task stands twice in {taskset.info().id}",
            where=f"content hash {twice[:12]}",
            hint="Remove one",
        )
    return Plan(
        environment=environment,
        config=dict(config),
        settings=taskset.config.model_dump(mode="json"),
        env=env,
        info=taskset.info(),
        tasks=drawn,
        samples=samples,
        seed=seed,
        dataset_hash=dataset_hash(hashes),
        anchors=environment.anchors(drawn),
        bounds=drawn[0].bounds(),
    )
