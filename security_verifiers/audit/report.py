"""audit(): every check on one environment and dataset."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from security_verifiers.audit.policies import (
    PolicyScore,
    check_anchors,
    check_bounds_played,
    check_degenerate,
    check_honest,
    check_outcomes,
    check_reference,
    play_all,
)
from security_verifiers.evals.engine import Engine
from security_verifiers.evals.plan import DEFAULT_SEED, make_plan
from sv_shared.environment import Environment
from sv_shared.reward_lint import LintResult

TIME_LIMIT_S = 60.0


@dataclass(frozen=True, slots=True)
class AuditReport:
    """What an audit found.

    Attributes:
        environment: its id.
        dataset: id and SHA-256 of the tasks that were played.
        checks: in the order they were made.
        scores: every policy's result.
    """

    environment: str
    dataset: Mapping[str, Any]
    checks: tuple[LintResult, ...]
    scores: tuple[PolicyScore, ...]

    @property
    def passed(self) -> bool:
        """True where every check held."""
        return all(check.passed for check in self.checks)

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "environment": self.environment,
            "dataset": dict(self.dataset),
            "passed": self.passed,
            "checks": [
                {"check": c.check, "passed": c.passed, "detail": c.detail, "figures": dict(c.figures)}
                for c in self.checks
            ],
            "policies": [
                {
                    "name": s.spec.name,
                    "kind": str(s.spec.kind),
                    "reward": None if math.isnan(s.reward) else s.reward,
                    "normalised": s.normalised,
                }
                for s in self.scores
            ],
        }


async def audit(
    environment: Environment, config: Mapping[str, Any], *, tasks: int | None = None, seed: int = DEFAULT_SEED
) -> AuditReport:
    """Check an environment's claims on one dataset.

    Args:
        environment: what is checked.
        config: the dataset's settings, as for an evaluation.
        tasks: how many are drawn; None takes all.
        seed: seeds the draw and the policies.

    Raises:
        SVError: the dataset can't be loaded or does not have so many tasks.
    """
    plan = make_plan(environment, config, tasks=tasks, seed=seed)
    async with Engine(environment, plan.env, seed=seed, time_limit_s=TIME_LIMIT_S) as engine:
        scores = await play_all(engine, plan)
        checks = [
            *environment.checks(plan.tasks),
            check_outcomes(scores),
            check_bounds_played(plan, scores),
            check_degenerate(plan, scores),
            check_honest(plan, scores),
            await check_reference(engine, plan),
            check_anchors(plan, scores),
        ]
    dataset = {"id": plan.info.id, "sha256": plan.dataset_hash, "tasks": len(plan.tasks)}
    return AuditReport(environment.id, dataset, tuple(checks), tuple(scores))
