"""The audit: what keeps its promises passes, and every planted fault is caught by the check made for it."""

import asyncio
import hashlib
import json
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from security_verifiers.audit.policies import (
    PolicyScore,
    check_anchors,
    check_bounds_played,
    check_degenerate,
    check_honest,
    check_reference,
)
from security_verifiers.evals.engine import Engine
from security_verifiers.evals.plan import Plan, make_plan
from sv_env_network_logs import boosted, checks, rewards
from sv_env_network_logs.environment import NETWORK_LOGS
from sv_env_network_logs.rewards import WEIGHTS
from sv_shared.answer_policies import answer_json
from sv_shared.environment import Anchors
from sv_shared.errors import DataError
from sv_shared.grading import Grade
from sv_shared.outcomes import Outcome
from sv_shared.policies import PolicyKind, PolicySpec, text_policy
from sv_test_duel import DUEL
from sv_test_toolbox import TOOLBOX

from .conftest import FEW, SMALL, SYNTH, Planted, audited, detail, failed, rewritten, weights

CHECKS = [
    "bounds", "proper", "cost", "abstain", "stated points", "chance", "classes", "words in prompts",
    "shallow model", "outcomes", "range", "degenerate policies", "honest baseline", "reference", "anchors",
]  # fmt: skip


def sly(name: str = "sly", kind: PolicyKind = PolicyKind.DEGENERATE) -> PolicySpec:
    """A policy that knows the truth and has no right to."""
    return text_policy(name, kind, "peeks", lambda task, messages, seed: answer_json(task.truth, 1.0))


# What holds -----------------------------------------------------------------------------------------------


def test_public_mini_passes_with_policies_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    # Some stand for all, and trees learn from few rows; the slow test below leaves nothing out.
    monkeypatch.setattr(boosted, "TRAINING_ROWS", {"flow": 1500, "window": 100})
    boosted.reference_boosted.cache_clear()
    names = ["reference", "constant-malicious-c50", "always-abstain", "repeated", "random", "boosted"]
    own = NETWORK_LOGS.policies("agent")
    try:
        report = audited(Planted(*(own[name] for name in names), keep=(), honest=False), {})
    finally:
        boosted.reference_boosted.cache_clear()
    assert failed(report) == set()
    assert [check.check for check in report.checks] == CHECKS
    assert [score.spec.name for score in report.scores] == names
    assert report.dataset["tasks"] == 300


@pytest.mark.slow
def test_public_mini_passes() -> None:
    report = audited(NETWORK_LOGS, {})
    assert failed(report) == set()
    assert {score.spec.name for score in report.scores} == NETWORK_LOGS.policies("agent").keys()


def test_an_audit_without_faults_passes_and_reads_as_json() -> None:
    report = audited(Planted(), SMALL)
    assert failed(report) == set()
    content = json.loads(json.dumps(report.to_json(), allow_nan=False))
    assert content["passed"] is True
    assert [check["check"] for check in content["checks"]] == CHECKS
    by_name = {policy["name"]: policy for policy in content["policies"]}
    assert by_name.keys() == {*FEW, "insider"}
    assert by_name["reference"]["normalised"] == 1.0
    assert by_name["echo"]["reward"] == -4.0


def test_a_sample_of_the_tasks_can_be_audited() -> None:
    assert audited(Planted(), SMALL, tasks=20).dataset["tasks"] == 20
    with pytest.raises(DataError, match="41 tasks were asked for"):
        audited(Planted(), SMALL, tasks=41)


def test_few_tasks_are_exempt_and_named() -> None:
    report = audited(Planted(sly()), SMALL)
    assert failed(report) == set()
    for check in ("degenerate policies", "honest baseline"):
        assert detail(report, check) == "exempt: synth/e1/flow has 40 tasks, fewer than 200"


# Faults in the reward -------------------------------------------------------------------------------------


def test_the_linear_reward_is_caught() -> None:
    report = audited(Planted(), weights(calibration_form="linear"))
    assert "proper" in failed(report)
    assert failed(report) <= {"proper", "abstain"}


