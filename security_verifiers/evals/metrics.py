"""Metrics of a run: every one by item where it has items, else as a statistic of all of them."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np

from security_verifiers.evals.items import Answers, Items
from security_verifiers.stats import classification as c
from security_verifiers.stats.accounting import Bounds
from security_verifiers.stats.arrays import Floats
from security_verifiers.stats.bootstrap import Statistic, bca
from security_verifiers.stats.calibration import calibration, distinct
from security_verifiers.stats.classification import Decision
from security_verifiers.stats.estimates import Estimate
from security_verifiers.stats.ranking import auprc_statistic, auroc_statistic, recall_at_fpr_statistic
from security_verifiers.stats.ratio import Ratio
from security_verifiers.stats.selective import aurc_statistic, e_aurc_statistic
from sv_shared.environment import Environment

NOT_DEFINED = {
    "value": None,
    "lower": None,
    "upper": None,
    "n": 0,
    "clusters": 0,
    "method": "not defined by these rollouts",
}
"""What stands in place of an `Estimate` that the data do not define."""

SEED = 0
"""Seeds the resampling: the same result lines give the same intervals."""


class Metric(NamedTuple):
    """A metric by item, and the range of one item's value."""

    ratio: Ratio
    low: float = 0.0
    high: float = 1.0


def item_metrics(environment: Environment, items: Items, settings: Mapping[str, Any]) -> dict[str, Metric]:
    """The metrics that are means over items, by name: those of classification, then the grades' own.

    Args:
        environment: says what the answers are.
        items: rollouts that are the model's own, none that failed through us.
        settings: the settings in force, as in a run's metadata.
    """
    metrics = {}
    if environment.classification and items.answers:
        metrics = _classified(items.answers, environment.classification.costs(settings))
    return metrics | {name: _mean(column) for name, column in items.metrics.items() if name not in metrics}


def _classified(answers: Answers, costs: tuple[float, float]) -> dict[str, Metric]:
    truth, decision, p = answers.truth, answers.decision, answers.p_positive
    false_negative, abstention = costs
    priced = c.cost_per_item(truth, decision, false_negative=false_negative, abstention=abstention)
    return {
        "accuracy": Metric(c.accuracy(truth, decision)),
        "f1": Metric(c.f1(truth, decision)),
        "precision": Metric(c.precision(truth, decision)),
        "false_negative_rate": Metric(c.false_negative_rate(truth, decision)),
        "false_positive_rate": Metric(c.false_positive_rate(truth, decision)),
        "coverage": Metric(c.coverage(decision)),
        "cost": Metric(priced, 0.0, max(false_negative, abstention, 1.0)),
        "brier": Metric(c.brier(truth, decision, p)),
        "log_loss": Metric(c.log_loss(truth, decision, p), 0.0, c.LONGEST_LOG_LOSS),
    }


def _mean(column: Floats) -> Metric:
    """A grade's own metric; a line that lacks it takes no part."""
    there = ~np.isnan(column)
    values = column[there]
    low, high = (0.0, 1.0) if not len(values) else (min(0.0, values.min()), max(1.0, values.max()))
    return Metric(Ratio.of(np.where(there, column, 0.0), there), float(low), float(high))


def curve_metrics(items: Items) -> dict[str, Statistic]:
    """The metrics of classification that are no means over items, by name, as statistics of weighted items.

    Args:
        items: rollouts that are the model's own, none that failed through us.
    """
    if items.answers is None:
        return {}
    a = items.answers
    lost, labelled = a.decision == Decision.NONE, a.decision <= Decision.POSITIVE
    right = labelled & (a.decision == a.truth)
    return {
        "auroc": auroc_statistic(a.p_positive, a.truth, lost),
        "auprc": auprc_statistic(a.p_positive, a.truth, lost),
        "recall_at_fpr_1e-2": recall_at_fpr_statistic(a.p_positive, a.truth, 1e-2, lost),
        "recall_at_fpr_1e-3": recall_at_fpr_statistic(a.p_positive, a.truth, 1e-3, lost),
        "aurc": aurc_statistic(a.confidence, right, lost),
        "e_aurc": e_aurc_statistic(a.confidence, right, lost),
    }


def estimates(
    environment: Environment, items: Items, settings: Mapping[str, Any], unmeasured: int
) -> dict[str, dict[str, Any]]:
    """Every metric with its interval and its bounds, as plain JSON, by name.

    Each is the fields of an `Estimate` with `worst` and `best`, what the rollouts that failed through us
    could have made of it: None where no bound is known. A value of None is not defined by these rollouts.

    Args:
        environment: says what the answers are.
        items: rollouts that are the model's own.
        settings: the settings in force.
        unmeasured: planned rollouts that are not among the items.
    """
    told = {
        name: _told(
            metric.ratio.estimate(items.cluster), metric.ratio.bounds(unmeasured, metric.low, metric.high)
        )
        for name, metric in item_metrics(environment, items, settings).items()
    }
    for name, statistic in curve_metrics(items).items():
        estimate = bca(statistic, items.cluster, SEED) if len(items) else None
        told[name] = _told(estimate, None if unmeasured else _exact(estimate, len(items)))
    return told


def calibration_of(items: Items) -> dict[str, Any] | None:
    """Whether the stated confidences can be believed, as plain JSON; None where none was stated.

    Args:
        items: rollouts that are the model's own.
    """
    if items.answers is None or not (labelled := items.answers.decision <= Decision.POSITIVE).any():
        return None
    stated, clusters = items.answers.select(labelled), items.cluster[labelled]
    verdict = calibration(stated.confidence, stated.decision == stated.truth, clusters, SEED)
    assert verdict is not None, "there are labelled items"
    told = {**asdict(verdict), "null_band": list(verdict.null_band)}
    return told | {"distinct_confidences": distinct(stated.confidence)}


def _exact(estimate: Estimate | None, n: int) -> Bounds:
    """The bounds where everything was measured."""
    value = None if estimate is None else estimate.value
    return Bounds(value, value, value, n, 0)


def _told(estimate: Estimate | None, bounds: Bounds | None) -> dict[str, Any]:
    worst, best = (bounds.worst, bounds.best) if bounds else (None, None)
    return {**(asdict(estimate) if estimate else NOT_DEFINED), "worst": worst, "best": best}
