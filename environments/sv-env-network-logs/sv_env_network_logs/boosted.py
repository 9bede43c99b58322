"""Gradient-boosted trees on what a prompt displays: the strong classical baseline, besides the shallow model.

It reads the prompt as any model does, parses the displayed fields, and is trained on synthetic training rows
only. Answers follow from its probability by the reward's own rule: calibrated play, not a guess at labels.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from sv_env_network_logs.reading import earlier_rows, judged, number
from sv_env_network_logs.render import View

TRAINING_ROWS: dict[View, int] = {"flow": 8_000, "window": 3_000}

NUMBERS = (
    "src_port", "dst_port", "duration", "orig_bytes", "resp_bytes", "missed_bytes", "orig_pkts",
    "orig_ip_bytes", "resp_pkts", "resp_ip_bytes",
)  # fmt: skip
WORDS = ("proto", "service", "conn_state", "history")
VOCABULARY = 64
"""Words get a stable code below this; trees take it as a category."""


def features(prompt: str) -> list[float]:
    """Numbers that stand for a prompt; what is missing is NaN.

    The displayed numbers, sizes by packet and second, a code for each displayed word, and of the earlier
    connections how many there are, how many targets and ports they have, how many failed, and how regular
    their times are.
    """
    flow = judged(prompt)
    values = [_value(flow, name) for name in NUMBERS]
    duration, sent, received = (_value(flow, name) for name in ("duration", "orig_bytes", "resp_bytes"))
    packets, answers = _value(flow, "orig_pkts"), _value(flow, "resp_pkts")
    ratios = [
        np.log((sent + 1) / (received + 1)),
        sent / max(packets, 1.0),
        received / max(answers, 1.0),
        (packets + answers) / max(duration, 1e-3),
    ]
    return [*values, *ratios, *(_code(flow.get(name, "")) for name in WORDS), *_earlier(prompt, flow)]


def _earlier(prompt: str, flow: Mapping[str, str]) -> list[float]:
    heading, rows = earlier_rows(prompt)
    if not rows:
        return [0.0] * 8
    columns = {name: [row[i] for row in rows] for i, name in enumerate(heading)}
    ages = [_value({"ago": age}, "ago") for age in columns.get("ago", ["-"])]
    gaps = -np.diff([*ages, 0.0])
    count = len(rows)
    same = [dst == flow.get("dst") for dst in columns.get("dst", [])]
    states = columns.get("conn_state", [])
    return [
        float(count),
        len(set(columns.get("dst", []))) / count,
        len(set(columns.get("dst_port", []))) / count,
        sum(state in ("S0", "REJ", "RSTO") for state in states) / count,
        sum(same) / count,
        float(np.median(gaps)),
        float(np.std(gaps) / (np.mean(gaps) + 1e-9)),
        sum(port == flow.get("dst_port") for port in columns.get("dst_port", [])) / count,
    ]


def _value(flow: Mapping[str, str], name: str) -> float:
    value = number(flow, name)
    return np.nan if value is None else value


def _code(word: str) -> float:
    # A stable code: Python's own hash of strings changes from process to process.
    return float(sum(ord(c) * 31**i for i, c in enumerate(word[:8])) % VOCABULARY)


class BoostedModel:
    """The fitted trees.

    Args:
        trees: a fitted scikit-learn classifier whose classes are False and True.
    """

    def __init__(self, trees: Any) -> None:
        self._trees = trees

    def predict_proba(self, prompts: Sequence[str]) -> npt.NDArray[np.float64]:
        """P(Malicious) by prompt, shape (n,)."""
        rows = np.array([features(prompt) for prompt in prompts])
        with _one_thread():
            return np.asarray(self._trees.predict_proba(rows)[:, 1], dtype=np.float64)


@cache
def reference_boosted(view: View) -> BoostedModel:
    """The baseline: fitted once a process on synthetic training rows of all tiers, never on a test row."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    from sv_env_network_logs.rewards import POSITIVE
    from sv_env_network_logs.shallow import texts
    from sv_env_network_logs.synth.recipe import generate
    from sv_shared.splits import SEED_RANGES

    examples = generate(TRAINING_ROWS[view], seed=SEED_RANGES["train"][1], split="train", view=view)
    rows = np.array([features(text) for text in texts(examples, view)])
    labels = np.array([example.label == POSITIVE for example in examples])
    words = range(len(NUMBERS) + 4, len(NUMBERS) + 4 + len(WORDS))
    trees = HistGradientBoostingClassifier(
        categorical_features=list(words),
        random_state=0,
        max_iter=120,
        learning_rate=0.08,
        l2_regularization=1.0,
    )
    with _one_thread():
        return BoostedModel(trees.fit(rows, labels))


@cache
def _threads() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def _one_thread() -> Any:
    """Keeps the trees on one thread: waking a team of threads for one prompt takes longer than the trees."""
    return _threads().limit(limits=1, user_api="openmp")
