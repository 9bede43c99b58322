"""The window view's model: a host's main stream among unrelated flows; the posterior is exact.

A host has one main stream: a benign routine or an attack playbook. Its connections follow each other with
log-normal gaps around a typical gap that is drawn once per host from a small grid; target and port are drawn
once or afresh (`Stream`). Unrelated benign flows are a Poisson process over the ages, limited to the
history's length; the main stream fills the rest. The flow to judge, at age 0, belongs to the main stream or
not: it is malicious if it does and the stream is an attack.

Who belongs to the stream is not shown. The likelihood sums over all 2^HISTORY assignments by dynamic
programming over the latest main flow, and over the grid of gaps: link by link along the stream, a factor per
unrelated flow in between. A Poisson process makes those factors independent, hence the choice.
"""

from dataclasses import dataclass

import numpy as np

from sv_env_network_logs.synth.cast import Cast
from sv_env_network_logs.synth.columns import Columns
from sv_env_network_logs.synth.laws import Bools, Floats, Ints, count_mass, draw_count
from sv_env_network_logs.synth.mixture import conduct_mass, draw_flows, lan_mass, port_mass
from sv_env_network_logs.synth.scenarios import Scenario, Stream
from sv_env_network_logs.synth.sites import LAN_HOSTS, WAN_HOSTS, draw_peers

HISTORY = 8
"""Earlier flows in a window."""
SIZE = HISTORY + 1
TICK = 0.01
"""Seconds; ages are whole multiples, which is how they are displayed."""
GRID = 5
"""Typical gaps that a stream chooses from."""

STRAY = 0.15
"""Of the benign items: the share whose flow is unrelated to the main stream, for each kind of stream."""

_LONGEST = 1e8
"""Ticks: the upper limit of gaps and ages (11 days)."""
_SINCE_NOISE = 0.6
"""Spread of the main stream's latest age where the flow to judge is unrelated to it."""
_AGE_NOISE = 1.0
"""Spread of the ages of unrelated flows."""


@dataclass(frozen=True, slots=True)
class Windows:
    """Windows as arrays; the flow to judge is the last of each, earlier ones come oldest first.

    Attributes:
        flows: the connections, window after window, shape (n * SIZE,).
        ages: ticks before the flow to judge, shape (n, SIZE).
        peers: numbers that are equal exactly where addresses are, shape (n, SIZE).
    """

    flows: Columns
    ages: Floats
    peers: Ints

    def __len__(self) -> int:
        return len(self.ages)

    def take(self, rows: Ints) -> "Windows":
        """The windows at `rows`."""
        flat = (rows[:, None] * SIZE + np.arange(SIZE)).ravel()
        return Windows(self.flows.take(flat), self.ages[rows], self.peers[rows])

    def judged(self) -> Columns:
        """The flows to judge."""
        return self.flows.take(np.arange(len(self)) * SIZE + HISTORY)


@dataclass(frozen=True, slots=True)
class Roles:
    """What was drawn and is not shown; arrays of shape (n,).

    Attributes:
        stream: index of the main stream's scenario.
        stray: True where the flow to judge is unrelated to it.
        judged: index of the scenario that the judged flow acts like.
    """

    stream: Ints
    stray: Bools
    judged: Ints


def draw_windows(players: Cast, malicious: Bools, rng: np.random.Generator) -> tuple[Windows, Roles]:
    """A window for each label."""
    n, group = len(malicious), players.scenarios
    kind = rng.random(n)
    stray = ~malicious & (kind < 2 * STRAY)
    named, stream = players.draw(malicious | (stray & (kind < STRAY)), rng)
    others = players.draw(np.zeros(n * SIZE, np.bool_), rng)[1].reshape(n, SIZE)
    counts = _poisson_weights(players.tier.noise_flows)
    main = np.arange(SIZE) >= rng.choice(SIZE, n, p=counts / counts.sum())[:, None]
    main[:, HISTORY] = ~stray
    ages = _draw_ages(group, stream, main, rng)
    chosen = np.where(main, stream[:, None], others)
    flows = draw_flows(group, chosen.ravel(), rng)
    peers = draw_peers(flows.lan, rng).reshape(n, SIZE)
    _share(group, stream, main, flows, peers)
    # Equal ages come in random order; only the judged flow has age 0.
    order = np.lexsort((rng.random((n, SIZE)), -ages))
    flat = (np.arange(n)[:, None] * SIZE + order).ravel()
    windows = Windows(
        flows.take(flat), np.take_along_axis(ages, order, 1), np.take_along_axis(peers, order, 1)
    )
    return windows, Roles(named, stray, chosen[:, HISTORY])


@dataclass(frozen=True, slots=True)
class Likelihoods:
    """P(window | main stream's scenario) = value * exp(log_scale); values have shape (scenarios, n).

    Attributes:
        belonging: where the judged flow belongs to the stream.
        stray: where it does not.
        log_scale: shape (n,).
    """

    belonging: Floats
    stray: Floats
    log_scale: Floats


def likelihoods(players: Cast, windows: Windows) -> Likelihoods:
    """The likelihood of every scenario as the main stream."""
    group, noise_flows = players.scenarios, players.tier.noise_flows
    conduct, port, target = _flow_masses(group, windows)
    full = conduct * port * target
    unrelated = np.tensordot(players.acting("Benign"), full, 1)
    scale = unrelated + full.sum(0)
    belonging, stray = np.empty(full.shape[:2]), np.empty(full.shape[:2])
    for index, scenario in enumerate(group):
        later = conduct[index] * (1 if scenario.stream.one_port else port[index])
        later = later * (1 if scenario.stream.one_target else target[index])
        belonging[index], stray[index] = _stream_likelihood(
            scenario.stream, windows, full[index] / scale, later / scale, unrelated / scale, noise_flows
        )
    limited = np.log(_poisson_weights(noise_flows).sum())
    return Likelihoods(belonging, stray, np.log(scale).sum(1) - limited)


