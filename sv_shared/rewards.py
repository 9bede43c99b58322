"""The classification reward: accuracy, calibration, asymmetric cost and a price for abstaining.

Two labels: the positive one (an attack, a phish, a flaw) and the negative one. A false negative costs
`cost_ratio` times what a false positive costs. Everything that the report, the prompt and the audit say of
the reward (its range, its abstention price, the best constant answer, the ceiling of a known posterior) is
derived here from the weights in force, never written down a second time.

Beliefs and posteriors are probabilities of the positive label.
"""

from collections.abc import Callable
from enum import StrEnum
from functools import lru_cache
from typing import Annotated, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field

from sv_shared.errors import UsageError

CalibrationForm = Literal["brier", "linear"]

Weight = Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)]


class ClassificationWeights(BaseModel):
    """The weights of a classification reward; snapshotted in a run's metadata."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    accuracy: Weight = 1.0
    """What a right label earns. Also what a false positive loses."""
    calibration: Weight = 0.5
    """What a perfectly calibrated certain answer earns on top."""
    cost: Weight = 1.0
    """Scale of a false negative's extra loss; `cost_ratio` is what is paid only if it equals `accuracy`."""
    cost_ratio: Annotated[float, Field(ge=1, le=1e6)] = 5.0
    """k: how many false positives weigh as much as one false negative."""
    abstain: Literal["auto"] | Annotated[float, Field(ge=-1e6, le=1e6, allow_inf_nan=False)] | None = "auto"
    """What abstaining pays: "auto" derives it from `abstain_risk`, a number is taken as it is, null means
    that abstaining is not on offer."""
    abstain_risk: Annotated[float, Field(ge=0, le=1)] = 0.5
    """a: the chance of being wrong at which a positive call is worth exactly as much as abstaining."""
    calibration_form: CalibrationForm = "brier"
    """"brier", or "linear" for ablations only: it pays overconfidence, and the audit flags it."""


class Call(StrEnum):
    """What an answer decides, apart from how the environment spells its labels."""

    POSITIVE = "positive"
    NEGATIVE = "negative"
    ABSTAIN = "abstain"


class ConstantAnswer(NamedTuple):
    """One answer for every task, with the mean reward that it gets. An abstention has no confidence."""

    reward: float
    call: Call
    confidence: float | None


# The terms ------------------------------------------------------------------------------------------------


def reward_accuracy(label: str, truth: str) -> float:
    """1 where the label is the truth, else 0."""
    return 1.0 if label == truth else 0.0


def reward_calibration(confidence: float, correct: bool, form: CalibrationForm = "brier") -> float:
    """How well a stated probability of being right fits what happened, in [0, 1].

    "brier": 1 - (c - correct)^2, strictly proper (Brier 1950; as a reward in RLCR, arXiv:2507.16806).
    "linear": 1 - |c - correct|, improper: above a belief of 0.5 it is best to state 1.
    """
    _check_probability(confidence)
    miss = abs(confidence - (1.0 if correct else 0.0))
    return 1.0 - (miss if form == "linear" else miss * miss)


def reward_asymmetric_cost(label: str, truth: str, *, positive: str, cost_ratio: float) -> float:
    """-(cost_ratio - 1) for a false negative, else 0.

    Added to the accuracy term this makes a false negative lose exactly cost_ratio times what a false positive
    loses, so that the positive label is optimal above a belief of 1 / (1 + cost_ratio).
    """
    return 1.0 - cost_ratio if truth == positive and label != positive else 0.0


def classification_components(
    weights: ClassificationWeights, *, label: str, confidence: float, truth: str, positive: str
) -> dict[str, float]:
    """The weighted terms of an answer that decides, by name."""
    correct = reward_accuracy(label, truth)
    cost = reward_asymmetric_cost(label, truth, positive=positive, cost_ratio=weights.cost_ratio)
    return {
        "accuracy": weights.accuracy * correct,
        "calibration": weights.calibration
        * reward_calibration(confidence, correct == 1.0, weights.calibration_form),
        "cost": weights.cost * cost,
    }


def abstain_value(weights: ClassificationWeights) -> float | None:
    """A: what abstaining pays in place of all other terms; None where it is not on offer.

    "auto" pays what the best positive call earns on average when it is right with probability 1 - a, that is
    accuracy * (1 - a) + calibration * (1 - a (1 - a)) under the Brier form: a positive call is then worth
    making exactly where its chance of being wrong is below a (as long as calibration is at most accuracy;
    where it weighs more, being surely wrong and saying so pays too, and the audit shows the region).
    """
    if weights.abstain == "auto":
        return float(_best_call_rewards(weights, np.array(1.0 - weights.abstain_risk))[0])
    return weights.abstain


@lru_cache(maxsize=64)
def reward_bounds(weights: ClassificationWeights) -> tuple[float, float]:
    """(floor, maximum) of the reward. The floor is what a parse failure and a refusal score.

    The floor is a false negative stated with certainty (or an abstention priced below it); the maximum is the
    truth stated with certainty (or an abstention priced above it, which the audit then flags).
    """
    worst, best = weights.cost * (1.0 - weights.cost_ratio), weights.accuracy + weights.calibration
    price = abstain_value(weights)
    return (worst, best) if price is None else (min(worst, price), max(best, price))


