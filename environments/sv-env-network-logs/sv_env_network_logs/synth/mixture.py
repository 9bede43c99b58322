"""Connections of a scenario: drawing them, and the exact mass of what is displayed of them."""

from collections.abc import Mapping

import numpy as np

from sv_env_network_logs.synth.columns import Columns, categories, empty, fill
from sv_env_network_logs.synth.laws import CHAIN, Bools, Floats, Ints, draw, mass
from sv_env_network_logs.synth.scenarios import Pattern, PortRange, Scenario


def draw_flows(group: tuple[Scenario, ...], chosen: Ints, rng: np.random.Generator) -> Columns:
    """One connection for each row's scenario."""
    columns = empty(len(chosen))
    for index, scenario in enumerate(group):
        rows = np.flatnonzero(chosen == index)
        names, weights = list(scenario.patterns), np.array([p.weight for p in scenario.patterns.values()])
        picks = rng.choice(len(names), len(rows), p=weights / weights.sum())
        for pick, name in enumerate(names):
            some = rows[picks == pick]
            if len(some):
                fill(columns, some, _draw_pattern(scenario, scenario.patterns[name], len(some), rng))
    return columns


def draw_ports(scenario: Scenario, n: int, rng: np.random.Generator) -> Ints:
    """Destination ports of a scenario."""
    ranges = list(scenario.ports)
    low, high = np.array([(r.low, r.high) for r in ranges]).T
    picks = _pick(np.array(list(scenario.ports.values())), n, rng)
    drawn: Ints = rng.integers(low[picks], high[picks] + 1)
    return drawn


def masses(group: tuple[Scenario, ...], columns: Columns) -> Floats:
    """P(displayed values | scenario) up to one factor that all scenarios share; shape (scenarios, n).

    The factor is that of the addresses, which are uniform given which network the destination is in.
    """
    result = np.zeros((len(group), len(columns)))
    for index, scenario in enumerate(group):
        place = port_mass(scenario, columns.dst_port) * lan_mass(scenario, columns.lan)
        result[index] = place * conduct_mass(scenario, columns, relevant=place > 0)
    return result


def port_mass(scenario: Scenario, numbers: Ints) -> Floats:
    """P(destination port | scenario)."""
    return _range_mass(scenario.ports, numbers) / sum(scenario.ports.values())


def lan_mass(scenario: Scenario, lan: Bools) -> Floats:
    """P(destination on the own network or not | scenario)."""
    return np.where(lan, scenario.lan, 1.0 - scenario.lan)


def conduct_mass(
    scenario: Scenario, columns: Columns, *, relevant: Bools | None = None, as_row: bool = False
) -> Floats:
    """P(all that is displayed but the destination | scenario).

    Args:
        relevant: rows whose mass is needed; the others get 0.
        as_row: displayed as an earlier flow of a window, without history, source port and IP-level bytes.
    """
    total, weights = np.zeros(len(columns)), sum(pattern.weight for pattern in scenario.patterns.values())
    for pattern in scenario.patterns.values():
        ending_mass = _ending_table(scenario, pattern, as_row)[columns.category]
        rows = np.flatnonzero(ending_mass if relevant is None else ending_mass * relevant)
        if not len(rows):
            continue
        some = columns.take(rows)
        product = ending_mass[rows] * (pattern.weight / weights)
        if not as_row:
            product = product * _stack_mass(scenario, pattern, some)
        with np.errstate(invalid="ignore", divide="ignore"):
            for field in CHAIN:
                product = product * mass(field, pattern.laws, some.numbers)
        total[rows] += product
    return total


def _ending_table(scenario: Scenario, pattern: Pattern, as_row: bool) -> Floats:
    """P(what is displayed of a category | pattern) by code; a row shows the state, but not the history."""
    total = sum(pattern.endings.values())
    table = np.zeros(len(categories()))
    for (proto, service, ending), code in categories().items():
        if (proto, service) == (scenario.proto, pattern.service):
            table[code] = sum(
                weight / total
                for own, weight in pattern.endings.items()
                if own == ending or (as_row and own.state == ending.state)
            )
    return table


def _draw_pattern(scenario: Scenario, pattern: Pattern, n: int, rng: np.random.Generator) -> Columns:
    columns = empty(n)
    codes = np.array([categories()[scenario.proto, pattern.service, ending] for ending in pattern.endings])
    columns.category[:] = codes[_pick(np.array(list(pattern.endings.values())), n, rng)]
    columns.dst_port[:] = draw_ports(scenario, n, rng)
    columns.lan[:] = rng.random(n) < scenario.lan
    stacks = list(scenario.stacks)
    low, high, header, syn = np.array([(s.low, s.high, s.header, s.syn_header) for s in stacks]).T
    picks = _pick(np.array(list(scenario.stacks.values())), n, rng)
    columns.src_port[:] = rng.integers(low[picks], high[picks] + 1)
    columns.header[:] = (syn if pattern.opening_only else header)[picks]
    for field in CHAIN:
        columns.numbers[field][:] = draw(field, pattern.laws, columns.numbers, n, rng)
    return columns


def _stack_mass(scenario: Scenario, pattern: Pattern, columns: Columns) -> Floats:
    total = sum(scenario.stacks.values())
    result = np.zeros(len(columns))
    for stack, weight in scenario.stacks.items():
        header = stack.syn_header if pattern.opening_only else stack.header
        fitting = columns.header == header
        result += fitting * _range_mass({PortRange(stack.low, stack.high): weight / total}, columns.src_port)
    return result


def _range_mass(ranges: Mapping[PortRange, float], numbers: Ints) -> Floats:
    """The mass of each number under a mixture of uniform ranges, whose weights are taken as they are."""
    result = np.zeros(len(numbers))
    for span, weight in ranges.items():
        inside = (numbers >= span.low) & (numbers <= span.high)
        result += inside * (weight / (span.high - span.low + 1))
    return result


def _pick(weights: Floats, n: int, rng: np.random.Generator) -> Ints:
    return rng.choice(len(weights), n, p=weights / weights.sum())
