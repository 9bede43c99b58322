"""The audit: what keeps its promises passes, and every planted fault is caught by the check made for it."""

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from security_verifiers.audit import policies as playing
from security_verifiers.audit.policies import check_reference
from security_verifiers.evals.engine import Engine
from security_verifiers.evals.plan import make_plan
from sv_env_network_logs import boosted, checks, rewards
from sv_env_network_logs.environment import NETWORK_LOGS
from sv_env_network_logs.rewards import WEIGHTS
from sv_shared.answer_policies import answer_json
from sv_shared.errors import DataError
from sv_shared.grading import Grade
from sv_shared.outcomes import Outcome
from sv_shared.policies import PolicyKind, PolicySpec, TextPolicy, text_policy
from sv_test_duel import DUEL
from sv_test_toolbox import TOOLBOX

from .conftest import FEW, SYNTH, Planted, audited, detail, failed, rewritten, weights

CHECKS = {
    "bounds", "proper", "cost", "abstain", "stated points", "chance", "classes", "words in prompts",
    "shallow model", "outcomes", "range", "degenerate policies", "honest baseline", "reference", "anchors",
}  # fmt: skip


def sly(name: str = "sly", kind: PolicyKind = PolicyKind.DEGENERATE) -> PolicySpec:
    """A policy that knows the truth and has no right to."""
    return text_policy(name, kind, "peeks", lambda task, messages, seed: answer_json(task.truth, 1.0))


# What holds -----------------------------------------------------------------------------------------------


def test_public_mini_passes_with_its_own_policies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boosted, "TRAINING_ROWS", {"flow": 1500, "window": 200})
    boosted.reference_boosted.cache_clear()
    own = NETWORK_LOGS.policies("agent")
    kept = [name for name, spec in own.items() if spec.kind is not PolicyKind.SHALLOW]
    try:
        report = audited(Planted(own["boosted"], keep=kept), {})
    finally:
        boosted.reference_boosted.cache_clear()
    assert failed(report) == set()
    assert {check.check for check in report.checks} == CHECKS
    assert {score.spec.name for score in report.scores} == {*kept, "insider"}
    assert report.dataset["tasks"] == 300


@pytest.mark.slow
def test_public_mini_passes() -> None:
    report = audited(NETWORK_LOGS, {})
    assert report.passed, failed(report)
    assert {score.spec.name for score in report.scores} == NETWORK_LOGS.policies("agent").keys()


def test_an_audit_without_faults_passes_and_reads_as_json() -> None:
    report = audited(Planted())
    assert failed(report) == set()
    content = json.loads(json.dumps(report.to_json(), allow_nan=False))
    assert content["passed"] is True
    assert {check["check"] for check in content["checks"]} == CHECKS
    by_name = {policy["name"]: policy for policy in content["policies"]}
    assert by_name.keys() == {*FEW, "insider"}
    assert by_name["reference"]["normalised"] == 1.0
    assert by_name["echo"]["reward"] == -4.0


def test_a_sample_of_the_tasks_can_be_audited() -> None:
    report = audited(Planted(), tasks=60)
    assert report.dataset["tasks"] == 60
    with pytest.raises(DataError, match="251 tasks were asked for"):
        audited(Planted(), tasks=251)


def test_few_tasks_are_exempt_and_named() -> None:
    report = audited(Planted(sly()), {**SYNTH, "synth_rows": 60})
    assert failed(report) == set()
    for check in ("degenerate policies", "honest baseline"):
        assert detail(report, check) == "exempt: synth/e1 has 60 tasks, fewer than 200"


# Faults in the reward -------------------------------------------------------------------------------------


def test_the_linear_reward_is_caught() -> None:
    report = audited(Planted(), weights(calibration_form="linear"))
    assert "proper" in failed(report)
    assert failed(report) <= {"proper", "cost", "abstain", "chance"}


def test_an_abstention_value_that_is_too_high_is_caught() -> None:
    report = audited(Planted(), weights(abstain=1.45))
    assert failed(report) == {"abstain"}
    assert "abstain" in detail(report, "abstain")


def test_abstaining_above_the_maximum_is_caught() -> None:
    assert {"abstain", "reference"} <= failed(audited(Planted(), weights(abstain=1.6)))


def test_an_inconsistent_cost_ratio_is_caught() -> None:
    report = audited(Planted(), weights(cost=0.5))
    assert {"cost"} <= failed(report) <= {"cost", "proper"}
    assert "not the stated ratio 5" in detail(report, "cost")


