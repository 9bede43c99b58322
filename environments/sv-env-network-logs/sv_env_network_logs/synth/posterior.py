"""P(Malicious | what the prompt shows), exactly, for items of the recipe.

Bayes' rule over labels, scenarios and, in the window view, everything else that is drawn and not shown.
"""

from collections.abc import Sequence

import numpy as np
from scipy.special import expit, logsumexp

from sv_env_network_logs.flows import Example, Flow
from sv_env_network_logs.render import View
from sv_env_network_logs.synth.cast import cast
from sv_env_network_logs.synth.columns import Columns, from_flows
from sv_env_network_logs.synth.laws import Floats
from sv_env_network_logs.synth.mixture import masses
from sv_env_network_logs.synth.window import HISTORY, SIZE, STRAY, TICK, Windows, likelihoods
from sv_shared.errors import DataError

DECIMALS = 9
"""Posteriors are rounded to this many decimals, so that files do not depend on a platform's last bit."""


def posteriors(
    examples: Sequence[Example], view: View, *, balance: float = 0.5, tiers: Sequence[str] | None = None
) -> Floats:
    """P(Malicious | displayed) of items of the recipe, worked out from their flows; shape (n,).

    Args:
        balance: the share of malicious items that they were drawn with.
        tiers: for a reader who knows only that an item is of one of these difficulties, all equally likely;
            None for a reader who knows each item's difficulty (that is what `Example.posterior` holds).

    Raises:
        DataError: an item that the recipe cannot have produced.
    """
    result = np.empty(len(examples))
    for difficulty in {example.difficulty for example in examples}:
        rows = [row for row, example in enumerate(examples) if example.difficulty == difficulty]
        some = [examples[row] for row in rows]
        items = from_flows([example.flow for example in some]) if view == "flow" else windows_of(some)
        joints = [log_joint(items, tier, balance) for tier in (tiers or (difficulty,))]
        result[rows] = malicious_share(logsumexp(joints, axis=0))
    return result


def log_joint(items: Columns | Windows, difficulty: str, balance: float) -> Floats:
    """ln P(displayed, label) for Benign and Malicious, shape (2, n), up to a term that all tiers share."""
    with np.errstate(divide="ignore"):
        if isinstance(items, Columns):
            return np.log(_flow_joint(items, difficulty, balance))
        return _window_log_joint(items, difficulty, balance)


def malicious_share(joint: Floats) -> Floats:
    """The posterior from `log_joint`'s pair, rounded to `DECIMALS`.

    Raises:
        DataError: both members are 0 somewhere.
    """
    if np.isneginf(joint).all(axis=0).any():
        raise DataError("not an item of the synthetic recipe: no scenario can have produced it")
    shares: Floats = np.round(expit(joint[1] - joint[0]), DECIMALS)
    return shares


def windows_of(examples: Sequence[Example]) -> Windows:
    """The windows of items as arrays.

    Raises:
        DataError: an item without the recipe's history.
    """
    for example in examples:
        if len(example.history) != HISTORY:
            raise DataError(f"a window of the recipe has {HISTORY} earlier flows", where=example.row)
    flows = [flow for example in examples for flow in (*example.history, example.flow)]
    ends = np.repeat([_time(example.flow) for example in examples], SIZE)
    ages = np.rint((ends - [_time(flow) for flow in flows]) / TICK)
    numbers: dict[str | None, int] = {}
    peers = np.array([numbers.setdefault(flow.dst, len(numbers)) for flow in flows], np.int64)
    return Windows(from_flows(flows), ages.reshape(-1, SIZE), peers.reshape(-1, SIZE))


def _flow_joint(flows: Columns, difficulty: str, balance: float) -> Floats:
    players = cast("flow", difficulty)
    given = masses(players.scenarios, flows)
    benign, malicious = players.acting("Benign") @ given, players.acting("Malicious") @ given
    return np.stack([(1 - balance) * benign, balance * malicious])


def _window_log_joint(windows: Windows, difficulty: str, balance: float) -> Floats:
    players = cast("window", difficulty)
    given = likelihoods(players, windows)
    routine, attack = players.acting("Benign"), players.acting("Malicious")
    benign = (1 - 2 * STRAY) * (routine @ given.belonging) + STRAY * ((routine + attack) @ given.stray)
    joint = np.stack([(1 - balance) * benign, balance * (attack @ given.belonging)])
    return np.log(joint) + given.log_scale


def _time(flow: Flow) -> float:
    if flow.ts is None:
        raise DataError("a window of the recipe has times", where="flow without ts")
    return flow.ts
