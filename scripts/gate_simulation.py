"""How the gate decides on simulated runs: false alarms, and the power it prints against the power it has.

.venv/bin/python scripts/gate_simulation.py --simulations 2000

Prints the table of docs/statistics.md. Each cell draws fresh tasks and two runs over them, many times, and
asks `stats.noninferiority.decide` each time: with two runs of one model (A/A), with a candidate that fell by
twice the margin in every metric, and with one that fell by just the margin, which must not pass.
"""

import argparse
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from security_verifiers.stats.noninferiority import GateDecision, Verdict, decide
from sv_shared.rewards import ClassificationWeights

Floats = NDArray[np.float64]

SIZES = (10, 32, 100, 300, 1000, 3000)
CLUSTER = 10
"""Pairs a cluster in the clustered cells."""
SHARED = 0.3
"""Correlation, within a cluster, of the luck that a run has there. A/A pairs have it too."""
NAIVE = 0.03
"""The plain rule: alarm where a metric fell by more than this share of its value."""
DRAWS = 200
"""Draws behind each printed power. Every simulated pair has its own, so few are enough for their mean."""

# Accuracy alone: each task has its own chance of a right answer, which both runs share.
DIFFICULTY = (1.4, 0.6)
"""Beta distribution of that chance: mean 0.7, standard deviation 0.26."""
MEAN_ACCURACY = DIFFICULTY[0] / sum(DIFFICULTY)

# A classifier with E1's reward.
POSITIVE = 0.52
"""Share of positive tasks."""
SIGNAL = 1.5
"""Distance of the two classes' mean scores, in standard deviations."""
OWN = 0.1
"""Share of a score's variance that each run draws for itself."""
SPAN = 1.5 - 0.895
"""Reward of a perfect answer less that of the best constant one: what the reward's margin is a share of."""


class Pairs(NamedTuple):
    """base, candidate: float[m, n], the values by metric and pair."""

    base: Floats
    candidate: Floats


@dataclass(frozen=True)
class Scene:
    """What is simulated.

    Attributes:
        title: what the table calls it.
        names, margins, spans: of the metrics, as `decide` takes them.
        play: (rng, labels, fall) -> pairs, where every metric truly falls by fall * margin.
    """

    title: str
    names: tuple[str, ...]
    margins: tuple[float, ...]
    spans: tuple[float, ...]
    play: Callable[[np.random.Generator, NDArray[np.intp], float], Pairs]


def luck(rng: np.random.Generator, labels: NDArray[np.intp]) -> Floats:
    """Standard normal luck of one run, correlated within clusters unless they hold one task: float64[n]."""
    own = rng.standard_normal(len(labels))
    groups = int(labels[-1]) + 1
    if groups == len(labels):
        return own
    return np.sqrt(SHARED) * rng.standard_normal(groups)[labels] + np.sqrt(1 - SHARED) * own


def play_accuracy(rng: np.random.Generator, labels: NDArray[np.intp], fall: float) -> Pairs:
    """Right or wrong; the candidate loses a fixed share of each task's chance to be right."""
    chance = rng.beta(*DIFFICULTY, size=len(labels))
    kept = 1 - fall * 0.03 / MEAN_ACCURACY
    base, candidate = (special.ndtr(luck(rng, labels)) < p for p in (chance, chance * kept))
    return Pairs(base[None].astype(float), candidate[None].astype(float))


def play_classifier(rng: np.random.Generator, labels: NDArray[np.intp], fall: float) -> Pairs:
    """Reward, accuracy and 1 - Brier of a calibrated classifier; the candidate at times answers worse."""
    positive = rng.random(len(labels)) < POSITIVE
    centre = SIGNAL * (positive - 0.5) + np.sqrt(1 - OWN) * rng.standard_normal(len(labels))
    base, candidate = (posterior(centre + np.sqrt(OWN) * luck(rng, labels)) for _ in range(2))
    kind = np.searchsorted(np.cumsum(fall * habits()), rng.random(len(labels)))
    candidate = np.choose(kind, [*worse(candidate), candidate])
    return Pairs(classified(positive, base), classified(positive, candidate))


def posterior(score: Floats) -> Floats:
    """P(positive | score)."""
    return np.asarray(special.expit(SIGNAL * score + special.logit(POSITIVE)))


def worse(p: Floats) -> list[Floats]:
    """The bad habits of a worse candidate: it calls all positive, calls all negative, or is always sure."""
    return [np.full_like(p, 0.8), np.full_like(p, 0.1), called(p).astype(np.float64)]


def called(p: Floats) -> NDArray[np.bool_]:
    """The likelier label. The reward, which makes a miss five times as dear, would call positive earlier."""
    return p > 0.5


def classified(positive: NDArray[np.bool_], p: Floats) -> Floats:
    """(reward, accuracy, 1 - Brier) of stated probabilities: float64[3, n]."""
    weights = ClassificationWeights()
    right = called(p) == positive
    sharp = 1 - np.square(p - positive)
    missed = weights.cost * (weights.cost_ratio - 1) * (positive & ~right)
    return np.array([weights.accuracy * right + weights.calibration * sharp - missed, right, sharp])