def _flow_masses(group: tuple[Scenario, ...], windows: Windows) -> tuple[Floats, Floats, Floats]:
    """Masses of conduct, port and target of each flow, as displayed; each of shape (scenarios, n, SIZE)."""
    shape = (len(group), len(windows), SIZE)
    flows, judged = windows.flows, windows.judged()
    conduct = np.array([conduct_mass(scenario, flows, as_row=True) for scenario in group]).reshape(shape)
    conduct[:, :, HISTORY] = [conduct_mass(scenario, judged) for scenario in group]
    port = np.array([port_mass(scenario, flows.dst_port) for scenario in group]).reshape(shape)
    pool = np.where(flows.lan, LAN_HOSTS, WAN_HOSTS)
    target = np.array([lan_mass(scenario, flows.lan) / pool for scenario in group]).reshape(shape)
    return conduct, port, target


def _stream_likelihood(
    stream: Stream, windows: Windows, first: Floats, later: Floats, unrelated: Floats, noise_flows: float
) -> tuple[Floats, Floats]:
    """The sum over assignments and typical gaps.

    Args:
        first: mass of a flow as the oldest of the stream, (n, SIZE).
        later: its mass as a further one, given that what the stream shares is equal, (n, SIZE).
        unrelated: its mass as an unrelated one, (n, SIZE).
    """
    gaps = _typical_gaps(stream)[:, None]
    one, longest = np.array(1.0), np.array(_LONGEST)
    ages, ports = windows.ages, windows.flows.dst_port.reshape(-1, SIZE)
    age_mass = count_mass(ages[:, None], np.log(gaps * HISTORY / 2), _AGE_NOISE, one, longest)
    beside = noise_flows * age_mass * unrelated[:, None]  # (n, GRID, SIZE)
    none_yet = np.ones((len(ages), GRID))
    latest: list[Floats] = []  # by index of the latest main flow: weight of all that is not younger
    for j in range(SIZE):
        joined = none_yet * first[:, j, None]
        for i, weight in enumerate(latest):
            fits = (later[:, j] > 0) & weight.any(1)
            if stream.one_target:
                fits &= windows.peers[:, i] == windows.peers[:, j]
            if stream.one_port:
                fits &= ports[:, i] == ports[:, j]
            rows = np.flatnonzero(fits)
            gap = (ages[rows, i] - ages[rows, j])[:, None]
            link = count_mass(gap, np.log(gaps).T, stream.jitter, one, longest)
            joined[rows] += weight[rows] * link * later[rows, j, None]
        if j == HISTORY:
            break
        latest = [weight * beside[:, :, j] for weight in latest] + [joined]
        none_yet = none_yet * beside[:, :, j]
    since = none_yet
    for i, weight in enumerate(latest):
        rows = np.flatnonzero(weight.any(1))
        elapsed = count_mass(ages[rows, i, None], np.log(gaps / 2).T, _SINCE_NOISE, one, longest)
        since[rows] += weight[rows] * elapsed
    return joined.mean(1), since.mean(1) * unrelated[:, HISTORY]


def _draw_ages(group: tuple[Scenario, ...], stream: Ints, main: Bools, rng: np.random.Generator) -> Floats:
    n, low, high = len(stream), np.array(1.0), np.array(_LONGEST)
    grids = np.array([_typical_gaps(scenario.stream) for scenario in group])
    jitter = np.array([scenario.stream.jitter for scenario in group])[stream]
    gap = grids[stream, rng.integers(0, GRID, n)]
    ages, clock = np.zeros((n, SIZE)), np.zeros(n)
    for j in range(HISTORY - 1, -1, -1):
        first_of_stray = main[:, j] & (clock == 0) & ~main[:, HISTORY]
        ages[:, j] = draw_count(np.log(gap * HISTORY / 2), _AGE_NOISE, low, high, rng)
        step = draw_count(np.log(gap), jitter, low, high, rng)
        since = draw_count(np.log(gap / 2), _SINCE_NOISE, low, high, rng)
        clock = np.where(main[:, j], clock + np.where(first_of_stray, since, step), clock)
        ages[:, j] = np.where(main[:, j], clock, ages[:, j])
    return ages


def _share(group: tuple[Scenario, ...], stream: Ints, main: Bools, flows: Columns, peers: Ints) -> None:
    """Gives all main flows of a window the port and the target of its first one, where the stream has one."""
    n = len(stream)
    first = main.argmax(1)[:, None]
    for values, shared in (
        (flows.dst_port.reshape(n, SIZE), [scenario.stream.one_port for scenario in group]),
        (flows.lan.reshape(n, SIZE), [scenario.stream.one_target for scenario in group]),
        (peers, [scenario.stream.one_target for scenario in group]),
    ):
        rows = main & np.array(shared)[stream][:, None]
        values[rows] = np.broadcast_to(np.take_along_axis(values, first, 1), values.shape)[rows]


def _typical_gaps(stream: Stream) -> Floats:
    """The grid of typical gaps in ticks, shape (GRID,)."""
    exponents = np.linspace(np.log(stream.shortest / TICK), np.log(stream.longest / TICK), GRID)
    return np.asarray(np.exp(exponents), dtype=np.float64)


def _poisson_weights(noise_flows: float) -> Floats:
    """Relative frequencies of 0 to HISTORY unrelated flows."""
    factors = np.concatenate(([1.0], noise_flows / np.arange(1, SIZE)))
    return np.asarray(np.cumprod(factors), dtype=np.float64)