# Expectations ---------------------------------------------------------------------------------------------


def expected_reward(weights: ClassificationWeights, call: Call, confidence: float | None, p: float) -> float:
    """The mean reward of an answer where the positive label is the truth with probability p.

    Args:
        weights: the weights in force.
        call: the decision.
        confidence: the stated probability that it is right; ignored on an abstention.
        p: belief in the positive label.

    Raises:
        UsageError: a probability is outside [0, 1] or missing, or abstaining is not on offer.
    """
    _check_probability(p)
    if call is Call.ABSTAIN:
        price = abstain_value(weights)
        if price is None:
            raise UsageError("abstaining has no value where it is not on offer", hint="Set weights.abstain")
        return price
    if confidence is None:
        raise UsageError(f"a {call} call needs a confidence")

    def reward(truth: Call) -> float:
        terms = classification_components(
            weights, label=call, confidence=confidence, truth=truth, positive=Call.POSITIVE
        )
        return sum(terms.values())

    return p * reward(Call.POSITIVE) + (1.0 - p) * reward(Call.NEGATIVE)


def optimal_answer(weights: ClassificationWeights, p: float) -> tuple[Call, float | None]:
    """The answer with the highest expected reward at belief p, and its confidence (None on an abstention).

    Ties go to the positive label, then to the negative one, then to abstaining. The confidence is the chance
    that the label is right, except under the linear form, where it is 0 or 1.
    """
    _check_probability(p)
    positive, negative = (float(value) for value in _best_call_rewards(weights, np.array(p)))
    price = abstain_value(weights)
    if price is not None and price > max(positive, negative):
        return Call.ABSTAIN, None
    call, right = (Call.POSITIVE, p) if positive >= negative else (Call.NEGATIVE, 1.0 - p)
    return call, right if weights.calibration_form == "brier" else float(right >= 0.5)


def best_constant(weights: ClassificationWeights, base_rate: float) -> ConstantAnswer:
    """R_chance: the best answer that is the same for every task, where a share base_rate is positive.

    To someone who looks at nothing the belief is the base rate, so this is the optimal answer at that belief;
    the search over labels, confidences and abstention has this closed form.
    """
    call, confidence = optimal_answer(weights, base_rate)
    return ConstantAnswer(expected_reward(weights, call, confidence, base_rate), call, confidence)


def bayes_reward(weights: ClassificationWeights, posteriors: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """The expected reward of the best answer for each posterior: the ceiling where posteriors are exact.

    Args:
        weights: the weights in force.
        posteriors: P(positive | what the prompt shows), any shape.

    Returns:
        An array of the same shape.

    Raises:
        UsageError: a posterior is not in [0, 1].
    """
    p = np.asarray(posteriors, dtype=np.float64)
    if not bool(np.all((p >= 0) & (p <= 1))):
        raise UsageError("a posterior is not a probability in [0, 1]")
    best = np.maximum(*_best_call_rewards(weights, p))
    price = abstain_value(weights)
    return best if price is None else np.maximum(best, price)


def abstain_region(weights: ClassificationWeights) -> tuple[float, float] | None:
    """The open interval of beliefs at which abstaining is the best answer; None if there is none."""
    price = abstain_value(weights)
    if price is None:
        return None
    decided = weights.model_copy(update={"abstain": None})
    return interval_below_zero(lambda p: float(bayes_reward(decided, p)) - price)


def _best_call_rewards(
    weights: ClassificationWeights, p: npt.NDArray[np.float64]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """The expected reward of the positive and of the negative call, each with its best confidence."""
    q = 1.0 - p
    # What the best confidence earns is the same for both calls: the score depends on {p, q} only.
    certainty = np.maximum(p, q) if weights.calibration_form == "linear" else 1.0 - p * q
    calibration = weights.calibration * certainty
    miss = weights.cost * (1.0 - weights.cost_ratio)
    return weights.accuracy * p + calibration, weights.accuracy * q + miss * p + calibration


def _check_probability(value: float) -> None:
    if not 0.0 <= value <= 1.0:
        raise UsageError(f"{value} is not a probability in [0, 1]")


# Numerics -------------------------------------------------------------------------------------------------


def bisect(function: Callable[[float], float], below: float, above: float) -> float:
    """Where a function changes sign between `below`, where it is negative, and `above`, where it is not."""
    for _ in range(60):
        middle = (below + above) / 2.0
        if function(middle) < 0:
            below = middle
        else:
            above = middle
    return (below + above) / 2.0


def interval_below_zero(convex: Callable[[float], float]) -> tuple[float, float] | None:
    """Where a convex function on [0, 1] is negative; None where it nowhere is by more than rounding.

    What the best of several answers pays on average is convex in the belief: a maximum of linear functions.
    """
    left, right = 0.0, 1.0
    for _ in range(120):
        one, two = left + (right - left) / 3.0, right - (right - left) / 3.0
        if convex(one) < convex(two):
            right = two
        else:
            left = one
    lowest = (left + right) / 2.0
    if not convex(lowest) < -1e-9:
        return None
    low = 0.0 if convex(0.0) < 0 else bisect(convex, lowest, 0.0)
    high = 1.0 if convex(1.0) < 0 else bisect(convex, lowest, 1.0)
    return low, high
