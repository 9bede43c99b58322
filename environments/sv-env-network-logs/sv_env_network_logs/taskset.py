"""The verifiers skin of E1's datasets: public-mini, the recipe, and the real sources."""

from collections.abc import Iterable, Iterator
from functools import cached_property

import verifiers.v1 as vf
from pydantic import Field

from sv_env_network_logs.data import (
    Attempted,
    FlowTable,
    Windows,
    check_mask,
    mask_example,
    open_dataset,
    require_both_classes,
    select,
)
from sv_env_network_logs.flows import Example
from sv_env_network_logs.public_mini import load_public_mini
from sv_env_network_logs.render import View
from sv_env_network_logs.synth.recipe import RECIPE_VERSION, generate
from sv_env_network_logs.task import NetworkLogsTask, NetworkLogsTaskConfig, make_task
from sv_shared.environment import DatasetInfo
from sv_shared.errors import UsageError
from sv_shared.task import GradedTask
from sv_shared.taskset import DatasetConfig, DatasetTaskset

PUBLIC_MINI = "public-mini"
SYNTH = "synth"


class NetworkLogsConfig(DatasetConfig):
    """Which flows, and how they are shown."""

    task: NetworkLogsTaskConfig = NetworkLogsTaskConfig()
    view: View | None = None
    """"flow": one connection. "window": with the host's recent ones. Unset: as public-mini has each row, and
    "flow" for everything else."""
    mask: list[str] = Field(default_factory=list)
    """Groups of fields to hide, for shortcut studies: ports, addresses, service, state ..."""
    window_flows: int = Field(20, ge=1, le=200)
    """Most earlier flows in a window."""
    window_seconds: float = Field(3600.0, gt=0)
    """How far back a window reaches, in seconds."""
    attempted: Attempted = "benign"
    """How rows that the corrected CIC-IDS-2017 marks "Attempted" count."""
    synth_rows: int = Field(1000, ge=2)
    """Rows of the dataset "synth"."""
    synth_seed: int | None = None
    """Seed of the dataset "synth"; unset takes the first of the split's range."""
    difficulty: str | None = None
    """One tier of the dataset "synth"; unset mixes all."""


class NetworkLogsTaskset(DatasetTaskset, vf.Taskset[NetworkLogsTask, NetworkLogsConfig]):
    """E1 items from the configured source."""

    def load(self) -> Iterable[NetworkLogsTask]:
        config = self.config
        if config.dataset in ("", PUBLIC_MINI):
            return (self._task(example, config.view or view) for view, example in self._public_mini)
        if config.dataset == SYNTH:
            return (self._task(example, config.view or "flow") for example in self._synthetic)
        require_both_classes(self._table)
        return (self._task(self._real_example(i), config.view or "flow") for i in range(len(self._table)))

    def info(self) -> DatasetInfo:
        config = self.config
        if config.dataset in ("", PUBLIC_MINI):
            return self._public_mini_info()
        if config.dataset == SYNTH:
            details = {"recipe": RECIPE_VERSION, "seed": config.synth_seed, "difficulty": config.difficulty}
            return DatasetInfo("synth/e1", "recipe", config.split, config.synth_rows, "generation batch", details)
        table = self._table
        described = table.describe()
        return DatasetInfo(
            table.provenance.id, table.provenance.source, config.split, len(table), table.cluster_kind, described
        )

    def draw(self, tasks: int | None, seed: int) -> list[GradedTask]:
        if self.config.dataset in ("", PUBLIC_MINI, SYNTH) or tasks is None:
            return super().draw(tasks, seed)
        view = self.config.view or "flow"
        return [self._task(self._real_example(int(i)), view) for i in select(self._table, tasks, seed)]

    def _task(self, example: Example, view: View) -> NetworkLogsTask:
        mask = check_mask(self.config.mask)
        return make_task(mask_example(example, mask), view, self.config.task, mask)

    def _real_example(self, i: int) -> Example:
        return self._table.example(i) if self._windows is None else self._windows.example(i)

    @cached_property
    def _table(self) -> FlowTable:
        return open_dataset(self.config.dataset, split=self.config.split, attempted=self.config.attempted)

    @cached_property
    def _windows(self) -> Windows | None:
        if self.config.view != "window":
            return None
        return Windows(self._table, flows=self.config.window_flows, seconds=self.config.window_seconds)

    @cached_property
    def _public_mini(self) -> list[tuple[View, Example]]:
        if self.config.split != "test":
            raise UsageError(
                f"public-mini has a test split only, not {self.config.split!r}",
                hint="Train on --dataset synth --split train",
            )
        rows = load_public_mini()
        return [(view, example) for view, example in rows if self.config.view in (None, view)]

    @cached_property
    def _synthetic(self) -> list[Example]:
        raise NotImplementedError

    def _public_mini_info(self) -> DatasetInfo:
        raise NotImplementedError

    def __iter__(self) -> Iterator[NetworkLogsTask]:
        return super().__iter__()
