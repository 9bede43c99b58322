"""P(Malicious | what the prompt shows), exactly, for items of the recipe.

Bayes' rule over labels, scenarios and, in the window view, everything else that is drawn and not shown.
"""

from collections.abc import Sequence

import numpy as np

from sv_env_network_logs.flows import Example
from sv_env_network_logs.render import View
from sv_env_network_logs.synth import window as windowed
from sv_env_network_logs.synth.columns import Columns, from_flows
from sv_env_network_logs.synth.laws import Floats
from sv_env_network_logs.synth.mixture import masses
from sv_env_network_logs.synth.scenarios import Scenario
from sv_env_network_logs.synth.tiers import TIERS, scenarios
from sv_env_network_logs.synth.window import HISTORY, SIZE, STRAY, TICK, Windows, likelihoods
from sv_shared.errors import DataError

DECIMALS = 9
"""Posteriors are rounded to this many decimals, so that files do not depend on a platform's last bit."""


def flow_odds(flows: Columns, difficulty: str, balance: float) -> Floats:
    """P(displayed, label) of Benign and Malicious, up to a common factor; shape (2, n)."""
    group = scenarios("flow", difficulty)
    given = masses(group, flows)
    return np.stack([(1 - balance) * (_weights(group, "Benign") @ given), balance * (_weights(group, "Malicious") @ given)])
