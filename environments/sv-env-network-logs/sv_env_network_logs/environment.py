"""E1's declaration: what `sv` needs to know of it. Nothing heavy is imported here."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sv_env_network_logs import __version__
from sv_shared.environment import Anchors, ClassificationSpec, Environment, LoaderSample
from sv_shared.policies import PolicySpec

if TYPE_CHECKING:
    from sv_shared.reward_lint import LintResult
    from sv_shared.task import GradedTask


def _costs(settings: Mapping[str, Any]) -> tuple[float, float]:
    """(false negative, abstention) in units of a false positive, from the weights in force."""
    from sv_shared.rewards import ClassificationWeights, abstain_value

    weights = ClassificationWeights.model_validate(settings["task"]["weights"])
    price = abstain_value(weights)
    best = weights.accuracy + weights.calibration
    unit = weights.accuracy or 1.0
    return weights.cost_ratio, 0.0 if price is None else max(0.0, (best - price) / unit)


class NetworkLogs(Environment):
    """Calibrated anomaly detection over network flow records."""

    id = "sv-env-network-logs"
    alias = "e1"
    title = "network logs"
    version = __version__
    core_metrics = ("accuracy", "brier")
    sheet_metrics = (
        ("accuracy", "acc"),
        ("false_negative_rate", "missed"),
        ("false_positive_rate", "false alarm"),
        ("coverage", "coverage"),
        ("brier", "Brier"),
        ("ece", "ECE"),
        ("auroc", "AUROC"),
        ("cost", "cost"),
    )
    classification = ClassificationSpec(positive="Malicious", costs=_costs)
    default_policies = (
        "constant-malicious",
        "constant-benign",
        "always-abstain",
        "random",
        "shallow",
        "port-rule",
        "rate-rule",
        "boosted",
        "bayes",
        "reference",
    )

    def policies(self, seat: str) -> Mapping[str, PolicySpec]:
        from sv_env_network_logs.policies import policies

        return policies()

    def anchors(self, tasks: "Sequence[GradedTask]") -> Anchors:
        from sv_env_network_logs.anchors import anchors

        return anchors(tasks)

    def checks(self, tasks: "Sequence[GradedTask]") -> "Sequence[LintResult]":
        from sv_env_network_logs.checks import checks

        return checks(tasks)

    def loader_sample(self) -> LoaderSample:
        from sv_env_network_logs.data.sample import zeek_sample

        return zeek_sample()


NETWORK_LOGS = NetworkLogs()
