"""Grading: a reply and a row in, a Grade out, with the tools run on the patched files."""

from typing import Any

from sv_env_config_verification.adapters.toolbox import Toolbox
from sv_env_config_verification.answers import Answer, parse_answer
from sv_env_config_verification.funnel import LAYERS, NOT_RUN, FunnelResult, Pairs, run_funnel
from sv_env_config_verification.rewards import (
    DETECTION_METRICS,
    FLOOR,
    Weights,
    components,
    detection_metrics,
    no_detection,
)
from sv_env_config_verification.rows import Row
from sv_shared.classification import CAUSES
from sv_shared.grading import Grade
from sv_shared.outcomes import Outcome
from sv_shared.parsers import looks_like_refusal

METRICS = (
    *DETECTION_METRICS,
    *LAYERS,
    "repaired",
    "patched",
    "vulnerable",
    "tampering",
    "answered",
    "parse_fail",
    "refused",
)
"""The metrics of every grade. The layers are 0 where there was no patch to judge: the share of repairs that
die at each is over the rollouts with `vulnerable` and `patched`. `repaired` is what the repair part pays for:
on a clean row, that there is no patch."""


async def grade(
    reply: str,
    row: Row,
    toolbox: Toolbox,
    weights: Weights,
    tools: bool,
    *,
    baseline: Pairs | None = None,
    finish_reason: str | None = None,
    refusal: str | None = None,
) -> Grade:
    """The verdict on a reply; total over every string.

    A patch that breaks a tool which works on other input scores the floor, with the cause. The flag
    "tampering" marks a patch that hides weaknesses, or reaches beyond the files, in place of mending them.

    Args:
        reply: the assistant's content, without reasoning that the provider returns apart.
        row: the item.
        toolbox: the tools that judge the patch.
        weights: the weights in force.
        tools: whether the agent could run the tools.
        baseline: what the tools say of the row's files; None: asked when it is needed.
        finish_reason: why generation ended, in OpenAI's words.
        refusal: the provider's own statement that the model declined; "" and None mean that there is none.

    Raises:
        DataError: the row can't be judged.
        ToolError: a tool does not work, whatever the answer.
    """
    if refusal:
        return _floor(Outcome.REFUSED, "provider_refusal", row)
    answer = parse_answer(reply, finish_reason=finish_reason)
    if not isinstance(answer, Answer):
        if finish_reason == "content_filter":
            return _floor(Outcome.REFUSED, "content_filter", row)
        if looks_like_refusal(reply):
            return _floor(Outcome.REFUSED, "refusal_text", row)
        return _floor(Outcome.PARSE_FAIL, answer.cause, row)
    if row.is_clean or answer.patch is None:
        return _scored(answer, row, NOT_RUN, weights, tools)
    return _scored(answer, row, await run_funnel(row, answer.patch, toolbox, baseline), weights, tools)


def _scored(answer: Answer, row: Row, result: FunnelResult, weights: Weights, tools: bool) -> Grade:
    detection = detection_metrics(answer, row.violations)
    repaired = answer.patch is None if row.is_clean else result.repaired
    terms = components(weights, tools=tools, detection=detection["detection"], repaired=repaired)
    facts = {
        **{name: bool(result.layers[name]) for name in LAYERS},
        "repaired": repaired,
        "patched": answer.patch is not None,
        "vulnerable": not row.is_clean,
        "tampering": result.tampering,
        "answered": True,
        "parse_fail": False,
        "refused": False,
    }
    return Grade(
        outcome=Outcome.SCORED,
        components={"floor": FLOOR} if result.crashed else terms,
        metrics=detection | {name: float(fact) for name, fact in facts.items()},
        parsed=answer.to_dict(),
        truth=_truth(row),
        cause=result.cause,
        flags=("tampering",) if result.tampering else (),
    )


def _floor(outcome: Outcome, cause: str, row: Row) -> Grade:
    metrics = dict.fromkeys(METRICS, 0.0) | no_detection(row)
    metrics |= {
        "vulnerable": float(not row.is_clean),
        "parse_fail": float(outcome is Outcome.PARSE_FAIL),
        "refused": float(outcome is Outcome.REFUSED),
    }
    return Grade(
        outcome=outcome,
        components={"floor": FLOOR},
        metrics=metrics,
        truth=_truth(row),
        cause=f"{cause}: {CAUSES[cause]}",
    )


def _truth(row: Row) -> dict[str, Any]:
    return {"violations": [violation.model_dump(mode="json") for violation in row.violations]}
