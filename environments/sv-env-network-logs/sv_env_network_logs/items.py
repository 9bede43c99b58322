"""Items: the labelled examples of a dataset by number, made when they are asked for."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from sv_env_network_logs.data import Attempted, FlowTable, Windows, open_dataset, require_both_classes, select
from sv_env_network_logs.public_mini import Item, load_public_mini
from sv_env_network_logs.render import VIEWS, View
from sv_env_network_logs.synth.posterior import posteriors
from sv_env_network_logs.synth.recipe import RECIPE_VERSION, generate
from sv_env_network_logs.synth.tiers import DIFFICULTIES
from sv_shared.environment import DatasetInfo
from sv_shared.errors import DataError, UsageError
from sv_shared.splits import SEED_RANGES, Split
from sv_shared.taskset import draw_indices

PUBLIC_MINI, SYNTH = "public-mini", "synth"


class Settings(Protocol):
    """The settings that choose items; `NetworkLogsConfig` documents them."""

    dataset: str
    split: str
    view: View | None
    window_flows: int
    window_seconds: float
    attempted: Attempted
    synth_rows: int
    synth_seed: int | None
    difficulty: str | None


class Items(ABC):
    """A dataset's items.

    Attributes:
        info: where they come from.
    """

    info: DatasetInfo

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __getitem__(self, i: int) -> Item: ...

    def draw(self, wanted: int | None, seed: int) -> Sequence[int]:
        """Numbers of items drawn without replacement, in random order; None takes all.

        Raises:
            DataError: fewer items than wanted, or a single class among them.
        """
        drawn = draw_indices(len(self), wanted, seed, self.info.id)
        if len({self[i].example.label for i in drawn}) < 2:
            raise DataError(
                f"the {len(drawn)} items drawn from {self.info.id} have a single class",
                hint="Take more items or another seed",
            )
        return drawn


class ListedItems(Items):
    """Items that are all in memory: public-mini and the recipe's."""

    def __init__(self, items: Sequence[Item], info: DatasetInfo) -> None:
        self._items, self.info = items, info

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, i: int) -> Item:
        return self._items[i]


class RealItems(Items):
    """Items of a real source, of which only columns are in memory."""

    def __init__(self, table: FlowTable, view: View, windows: Windows | None) -> None:
        require_both_classes(table)
        self._table, self._view, self._windows = table, view, windows
        origin = table.provenance
        self.info = DatasetInfo(
            origin.id, origin.source, origin.split, len(table), table.cluster_kind, table.describe()
        )

    def __len__(self) -> int:
        return len(self._table)

    def __getitem__(self, i: int) -> Item:
        return Item(self._view, self._table.example(i) if self._windows is None else self._windows.example(i))

    def draw(self, wanted: int | None, seed: int) -> Sequence[int]:
        return [int(i) for i in select(self._table, len(self) if wanted is None else wanted, seed)]


def open_items(settings: Settings) -> Items:
    """The items that the settings name.

    Raises:
        DataError: the source is missing or broken.
        UsageError: settings that do not fit the source.
    """
    if settings.dataset in ("", PUBLIC_MINI):
        return _public_mini(settings)
    if settings.dataset == SYNTH:
        return _synthetic(settings)
    if settings.difficulty is not None:
        raise UsageError(
            f"{settings.dataset} has no difficulty tiers",
            hint="Leave difficulty out, or use public-mini or synth",
        )
    table = open_dataset(settings.dataset, split=settings.split, attempted=settings.attempted)
    if settings.view == "window":
        windows = Windows(table, flows=settings.window_flows, seconds=settings.window_seconds)
        return RealItems(table, "window", windows)
    return RealItems(table, "flow", None)


def _public_mini(settings: Settings) -> ListedItems:
    if settings.split != "test":
        raise UsageError(
            f"public-mini has a test split only, not {settings.split!r}",
            hint="Train on --dataset synth --split train",
        )
    if settings.difficulty is not None and settings.difficulty not in DIFFICULTIES:
        raise UsageError(
            f"unknown difficulty {settings.difficulty!r}", hint=f"Use one of: {', '.join(DIFFICULTIES)}"
        )
    items = [
        item
        for item in load_public_mini()
        if settings.view in (None, item.view) and settings.difficulty in (None, item.example.difficulty)
    ]
    info = DatasetInfo("public-mini/e1", "recipe, test seeds", "test", len(items), "generation batch")
    return ListedItems(_for_the_reader(items, settings.difficulty), info)


def _synthetic(settings: Settings) -> ListedItems:
    if settings.split not in SEED_RANGES:
        raise UsageError(f"unknown split {settings.split!r}", hint=f"Splits: {', '.join(SEED_RANGES)}")
    split: Split = settings.split
    seed = SEED_RANGES[split].start if settings.synth_seed is None else settings.synth_seed
    view = settings.view or "flow"
    examples = generate(
        settings.synth_rows, seed=seed, split=split, view=view, difficulty=settings.difficulty
    )
    details = {"recipe": RECIPE_VERSION, "seed": seed, "difficulty": settings.difficulty, "view": view}
    name = "/".join(["synth/e1", view, *([settings.difficulty] if settings.difficulty else [])])
    info = DatasetInfo(name, "recipe", split, len(examples), "generation batch", details)
    return ListedItems(
        _for_the_reader([Item(view, example) for example in examples], settings.difficulty), info
    )


def _for_the_reader(items: Sequence[Item], difficulty: str | None) -> list[Item]:
    """The items with the posterior of somebody who sees the prompt and knows the dataset.

    The prompt does not say how hard an item is. In a set of one tier that is known all the same; in a mixed
    set it is not, and the posterior is over all tiers.
    """
    if difficulty is not None:
        return list(items)
    blind: list[Item] = list(items)
    for view in VIEWS:
        rows = [i for i, item in enumerate(items) if item.view == view]
        chances = posteriors([items[i].example for i in rows], view, tiers=DIFFICULTIES)
        for i, chance in zip(rows, chances.tolist(), strict=True):
            blind[i] = Item(view, replace(items[i].example, posterior=chance))
    return blind
