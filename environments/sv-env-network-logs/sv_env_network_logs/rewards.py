"""E1's reward: a pure function of a reply and the truth. The formulas are those of `sv_shared.rewards`."""

from functools import cache
from typing import Any

from sv_env_network_logs.flows import LABELS
from sv_env_network_logs.render import Payoffs
from sv_shared.classification import grade_classification
from sv_shared.grading import Grade
from sv_shared.parsers import JsonClassificationParser
from sv_shared.rewards import Call, ClassificationWeights, abstain_value

POSITIVE = "Malicious"
NEGATIVE = "Benign"
ABSTAIN = "Abstain"
SPELLED = {Call.POSITIVE: POSITIVE, Call.NEGATIVE: NEGATIVE, Call.ABSTAIN: ABSTAIN}
"""How E1 spells what an answer decides."""
WEIGHTS = ClassificationWeights(cost_ratio=5.0, abstain_risk=0.5)
"""A missed attack costs five false alarms; abstaining pays 0.875 and is best at a belief of 0.115 to 0.50."""


@cache
def parser(abstain: bool) -> JsonClassificationParser:
    """The parser of E1's answers, with or without abstention on offer."""
    return JsonClassificationParser(LABELS, ABSTAIN if abstain else None)


def grade(
    reply: str,
    truth: str,
    weights: ClassificationWeights = WEIGHTS,
    *,
    finish_reason: str | None = None,
    refusal: str | None = None,
) -> Grade:
    """The verdict on a reply; total over every string.

    Args:
        reply: the assistant's content.
        truth: "Malicious" or "Benign".
        weights: the weights in force.
        finish_reason: why the model stopped, in OpenAI's words.
        refusal: the provider's refusal text, where there is one.
    """
    return grade_classification(
        reply,
        truth,
        parser=parser(weights.abstain is not None),
        weights=weights,
        positive=POSITIVE,
        finish_reason=finish_reason,
        refusal=refusal,
    )


def payoffs(weights: ClassificationWeights) -> Payoffs:
    """What the prompt promises: the very points that these weights pay."""
    return Payoffs(
        right=weights.accuracy,
        false_alarm=0.0,
        missed=-(weights.cost_ratio - 1) * weights.cost,
        abstain=abstain_value(weights),
        calibration=weights.calibration,
        form=weights.calibration_form,
    )


def answer_schema(*, abstain: bool) -> dict[str, Any]:
    """The answer's form as a JSON schema, for servers that can force a model into it.

    Confidences come in steps of 0.05: grammars made from schemas can't bound a free number.

    Args:
        abstain: whether abstaining is on offer.
    """
    return {
        "type": "object",
        "properties": {
            "label": {"enum": [*LABELS, ABSTAIN] if abstain else list(LABELS)},
            "confidence": {"enum": [round(step / 20, 2) for step in range(21)]},
            "rationale": {"type": "string", "maxLength": 80},
        },
        "required": ["label", "confidence", "rationale"],
        "additionalProperties": False,
    }