@cache
def habits() -> Floats:
    """How often the candidate has each bad habit, to fall by one margin in every metric: float64[3]."""
    at = (np.arange(200_000) + 0.5) / 200_000
    effects = np.zeros((3, 3))
    for positive, share in ((True, POSITIVE), (False, 1 - POSITIVE)):
        truth = np.full(len(at), positive)
        p = posterior(SIGNAL * (positive - 0.5) + stats.norm.ppf(at))
        before = classified(truth, p)
        for j, habit in enumerate(worse(p)):
            effects[:, j] += share * (classified(truth, habit) - before).mean(axis=1)
    shares = np.linalg.solve(effects, -np.array(CLASSIFIER.margins))
    if (shares < 0).any() or 2 * shares.sum() > 1:
        raise ValueError(f"no mixture of habits falls by just the margins: {shares}")
    return np.asarray(shares)


ACCURACY = Scene("accuracy", ("accuracy",), (0.03,), (1.0,), play_accuracy)
CLASSIFIER = Scene(
    "reward, accuracy, 1 - Brier",
    ("reward", "accuracy", "1 - Brier"),
    (0.03 * SPAN, 0.03, 0.03),
    (5.5, 1.0, 1.0),
    play_classifier,
)
SCENES = (ACCURACY, CLASSIFIER)


class Row(NamedTuple):
    """A cell of the simulation; all but the first three are shares of the simulated run pairs.

    Attributes:
        scene, n, clusters: which cell.
        naive_alarm: A/A pairs that the plain rule calls a regression.
        false_alarm, passed: A/A pairs that fail the gate, and that pass it.
        passed_printed: mean of the printed chance to pass; None where nothing is printed.
        failed: pairs with a fall of twice the margin that fail.
        failed_printed: mean of the printed chance to fail.
        missed: pairs with a fall of just the margin that pass.
    """

    scene: str
    n: int
    clusters: int
    naive_alarm: float
    false_alarm: float
    passed: float
    passed_printed: float | None
    failed: float
    failed_printed: float | None
    missed: float


def naive_alarm(pairs: Pairs) -> bool:
    """Whether any metric fell by more than NAIVE of its value."""
    base, candidate = pairs.base.mean(axis=1), pairs.candidate.mean(axis=1)
    return bool((base - candidate > NAIVE * np.abs(base)).any())


def simulate(scene: Scene, n: int, size: int, simulations: int, seed: int = 0) -> Row:
    """One cell: n pairs in clusters of `size`, `simulations` times each for a fall of 0, 2 and 1 margins."""
    rng = np.random.default_rng([seed, n, size, len(scene.names)])
    labels = np.arange(n) // size
    alarms, decisions = 0, []
    for fall in (0.0, 2.0, 1.0):
        decided = []
        for k in range(simulations):
            pairs = scene.play(rng, labels, fall)
            alarms += fall == 0 and naive_alarm(pairs)
            decided.append(gate(scene, pairs, labels, k))
        decisions.append(decided)
    same, fell, just = decisions
    return Row(
        scene=scene.title,
        n=n,
        clusters=int(labels[-1]) + 1,
        naive_alarm=alarms / simulations,
        false_alarm=share(same, Verdict.FAIL),
        passed=share(same, Verdict.PASS),
        passed_printed=mean([decision.pass_if_unchanged for decision in same]),
        failed=share(fell, Verdict.FAIL),
        failed_printed=mean([decision.fail_if_dropped for decision in fell]),
        missed=share(just, Verdict.PASS),
    )


def gate(scene: Scene, pairs: Pairs, labels: NDArray[np.intp], seed: int) -> GateDecision:
    """The decision on one simulated pair of sampled runs."""
    return decide(
        scene.names,
        pairs.candidate - pairs.base,
        labels,
        scene.margins,
        spans=scene.spans,
        deterministic=False,
        power_target=None,
        draws=DRAWS,
        seed=seed,
    )


def share(decisions: list[GateDecision], verdict: Verdict) -> float:
    """Share of the decisions with this verdict."""
    return float(np.mean([decision.verdict is verdict for decision in decisions]))


def mean(printed: list[float | None]) -> float | None:
    """Mean of the printed chances; None where none is printed."""
    given = [value for value in printed if value is not None]
    return float(np.mean(given)) if given else None


HEADER = (
    "| Metrics | N | Clusters | 3 % rule alarms | Gate alarms | Pass: measured | Pass: printed "
    "| Fail at 2 margins: measured | Fail: printed | Pass at 1 margin |\n|---|" + "--:|" * 9
)


def line(row: Row) -> str:
    """A line of the Markdown table, shares in per cent."""
    shares = ("-" if value is None else f"{100 * value:.1f}" for value in row[3:])
    return f"| {' | '.join([row.scene, str(row.n), str(row.clusters), *shares])} |"


def main() -> None:
    """Simulate every cell and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--simulations", type=int, default=2_000, help="run pairs a cell and fall")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1, help="processes; the result does not depend on it")
    given = parser.parse_args()
    cells = [(scene, n, size) for scene in SCENES for size in (1, CLUSTER) for n in SIZES]
    with ProcessPoolExecutor(given.workers) as pool:
        futures = [pool.submit(simulate, *cell, given.simulations, given.seed) for cell in cells]
        print(HEADER)
        for future in futures:
            print(line(future.result()), flush=True)


if __name__ == "__main__":
    main()
