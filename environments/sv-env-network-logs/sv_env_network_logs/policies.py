"""E1's scripted policies: the reference, what an analyst's rules of thumb give, a shallow model, the ceiling,
and every degenerate answer. The baselines read the prompt, as a model does; the ceiling reads the posterior,
and only the reference and those that hide a right answer in a wrong form read the truth.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sv_env_network_logs.flows import LABELS
from sv_env_network_logs.reading import earlier_rows, judged, number, shows_window, stated_weights
from sv_env_network_logs.render import View
from sv_env_network_logs.rewards import ABSTAIN, SPELLED, WEIGHTS
from sv_shared.answer_policies import answer_json, classification_policies
from sv_shared.policies import Message, PolicyKind, PolicySpec, last_user_text, text_policy
from sv_shared.rewards import optimal_answer

UNUSUAL_PORTS = frozenset(
    {"22", "23", "81", "445", "2323", "3389", "4444", "5555", "6667", "8081", "37215", "52869"}
)
"""Ports that bots, brute force and lateral movement favour."""
FAILED_STATES = frozenset({"S0", "REJ", "RSTO", "RSTOS0", "RSTRH", "SH", "SHR", "OTH"})
"""Zeek's states of connections that did not come about or were torn down."""


def policies() -> Mapping[str, PolicySpec]:
    """Every policy by name."""
    specs = [
        *classification_policies(LABELS, ABSTAIN, lambda task: task.truth),
        _honest("port-rule", PolicyKind.HEURISTIC, "a list of ports and failed states", port_rule),
        _honest("rate-rule", PolicyKind.HEURISTIC, "how much is sent, how fast, to how many", rate_rule),
        _honest(
            "shallow", PolicyKind.SHALLOW, "TF-IDF and logistic regression on 2,000 training rows", _shallow
        ),
        _honest(
            "boosted",
            PolicyKind.HEURISTIC,
            "boosted trees on displayed fields, 8,000 flows or 3,000 windows",
            _boosted,
        ),
        PolicySpec(
            "bayes",
            PolicyKind.CEILING,
            "the best honest answer to the exact posterior of the recipe",
            text_policy("bayes", PolicyKind.CEILING, "", _bayes).make,
            can_play=lambda task: task.posterior is not None,
        ),
    ]
    return {spec.name: spec for spec in specs}


def best_answer(probability: float, prompt: str) -> str:
    """The answer with the highest expected reward for a belief P(Malicious), as a reply.

    Args:
        probability: the belief.
        prompt: states the points; where it does not, they are those of the default weights.
    """
    call, confidence = optimal_answer(stated_weights(prompt) or WEIGHTS, probability)
    return answer_json(SPELLED[call], confidence)


def port_rule(prompt: str) -> float:
    """P(Malicious) by destination port and connection state."""
    flow = judged(prompt)
    odd_port = flow.get("dst_port") in UNUSUAL_PORTS
    failed = flow.get("conn_state") in FAILED_STATES
    return {(True, True): 0.9, (True, False): 0.6, (False, True): 0.6, (False, False): 0.2}[odd_port, failed]


def rate_rule(prompt: str) -> float:
    """P(Malicious) by the rate of packets, the balance of bytes and, in a window, the number of targets."""
    flow = judged(prompt)
    heading, rows = earlier_rows(prompt)
    targets = {row[heading.index("dst")] for row in rows} if "dst" in heading else set()
    seconds, packets = number(flow, "duration"), number(flow, "orig_pkts")
    sent, received = number(flow, "orig_bytes"), number(flow, "resp_bytes")
    signs = [
        len(rows) >= 10 and len(targets) >= 0.8 * len(rows),
        bool(seconds and packets and packets / seconds > 100),
        bool(sent and sent > 100_000 and sent > 10 * (received or 0)),
        packets is not None and packets <= 2 and not received,
    ]
    return (0.25, 0.7, 0.9, 0.95, 0.95)[sum(signs)]


def _honest(name: str, kind: PolicyKind, summary: str, belief: Callable[[str], float]) -> PolicySpec:
    def answer(task: Any, messages: Sequence[Message], seed: int) -> str:
        prompt = last_user_text(messages)
        return best_answer(belief(prompt), prompt)

    return text_policy(name, kind, summary, answer)


def _shallow(prompt: str) -> float:
    from sv_env_network_logs.shallow import reference_shallow

    return float(reference_shallow(_view(prompt)).predict_proba([prompt])[0])


def _boosted(prompt: str) -> float:
    from sv_env_network_logs.boosted import reference_boosted

    return float(reference_boosted(_view(prompt)).predict_proba([prompt])[0])


def _view(prompt: str) -> View:
    return "window" if shows_window(prompt) else "flow"


def _bayes(task: Any, messages: Sequence[Message], seed: int) -> str:
    return best_answer(task.posterior, last_user_text(messages))
