"""Grading of one classification answer: parser and reward terms put together into a Grade."""

from typing import Any

from sv_shared.errors import DataError, UsageError
from sv_shared.grading import Grade
from sv_shared.outcomes import Outcome
from sv_shared.parsers import PARSE_CAUSES, ClassificationAnswer, JsonClassificationParser, looks_like_refusal
from sv_shared.rewards import ClassificationWeights, abstain_value, classification_components, reward_bounds

METRICS: tuple[str, ...] = (
    "correct",
    "answered",
    "abstained",
    "parse_fail",
    "refused",
    "truth_positive",
    "flagged",
    "false_negative",
    "false_positive",
)
"""The metrics of every classification grade, each 0 or 1 on every outcome, so that their means are over all
rollouts: accuracy = mean(correct), coverage = mean(answered), recall = sum(flagged and truth_positive) /
sum(truth_positive). Exactly one of answered, abstained, parse_fail and refused is 1. A reply without an
answer is neither correct nor flagged, so a positive that it leaves out counts against recall."""

CAUSES: dict[str, str] = {
    **PARSE_CAUSES,
    "provider_refusal": "the provider reports that the model declined",
    "content_filter": "the provider's content filter ended the reply",
    "refusal_text": "the reply declines to do the task",
}
"""Every cause of a floor: its stable name and what it means. A grade's cause is "name: meaning"."""


def grade_classification(
    reply: str,
    truth: str,
    *,
    parser: JsonClassificationParser,
    weights: ClassificationWeights,
    positive: str,
    finish_reason: str | None = None,
    refusal: str | None = None,
) -> Grade:
    """The verdict on a reply; total over every string.

    Components are accuracy, calibration and cost where the answer decides; abstain where it does not; floor
    where there is no answer. `parsed` holds the label, the confidence, p_positive (the stated probability of
    the positive label) and the form's other fields; confidence and p_positive are None where none was stated,
    and nothing is put in their place. The metrics are those of `METRICS`.

    Args:
        reply: the assistant's content, without reasoning that the provider returns apart.
        truth: the true label, as the parser spells it.
        parser: knows the labels, exactly two of them, and whether abstaining is on offer.
        weights: the weights in force.
        positive: the label whose miss costs more.
        finish_reason: why generation ended, in OpenAI's words ("length", "content_filter").
        refusal: the provider's own statement that the model declined; "" and None mean that there is none.

    Raises:
        DataError: the truth is not one of the labels.
        UsageError: the labels are not two, or parser and weights disagree on abstaining.
    """
    _check_setup(truth, parser, weights, positive)
    if refusal:
        return _floor(Outcome.REFUSED, "provider_refusal", truth, weights, positive)
    answer = parser.parse(reply, finish_reason=finish_reason)
    if isinstance(answer, ClassificationAnswer):
        if answer.label == parser.abstain_label:
            return _abstention(answer, truth, weights, positive)
        return _decision(answer, truth, weights, positive)
    if finish_reason == "content_filter":
        return _floor(Outcome.REFUSED, "content_filter", truth, weights, positive)
    if looks_like_refusal(reply):
        return _floor(Outcome.REFUSED, "refusal_text", truth, weights, positive)
    return _floor(Outcome.PARSE_FAIL, answer.cause, truth, weights, positive)


def _decision(
    answer: ClassificationAnswer, truth: str, weights: ClassificationWeights, positive: str
) -> Grade:
    """The grade of an answer that names a label."""
    confidence = answer.confidence
    assert confidence is not None, "the parser lets no decision through without a confidence"
    flagged = answer.label == positive
    return Grade(
        outcome=Outcome.SCORED,
        components=classification_components(
            weights, label=answer.label, confidence=confidence, truth=truth, positive=positive
        ),
        metrics=_metrics(Outcome.SCORED, truth == positive, correct=answer.label == truth, flagged=flagged),
        parsed=_parsed(answer, p_positive=confidence if flagged else 1.0 - confidence),
        truth=truth,
    )


def _abstention(
    answer: ClassificationAnswer, truth: str, weights: ClassificationWeights, positive: str
) -> Grade:
    """The grade of an answer that declines to decide: the abstention value in place of all other terms."""
    price = abstain_value(weights)
    assert price is not None, "the set-up check ties the abstention label to its value"
    return Grade(
        outcome=Outcome.ABSTAINED,
        components={"abstain": price},
        metrics=_metrics(Outcome.ABSTAINED, truth == positive),
        parsed=_parsed(answer, p_positive=None),
        truth=truth,
    )


def _floor(outcome: Outcome, cause: str, truth: str, weights: ClassificationWeights, positive: str) -> Grade:
    """The grade of a reply without an answer."""
    return Grade(
        outcome=outcome,
        components={"floor": reward_bounds(weights)[0]},
        metrics=_metrics(outcome, truth == positive),
        truth=truth,
        cause=f"{cause}: {CAUSES[cause]}",
    )


def _metrics(
    outcome: Outcome, truth_positive: bool, *, correct: bool = False, flagged: bool = False
) -> dict[str, float]:
    answered = outcome is Outcome.SCORED
    values = {
        "correct": correct,
        "answered": answered,
        "abstained": outcome is Outcome.ABSTAINED,
        "parse_fail": outcome is Outcome.PARSE_FAIL,
        "refused": outcome is Outcome.REFUSED,
        "truth_positive": truth_positive,
        "flagged": flagged,
        "false_negative": answered and truth_positive and not flagged,
        "false_positive": answered and flagged and not truth_positive,
    }
    return {name: float(value) for name, value in values.items()}


def _parsed(answer: ClassificationAnswer, p_positive: float | None) -> dict[str, Any]:
    return {
        "label": answer.label,
        "confidence": answer.confidence,
        "p_positive": p_positive,
        **answer.extra,
    }


def _check_setup(
    truth: str, parser: JsonClassificationParser, weights: ClassificationWeights, positive: str
) -> None:
    """Refuses a grade that would rest on labels or weights that do not fit together."""
    if len(parser.labels) != 2 or positive not in parser.labels:
        raise UsageError(
            f"the classification reward needs two labels, one of them positive, not {parser.labels}",
            where=f"positive={positive!r}",
        )
    if truth not in parser.labels:
        raise DataError(f"the true label {truth!r} is not one of {parser.labels}", hint="Check the dataset")
    if (parser.abstain_label is None) != (weights.abstain is None):
        raise UsageError(
            "parser and weights disagree on whether abstaining is on offer",
            where=f"abstain_label={parser.abstain_label!r}, weights.abstain={weights.abstain!r}",
            hint="Set both or set both to None",
        )
