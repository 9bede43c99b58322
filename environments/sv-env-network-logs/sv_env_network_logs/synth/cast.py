"""Cast: the scenarios of a tier, and who of the attackers does what."""

from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from sv_env_network_logs.flows import Label
from sv_env_network_logs.render import View
from sv_env_network_logs.synth.laws import Bools, Floats, Ints
from sv_env_network_logs.synth.playbooks import PLAYBOOKS
from sv_env_network_logs.synth.profiles import PROFILES
from sv_env_network_logs.synth.scenarios import Scenario
from sv_env_network_logs.synth.tiers import TIERS, Tier, disguise


@dataclass(frozen=True, slots=True)
class Cast:
    """The profiles, then the playbooks as a tier disguises them.

    Attributes:
        scenarios: weights sum to 1 within each label.
        covers: by scenario, the index of its cover; of itself for a profile.
        tier: the tier.
    """

    scenarios: tuple[Scenario, ...]
    covers: tuple[int, ...]
    tier: Tier

    def draw(self, malicious: Bools, rng: np.random.Generator) -> tuple[Ints, Ints]:
        """For each label: the index of a scenario, and of the one that it acts like.

        These differ for the perfect attacks, which act like their cover.
        """
        named = np.empty(len(malicious), np.int64)
        for label in (False, True):
            rows = np.flatnonzero(malicious == label)
            named[rows] = rng.choice(len(self.scenarios), len(rows), p=self._weights(label))
        perfect = rng.random(len(named)) < self.tier.perfect
        return named, np.where(perfect, np.array(self.covers)[named], named)

    def acting(self, label: Label) -> Floats:
        """P(the scenario that is acted like | label), shape (scenarios,)."""
        weights = self._weights(label == "Malicious")
        shares = (1 - self.tier.perfect) * weights
        np.add.at(shares, np.array(self.covers), self.tier.perfect * weights)
        return shares

    def _weights(self, malicious: bool) -> Floats:
        label = "Malicious" if malicious else "Benign"
        return np.array([scenario.weight * (scenario.label == label) for scenario in self.scenarios])


@cache
def cast(view: View, difficulty: str) -> Cast:
    """The scenarios of a tier."""
    tier = TIERS[view][difficulty]
    profiles = {profile.name: profile for profile in PROFILES}
    disguised = tuple(disguise(playbook, profiles[playbook.cover], tier) for playbook in PLAYBOOKS)
    covers = [list(profiles).index(scenario.cover or scenario.name) for scenario in (*PROFILES, *PLAYBOOKS)]
    return Cast(_normalised(PROFILES) + _normalised(disguised), tuple(covers), tier)


def _normalised(group: tuple[Scenario, ...]) -> tuple[Scenario, ...]:
    total = sum(scenario.weight for scenario in group)
    return tuple(replace(scenario, weight=scenario.weight / total) for scenario in group)
