"""The window model's sums against plain enumeration, and its draws against its own masses."""

from functools import cache
from itertools import pairwise, product
from math import factorial

import numpy as np
import pytest
from scipy.stats import kstest

from sv_env_network_logs.synth import posterior
from sv_env_network_logs.synth.cast import Cast, cast
from sv_env_network_logs.synth.laws import count_mass
from sv_env_network_logs.synth.mixture import conduct_mass, lan_mass, port_mass
from sv_env_network_logs.synth.scenarios import Scenario
from sv_env_network_logs.synth.sites import LAN_HOSTS, WAN_HOSTS
from sv_env_network_logs.synth.tiers import DIFFICULTIES
from sv_env_network_logs.synth.window import (
    GRID,
    HISTORY,
    SIZE,
    TICK,
    Likelihoods,
    Windows,
    draw_windows,
    likelihoods,
)


@cache
def one_mass(value: float, centre: float, noise: float) -> float:
    edges = np.array(1.0), np.array(1e8)
    return float(count_mass(np.array([value]), np.array([centre]), noise, *edges)[0])


class Enumerated:
    """P(window | main stream), by trying every assignment of the earlier flows; slow and obvious."""

    def __init__(self, players: Cast, window: Windows) -> None:
        self.players, self.ages = players, window.ages[0]
        self.peers, self.ports = window.peers[0], window.flows.dst_port
        self.pool = np.where(window.flows.lan, LAN_HOSTS, WAN_HOSTS)
        self.window = window
        self.conduct = {s.name: self._conduct(s) for s in players.scenarios}
        benign = players.acting("Benign")
        parts = [self.conduct[s.name] * self.port(s) * self.target(s) for s in players.scenarios]
        self.unrelated = sum(share * part for share, part in zip(benign, parts, strict=True))

    def _conduct(self, scenario: Scenario) -> np.ndarray:
        masses = conduct_mass(scenario, self.window.flows, as_row=True)
        masses[HISTORY] = conduct_mass(scenario, self.window.judged())[0]
        return masses

    def port(self, scenario: Scenario) -> np.ndarray:
        return port_mass(scenario, self.ports)

    def target(self, scenario: Scenario) -> np.ndarray:
        return lan_mass(scenario, self.window.flows.lan) / self.pool

    def likelihood(self, scenario: Scenario, judged_belongs: bool) -> float:
        gaps = np.geomspace(scenario.stream.shortest, scenario.stream.longest, GRID) / TICK
        return sum(
            self.given(scenario, gap, [*earlier, judged_belongs]) / GRID
            for gap in gaps
            for earlier in product([False, True], repeat=HISTORY)
        )

    def given(self, scenario: Scenario, gap: float, belongs: list[bool]) -> float:
        rate, others = self.players.tier.noise_flows, belongs[:HISTORY].count(False)
        poisson = [rate**m / factorial(m) for m in range(SIZE)]
        result = poisson[others] / sum(poisson) * factorial(others)
        for i in range(HISTORY):
            if not belongs[i]:
                result *= one_mass(self.ages[i], np.log(gap * HISTORY / 2), 1.0) * self.unrelated[i]
        if not belongs[HISTORY]:
            result *= self.unrelated[HISTORY]
        return result * self.stream(scenario, gap, [i for i in range(SIZE) if belongs[i]])

    def stream(self, scenario: Scenario, gap: float, members: list[int]) -> float:
        result = 1.0
        for place, i in enumerate(members):
            result *= self.conduct[scenario.name][i]
            for shared, masses, values in (
                (scenario.stream.one_port, self.port(scenario), self.ports),
                (scenario.stream.one_target, self.target(scenario), self.peers),
            ):
                result *= float(values[i] == values[members[0]]) if shared and place else masses[i]
        for older, younger in pairwise(members):
            result *= one_mass(self.ages[older] - self.ages[younger], np.log(gap), scenario.stream.jitter)
        if members and members[-1] != HISTORY:
            result *= one_mass(self.ages[members[-1]], np.log(gap / 2), 0.6)
        return result