def test_an_abstention_value_that_is_too_high_is_caught() -> None:
    report = audited(Planted(), weights(abstain=1.45))
    assert failed(report) == {"abstain"}
    assert "pays too much" in detail(report, "abstain")


def test_abstaining_above_the_maximum_is_caught() -> None:
    assert {"abstain", "reference"} <= failed(audited(Planted(), weights(abstain=1.6)))


def test_an_inconsistent_cost_ratio_is_caught() -> None:
    report = audited(Planted(), weights(cost=0.5))
    assert {"cost"} <= failed(report) <= {"cost", "proper"}
    assert "not the stated ratio 5" in detail(report, "cost")


def test_other_points_than_those_stated_are_caught() -> None:
    with rewritten(lambda data: {"prompt": str(data.prompt).replace("for sure", "perhaps")}):
        report = audited(Planted(), SMALL)
    assert "stated points" in failed(report)
    assert detail(report, "stated points") == "40 prompts state other points or none"


def paying(monkeypatch: pytest.MonkeyPatch, wrong: Callable[[str, str, Grade], Grade]) -> None:
    """Puts another grader in the place of E1's: (reply, truth, the right grade) -> Grade."""
    right = rewards.grade

    def grade(reply: str, truth: str, *how: Any, **more: Any) -> Grade:
        return wrong(reply, truth, right(reply, truth, *how, **more))

    monkeypatch.setattr(rewards, "grade", grade)


def test_a_grader_that_pays_malformed_answers_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def kind(reply: str, truth: str, grade: Grade) -> Grade:
        return replace(grade, components={"floor": -1.0}) if grade.outcome is Outcome.PARSE_FAIL else grade

    paying(monkeypatch, kind)
    report = audited(Planted(), SMALL)
    assert failed(report) == {"bounds"}
    assert "a reply without an answer is paid -1" in detail(report, "bounds")


def test_a_grader_that_digs_answers_out_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    right = rewards.grade

    def digging(reply: str, truth: str, grade: Grade) -> Grade:
        inside = reply[reply.find("{") : reply.rfind("}") + 1]
        return grade if grade.outcome.has_answer else right(inside, truth)

    paying(monkeypatch, digging)
    report = audited(Planted(keep=("reference", "buried")))
    assert failed(report) == {"degenerate policies"}
    assert "buried +1.000" in detail(report, "degenerate policies")


def test_a_grader_that_pays_outside_its_range_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def generous(reply: str, truth: str, grade: Grade) -> Grade:
        return replace(grade, components={"accuracy": 7.0}) if '"Malicious"' in reply else grade

    paying(monkeypatch, generous)
    assert {"bounds", "chance", "outcomes"} <= failed(audited(Planted(), SMALL))


def test_a_player_that_never_answers_is_counted_and_reads_as_json() -> None:
    def stumble(task: Any, messages: Any, seed: int) -> str:
        raise RuntimeError("fell over")

    report = audited(Planted(text_policy("stumble", PolicyKind.HEURISTIC, "raises", stumble)), SMALL)
    assert failed(report) == {"outcomes"}
    assert detail(report, "outcomes") == "rollouts that failed through us: stumble (40)"
    scores = {p["name"]: p for p in json.loads(json.dumps(report.to_json(), allow_nan=False))["policies"]}
    assert scores["stumble"]["reward"] is None


# Faults in the data ---------------------------------------------------------------------------------------


def test_a_feature_that_gives_the_label_away_is_caught() -> None:
    def leak(data: Any) -> dict[str, str]:
        return {"prompt": f"{data.prompt} ttl=64" if data.truth == "Malicious" else data.prompt}

    with rewritten(leak):
        report = audited(Planted(keep=("reference", "echo")), {**SMALL, "synth_rows": 120})
    assert failed(report) == {"shallow model"}
    (figures,) = [check.figures for check in report.checks if check.check == "shallow model"]
    assert figures["one_word"] == 1.0


