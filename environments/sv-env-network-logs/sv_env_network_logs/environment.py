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
    """(false negative, abstention) in units of a false positive, from the points that the weights pay.

    An abstention costs the chance of being wrong at which a Malicious call is paid as much (Chow's rule): the
    `abstain_risk` where its value is "auto". Where right labels earn nothing there is no such unit, and costs
    are points.
    """
    from sv_env_network_logs.rewards import payoffs
    from sv_shared.rewards import Call, ClassificationWeights, bisect, expected_reward

    weights = ClassificationWeights.model_validate(settings["task"]["weights"])
    points = payoffs(weights)
    false_negative = (points.right - points.missed) / (points.right - points.false_alarm or 1.0)
    if points.abstain is None:
        return false_negative, 0.0
    price = points.abstain
    as_good = bisect(lambda p: expected_reward(weights, Call.POSITIVE, p, p) - price, 0.0, 1.0)
    return false_negative, 1.0 - as_good


_PUBLISHED = (
    ("iot23", "F1 0.980", "LogReg, binary, random folds of the whole set (arXiv:2601.18736)"),
    ("unsw", "F1 0.930", "LightGBM, official split"),
)
"""(part of a schema's name, figure, source). Random folds flatter: flows of one attack are alike."""


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

        return checks(tasks, self.anchors(tasks))

    def answer_schema(self, settings: Mapping[str, Any]) -> Mapping[str, Any]:
        from sv_env_network_logs.rewards import answer_schema

        return answer_schema(abstain=settings["task"]["weights"]["abstain"] is not None)

    def published(self, dataset: Mapping[str, Any]) -> Sequence[tuple[str, str]]:
        schema = str(dataset["details"].get("schema", ""))
        return [(figure, source) for key, figure, source in _PUBLISHED if key in schema]

    def loader_sample(self) -> LoaderSample:
        from sv_env_network_logs.data.sample import zeek_sample

        return zeek_sample()


NETWORK_LOGS = NetworkLogs()
