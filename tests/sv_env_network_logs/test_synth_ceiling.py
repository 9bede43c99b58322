"""The ceiling is one: big models come near it and do not pass it; shallow ones stay far below it."""

import numpy as np
import pytest

from sv_env_network_logs.flows import Example
from sv_env_network_logs.render import VIEWS, View
from sv_env_network_logs.rewards import WEIGHTS
from sv_env_network_logs.shallow import TRAINING_ROWS, texts, train_shallow
from sv_env_network_logs.synth.bayes import ceiling, realised_reward
from sv_env_network_logs.synth.recipe import generate
from sv_env_network_logs.synth.tiers import DIFFICULTIES
from sv_shared.errors import DataError
from sv_shared.splits import SEED_RANGES

TEST_SEED = SEED_RANGES["test"][9]


def truths(examples: list[Example]) -> np.ndarray:
    return np.array([example.label == "Malicious" for example in examples])


def beliefs(examples: list[Example]) -> np.ndarray:
    return np.array([example.posterior for example in examples])


def displayed(examples: list[Example], codes: dict[str | None, int]) -> np.ndarray:
    """Everything that a flow's line shows, and the sizes and rates that an analyst would work out."""
    rows = []
    for example in examples:
        f = example.flow
        words = [codes.setdefault(word, len(codes)) for word in (f.service, f.conn_state, f.history)]
        header = (f.orig_ip_bytes - f.orig_bytes) / f.orig_pkts
        sizes = [f.orig_bytes / f.orig_pkts, f.resp_bytes / max(f.resp_pkts, 1), f.resp_pkts / f.orig_pkts]
        rates = [f.duration / f.orig_pkts, f.duration / (f.orig_bytes + 1), f.duration / (f.resp_bytes + 1)]
        numbers = [f.src_port, f.dst_port, f.duration, f.orig_bytes, f.resp_bytes, f.orig_pkts, f.resp_pkts]
        balance = f.resp_bytes / max(f.orig_bytes, 1)
        rows.append(
            [*words, f.proto == "tcp", f.dst.startswith("10."), header, *numbers, *sizes, *rates, balance]
        )
    return np.array(rows, dtype=float)


def gap(view: View, difficulty: str, rows: int) -> float:
    """Bayes accuracy less that of TF-IDF and logistic regression trained on 2,000 rows, in points."""
    train = generate(
        TRAINING_ROWS, seed=SEED_RANGES["train"][9], split="train", view=view, difficulty=difficulty
    )
    test = generate(rows, seed=TEST_SEED, split="test", view=view, difficulty=difficulty)
    model = train_shallow(texts(train, view), [example.label for example in train])
    shallow = ((model.predict_proba(texts(test, view)) > 0.5) == truths(test)).mean()
    print(f"\n{view} {difficulty}: Bayes {ceiling(test).accuracy:.3f}, shallow {shallow:.3f}")
    return 100 * (ceiling(test).accuracy - float(shallow))


def test_a_shallow_model_stays_far_below_the_ceiling_on_hard_flows() -> None:
    assert gap("flow", "hard", 1500) >= 8


@pytest.mark.slow
@pytest.mark.parametrize("view", VIEWS)
def test_a_shallow_model_stays_at_least_8_points_below_on_the_hard_tier(view: View) -> None:
    assert gap(view, "hard", 6000) >= 8


@pytest.mark.parametrize(
    ("view", "difficulty", "low", "high"),
    [
        ("flow", "easy", 0.96, 0.98), ("flow", "medium", 0.88, 0.92), ("flow", "hard", 0.80, 0.85),
        ("window", "easy", 0.95, 0.99), ("window", "medium", 0.88, 0.93), ("window", "hard", 0.79, 0.86),
    ],
)  # fmt: skip
def test_tiers_have_their_difficulty(view: View, difficulty: str, low: float, high: float) -> None:
    n = 3000 if view == "flow" else 350
    assert (
        low < ceiling(generate(n, seed=21, split="train", view=view, difficulty=difficulty)).accuracy < high
    )


def test_the_posterior_gets_what_the_ceiling_promises() -> None:
    items = generate(6000, seed=22, split="train")
    top, p = ceiling(items), beliefs(items)
    error = np.sqrt((p * (1 - p)).sum()) / len(p)
    assert ((p > 0.5) == truths(items)).mean() == pytest.approx(top.accuracy, abs=4 * error)
    assert realised_reward(p, items) == pytest.approx(top.reward, abs=4 * 5 * error)
    for worse in (p**2 / (p**2 + (1 - p) ** 2), np.full(len(p), 0.5), 1 - p):
        assert realised_reward(worse, items) < realised_reward(p, items)


def test_the_ceilings_reward_depends_on_the_weights() -> None:
    items = generate(300, seed=23, split="train")
    lenient = WEIGHTS.model_copy(update={"cost_ratio": 1.0, "abstain": None})
    assert ceiling(items, lenient).accuracy == ceiling(items).accuracy
    assert ceiling(items, lenient).reward > ceiling(items).reward


def test_there_is_no_ceiling_without_posteriors() -> None:
    item = generate(1, seed=23, split="train")[0]
    with pytest.raises(DataError, match="1 of 2 items have no known posterior"):
        ceiling([item, Example(item.flow, item.label)])
    with pytest.raises(DataError):
        ceiling([])


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("difficulty", DIFFICULTIES)
def test_no_model_trained_on_200_000_rows_beats_the_ceiling(difficulty: str) -> None:
    from sklearn.ensemble import HistGradientBoostingClassifier

    train = generate(200_000, seed=SEED_RANGES["train"][8], split="train", difficulty=difficulty)
    test = generate(40_000, seed=TEST_SEED, split="test", difficulty=difficulty)
    codes: dict[str | None, int] = {}
    trees = HistGradientBoostingClassifier(
        max_iter=400, learning_rate=0.1, max_leaf_nodes=63, categorical_features=[0, 1, 2], random_state=0
    ).fit(displayed(train, codes), truths(train))
    q, p, y = trees.predict_proba(displayed(test, codes))[:, 1], beliefs(test), truths(test)
    excess = ((q > 0.5) == y).astype(float) - ((p > 0.5) == y)
    model, bayes = realised_reward(q, test), realised_reward(p, test)
    print(f"\n{difficulty}: accuracy {((q > 0.5) == y).mean():.4f} against {((p > 0.5) == y).mean():.4f}, "
          f"reward {model:.4f} against {bayes:.4f}")  # fmt: skip
    assert excess.mean() < 3 * excess.std() / np.sqrt(len(y))
    assert model < bayes + 0.01
    assert ((q > 0.5) == y).mean() > ceiling(
        test
    ).accuracy - 0.03  # the comparison is with a model that learned
