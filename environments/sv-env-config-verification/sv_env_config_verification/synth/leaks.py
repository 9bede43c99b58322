"""Leaks: whether anything but the settings tells clean rows from others, by shallow models."""

import re
from collections.abc import Callable

from sv_env_config_verification.rows import Row
from sv_env_config_verification.synth.recipe import draft
from sv_shared.splits import SEED_RANGES

TRAINING_ROWS = 1000
FRESH_ROWS = 600

_COMMENT = re.compile(r"^\s*# ?(.*)$", re.MULTILINE)
_NAME = re.compile(r'^  name(?:space)?: (\S+)|^resource "\S+" "(\S+)"', re.MULTILINE)
_OBJECT = re.compile(r'^(?:kind: (\S+)|resource "(\S+)"|data "(\S+)")', re.MULTILINE)


def _text(row: Row) -> str:
    return "\n".join(row.files[name] for name in sorted(row.files))


def _lines(row: Row) -> str:
    """The number of lines as a word; neighbours share words of rounded numbers."""
    count = _text(row).count("\n")
    return " ".join(f"l{step}x{count // step}" for step in (5, 20, 50, 100))


VIEWS: dict[str, Callable[[Row], str]] = {
    "files and statement": lambda row: f"{_text(row)}\n{row.statement}",
    "files": _text,
    "statement": lambda row: row.statement,
    "comments": lambda row: " ".join(["start", *_COMMENT.findall(_text(row))]),
    "names of objects and files": lambda row: " ".join(
        [*row.files, *map("".join, _NAME.findall(_text(row)))]
    ),
    "kinds in their order": lambda row: " ".join(map("".join, _OBJECT.findall(_text(row)))),
    "number of lines": _lines,
}
"""What a model is shown, by name."""


def leaks(training_rows: int = TRAINING_ROWS, fresh_rows: int = FRESH_ROWS) -> dict[str, float]:
    """Area under the ROC curve of "has violations" by what is shown, on rows that the model has not seen.

    Args:
        training_rows: rows of the training split to fit on.
        fresh_rows: rows of the test split to measure on, of another seed than public-mini's.
    """
    train = [one.row for one in draft(training_rows, seed=SEED_RANGES["train"][0], split="train")]
    fresh = [one.row for one in draft(fresh_rows, seed=SEED_RANGES["test"][1], split="test")]
    return {name: _area(train, fresh, view) for name, view in VIEWS.items()}


def _area(train: list[Row], fresh: list[Row], view: Callable[[Row], str]) -> float:
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score
    from sklearn.pipeline import make_pipeline

    words = TfidfVectorizer(ngram_range=(1, 2), token_pattern=r"\w+", sublinear_tf=True, min_df=2)
    model = make_pipeline(words, LogisticRegression(max_iter=1000))
    model.fit([view(row) for row in train], [not row.is_clean for row in train])
    chances = model.predict_proba([view(row) for row in fresh])[:, 1]
    return float(roc_auc_score([not row.is_clean for row in fresh], chances))
