"""Rules 8 and 9, checked by playing: no degenerate policy wins, an honest one does, and the reference gets its due."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from security_verifiers.evals.engine import Engine
from security_verifiers.evals.plan import Plan
from security_verifiers.evals.run import rollouts
from security_verifiers.evals.seats import policy_seats
from sv_shared.policies import PolicyKind, PolicySpec
from sv_shared.reward_lint import LintResult
from sv_shared.task import GradedTask

DEGENERATE_LIMIT = 0.05
REFERENCE_SHARE = 0.95
SMALLEST_SET = 200
CONCURRENCY = 16


@dataclass(frozen=True, slots=True)
class PolicyScore:
    """How a policy fared on the plan's tasks.

    Attributes:
        spec: the policy.
        reward: mean reward.
        normalised: (reward - chance) / (reference - chance).
        ours: rollouts that ended as a grader or infrastructure error.
        lowest, highest: extreme rewards of single tasks.
    """

    spec: PolicySpec
    reward: float
    normalised: float | None
    ours: int
    lowest: float
    highest: float


async def play(engine: Engine, plan: Plan, spec: PolicySpec) -> PolicyScore:
    """Play every task of the plan once with a policy in the evaluated seat, default opponents in the others."""
    engine.take_seats(policy_seats(plan.environment, spec))
    rewards, failures = [], 0
    async for record in rollouts(engine, plan.rollouts(set()), concurrency=CONCURRENCY):
        if record.reward is None:
            failures += 1
        else:
            rewards.append(record.reward)
    mean = math.fsum(rewards) / len(rewards) if rewards else math.nan
    return PolicyScore(
        spec,
        mean,
        plan.anchors.normalise(mean) if rewards else None,
        failures,
        min(rewards, default=math.nan),
        max(rewards, default=math.nan),
    )


async def play_all(engine: Engine, plan: Plan) -> list[PolicyScore]:
    """Every policy of the evaluated seat on the plan's tasks."""
    specs = plan.environment.policies(plan.environment.evaluated_seat).values()
    return [
        await play(engine, plan, spec)
        for spec in specs
        if all(spec.can_play(task.data) for task in plan.tasks)
    ]


def _references(plan: Plan) -> list[PolicySpec]:
    specs = plan.environment.policies(plan.environment.evaluated_seat).values()
    return [spec for spec in specs if spec.kind is PolicyKind.REFERENCE]


def check_outcomes(scores: Sequence[PolicyScore]) -> LintResult:
    """No policy, however odd its answers, makes grader or infrastructure fail."""
    broken = [f"{score.spec.name} ({score.ours})" for score in scores if score.ours]
    detail = f"rollouts that failed through us: {', '.join(broken)}" if broken else "every rollout was graded"
    return LintResult("outcomes", not broken, detail, {"policies": float(len(scores))})


def check_bounds_played(plan: Plan, scores: Sequence[PolicyScore]) -> LintResult:
    """Every reward that was paid lies in the declared range."""
    floor, maximum = plan.bounds
    low, high = min(score.lowest for score in scores), max(score.highest for score in scores)
    held = low >= floor - 1e-9 and high <= maximum + 1e-9
    detail = f"paid {low:+.3f} to {high:+.3f}, declared {floor:+.3f} to {maximum:+.3f}"
    return LintResult("range", held, detail, {"lowest": low, "highest": high})


def check_degenerate(plan: Plan, scores: Sequence[PolicyScore]) -> LintResult:
    """Rule 8: constant, degenerate and exploit policies stay at or under 0.05 of the way to the reference."""
    if len(plan.tasks) < SMALLEST_SET:
        return LintResult(
            "degenerate policies", True, f"exempt: {len(plan.tasks)} tasks, fewer than {SMALLEST_SET}"
        )
    bound = [score for score in scores if score.spec.kind.must_not_win]
    winners = [s for s in bound if s.normalised is None or s.normalised > DEGENERATE_LIMIT]
    best = max(bound, key=lambda s: -math.inf if s.normalised is None else s.normalised)
    figures = {s.spec.name: s.normalised for s in bound if s.normalised is not None}
    detail = (
        f"these win: {', '.join(f'{s.spec.name} {s.normalised}' for s in winners)}"
        if winners
        else f"best of {len(bound)} is {best.spec.name} at {best.normalised:+.3f}, limit {DEGENERATE_LIMIT}"
    )
    return LintResult("degenerate policies", not winners, detail, figures)


def check_honest(scores: Sequence[PolicyScore]) -> LintResult:
    """Rule 8's other half: at least one honest baseline is above the limit."""
    honest = [s for s in scores if s.spec.kind.is_honest_baseline and s.normalised is not None]
    figures = {s.spec.name: s.normalised for s in honest if s.normalised is not None}
    best = max(figures.values(), default=-math.inf)
    detail = ", ".join(f"{name} {value:+.3f}" for name, value in figures.items()) or "there is none"
    return LintResult("honest baseline", best > DEGENERATE_LIMIT, detail, figures)


async def check_reference(engine: Engine, plan: Plan) -> LintResult:
    """Rule 9: on every task the reference answer earns 0.95 of the maximum, after the task was saved and loaded."""
    reloaded = replace(plan, tasks=[_reload(task) for task in plan.tasks])
    changed = sum(a.hash != b.hash for a, b in zip(plan.tasks, reloaded.tasks, strict=True))
    if changed:
        return LintResult(
            "reference", False, f"{changed} tasks have another content hash after saving and loading"
        )
    floor, maximum = plan.bounds
    needed = floor + REFERENCE_SHARE * (maximum - floor)
    scores = [await play(engine, reloaded, spec) for spec in _references(plan)]
    lowest = min((score.lowest for score in scores), default=math.nan)
    failed = sum(score.ours for score in scores)
    detail = f"lowest {lowest:+.3f} of a maximum of {maximum:+.3f}, needed {needed:+.3f}"
    if failed:
        detail += f"; {failed} rollouts failed"
    return LintResult(
        "reference", lowest >= needed and not failed, detail, {"lowest": lowest, "needed": needed}
    )


def _reload(task: GradedTask) -> GradedTask:
    data = type(task.data).model_validate_json(task.data.model_dump_json())
    return type(task)(data, task.config)


async def check_anchors(engine: Engine, plan: Plan) -> LintResult:
    """The anchors in the metadata are what playing gives: the stored reference reward is the played one."""
    score = await play(engine, plan, _references(plan)[0])
    held = abs(score.reward - plan.anchors.reference) < 1e-9
    detail = f"stored {plan.anchors.reference:+.6f}, played {score.reward:+.6f}"
    return LintResult("anchors", held, detail, {"stored": plan.anchors.reference, "played": score.reward})
