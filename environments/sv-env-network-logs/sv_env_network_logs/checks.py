"""The audit's checks of E1: the reward through the real grader, what the prompt promises, and leaks."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sv_env_network_logs import rewards
from sv_env_network_logs.flows import Label
from sv_env_network_logs.render import instructions
from sv_env_network_logs.rewards import ABSTAIN, NEGATIVE, POSITIVE
from sv_env_network_logs.shallow import ShallowModel, train_shallow
from sv_shared.environment import Anchors
from sv_shared.reward_lint import AnswerReward, LintResult, graded_reward, lint_reward, stated_terms
from sv_shared.rewards import ClassificationWeights
from sv_shared.task import GradedTask

FOLDS = 5
STANDARD_ERRORS = 3.0
"""A shallow model may beat the ceiling by so much through luck alone."""
CONFIDENCES = 201
"""Confidences of the constant answers that are searched for chance: 0, 0.005 ... 1."""
CHANCE_SLACK = 1e-3
"""How far the stated chance may lie above the best constant answer that the search finds on its grid."""


def checks(tasks: Sequence[GradedTask[Any, Any, Any]], ends: Anchors) -> list[LintResult]:
    """All of them, in the order of the rules.

    Args:
        tasks: E1 tasks under one set of weights.
        ends: the anchors that the environment states for them.
    """
    weights: ClassificationWeights = tasks[0].config.weights
    posteriors = [task.data.posterior for task in tasks]
    known = None if any(p is None for p in posteriors) else posteriors
    offered = weights.abstain is not None
    terms = stated_terms(
        weights, positive=POSITIVE, negative=NEGATIVE, abstain_label=ABSTAIN if offered else None
    )
    paid = graded_reward(lambda reply, truth: rewards.grade(reply, truth, weights), {"rationale": ""})
    return [
        *lint_reward(
            paid,
            terms,
            tasks[0].bounds(),
            no_answer=rewards.grade("", POSITIVE, weights).reward,
            beliefs=known,
        ),
        check_promise(tasks, weights),
        check_chance(tasks, paid, ends.chance, offered),
        check_classes(tasks),
        check_words(tasks, weights),
        check_shallow(tasks),
    ]


def check_promise(tasks: Sequence[GradedTask[Any, Any, Any]], weights: ClassificationWeights) -> LintResult:
    """Every prompt states the points that the weights in force pay."""
    promised = instructions(rewards.payoffs(weights))
    silent = sum(promised not in str(task.data.prompt) for task in tasks)
    detail = f"{silent} prompts state other points or none" if silent else "every prompt states what is paid"
    return LintResult("stated points", not silent, detail)


def check_chance(
    tasks: Sequence[GradedTask[Any, Any, Any]], paid: AnswerReward, stated: float, offered: bool
) -> LintResult:
    """The stated chance is what the best constant answer is paid on these items.

    Args:
        tasks: the items.
        paid: (label, confidence, truth) -> reward, through the real grader.
        stated: the anchors' chance.
        offered: whether abstaining is on offer.
    """
    share = sum(task.data.truth == POSITIVE for task in tasks) / len(tasks)
    answers: list[tuple[str, float | None]] = [
        (label, step / (CONFIDENCES - 1)) for label in (POSITIVE, NEGATIVE) for step in range(CONFIDENCES)
    ]
    if offered:
        answers.append((ABSTAIN, None))
    found = max(share * paid(*answer, POSITIVE) + (1 - share) * paid(*answer, NEGATIVE) for answer in answers)
    passed = -1e-9 <= stated - found <= CHANCE_SLACK * max(1.0, abs(found))
    detail = f"stated {stated:+.4f}, the best of {len(answers)} constant answers is paid {found:+.4f}"
    return LintResult("chance", passed, detail, {"stated": stated, "found": found})


def check_classes(tasks: Sequence[GradedTask[Any, Any, Any]]) -> LintResult:
    """No single-class set is scored."""
    malicious = sum(task.data.truth == POSITIVE for task in tasks)
    detail = f"{len(tasks) - malicious} Benign, {malicious} Malicious"
    return LintResult("classes", 0 < malicious < len(tasks), detail, {"malicious": float(malicious)})


def check_words(tasks: Sequence[GradedTask[Any, Any, Any]], weights: ClassificationWeights) -> LintResult:
    """Besides the instructions, no prompt holds a label, an attack's name, its id or its cluster.

    A benign profile may be called after its service ("dns"), which is displayed; an attack's name never is.
    """
    shared = instructions(rewards.payoffs(weights))
    found = []
    for task in tasks:
        body, data = _shown(task).replace(shared, "").lower(), task.data
        words = [POSITIVE, NEGATIVE, data.id or "", data.cluster]
        words += [data.detail] if data.truth == POSITIVE else []
        found += [word for word in words if len(word) > 2 and word.lower() in body]
    detail = f"{len(found)} times, such as {found[0]!r}" if found else "no label, attack name, id or cluster"
    return LintResult("words in prompts", not found, detail)


def check_shallow(tasks: Sequence[GradedTask[Any, Any, Any]]) -> LintResult:
    """Shallow models, cross-validated on these very prompts, do not beat what the posteriors allow.

    Two of them: TF-IDF with logistic regression, which adds up many weak hints, and the rule that looks for
    one word, which a single planted one can't escape. Where no posterior is known there is no ceiling to
    break: the figures are reported and stand beside every model's.
    """
    prompts = np.array([_shown(task) for task in tasks])
    labels = np.array([task.data.truth for task in tasks])
    if any(len(set(labels[_fold(labels) != fold])) < 2 for fold in range(FOLDS)):
        exempt = f"exempt: {len(tasks)} tasks are too few to cross-validate"
        return LintResult("shallow model", True, exempt)
    figures = {
        "words": _cross_validated(train_shallow, prompts, labels),
        "one_word": _cross_validated(_one_word_rule, prompts, labels),
    }
    detail = f"cross-validated accuracy {figures['words']:.3f}, of one word {figures['one_word']:.3f}"
    posteriors = [task.data.posterior for task in tasks]
    if any(p is None for p in posteriors):
        return LintResult("shallow model", True, f"{detail}; no ceiling is known", figures)
    p = np.array(posteriors, dtype=float)
    best = np.maximum(p, 1 - p)
    ceiling, error = float(best.mean()), float(np.sqrt((best * (1 - best)).sum()) / len(p))
    passed = max(figures.values()) <= ceiling + STANDARD_ERRORS * error
    detail += f", ceiling {ceiling:.3f} (standard error {error:.3f})"
    return LintResult(
        "shallow model", passed, detail, {**figures, "ceiling": ceiling, "standard_error": error}
    )


def _one_word_rule(prompts: Sequence[str], labels: Sequence[Label]) -> ShallowModel:
    """Whether the one word is there that tells most."""
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.pipeline import make_pipeline
    from sklearn.tree import DecisionTreeClassifier

    words = CountVectorizer(binary=True, token_pattern=r"\S+")
    return ShallowModel(
        make_pipeline(words, DecisionTreeClassifier(max_depth=1, random_state=0)).fit(prompts, labels)
    )


def _cross_validated(
    train: Callable[[Sequence[str], Sequence[Label]], ShallowModel],
    prompts: npt.NDArray[np.str_],
    labels: npt.NDArray[np.str_],
) -> float:
    """Accuracy on the folds that a model was not trained on; prompts and labels of shape (n,)."""
    right, fold_of = 0, _fold(labels)
    for fold in range(FOLDS):
        held = fold_of == fold
        if held.any():
            model = train(list(prompts[~held]), list(labels[~held]))
            said = np.where(model.predict_proba(list(prompts[held])) >= 0.5, POSITIVE, NEGATIVE)
            right += int((said == labels[held]).sum())
    return right / len(labels)


def _fold(rows: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """The fold of each row; they are dealt in turn, for tasks come in random order."""
    return np.arange(len(rows)) % FOLDS


def _shown(task: GradedTask[Any, Any, Any]) -> str:
    """All that a model gets to see of a task."""
    return f"{task.data.system_prompt or ''}\n{task.data.prompt}"
