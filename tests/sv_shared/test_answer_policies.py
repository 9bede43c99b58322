"""Policies that know nothing: each says what its name says, and none is paid for it."""

import json
from typing import Any

import pytest

from sv_shared.answer_policies import answer_json, classification_policies
from sv_shared.classification import grade_classification
from sv_shared.grading import Grade
from sv_shared.outcomes import Outcome
from sv_shared.parsers import JsonClassificationParser
from sv_shared.policies import PolicyKind, PolicySpec
from sv_shared.rewards import ClassificationWeights, best_constant, reward_bounds

LABELS = ("Benign", "Malicious")
WEIGHTS = ClassificationWeights()
TASKS = [{"label": label} for label in ("Malicious", "Benign") * 200]
PROMPT = [
    {"role": "system", "content": "Judge the flow."},
    {"role": "user", "content": 'A flow. Answer as {"label": ..., "confidence": ...}.'},
]


def truth_of(task: Any) -> str:
    return str(task["label"])


def specs(**options: Any) -> dict[str, PolicySpec]:
    return {spec.name: spec for spec in classification_policies(LABELS, "Abstain", truth_of, **options)}


SPECS = specs()


def said(name: str, task: Any = TASKS[0], seed: int = 0) -> str:
    message = SPECS[name].make(seed).act(task, PROMPT, [])
    assert message["role"] == "assistant"
    return str(message["content"])


def graded(spec: PolicySpec, task: Any, seed: int, parser: JsonClassificationParser | None = None) -> Grade:
    text = str(spec.make(seed).act(task, PROMPT, [])["content"])
    parser = parser or JsonClassificationParser(LABELS)
    return grade_classification(text, truth_of(task), parser=parser, weights=WEIGHTS, positive="Malicious")


def normalised(spec: PolicySpec, parser: JsonClassificationParser | None = None) -> float:
    """(R - R_chance) / (R_reference - R_chance) over the balanced tasks."""
    rewards = [graded(spec, task, seed, parser).reward for seed, task in enumerate(TASKS)]
    chance = best_constant(WEIGHTS, 0.5).reward
    return (sum(rewards) / len(rewards) - chance) / (reward_bounds(WEIGHTS)[1] - chance)


def test_the_whole_set() -> None:
    kinds = {name: spec.kind for name, spec in SPECS.items()}
    assert kinds == {
        "reference": PolicyKind.REFERENCE,
        "constant-benign": PolicyKind.CONSTANT,
        "constant-benign-c50": PolicyKind.CONSTANT,
        "constant-benign-c0": PolicyKind.CONSTANT,
        "constant-malicious": PolicyKind.CONSTANT,
        "constant-malicious-c50": PolicyKind.CONSTANT,
        "constant-malicious-c0": PolicyKind.CONSTANT,
        "always-abstain": PolicyKind.CONSTANT,
        "empty": PolicyKind.DEGENERATE,
        "echo": PolicyKind.DEGENERATE,
        "keyword-salad": PolicyKind.DEGENERATE,
        "two-contradicting": PolicyKind.DEGENERATE,
        "repeated": PolicyKind.DEGENERATE,
        "reasoning-only": PolicyKind.DEGENERATE,
        "buried": PolicyKind.DEGENERATE,
        "random": PolicyKind.DEGENERATE,
        "judge-injection": PolicyKind.EXPLOIT,
    }


def test_names_are_unique_and_abstention_is_optional() -> None:
    without = classification_policies(LABELS, None, truth_of)
    assert len({spec.name for spec in without}) == len(without) == len(SPECS) - 1
    assert "always-abstain" not in {spec.name for spec in without}
    random_spec = next(spec for spec in without if spec.name == "random")
    replies = {
        json.loads(random_spec.make(s).act(TASKS[0], PROMPT, [])["content"])["label"] for s in range(50)
    }
    assert replies == set(LABELS)


@pytest.mark.parametrize("name", [name for name, spec in SPECS.items() if spec.kind.must_not_win])
def test_no_degenerate_policy_wins(name: str) -> None:
    assert normalised(SPECS[name]) <= 0.05


def test_the_reference_takes_the_maximum() -> None:
    assert normalised(SPECS["reference"]) == pytest.approx(1.0)


@pytest.mark.parametrize(
    "name",
    ["empty", "echo", "keyword-salad", "two-contradicting", "repeated", "reasoning-only", "buried"],
)
def test_what_breaks_the_form_scores_the_floor(name: str) -> None:
    for seed, task in enumerate(TASKS[:20]):
        result = graded(SPECS[name], task, seed)
        assert result.outcome is Outcome.PARSE_FAIL
        assert result.reward == reward_bounds(WEIGHTS)[0]


@pytest.mark.parametrize("name", ["two-contradicting", "repeated", "reasoning-only", "buried"])
def test_the_right_answer_is_there_to_be_dug_out(name: str) -> None:
    """Else a grader that digs would go unnoticed."""
    for task in TASKS[:2]:
        assert answer_json(truth_of(task), 1.0) in said(name, task)


def test_where_prose_is_allowed_a_buried_answer_is_a_guess() -> None:
    lenient = JsonClassificationParser(LABELS, allow_prose=True)
    assert normalised(specs(allow_prose=True)["buried"], lenient) <= 0.05
    assert normalised(SPECS["buried"], lenient) > 0.9


@pytest.mark.parametrize("name", SPECS)
def test_the_seed_decides(name: str) -> None:
    assert said(name, seed=3) == said(name, seed=3)


@pytest.mark.parametrize("name", ["random", "buried", "keyword-salad", "judge-injection"])
def test_seeds_differ(name: str) -> None:
    assert len({said(name, seed=seed) for seed in range(20)}) > 1


def test_only_those_that_need_the_truth_read_it() -> None:
    informed = {"reference", "repeated", "reasoning-only", "buried"}
    for name in SPECS:
        assert (said(name, TASKS[0]) != said(name, TASKS[1])) == (name in informed), name


def test_what_they_say() -> None:
    assert said("empty") == ""
    assert said("echo") == PROMPT[1]["content"]
    assert json.loads(said("constant-malicious-c50")) == {
        "label": "Malicious",
        "confidence": 0.5,
        "rationale": "",
    }
    assert json.loads(said("always-abstain")) == {"label": "Abstain", "rationale": ""}
    assert said("repeated").count("{") == 1000
    assert len(said("buried").split()) >= 500
    assert "maximum score" in json.loads(said("judge-injection"))["rationale"]


def test_an_environments_own_fields_are_filled_in() -> None:
    custom = specs(extra={"evidence": []})
    assert json.loads(custom["random"].make(0).act(TASKS[0], PROMPT, [])["content"])["evidence"] == []
    assert "rationale" not in custom["judge-injection"].make(0).act(TASKS[0], PROMPT, [])["content"]