def test_many_weak_hints_are_caught() -> None:
    def leak(data: Any) -> dict[str, str]:
        number = int(hashlib.sha256(str(data.id).encode()).hexdigest(), 16)
        side = data.truth == "Malicious"
        hints = [f"hint{i}" for i in range(40) if (number >> 3 * i) % 8 < (6 if side else 2)]
        return {"prompt": f"{data.prompt} {' '.join(hints)}"}

    with rewritten(leak):
        plan = make_plan(NETWORK_LOGS, SYNTH)
    caught = checks.check_shallow(plan.tasks)
    assert not caught.passed
    assert caught.figures["one_word"] < caught.figures["ceiling"] < caught.figures["words"]


@pytest.mark.parametrize(
    "leak",
    [
        lambda data: {"prompt": f"{data.prompt}\nlabel={data.truth}"},
        lambda data: {"prompt": f"{data.truth.lower()}?\n{data.prompt}"},
        lambda data: {"prompt": f"{data.prompt}\n{data.id}"},
        lambda data: {"prompt": f"{data.prompt}\n({data.cluster})"},
        lambda data: {"prompt": f"{data.prompt}\nseen in {data.detail}"},
        lambda data: {"system_prompt": f"{data.system_prompt} It is {data.truth}."},
    ],
    ids=["label", "label first", "row", "batch", "scenario", "system prompt"],
)
def test_words_that_give_the_label_away_are_caught(leak: Any) -> None:
    with rewritten(leak):
        plan = make_plan(NETWORK_LOGS, SMALL)
    caught = checks.check_words(plan.tasks, WEIGHTS)
    assert not caught.passed
    assert "times, such as" in caught.detail


def test_a_single_class_is_caught() -> None:
    plan = make_plan(NETWORK_LOGS, SMALL)
    assert checks.check_classes(plan.tasks).passed
    for truth in ("Malicious", "Benign"):
        alone = [task for task in plan.tasks if task.data.truth == truth]
        assert not checks.check_classes(alone).passed
    with pytest.raises(DataError, match="single class"):
        audited(Planted(), SMALL, tasks=1)


# Faults in the policies and anchors -----------------------------------------------------------------------


def test_a_reference_that_does_not_win_is_caught() -> None:
    shy = text_policy(
        "reference", PolicyKind.REFERENCE, "shy", lambda task, messages, seed: answer_json(task.truth, 0.6)
    )
    report = audited(Planted(shy), SMALL)
    assert failed(report) == {"reference", "anchors"}
    assert "lowest +1.420 of a maximum of +1.500, needed +1.425" in detail(report, "reference")


def test_a_reference_that_fails_on_one_task_is_caught() -> None:
    target = make_plan(NETWORK_LOGS, SMALL).tasks[3].data.id

    def answer(task: Any, messages: Any, seed: int) -> str:
        return "no idea" if task.id == target else answer_json(task.truth, 1.0)

    report = audited(Planted(text_policy("reference", PolicyKind.REFERENCE, "but one", answer)), SMALL)
    assert failed(report) == {"reference", "anchors"}
    assert "lowest -4.000" in detail(report, "reference")


def test_a_task_that_saving_changes_is_caught() -> None:
    plan = make_plan(NETWORK_LOGS, SMALL)
    first, *rest = plan.tasks
    broken = replace(plan, tasks=[first.with_data(posterior=float("inf")), *rest])

    async def check() -> Any:
        async with Engine(NETWORK_LOGS, plan.env, seed=1, time_limit_s=60) as engine:
            return await check_reference(engine, broken)

    result = asyncio.run(check())
    assert not result.passed
    assert result.detail == "1 tasks have another content hash after saving and loading"


def test_a_policy_that_must_not_win_and_does_is_caught() -> None:
    report = audited(Planted(sly(), keep=("reference",)))
    assert failed(report) == {"degenerate policies"}
    assert detail(report, "degenerate policies") == "these win: sly +1.000, limit 0.05"


@pytest.mark.parametrize(
    ("lie", "caught_by"),
    [
        ({"reference": 1.2}, {"anchors"}),
        ({"chance": 0.5}, {"anchors", "chance"}),
        ({"chance": 1.0}, {"chance"}),
    ],
    ids=["reference too low", "chance too low", "chance too high"],
)
def test_anchors_that_lie_are_caught(lie: dict[str, float], caught_by: set[str]) -> None:
    assert failed(audited(Planted(ends=lambda anchors: replace(anchors, **lie)), SMALL)) == caught_by


