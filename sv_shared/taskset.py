"""The verifiers skin of a dataset: a taskset that can say where its rows come from."""

import random
from abc import ABC, abstractmethod
from collections.abc import Iterable

import verifiers.v1 as vf

from sv_shared.environment import DatasetInfo
from sv_shared.errors import DataError
from sv_shared.task import GradedTask


class DatasetConfig(vf.TasksetConfig):
    """The settings every dataset has."""

    dataset: str = ""
    """A built-in dataset's name, a local path or a hub id; empty takes the environment's public-mini set."""
    split: str = "test"
    """"train", "dev" or "test"; a source with a single capture has a test split only."""


class DatasetTaskset(ABC):
    """Mixed into a taskset: `class FlowTaskset(DatasetTaskset, vf.Taskset[FlowTask, FlowConfig])`.

    A mixin, because verifiers reads a taskset's types off `vf.Taskset[...]` itself, not off a class between.
    """

    config: DatasetConfig

    @abstractmethod
    def load(self) -> Iterable[GradedTask]:
        """Every task of the configured split."""

    @abstractmethod
    def info(self) -> DatasetInfo:
        """Where the tasks come from."""

    def draw(self, tasks: int | None, seed: int) -> list[GradedTask]:
        """A uniform sample of tasks without replacement, the same for the same seed; None takes all.

        The order is shuffled too, so that nothing depends on how a file was sorted.

        Raises:
            DataError: fewer tasks than asked for.
        """
        everything = list(self.load())
        return [everything[i] for i in draw_indices(len(everything), tasks, seed, self.info().id)]


def draw_indices(available: int, wanted: int | None, seed: int, name: str) -> list[int]:
    """`wanted` of 0 .. available - 1 in random order (all for None).

    Raises:
        DataError: wanted is more than available; `name` says of what.
    """
    wanted = available if wanted is None else wanted
    if wanted > available:
        raise DataError(
            f"{wanted} tasks were asked for and {name} has {available}",
            hint=f"Ask for at most {available}, or for several samples a task with --rollouts",
        )
    return random.Random(seed).sample(range(available), wanted)
