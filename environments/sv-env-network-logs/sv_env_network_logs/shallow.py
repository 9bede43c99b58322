"""Shallow models: how far word counts and single fields get; a baseline, and a check for leaks.

A set of items on which these do as well as a language model measures vocabulary, not judgement.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from sv_env_network_logs.flows import Example, Label
from sv_env_network_logs.render import FLOW_LINE, View, prompt
from sv_env_network_logs.rewards import POSITIVE, WEIGHTS, payoffs
from sv_shared.errors import DataError

TRAINING_ROWS = 2000
TOKEN = r"\w+"
"""Words and runs of digits; pairs of neighbours join a field's name to its value."""

BINS = 10
"""Quantile bins of a numeric field with more values than that."""
FOLDS = 5


class ShallowModel:
    """TF-IDF of words and pairs of neighbours, then logistic regression.

    Args:
        pipeline: the fitted scikit-learn pipeline.
    """

    def __init__(self, pipeline: Any) -> None:
        self._pipeline = pipeline

    def predict_proba(self, prompts: Sequence[str]) -> npt.NDArray[np.float64]:
        """P(Malicious) by prompt, shape (n,)."""
        column = list(self._pipeline.classes_).index(POSITIVE)
        return np.asarray(self._pipeline.predict_proba(prompts)[:, column], dtype=np.float64)


def train_shallow(prompts: Sequence[str], labels: Sequence[Label]) -> ShallowModel:
    """A model of prompts and their labels; the same input gives the same model.

    Raises:
        DataError: only one class among the labels.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    if len(set(labels)) < 2:
        raise DataError("a shallow model needs both classes to learn from", where=f"{len(labels)} rows")
    pipeline = make_pipeline(
        TfidfVectorizer(ngram_range=(1, 2), token_pattern=TOKEN, sublinear_tf=True, min_df=2),
        LogisticRegression(max_iter=1000),
    )
    return ShallowModel(pipeline.fit(prompts, labels))


def texts(examples: Sequence[Example], view: View) -> list[str]:
    """The user prompts of items, with the points of the default weights."""
    points = payoffs(WEIGHTS)
    return [prompt(example, view, points).user for example in examples]


@cache
def reference_shallow(view: View) -> ShallowModel:
    """The baseline: fitted once per process on synthetic training rows of all tiers, never on a test row."""
    from sv_env_network_logs.synth.recipe import generate
    from sv_shared.splits import SEED_RANGES

    examples = generate(TRAINING_ROWS, seed=SEED_RANGES["train"][0], split="train", view=view)
    return train_shallow(texts(examples, view), [example.label for example in examples])


def field_majority(examples: Sequence[Example], field: str) -> float:
    """Accuracy of the best rule that looks at one field of the flow to judge and nothing else.

    For each value (or quantile bin, where a number has many values) the rule says what is most frequent
    among the items of the other folds; values that these lack get their majority. Rows are dealt to the
    `FOLDS` folds in turn.

    Args:
        examples: at least FOLDS items.
        field: a Flow field name.

    Raises:
        DataError: too few items.
    """
    if len(examples) < FOLDS:
        raise DataError(f"{len(examples)} items are too few for {FOLDS} folds")
    keys = _binned([getattr(example.flow, field) for example in examples])
    labels = [example.label for example in examples]
    right = 0
    for fold in range(FOLDS):
        counts: defaultdict[Any, Counter[Label]] = defaultdict(Counter)
        overall: Counter[Label] = Counter()
        for index, (key, label) in enumerate(zip(keys, labels, strict=True)):
            if index % FOLDS != fold:
                counts[key][label] += 1
                overall[label] += 1
        for key, label in list(zip(keys, labels, strict=True))[fold::FOLDS]:
            right += (counts[key] or overall).most_common(1)[0][0] == label
    return right / len(examples)


def best_field(examples: Sequence[Example], fields: Sequence[str] = FLOW_LINE) -> tuple[str, float]:
    """The field whose majority rule is the most accurate, and that accuracy."""
    return max(((field, field_majority(examples, field)) for field in fields), key=lambda pair: pair[1])


def _binned(values: Sequence[Any]) -> list[Any]:
    """The values, numbers with many values replaced by their quantile bin; None stays None."""
    numbers = [value for value in values if isinstance(value, int | float)]
    if len(set(numbers)) <= BINS:
        return list(values)
    edges = np.quantile(numbers, np.linspace(0, 1, BINS + 1)[1:-1])
    return [int(np.searchsorted(edges, v, "right")) if isinstance(v, int | float) else v for v in values]