def test_policies_that_an_environment_forgot_are_missed() -> None:
    report = audited(Planted(keep=(), honest=False), SMALL)
    assert failed(report) == {"range", "degenerate policies", "honest baseline", "reference", "anchors"}


# Other environments ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_an_environment_with_tools_is_audited() -> None:
    report = audited(TOOLBOX, {"words": 2})
    assert failed(report) == {"honest baseline"}
    assert detail(report, "honest baseline") == "there is none to play; every environment ships one"
    assert {score.spec.name: score.reward for score in report.scores} == {
        "reference": 1.0,
        "clumsy": 0.0,
        "empty": 0.0,
    }


def test_an_environment_of_two_seats_is_audited() -> None:
    report = audited(DUEL, {})
    assert failed(report) == set()
    assert {score.spec.name: score.reward for score in report.scores} == {
        "bisect": 1.0,
        "upwards": pytest.approx(3 / 7),
        "stubborn": pytest.approx(1 / 7),
    }
    assert detail(report, "degenerate policies") == "exempt: duel has 7 tasks, fewer than 200"


# The checks by themselves ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def large() -> Plan:
    """A plan of the default set, under anchors that make normalised scores easy to read."""
    return replace(make_plan(NETWORK_LOGS, {}), anchors=Anchors(chance=0.0, chance_answer="", reference=1.0))


def scored(name: str, kind: PolicyKind, reward: float, normalised: float | None) -> PolicyScore:
    return PolicyScore(sly(name, kind), reward, normalised, ours=0, lowest=reward, highest=reward)


@pytest.mark.parametrize("kind", PolicyKind)
@pytest.mark.parametrize("reward", [0.05, 0.051])
def test_the_limit_is_for_policies_that_must_not_win(kind: PolicyKind, reward: float, large: Plan) -> None:
    base = scored("base", PolicyKind.CONSTANT, 0.0, 0.0)
    result = check_degenerate(large, [base, scored("one", kind, reward, reward)])
    assert result.passed == (reward <= 0.05 or not kind.must_not_win)


def test_a_degenerate_policy_without_a_score_is_no_pass(large: Plan) -> None:
    assert not check_degenerate(large, [scored("one", PolicyKind.DEGENERATE, 1.0, None)]).passed


@pytest.mark.parametrize("kind", PolicyKind)
def test_only_an_honest_baseline_above_the_limit_will_do(kind: PolicyKind, large: Plan) -> None:
    assert check_honest(large, [scored("one", kind, 0.06, 0.06)]).passed == kind.is_honest_baseline
    assert not check_honest(large, [scored("one", kind, 0.05, 0.05)]).passed
    assert not check_honest(large, [scored("one", kind, 1.0, None)]).passed


def test_no_constant_answer_is_above_chance(large: Plan) -> None:
    reference = scored("reference", PolicyKind.REFERENCE, 1.0, 1.0)
    for reward, holds in ((0.0, True), (0.01, False)):
        constant = scored("constant", PolicyKind.CONSTANT, reward, reward)
        assert check_anchors(large, [reference, constant]).passed == holds


@pytest.mark.parametrize(
    ("paid", "holds"), [(-4.0, True), (1.5, True), (-4.01, False), (1.51, False), (math.nan, False)]
)
def test_what_is_paid_is_held_against_the_declared_range(paid: float, holds: bool, large: Plan) -> None:
    assert check_bounds_played(large, [scored("one", PolicyKind.HEURISTIC, paid, 0.0)]).passed == holds


def test_a_policy_that_cannot_play_sits_out() -> None:
    shut_out = replace(sly("shut-out"), can_play=lambda task: False)
    report = audited(Planted(shut_out), SMALL)
    assert "shut-out" not in {score.spec.name for score in report.scores}


def test_every_policy_plays_every_task_once() -> None:
    seen: list[str] = []

    def act(task: Any, messages: Any, seed: int) -> str:
        seen.append(task.id)
        return ""

    audited(Planted(text_policy("watch", PolicyKind.DEGENERATE, "counts", act)), SMALL)
    assert len(seen) == len(set(seen)) == 40
