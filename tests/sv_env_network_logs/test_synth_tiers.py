"""The catalogue of scenarios, and what disguise does to it."""

from itertools import pairwise

import numpy as np
import pytest

from sv_env_network_logs.render import VIEWS, View
from sv_env_network_logs.synth import cast as casting
from sv_env_network_logs.synth.cast import Cast, cast
from sv_env_network_logs.synth.laws import CHAIN, Amount
from sv_env_network_logs.synth.mixture import draw_flows, masses
from sv_env_network_logs.synth.playbooks import PLAYBOOKS
from sv_env_network_logs.synth.profiles import PROFILES
from sv_env_network_logs.synth.tiers import DIFFICULTIES, TIERS, Tier, disguise

COVERS = {profile.name: profile for profile in PROFILES}


def test_the_catalogue_has_what_the_environment_promises() -> None:
    assert {"dns", "http", "https", "ntp", "mqtt", "ssh", "update", "backup", "voip"} <= set(COVERS)
    names = {playbook.name for playbook in PLAYBOOKS}
    scans = {"horizontal_scan", "vertical_scan", "slow_scan"}
    others = {"ssh_brute_force", "rdp_brute_force", "c2_beacon", "dns_tunnel", "exfiltration", "udp_flood"}
    assert scans | others | {"lateral_movement"} <= names
    assert all(scenario.label == "Benign" and not scenario.cover for scenario in PROFILES)
    assert all(scenario.label == "Malicious" and scenario.cover in COVERS for scenario in PLAYBOOKS)


@pytest.mark.parametrize("scenario", [*PROFILES, *PLAYBOOKS], ids=lambda scenario: scenario.name)
def test_laws_depend_on_earlier_numbers_only_and_have_valid_ranges(scenario) -> None:
    for pattern in scenario.patterns.values():
        assert tuple(pattern.laws) == CHAIN
        for place, law in enumerate(pattern.laws.values()):
            if isinstance(law, Amount):
                assert set(law.pulls) <= set(CHAIN[:place])
                assert 0 < law.low < law.high
                assert law.low <= law.median <= law.high
                assert sum(pull**2 for pull in law.pulls.values()) < 0.95


@pytest.mark.parametrize("playbook", PLAYBOOKS, ids=lambda scenario: scenario.name)
def test_a_full_disguise_is_the_cover(playbook) -> None:
    """An attack that imitates everything is as probable as its cover, whatever is displayed."""
    cover = COVERS[playbook.cover]
    double = disguise(playbook, cover, Tier(tables=1, centres=1, pulls=1, perfect=0))
    flows = draw_flows((cover,), np.zeros(300, np.int64), np.random.default_rng(4))
    as_cover, as_double = masses((cover, double), flows)
    assert (as_cover > 0).all()
    np.testing.assert_allclose(as_double, as_cover, rtol=1e-9)
    assert double.stream.jitter == pytest.approx(cover.stream.jitter)
    assert (double.stream.one_target, double.stream.one_port) == (
        cover.stream.one_target,
        cover.stream.one_port,
    )


@pytest.mark.parametrize("playbook", PLAYBOOKS, ids=lambda scenario: scenario.name)
def test_no_disguise_is_the_playbook(playbook) -> None:
    bare = disguise(playbook, COVERS[playbook.cover], Tier(tables=0, centres=0, pulls=0, perfect=0))
    flows = draw_flows((playbook,), np.zeros(300, np.int64), np.random.default_rng(5))
    own, as_bare = masses((playbook, bare), flows)
    np.testing.assert_allclose(as_bare, own, rtol=1e-9)


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("difficulty", DIFFICULTIES)
def test_shares_are_distributions(view: View, difficulty: str) -> None:
    players = cast(view, difficulty)
    benign, malicious = players.acting("Benign"), players.acting("Malicious")
    assert benign.sum() == pytest.approx(1)
    assert malicious.sum() == pytest.approx(1)
    profiles = len(PROFILES)
    assert not benign[profiles:].any()
    assert malicious[:profiles].sum() == pytest.approx(TIERS[view][difficulty].perfect)


def test_draws_have_the_shares() -> None:
    players = cast("window", "medium")
    named, acted = players.draw(np.ones(40_000, np.bool_), np.random.default_rng(6))
    assert all(players.scenarios[index].label == "Malicious" for index in np.unique(named))
    counts = np.bincount(acted, minlength=len(players.scenarios)) / len(acted)
    np.testing.assert_allclose(counts, players.acting("Malicious"), atol=0.008)


def test_each_tier_is_better_disguised_than_the_one_before() -> None:
    for view in VIEWS:
        for easier, harder in pairwise(TIERS[view][name] for name in DIFFICULTIES):
            assert (easier.tables, easier.centres, easier.pulls) < (
                harder.tables,
                harder.centres,
                harder.pulls,
            )
    assert isinstance(casting.cast("flow", "easy"), Cast)
