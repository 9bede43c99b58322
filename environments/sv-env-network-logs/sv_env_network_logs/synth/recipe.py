"""The synthetic recipe: labelled items with an exactly known posterior, determined by seed and split."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, count, islice

import numpy as np

from sv_env_network_logs.flows import LABELS, Example, Flow
from sv_env_network_logs.render import VIEWS, View
from sv_env_network_logs.synth.cast import cast
from sv_env_network_logs.synth.columns import Columns, to_flows
from sv_env_network_logs.synth.laws import Bools, Ints
from sv_env_network_logs.synth.mixture import draw_flows
from sv_env_network_logs.synth.posterior import log_joint, malicious_share
from sv_env_network_logs.synth.sites import LAN_HOSTS, draw_peers, draw_site, draw_starts
from sv_env_network_logs.synth.splits import owned
from sv_env_network_logs.synth.tiers import DIFFICULTIES
from sv_env_network_logs.synth.window import TICK, Windows, draw_windows
from sv_shared.errors import UsageError
from sv_shared.splits import SPLITS, Split, require_seed

RECIPE_VERSION = 1
"""Raised whenever the same seed gives other items."""

BATCH = 20
"""Consecutive items of one site; a batch is a cluster."""

_BLOCK = {"flow": 4096, "window": 512}
"""Items that are drawn at once, before those of other splits are dropped."""


def generate(
    n: int,
    *,
    seed: int,
    split: Split,
    view: View = "flow",
    difficulty: str | None = None,
    balance: float = 0.5,
) -> list[Example]:
    """The first `n` items of the sequence that the other arguments determine.

    Each item's label is drawn independently, then its scenario, then what is displayed. `posterior` is
    P(Malicious | displayed) for a reader who knows the item's difficulty and the balance.

    Args:
        n: how many; more items continue the same sequence.
        seed: a seed of the split (`splits.SEED_RANGES`).
        split: "train", "dev" or "test"; no displayed item of one split is a near-duplicate of another's.
        view: "flow", or "window" for items with a history.
        difficulty: a tier, or None for all tiers in turn.
        balance: probability of Malicious, between 0 and 1.

    Raises:
        UsageError: an argument out of range, or a seed of another split: test seeds never make training data.
    """
    require_seed(seed, split)
    if n < 0 or not 0 < balance < 1:
        raise UsageError(
            f"n = {n} or balance = {balance} is out of range", hint="Use n >= 0 and 0 < balance < 1"
        )
    if view not in VIEWS:
        raise UsageError(f"unknown view {view!r}", hint=f"Use one of: {', '.join(VIEWS)}")
    if difficulty is not None and difficulty not in DIFFICULTIES:
        raise UsageError(f"unknown difficulty {difficulty!r}", hint=f"Use one of: {', '.join(DIFFICULTIES)}")
    tiers = DIFFICULTIES if difficulty is None else (difficulty,)
    sequences = [_Sequence(seed, split, view, tier, balance) for tier in tiers]
    return list(islice(chain.from_iterable(zip(*sequences, strict=True)), n))


@dataclass(frozen=True, slots=True)
class _Sequence:
    """The endless sequence of items of one tier."""

    seed: int
    split: Split
    view: View
    difficulty: str
    balance: float

    def __iter__(self) -> Iterator[Example]:
        produced = 0
        for number in count():
            for example in self._block(number, produced):
                yield example
                produced += 1

    def _block(self, number: int, produced: int) -> list[Example]:
        """The next items, numbered from `produced`."""
        rng = self._rng(0, number)
        malicious = rng.random(_BLOCK[self.view]) < self.balance
        draw = self._draw_flows if self.view == "flow" else self._draw_windows
        items, details, kept = draw(malicious, rng)
        chances = malicious_share(log_joint(items, self.difficulty, self.balance))
        flows = self._addressed(items, produced, rng)
        labels = [LABELS[flag] for flag in malicious[kept].tolist()]
        return [
            Example(
                flow=window[-1],
                label=label,
                detail=detail,
                cluster=f"{self.seed}-{self.view}-{self.difficulty}-{index // BATCH}",
                history=tuple(window[:-1]),
                difficulty=self.difficulty,
                posterior=chance,
                row=f"synth{RECIPE_VERSION}-{self.view}-{self.difficulty}:{self.seed}:{index}",
            )
            for index, window, label, detail, chance in zip(
                range(produced, produced + len(flows)), flows, labels, details, chances.tolist(), strict=True
            )
        ]

    def _draw_flows(self, malicious: Bools, rng: np.random.Generator) -> tuple[Columns, list[str], Ints]:
        """Connections of this split, their tags, and which of the labels they have."""
        players = cast("flow", self.difficulty)
        named, acted = players.draw(malicious, rng)
        flows = draw_flows(players.scenarios, acted, rng)
        kept = np.flatnonzero(owned(flows, self.split))
        return flows.take(kept), [players.scenarios[index].name for index in named[kept]], kept

    def _draw_windows(self, malicious: Bools, rng: np.random.Generator) -> tuple[Windows, list[str], Ints]:
        """The same for windows; a stray flow's tag names the main stream too."""
        players = cast("window", self.difficulty)
        windows, roles = draw_windows(players, malicious, rng)
        kept = np.flatnonzero(owned(windows.judged(), self.split))
        names = [scenario.name for scenario in players.scenarios]
        tags = [
            f"{names[judged]} beside {names[stream]}" if stray else names[stream]
            for judged, stream, stray in np.stack([roles.judged, roles.stream, roles.stray])[
                :, kept
            ].T.tolist()
        ]
        return windows.take(kept), tags, kept

    def _addressed(
        self, items: Columns | Windows, produced: int, rng: np.random.Generator
    ) -> list[list[Flow]]:
        """The flows of each item, history first, with addresses and times; a batch shares a site."""
        if isinstance(items, Windows):
            flows, peers, ages = items.flows, items.peers, items.ages
        else:
            flows, peers, ages = items, draw_peers(items.lan, rng)[:, None], np.zeros((len(items), 1))
        n, size = peers.shape
        batches = [index // BATCH for index in range(produced, produced + n)]
        sites = {batch: draw_site(self._rng(1, batch)) for batch in set(batches)}
        hosts = rng.integers(0, LAN_HOSTS + 1, (n,)).tolist()
        numbers: list[list[int]] = peers.tolist()
        times = (draw_starts(n, rng)[:, None] - ages * TICK).ravel().tolist()
        sources = [
            sites[batch].host(host) for batch, host in zip(batches, hosts, strict=True) for _ in range(size)
        ]
        targets = [
            sites[batch].peer(host, number)
            for batch, host, row in zip(batches, hosts, numbers, strict=True)
            for number in row
        ]
        plain = to_flows(flows, sources, targets, times)
        return [plain[start : start + size] for start in range(0, n * size, size)]

    def _rng(self, purpose: int, number: int) -> np.random.Generator:
        names = (SPLITS.index(self.split), VIEWS.index(self.view), DIFFICULTIES.index(self.difficulty))
        return np.random.default_rng((RECIPE_VERSION, self.seed, *names, purpose, number))