def test_other_points_than_those_stated_are_caught() -> None:
    with rewritten(lambda data: {"prompt": str(data.prompt).replace("for sure", "perhaps")}):
        assert "stated points" in failed(audited(Planted()))


def paying(monkeypatch: pytest.MonkeyPatch, wrong: Any) -> None:
    """Puts another grader in the place of E1's: (reply, truth, its grade) -> Grade."""
    real = rewards.grade

    def grade(reply: str, truth: str, *how: Any, **more: Any) -> Grade:
        return wrong(reply, truth, real(reply, truth, *how, **more))

    monkeypatch.setattr(rewards, "grade", grade)


def test_a_grader_that_pays_malformed_answers_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def kind(reply: str, truth: str, grade: Grade) -> Grade:
        return replace(grade, components={"floor": -1.0}) if grade.outcome is Outcome.PARSE_FAIL else grade

    paying(monkeypatch, kind)
    report = audited(Planted())
    assert failed(report) == {"bounds"}
    assert "a reply without an answer is paid -1" in detail(report, "bounds")


def test_a_grader_that_digs_answers_out_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def digging(reply: str, truth: str, grade: Grade) -> Grade:
        inside = reply[reply.find("{") : reply.rfind("}") + 1]
        return grade if grade.outcome.has_answer or not inside else dig(inside, truth)

    real = rewards.grade
    dig = lambda reply, truth: real(reply, truth, WEIGHTS)  # noqa: E731
    paying(monkeypatch, digging)
    report = audited(Planted())
    assert failed(report) == {"degenerate policies"}
    assert "buried +1.000" in detail(report, "degenerate policies")


def test_a_grader_that_pays_outside_its_range_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def generous(reply: str, truth: str, grade: Grade) -> Grade:
        return replace(grade, components={"accuracy": 7.0}) if '"Malicious"' in reply else grade

    paying(monkeypatch, generous)
    assert {"bounds", "outcomes"} <= failed(audited(Planted()))


def test_a_player_that_never_answers_is_counted_and_reads_as_json() -> None:
    def stumble(task: Any, messages: Any, seed: int) -> str:
        raise RuntimeError("fell over")

    report = audited(Planted(text_policy("stumble", PolicyKind.EXPLOIT, "raises", stumble)), tasks=210)
    assert {"outcomes", "degenerate policies"} == failed(report)
    assert detail(report, "outcomes") == "rollouts that failed through us: stumble (210)"
    scores = {p["name"]: p for p in json.loads(json.dumps(report.to_json(), allow_nan=False))["policies"]}
    assert scores["stumble"]["reward"] is None


# Faults in the data ---------------------------------------------------------------------------------------


def test_a_feature_that_gives_the_label_away_is_caught() -> None:
    def leak(data: Any) -> dict[str, str]:
        return {"prompt": f"{data.prompt} ttl=64" if data.truth == "Malicious" else data.prompt}

    with rewritten(leak):
        report = audited(Planted())
    assert failed(report) == {"shallow model"}
    assert report.checks[-1].passed
    figures = next(check.figures for check in report.checks if check.check == "shallow model")
    assert figures["accuracy"] > figures["ceiling"]


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
        plan = make_plan(NETWORK_LOGS, {**SYNTH, "synth_rows": 40})
    caught = checks.check_words(plan.tasks, WEIGHTS)
    assert not caught.passed
    assert "times, such as" in caught.detail


def test_a_single_class_is_caught() -> None:
    plan = make_plan(NETWORK_LOGS, {**SYNTH, "synth_rows": 40})
    assert checks.check_classes(plan.tasks).passed
    for truth in ("Malicious", "Benign"):
        alone = [task for task in plan.tasks if task.data.truth == truth]
        assert not checks.check_classes(alone).passed
    with pytest.raises(DataError, match="single class"):
        audited(Planted(), tasks=1)


# Faults in the policies and anchors -----------------------------------------------------------------------


def test_a_reference_that_does_not_win_is_caught() -> None:
    shy = text_policy(
        "reference", PolicyKind.REFERENCE, "shy", lambda task, messages, seed: answer_json(task.truth, 0.6)
    )
    report = audited(Planted(shy))
    assert failed(report) == {"reference", "anchors"}
    assert "lowest +1.420 of a maximum of +1.500, needed +1.425" in detail(report, "reference")


