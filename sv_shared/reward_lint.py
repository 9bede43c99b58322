"""Checks of a classification reward by what it pays, not by what its formula says.

Each check asks a reward function for numbers and compares them with the terms that the prompt and the report
state. The function may be the formula (`formula_reward`) or the whole way through text, parser and grader
(`graded_reward`), which is what an audit should use: it then holds for the code that scores models.

Beliefs are probabilities of the positive label.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from sv_shared.answer_policies import answer_json
from sv_shared.errors import UsageError
from sv_shared.grading import Grade
from sv_shared.rewards import (
    ClassificationWeights,
    abstain_value,
    bisect,
    classification_components,
    interval_below_zero,
)

AnswerReward = Callable[[str, float | None, str], float]
"""(label or abstention label, confidence or None, truth) -> reward."""

GRID = 201
"""Beliefs, and confidences, that properness is checked on: 0, 0.005 ... 1."""

MAX_ABSTAINED = 0.5
"""Share of beliefs on which the best answer may be to abstain. Above it the reward measures abstaining."""

MIN_GAIN = 0.05
"""Normalised score by which the best honest policy must beat the best constant answer (rule 8's limit)."""

MIN_REFERENCE = 0.95
"""Share of the maximum that the truth, stated with certainty, must earn."""

_TOLERANCE = 1e-9
_Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class StatedTerms:
    """What the prompt and the report say of the reward.

    Attributes:
        positive, negative: the two labels.
        cost_ratio: false negative to false positive.
        abstain_label: the label that declines; None where that is not on offer.
        abstain_value: what abstaining pays; None where it is not on offer.
    """

    positive: str
    negative: str
    cost_ratio: float
    abstain_label: str | None
    abstain_value: float | None

    @property
    def threshold(self) -> float:
        """The belief above which the positive label is cost-optimal: 1 / (1 + k)."""
        return 1.0 / (1.0 + self.cost_ratio)


@dataclass(frozen=True, slots=True)
class LintResult:
    """The outcome of one check.

    Attributes:
        check: its name.
        passed: whether the reward keeps what it promises.
        detail: one sentence: what holds, or the first thing found that does not.
        figures: the finite ones of the numbers behind it, by name.
    """

    check: str
    passed: bool
    detail: str
    figures: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        finite = {name: value for name, value in self.figures.items() if math.isfinite(value)}
        object.__setattr__(self, "figures", finite)


# Rewards to check -----------------------------------------------------------------------------------------


def stated_terms(
    weights: ClassificationWeights, *, positive: str, negative: str, abstain_label: str | None
) -> StatedTerms:
    """The terms that a prompt and a report made from these weights state."""
    value = abstain_value(weights)
    return StatedTerms(
        positive, negative, weights.cost_ratio, None if value is None else abstain_label, value
    )


def formula_reward(weights: ClassificationWeights, terms: StatedTerms) -> AnswerReward:
    """The reward as its formula has it."""
    price = abstain_value(weights)

    def reward(label: str, confidence: float | None, truth: str) -> float:
        if label == terms.abstain_label and price is not None:
            return price
        if confidence is None:
            raise UsageError(f"the label {label!r} needs a confidence")
        parts = classification_components(
            weights, label=label, confidence=confidence, truth=truth, positive=terms.positive
        )
        return sum(parts.values())

    return reward


def graded_reward(grade: Callable[[str, str], Grade], extra: Mapping[str, Any]) -> AnswerReward:
    """The reward as the grader pays it: each answer is written out as a reply and graded.

    Args:
        grade: (reply, truth) -> Grade.
        extra: the answer form's other fields, such as {"rationale": ""}.
    """
    return lambda label, confidence, truth: grade(answer_json(label, confidence, extra), truth).reward


# Checks ---------------------------------------------------------------------------------------------------


def lint_reward(
    reward: AnswerReward,
    terms: StatedTerms,
    bounds: tuple[float, float],
    *,
    no_answer: float,
    beliefs: npt.ArrayLike | None = None,
) -> list[LintResult]:
    """Every check of this module; arguments as the checks take them."""
    return [
        check_bounds(reward, terms, bounds, no_answer=no_answer),
        check_proper(reward, terms),
        check_cost_consistent(reward, terms),
        check_abstain(reward, terms, beliefs),
    ]


def check_bounds(
    reward: AnswerReward, terms: StatedTerms, bounds: tuple[float, float], *, no_answer: float
) -> LintResult:
    """Every answer pays a finite number in the declared range, no answer pays its floor, and the truth 0.95
    of its maximum.

    Args:
        bounds: the declared (floor, maximum).
        no_answer: what a reply without an answer was paid.
    """
    floor, maximum = bounds
    paid = _Paid.by(reward, terms)
    values = paid.all_values()
    lowest, highest, reference = float(values.min()), float(values.max()), float(paid.reference().min())
    figures = {"lowest": lowest, "highest": highest, "reference": reference, "no_answer": no_answer}
    slack = _TOLERANCE * max(1.0, abs(floor), abs(maximum))
    if not bool(np.isfinite(values).all()):
        detail = "an answer is paid something that is not a finite number"
    elif lowest < floor - slack or highest > maximum + slack:
        detail = f"answers are paid {lowest:g} to {highest:g}, outside the declared {floor:g} to {maximum:g}"
    elif not abs(no_answer - floor) <= slack:
        detail = f"a reply without an answer is paid {no_answer:g} instead of the floor {floor:g}"
    elif reference < MIN_REFERENCE * maximum:
        detail = f"the truth stated with certainty is paid {reference:g} of at most {maximum:g}"
    else:
        return LintResult("bounds", True, f"all answers are paid {lowest:g} to {highest:g}", figures)
    return LintResult("bounds", False, detail, figures)


def check_proper(reward: AnswerReward, terms: StatedTerms, grid: int = GRID) -> LintResult:
    """For every belief the best answer is the honest one.

    Honest is, for each label, the confidence that it is right, and nothing else may pay as much; and of the
    labels the cost-optimal one, or an abstention where its stated value is above what that label pays.

    Args:
        grid: beliefs, and confidences, from 0 to 1 in equal steps.

    Raises:
        UsageError: the grid has fewer than 201 points.
    """
    if grid < GRID:
        raise UsageError(f"a grid of {grid} beliefs is too coarse", hint=f"Use at least {GRID}")
    paid = _Paid.by(reward, terms, grid)
    faults = [*_dishonest_confidences(paid, terms), *_dishonest_calls(paid, terms)]
    detail = faults[0] if faults else f"the honest answer is the best one at all {grid} beliefs"
    figures = {"beliefs": float(grid), "faults": float(len(faults))}
    return LintResult("proper", not faults, detail, figures)


def check_cost_consistent(reward: AnswerReward, terms: StatedTerms) -> LintResult:
    """A false negative loses exactly the stated ratio times what a false positive loses.

    Read off twice: from the losses at confidence 0.5, where the calibration term pays right and wrong alike,
    and from the belief at which both labels are worth the same.
    """
    miss = reward(terms.positive, 0.5, terms.positive) - reward(terms.negative, 0.5, terms.positive)
    alarm = reward(terms.negative, 0.5, terms.negative) - reward(terms.positive, 0.5, terms.negative)
    paid = _Paid.by(reward, terms)

    def lead(p: float) -> float:
        positive, negative = paid.label_values(np.array([p]))[0]
        return float(positive - negative)

    # Without a switch inside the range this ends at 0 or 1, which is no stated switch.
    switch = bisect(lead, 0.0, 1.0)
    figures = {"miss": miss, "false_alarm": alarm, "switch": switch, "stated_switch": terms.threshold}
    if not abs(miss - terms.cost_ratio * alarm) <= _TOLERANCE * max(1.0, abs(miss)):
        detail = f"a miss loses {miss:g}, a false alarm {alarm:g}: not the stated ratio {terms.cost_ratio:g}"
    elif not abs(switch - terms.threshold) <= 1e-6:
        detail = f"{terms.positive} becomes the better label at {switch:.4f}, not at {terms.threshold:.4f}"
    else:
        detail = f"a miss loses {terms.cost_ratio:g} false alarms; the labels switch at {switch:.4f}"
        return LintResult("cost", True, detail, figures)
    return LintResult("cost", False, detail, figures)


def check_abstain(
    reward: AnswerReward, terms: StatedTerms, beliefs: npt.ArrayLike | None = None
) -> LintResult:
    """Abstaining pays the stated value, and that value is not too high.

    Too high means any of: a certain right answer does not beat it; over the beliefs the best honest policy
    abstains on more than half; that policy gains no more than 0.05 (normalised) on the best constant answer,
    so that always abstaining is as good as knowing something.

    Args:
        beliefs: honest beliefs over a dataset, such as exact posteriors, of shape (rows,); None takes every
            belief as equally likely.

    Raises:
        UsageError: there are no beliefs, or one is no probability.
    """
    if terms.abstain_label is None or terms.abstain_value is None:
        return LintResult("abstain", True, "abstaining is not on offer")
    paid = _Paid.by(reward, terms)
    believed = np.linspace(0.0, 1.0, GRID) if beliefs is None else np.asarray(beliefs, dtype=np.float64)
    if believed.size == 0 or not bool(((believed >= 0) & (believed <= 1)).all()):
        raise UsageError("beliefs must be probabilities in [0, 1], at least one")
    region = observed_abstain_region(reward, terms)
    share, gain = paid.share_abstained(believed), paid.honest_gain(believed)
    figures = {"value": terms.abstain_value, "share": share, "gain": gain}
    where = "nowhere"
    if region is not None:
        figures |= {"from": region[0], "to": region[1]}
        where = f"from {region[0]:.3f} to {region[1]:.3f}"
    stray = float(np.abs(paid.abstention - terms.abstain_value).max())
    if not stray <= _TOLERANCE * max(1.0, abs(terms.abstain_value)):
        detail = f"abstaining is paid up to {stray:g} off the stated {terms.abstain_value:g}"
    elif not bool((paid.reference() > paid.abstention.max() + _TOLERANCE).all()):
        detail = f"abstaining pays {terms.abstain_value:g}, no less than the truth stated with certainty"
    elif share > MAX_ABSTAINED:
        detail = f"abstaining is best on {share:.0%} of the beliefs ({where}): it pays too much"
    elif not gain > MIN_GAIN:
        detail = (
            f"the best honest policy gains {gain:.3f} on the best constant answer: abstaining pays too much"
        )
    else:
        detail = f"abstaining pays {terms.abstain_value:g} and is best {where}"
        return LintResult("abstain", True, detail, figures)
    return LintResult("abstain", False, detail, figures)


def observed_abstain_region(reward: AnswerReward, terms: StatedTerms) -> tuple[float, float] | None:
    """The open interval of beliefs at which abstaining is paid best; None if there is none.

    Confidences are searched on the grid, which moves the ends by less than 1e-4 in E1 and E4.
    """
    if terms.abstain_label is None:
        return None
    paid = _Paid.by(reward, terms)

    def gap(p: float) -> float:
        at = np.array([p])
        return float(paid.label_values(at).max() - paid.abstain_values(at)[0])

    return interval_below_zero(gap)


# What is paid ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Paid:
    """The reward of every answer on a grid of confidences, under both truths.

    Attributes:
        answers: (label, confidence, truth); positive before negative on both axes.
        abstention: (confidence none or 0 or 1, truth); -inf where abstaining is not on offer.
    """

    answers: _Array
    abstention: _Array

    @classmethod
    def by(cls, reward: AnswerReward, terms: StatedTerms, grid: int = GRID) -> "_Paid":
        labels = (terms.positive, terms.negative)
        confidences = [step / (grid - 1) for step in range(grid)]
        answers = [[[reward(label, c, truth) for truth in labels] for c in confidences] for label in labels]
        if terms.abstain_label is None:
            return cls(np.array(answers), np.full((3, 2), -np.inf))
        declined = [[reward(terms.abstain_label, c, truth) for truth in labels] for c in (None, 0.0, 1.0)]
        return cls(np.array(answers), np.array(declined))

    def all_values(self) -> _Array:
        """Every payment, in no order."""
        offered = self.abstention[~np.isneginf(self.abstention)]  # NaN stays in
        return np.concatenate([self.answers.ravel(), offered])

    def reference(self) -> _Array:
        """(truth,): what the truth stated with certainty pays."""
        return np.array([self.answers[0, -1, 0], self.answers[1, -1, 1]], dtype=np.float64)

    def expected(self, p: _Array) -> _Array:
        """(belief, label, confidence): the mean payment."""
        belief = p[:, None, None]
        return np.asarray(belief * self.answers[..., 0] + (1.0 - belief) * self.answers[..., 1])

    def label_values(self, p: _Array) -> _Array:
        """(belief, label): the mean payment at the best confidence."""
        parts = np.array_split(p, len(p) // 1000 + 1)  # bounds the memory for a whole dataset's beliefs
        return np.concatenate([self.expected(part).max(axis=2) for part in parts])

    def abstain_values(self, p: _Array) -> _Array:
        """(belief,): the mean payment of abstaining, without a confidence."""
        on_positive, on_negative = self.abstention[0]
        if np.isneginf(on_positive):
            return np.full_like(p, -np.inf)
        return np.asarray(p * on_positive + (1.0 - p) * on_negative)

    def share_abstained(self, beliefs: _Array) -> float:
        """The share of beliefs at which abstaining is strictly the best answer."""
        labels = self.label_values(beliefs).max(axis=1)
        return float((self.abstain_values(beliefs) > labels + _TOLERANCE).mean())

    def honest_gain(self, beliefs: _Array) -> float:
        """The normalised score of the best policy that has these beliefs; 0 where a constant is perfect."""

        def best(p: _Array) -> _Array:
            return np.asarray(np.maximum(self.label_values(p).max(axis=1), self.abstain_values(p)))

        base_rate = np.array([beliefs.mean()])
        chance = float(best(base_rate)[0])
        on_positive, on_negative = self.reference()
        reference = float(base_rate[0] * on_positive + (1.0 - base_rate[0]) * on_negative)
        if reference <= chance:
            return 0.0
        return (float(best(beliefs).mean()) - chance) / (reference - chance)


def _dishonest_confidences(paid: _Paid, terms: StatedTerms) -> list[str]:
    """One sentence for each belief and label whose best confidence is not the chance of being right."""
    grid = len(paid.answers[0])
    beliefs = np.linspace(0.0, 1.0, grid)
    expected = paid.expected(beliefs)
    faults = []
    for number, label in enumerate((terms.positive, terms.negative)):
        values = expected[:, number, :]
        honest = np.arange(grid) if number == 0 else np.arange(grid)[::-1]
        own = values[np.arange(grid), honest]
        others = values.copy()
        others[np.arange(grid), honest] = -np.inf
        # Written so that NaN counts as a fault.
        for row in np.flatnonzero(~(own > others.max(axis=1) + _TOLERANCE)):
            rival = int(np.argmax(others[row]))
            faults.append(
                f"at belief {beliefs[row]:.3f}, {label} with confidence {beliefs[rival]:.3f} pays "
                f"{others[row, rival]:.4f}, the honest {beliefs[honest[row]]:.3f} only {own[row]:.4f}"
            )
    return faults


def _dishonest_calls(paid: _Paid, terms: StatedTerms) -> list[str]:
    """One sentence for each belief whose best call is neither the cost-optimal label nor a due abstention."""
    beliefs = np.linspace(0.0, 1.0, len(paid.answers[0]))
    labels, abstain = paid.label_values(beliefs), paid.abstain_values(beliefs)
    stated = -np.inf if terms.abstain_value is None else terms.abstain_value
    faults = []
    for p, (positive, negative), declined in zip(beliefs, labels, abstain, strict=True):
        due, other, label = positive, negative, terms.negative
        if p <= terms.threshold:
            due, other, label = negative, positive, terms.positive
        if other > due + _TOLERANCE and abs(p - terms.threshold) > _TOLERANCE:
            faults.append(f"at belief {p:.3f}, {label} is paid better, against the stated cost ratio")
        elif (declined > due + _TOLERANCE) != (stated > due + _TOLERANCE) and abs(stated - due) > _TOLERANCE:
            faults.append(f"at belief {p:.3f}, abstaining pays {declined:.4f} where {stated:.4f} is stated")
    return faults