@pytest.mark.parametrize("elsewhere", [False, True])
@pytest.mark.parametrize(("malicious", "seed"), [(True, 1), (False, 2)])
def test_the_sum_over_assignments_is_complete(malicious: bool, seed: int, elsewhere: bool) -> None:
    """Also where one of the flows is moved to another target or port, so that it fits the stream no more."""
    players = cast("window", "hard")
    windows, roles = draw_windows(players, np.full(4, malicious), np.random.default_rng(seed))
    if elsewhere:
        ports = windows.flows.dst_port
        alike = [i for i in range(HISTORY) if ports[i] == np.bincount(ports[:HISTORY]).argmax()]
        windows.peers[0, alike[0]] += 10_000
    found = likelihoods(players, windows)
    slow = Enumerated(players, windows.take(np.array([0])))
    index, scale = int(roles.stream[0]), np.exp(found.log_scale[0])
    belonging, stray = (slow.likelihood(players.scenarios[index], belongs) for belongs in (True, False))
    assert belonging + stray > 0
    assert found.belonging[index, 0] * scale == pytest.approx(belonging, rel=1e-9, abs=0)
    assert found.stray[index, 0] * scale == pytest.approx(stray, rel=1e-9, abs=0)


@pytest.mark.parametrize("balance", [0.5, 0.2])
def test_windows_that_say_nothing_leave_the_balance(balance: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """The weights of the roles sum to one for either label."""
    players = cast("window", "hard")
    windows, _ = draw_windows(players, np.full(3, True), np.random.default_rng(3))
    same = np.ones((len(players.scenarios), 3))
    monkeypatch.setattr(posterior, "likelihoods", lambda *_: Likelihoods(same, same, np.zeros(3)))
    assert posterior.malicious_share(posterior.log_joint(windows, "hard", balance)) == pytest.approx(balance)


def test_every_window_is_possible_under_its_own_stream() -> None:
    rng = np.random.default_rng(7)
    for difficulty in DIFFICULTIES:
        players = cast("window", difficulty)
        malicious = rng.random(300) < 0.5
        windows, roles = draw_windows(players, malicious, rng)
        found = likelihoods(players, windows)
        own = np.where(roles.stray, found.stray, found.belonging)[roles.stream, np.arange(300)]
        acted_like_cover = np.array(players.covers)[roles.stream]
        cover = np.where(roles.stray, found.stray, found.belonging)[acted_like_cover, np.arange(300)]
        assert ((own > 0) | (cover > 0)).all()
        assert not (roles.stray & malicious).any()


def test_windows_are_in_order_and_share_what_their_stream_shares() -> None:
    players = cast("window", "easy")
    windows, roles = draw_windows(players, np.ones(400, np.bool_), np.random.default_rng(8))
    assert (np.diff(windows.ages, axis=1) <= 0).all()
    assert (windows.ages[:, HISTORY] == 0).all()
    assert (windows.ages[:, :HISTORY] >= 1).all()
    ports = windows.flows.dst_port.reshape(-1, SIZE)
    names = np.array([scenario.name for scenario in players.scenarios])[roles.stream]
    vertical, horizontal = names == "vertical_scan", names == "horizontal_scan"
    same_target = (windows.peers == windows.peers[:, -1:]).mean(1)
    same_port = (ports == ports[:, -1:]).mean(1)
    assert same_target[vertical].mean() > 0.6 > 0.3 > same_port[vertical].mean()
    assert same_port[horizontal].mean() > 0.6 > 0.3 > same_target[horizontal].mean()


def test_stray_flows_are_as_frequent_as_stated() -> None:
    _, roles = draw_windows(cast("window", "easy"), np.zeros(4000, np.bool_), np.random.default_rng(9))
    assert roles.stray.mean() == pytest.approx(0.3, abs=0.03)


def test_gaps_follow_their_law() -> None:
    """Benign NTP keeps to its typical gap: the logarithm of the ratio is normal with the stated jitter."""
    players = cast("window", "easy")
    windows, roles = draw_windows(players, np.zeros(6000, np.bool_), np.random.default_rng(10))
    stream = next(s.stream for s in players.scenarios if s.name == "ntp")
    ntp = np.array([s.name for s in players.scenarios]).tolist().index("ntp")
    same = windows.peers[:, HISTORY - 1] == windows.peers[:, HISTORY]
    rows = (roles.stream == ntp) & ~roles.stray & same
    grid = np.geomspace(stream.shortest, stream.longest, GRID) / TICK
    logs = np.log(windows.ages[rows, HISTORY - 1][:, None] / grid)
    nearest = logs[np.arange(rows.sum()), np.abs(logs).argmin(1)]
    assert rows.sum() > 100
    assert kstest(nearest / stream.jitter, "norm").pvalue > 1e-3