def test_a_reference_that_fails_on_one_task_is_caught() -> None:
    def once_wrong(task: Any, messages: Any, seed: int) -> str:
        return answer_json(task.truth, 1.0) if task.id != "recipe:2000000:7" else "no idea"

    plan = make_plan(NETWORK_LOGS, {**SYNTH, "synth_rows": 40})
    target = plan.tasks[3].data.id

    def wrong(task: Any, messages: Any, seed: int) -> str:
        return "no idea" if task.id == target else answer_json(task.truth, 1.0)

    report = audited(
        Planted(text_policy("reference", PolicyKind.REFERENCE, "", wrong)), {**SYNTH, "synth_rows": 40}
    )
    assert "reference" in failed(report)
    assert "lowest -4.000" in detail(report, "reference")


def test_a_task_that_saving_changes_is_caught() -> None:
    plan = make_plan(NETWORK_LOGS, {**SYNTH, "synth_rows": 40})
    first, *rest = plan.tasks
    broken = replace(plan, tasks=[first.with_data(posterior=float("inf")), *rest])

    async def check() -> Any:
        async with Engine(NETWORK_LOGS, plan.env, seed=1, time_limit_s=60) as engine:
            return await check_reference(engine, broken)

    result = asyncio.run(check())
    assert not result.passed
    assert result.detail == "1 tasks have another content hash after saving and loading"


@pytest.mark.parametrize("kind", [kind for kind in PolicyKind if kind.must_not_win])
def test_a_policy_that_must_not_win_and_does_is_caught(kind: PolicyKind) -> None:
    report = audited(Planted(sly(kind=kind)), tasks=200)
    assert "degenerate policies" in failed(report) <= {"degenerate policies", "anchors"}
    assert detail(report, "degenerate policies") == "these win: sly +1.000, limit 0.05"


def test_an_environment_that_only_the_reference_can_play_is_caught() -> None:
    lost = text_policy("insider", PolicyKind.HEURISTIC, "clueless", lambda task, messages, seed: "?")
    assert failed(audited(Planted(lost), tasks=200)) == {"honest baseline"}


@pytest.mark.parametrize(
    ("lie", "caught_by"),
    [
        ({"reference": 1.2}, {"anchors"}),
        ({"reference": 1.6}, {"anchors"}),
        ({"chance": 0.5}, {"anchors", "chance", "degenerate policies"}),
        ({"chance": 1.0}, {"chance"}),
        ({"chance": 1.5}, {"chance", "degenerate policies", "honest baseline"}),
    ],
    ids=str,
)
def test_anchors_that_lie_are_caught(lie: dict[str, float], caught_by: set[str]) -> None:
    assert failed(audited(Planted(ends=lambda anchors: replace(anchors, **lie)))) == caught_by


def test_policies_that_an_environment_forgot_are_missed() -> None:
    bare = Planted(keep=())
    bare.policies = lambda seat: {}  # type: ignore[method-assign]
    report = audited(bare, {**SYNTH, "synth_rows": 40})
    assert failed(report) == {"range", "degenerate policies", "honest baseline", "reference", "anchors"}


# Other environments ---------------------------------------------------------------------------------------


def test_an_environment_with_tools_is_audited() -> None:
    report = audited(TOOLBOX, {})
    assert failed(report) == {"honest baseline"}
    assert detail(report, "honest baseline") == "there is none to play; every environment ships one"
    assert [score.reward for score in report.scores] == [1.0, 0.0, 0.0]


def test_an_environment_of_two_seats_is_audited() -> None:
    report = audited(DUEL, {})
    assert failed(report) == set()
    by_name = {score.spec.name: score.reward for score in report.scores}
    assert by_name == {
        "bisect": 1.0,
        "upwards": pytest.approx(3 / 7),
        "stubborn": pytest.approx(1 / 7),
    }


def test_a_policy_that_cannot_play_sits_out() -> None:
    from dataclasses import replace as changed

    shut_out = changed(sly("shut-out"), can_play=lambda task: False)
    report = audited(Planted(shut_out), tasks=40)
    assert "shut-out" not in {score.spec.name for score in report.scores}


def test_every_policy_plays_every_task_once(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def act(task: Any, messages: Any, seed: int) -> str:
        seen.append(task.id)
        return ""

    spec = PolicySpec("watch", PolicyKind.DEGENERATE, "counts", lambda seed: TextPolicy(act, seed))
    audited(Planted(spec), tasks=50)
    assert len(seen) == len(set(seen)) == 50
    assert playing.SMALLEST_SET == 200
