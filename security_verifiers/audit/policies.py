"""Rules 8 and 9, checked by playing: no degenerate policy wins, an honest one does, the reference is paid."""

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
SLACK = 1e-9


@dataclass(frozen=True, slots=True)
class PolicyScore:
    """How a policy fared on the plan's tasks.

    Attributes:
        spec: the policy.
        reward: mean reward; NaN where no rollout was graded.
        normalised: (reward - chance) / (reference - chance).
        ours: rollouts that ended as a grader or infrastructure error.
        lowest, highest: extreme rewards of single tasks; NaN where no rollout was graded.
    """

    spec: PolicySpec
    reward: float
    normalised: float | None
    ours: int
    lowest: float
    highest: float


async def play(engine: Engine, plan: Plan, spec: PolicySpec) -> PolicyScore:
    """Play each of the plan's tasks once: a policy in the evaluated seat, default opponents in the others."""
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
    low = min((score.lowest for score in scores), default=math.nan)
    high = max((score.highest for score in scores), default=math.nan)
    held = low >= floor - SLACK and high <= maximum + SLACK
    detail = f"paid {low:+.3f} to {high:+.3f}, declared {floor:+.3f} to {maximum:+.3f}"
    return LintResult("range", held, detail, {"lowest": low, "highest": high})


def check_degenerate(plan: Plan, scores: Sequence[PolicyScore]) -> LintResult:
    """Rule 8: constant, degenerate and exploit policies stay at or under 0.05 of the way to the reference."""
    name = "degenerate policies"
    bound = [score for score in scores if score.spec.kind.must_not_win]
    if not bound:
        return LintResult(name, False, "there is none to play; every environment ships some")
    if len(plan.tasks) < SMALLEST_SET:
        return LintResult(name, True, _exempt(plan))
    figures = {s.spec.name: s.normalised for s in bound if s.normalised is not None}
    unscaled = [s.spec.name for s in bound if s.normalised is None]
    winners = [f"{winner} {value:+.3f}" for winner, value in figures.items() if value > DEGENERATE_LIMIT]
    if unscaled:
        detail = f"these have no normalised score: {', '.join(unscaled)}"
    elif winners:
        detail = f"these win: {', '.join(winners)}, limit {DEGENERATE_LIMIT}"
    else:
        best = max(figures, key=figures.__getitem__)
        detail = f"best of {len(bound)} is {best} at {figures[best]:+.3f}, limit {DEGENERATE_LIMIT}"
    return LintResult(name, not winners and not unscaled, detail, figures)


def check_honest(plan: Plan, scores: Sequence[PolicyScore]) -> LintResult:
    """Rule 8's other half: at least one honest baseline is above the limit."""
    name = "honest baseline"
    honest = [score for score in scores if score.spec.kind.is_honest_baseline]
    if not honest:
        return LintResult(name, False, "there is none to play; every environment ships one")
    if len(plan.tasks) < SMALLEST_SET:
        return LintResult(name, True, _exempt(plan))
    figures = {s.spec.name: s.normalised for s in honest if s.normalised is not None}
    detail = ", ".join(f"{policy} {value:+.3f}" for policy, value in figures.items()) or "none has a score"
    best = max(figures.values(), default=-math.inf)
    return LintResult(
        name, best > DEGENERATE_LIMIT, f"{detail}; needed: one above {DEGENERATE_LIMIT}", figures
    )


def _exempt(plan: Plan) -> str:
    return f"exempt: {plan.info.id} has {len(plan.tasks)} tasks, fewer than {SMALLEST_SET}"


async def check_reference(engine: Engine, plan: Plan) -> LintResult:
    """Rule 9: each task's reference answer earns 0.95 of the maximum, after the task was saved and loaded."""
    reloaded = replace(plan, tasks=[_reload(task) for task in plan.tasks])
    changed = sum(a.hash != b.hash for a, b in zip(plan.tasks, reloaded.tasks, strict=True))
    if changed:
        return LintResult(
            "reference", False, f"{changed} tasks have another content hash after saving and loading"
        )
    specs = _references(plan)
    if not specs:
        return LintResult("reference", False, "there is no reference policy; every environment ships one")
    maximum = plan.bounds[1]
    needed = maximum - (1 - REFERENCE_SHARE) * abs(maximum)
    scores = [await play(engine, reloaded, spec) for spec in specs]
    lowest = min(score.lowest for score in scores)
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


def check_anchors(plan: Plan, scores: Sequence[PolicyScore]) -> LintResult:
    """The anchors in the metadata are what playing gives: the reference earns what is stored, and no constant
    answer more than chance."""
    stored = plan.anchors
    references = [score.reward for score in scores if score.spec.kind is PolicyKind.REFERENCE]
    constants = [score.reward for score in scores if score.spec.kind is PolicyKind.CONSTANT]
    reference, constant = max(references, default=math.nan), max(constants, default=-math.inf)
    held = abs(reference - stored.reference) <= SLACK and constant <= stored.chance + SLACK
    detail = (
        f"reference: stored {stored.reference:+.6f}, played {reference:+.6f}; "
        f"chance: stored {stored.chance:+.6f}, best constant played {constant:+.6f}"
    )
    figures = {
        "reference": stored.reference,
        "played": reference,
        "chance": stored.chance,
        "constant": constant,
    }
    return LintResult("anchors", held, detail, figures)
