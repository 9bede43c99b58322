"""E2's reward: how well the violations were found, and whether the patch mends them all.

    reward = w * detection + (1 - w) * repair

with w = 0.3 where the tools are on offer (they do most of the finding) and 0.6 where not. The floor is 0, the
maximum 1. Everything here is pure; `funnel` says whether a patch is a repair, `grading` puts it together.
"""

from collections.abc import Collection, Mapping
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from sv_env_config_verification.answers import Answer
from sv_env_config_verification.catalogue import load_catalogue
from sv_env_config_verification.rows import Row, Violation
from sv_shared.findings import Severity

SEVERITY_WEIGHT: Mapping[Severity, float] = {
    Severity.LOW: 1.0,
    Severity.MEDIUM: 2.0,
    Severity.HIGH: 4.0,
    Severity.CRITICAL: 8.0,
}
"""What a violation of each severity weighs in the F-score."""

UNKNOWN_WEIGHT = 2.0
"""What a claim weighs whose id the catalogue does not know; its own word on its severity is not taken."""

FLOOR, MAXIMUM = 0.0, 1.0

DETECTION_METRICS = (
    "detection",
    "precision",
    "recall",
    "severity_accuracy",
    "claims",
    "violations",
    "true_positives",
    "exact",
)
"""What `detection_metrics` returns."""


class Weights(BaseModel):
    """The weights of E2's reward; snapshotted in a run's metadata. Repair weighs what detection leaves."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    detection_with_tools: Annotated[float, Field(ge=0, le=0.3)] = 0.3
    """Weight of detection where the agent can run the tools; at most 0.3, for copying them is no skill."""
    detection_without_tools: Annotated[float, Field(ge=0, le=1)] = 0.6
    """Weight of detection where it can't."""

    def detection(self, tools: bool) -> float:
        """Weight of detection with or without tools."""
        return self.detection_with_tools if tools else self.detection_without_tools


def components(weights: Weights, *, tools: bool, detection: float, repaired: bool) -> dict[str, float]:
    """The weighted terms by name; their sum is the reward, in [FLOOR, MAXIMUM].

    Args:
        weights: the weights in force.
        tools: whether the agent could run the tools.
        detection: `detection_score`, in [0, 1].
        repaired: whether the patch is a repair; on a clean row, whether there is none.
    """
    share = weights.detection(tools)
    return {"detection": share * detection, "repair": (1.0 - share) * float(repaired)}


def detection_score(claimed: Collection[tuple[str, str]], truth: Collection[tuple[str, str]]) -> float:
    """Severity-weighted F1 of the claimed (weakness, object) pairs, in [0, 1].

    2 TP / (claimed + true), where each pair counts with the weight of its weakness's severity in the
    catalogue (SEVERITY_WEIGHT). Where nothing is true: 1 for an empty claim, else 0.
    """
    found, said, true = _masses(claimed, truth)
    return 2.0 * found / (said + true) if true else float(not said)


def detection_metrics(answer: Answer, truth: Collection[Violation]) -> dict[str, float]:
    """The parts of the detection score; the same names for every row, each 0 or 1 or between.

    `precision` and `recall` are weighted like the score; precision is 0 where nothing is claimed, and on a
    clean row both, like severity_accuracy, are the score. `severity_accuracy` is the share of true violations
    that are named with the right severity and no other. `exact` is 1 where claims and truth are the same
    pairs. `claims`, `violations` and `true_positives` count pairs.
    """
    true = {violation.pair for violation in truth}
    found, said, whole = _masses(answer.pairs, true)
    score = detection_score(answer.pairs, true)
    right = sum(answer.severities(violation.pair) == {violation.severity} for violation in truth)
    return {
        "detection": score,
        "precision": (found / said if said else 0.0) if true else score,
        "recall": found / whole if true else score,
        "severity_accuracy": right / len(true) if true else score,
        "claims": float(len(answer.pairs)),
        "violations": float(len(true)),
        "true_positives": float(len(answer.pairs & true)),
        "exact": float(answer.pairs == true),
    }


def no_detection(row: Row) -> dict[str, float]:
    """The metrics of a reply that holds no answer: nothing is found, and nothing is right."""
    return dict.fromkeys(DETECTION_METRICS, 0.0) | {"violations": float(len(row.violations))}


def _masses(
    claimed: Collection[tuple[str, str]], truth: Collection[tuple[str, str]]
) -> tuple[float, float, float]:
    """Summed weights of what is claimed and true, claimed, and true."""
    said, true = set(claimed), set(truth)
    return sum(map(_weight, said & true)), sum(map(_weight, said)), sum(map(_weight, true))


def _weight(pair: tuple[str, str]) -> float:
    weakness = load_catalogue().weaknesses.get(pair[0])
    return UNKNOWN_WEIGHT if weakness is None else SEVERITY_WEIGHT[weakness.severity]
