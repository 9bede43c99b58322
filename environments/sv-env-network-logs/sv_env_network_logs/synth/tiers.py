"""Tier: how well the attacks of a difficulty imitate what they hide in."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from sv_env_network_logs.render import View
from sv_env_network_logs.synth.laws import Amount, Field, Law
from sv_env_network_logs.synth.playbooks import PLAYBOOKS
from sv_env_network_logs.synth.scenarios import Pattern, Scenario, Stream

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Tier:
    """Shares, from 0 (the playbook's own ways) to 1 (the cover's ways).

    Attributes:
        tables: of every relative frequency: scenarios, patterns, endings, ports, addresses, stacks.
        centres: of medians and spreads, gaps included.
        pulls: of how the numbers of a flow hang together.
        perfect: of the attacks that do exactly what their cover does, and that nobody can tell from it.
        noise_flows: mean number of unrelated flows in a window's history.
    """

    tables: float
    centres: float
    pulls: float
    perfect: float
    noise_flows: float = 0.0


TIERS: dict[View, dict[str, Tier]] = {
    "flow": {
        "easy": Tier(tables=0.0, centres=0.0, pulls=0.0, perfect=0.02),
        "medium": Tier(tables=0.4, centres=0.5, pulls=0.1, perfect=0.05),
        "hard": Tier(tables=0.9, centres=0.9, pulls=0.3, perfect=0.02),
    },
    "window": {
        "easy": Tier(tables=0.0, centres=0.0, pulls=0.0, perfect=0.06, noise_flows=1.0),
        "medium": Tier(tables=0.7, centres=0.8, pulls=0.6, perfect=0.15, noise_flows=2.0),
        "hard": Tier(tables=0.97, centres=0.97, pulls=0.88, perfect=0.06, noise_flows=3.0),
    },
}
"""By view and difficulty. A window shows several flows of a kind, so it takes more likeness to be as hard."""

DIFFICULTIES: tuple[str, ...] = ("easy", "medium", "hard")


def disguise(attack: Scenario, cover: Scenario, tier: Tier) -> Scenario:
    """The playbook, with a tier's share of the cover's ways."""
    own_share = 1 - tier.tables
    names = dict.fromkeys((*attack.patterns, *cover.patterns))
    patterns = {
        name: _disguise_pattern(attack.patterns.get(name), cover.patterns.get(name), tier) for name in names
    }
    return replace(
        attack,
        weight=own_share * attack.weight + tier.tables * cover.weight / _hidden_in(cover),
        ports=_mixed(attack.ports, cover.ports, tier.tables),
        lan=own_share * attack.lan + tier.tables * cover.lan,
        stacks=_mixed(attack.stacks, cover.stacks, tier.tables),
        patterns={name: pattern for name, pattern in patterns.items() if pattern.weight > 0},
        stream=_disguise_stream(attack.stream, cover.stream, tier.centres),
    )


def _hidden_in(cover: Scenario) -> int:
    return sum(playbook.cover == cover.name for playbook in PLAYBOOKS)


def _disguise_pattern(own: Pattern | None, cover: Pattern | None, tier: Tier) -> Pattern:
    if own is None or cover is None:
        only, share = (own, 1 - tier.tables) if own is not None else (cover, tier.tables)
        assert only is not None  # a name comes from one of the two
        return replace(only, weight=share * only.weight)
    return replace(
        own,
        weight=(1 - tier.tables) * own.weight + tier.tables * cover.weight,
        endings=_mixed(own.endings, cover.endings, tier.tables),
        laws={field: _disguise_law(law, cover.laws[field], tier) for field, law in own.laws.items()},
    )


def _disguise_law(own: Law, cover: Law, tier: Tier) -> Law:
    """Amounts move towards the cover's amounts; other laws stay as they are."""
    if not (isinstance(own, Amount) and isinstance(cover, Amount)):
        return own
    parents: dict[Field, None] = dict.fromkeys((*own.pulls, *cover.pulls))
    pulls = {
        parent: (1 - tier.pulls) * own.pulls.get(parent, 0.0) + tier.pulls * cover.pulls.get(parent, 0.0)
        for parent in parents
    }
    return replace(
        own,
        median=_between(own.median, cover.median, tier.centres),
        spread=_between(own.spread, cover.spread, tier.centres),
        pulls=pulls,
    )


def _disguise_stream(own: Stream, cover: Stream, share: float) -> Stream:
    return replace(
        own,
        shortest=_between(own.shortest, cover.shortest, share),
        longest=_between(own.longest, cover.longest, share),
        jitter=_between(own.jitter, cover.jitter, share),
    )


def _between(own: float, cover: float, share: float) -> float:
    """The weighted geometric mean."""
    return float(np.exp((1 - share) * np.log(own) + share * np.log(cover)))


def _mixed(own: Mapping[Key, float], cover: Mapping[Key, float], share: float) -> dict[Key, float]:
    """A mixture of two tables of relative frequencies; sums to 1."""
    own_total, cover_total = sum(own.values()), sum(cover.values())
    return {
        key: (1 - share) * own.get(key, 0.0) / own_total + share * cover.get(key, 0.0) / cover_total
        for key in dict.fromkeys((*own, *cover))
    }
