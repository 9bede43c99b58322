"""Shallow models: that they learn what is there to learn, and nothing from rows that are scored."""

import random
from collections.abc import Iterator

import numpy as np
import pytest

from sv_env_network_logs.flows import Example, Flow
from sv_env_network_logs.shallow import (
    TRAINING_ROWS,
    best_field,
    field_majority,
    reference_shallow,
    texts,
    train_shallow,
)
from sv_env_network_logs.synth import recipe
from sv_env_network_logs.synth.recipe import generate
from sv_shared.errors import DataError
from sv_shared.splits import SEED_RANGES


def planted(n: int, seed: int) -> list[Example]:
    """Items whose label is told by the parity of the destination port, and hinted at by the duration."""
    rng = random.Random(seed)
    items = []
    for _ in range(n):
        bad = rng.random() < 0.5
        flow = Flow(
            src_port=rng.randrange(65536), dst_port=80 + bad, duration=rng.gauss(10 + 4 * bad, 2), proto="tcp"
        )
        items.append(Example(flow, "Malicious" if bad else "Benign"))
    return items


def test_it_learns_what_a_word_tells_and_gives_probabilities() -> None:
    train, test = planted(200, 1), planted(100, 2)
    model = train_shallow(texts(train, "flow"), [item.label for item in train])
    p = model.predict_proba(texts(test, "flow"))
    assert p.shape == (100,)
    assert ((p > 0) & (p < 1)).all()
    assert ((p > 0.5) == [item.label == "Malicious" for item in test]).all()


def test_the_same_rows_give_the_same_model() -> None:
    items = generate(300, seed=41, split="train", difficulty="easy")
    prompts, labels = texts(items, "flow"), [item.label for item in items]
    first, second = (train_shallow(prompts, labels).predict_proba(prompts[:50]) for _ in range(2))
    assert first.tolist() == second.tolist()


def test_one_class_is_refused() -> None:
    with pytest.raises(DataError, match="both classes"):
        train_shallow(["a", "b"], ["Benign", "Benign"])


@pytest.fixture
def no_cache() -> Iterator[None]:
    reference_shallow.cache_clear()
    yield
    reference_shallow.cache_clear()


def test_the_baseline_is_fitted_once_on_training_seeds_only(
    monkeypatch: pytest.MonkeyPatch, no_cache: None
) -> None:
    calls: list[dict] = []

    def spy(n: int, **arguments: object) -> list[Example]:
        calls.append({"n": n, **arguments})
        return generate(200, **arguments)

    monkeypatch.setattr(recipe, "generate", spy)
    assert reference_shallow("flow") is reference_shallow("flow")
    assert len(calls) == 1
    assert calls[0]["n"] == TRAINING_ROWS == 2000
    assert calls[0]["split"] == "train"
    assert calls[0]["seed"] in SEED_RANGES["train"]


def test_the_baseline_is_better_than_chance_on_unseen_rows(no_cache: None) -> None:
    test = generate(900, seed=SEED_RANGES["test"][11], split="test")
    p = reference_shallow("flow").predict_proba(texts(test, "flow"))
    right = (p > 0.5) == [item.label == "Malicious" for item in test]
    easy = np.array([item.difficulty == "easy" for item in test])
    assert right[easy].mean() > 0.65
    assert right.mean() > 0.55


def test_the_field_that_tells_the_label_is_found() -> None:
    items = planted(400, 3)
    assert best_field(items) == ("dst_port", 1.0)
    assert field_majority(items, "duration") == pytest.approx(0.84, abs=0.06)
    assert field_majority(items, "src_port") == pytest.approx(0.5, abs=0.08)
    assert field_majority(items, "proto") == pytest.approx(0.5, abs=0.08)


def test_a_value_seen_in_one_row_only_tells_nothing() -> None:
    """A rule that remembers each row's own value would be right everywhere."""
    items = [Example(Flow(service=f"word{i}"), "Malicious" if i % 2 else "Benign") for i in range(100)]
    assert field_majority(items, "service") <= 0.5


def test_absent_values_are_a_value_of_their_own() -> None:
    items = [
        Example(Flow(duration=None if i % 2 else float(i)), "Malicious" if i % 2 else "Benign")
        for i in range(99)
    ]
    assert field_majority(items, "duration") == 1.0


def test_too_few_items_are_refused() -> None:
    with pytest.raises(DataError, match="too few"):
        field_majority(planted(4, 1), "proto")
