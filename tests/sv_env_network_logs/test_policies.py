"""E1's scripted policies: what they say to every item, what they look at, and what they learn from."""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence

import pytest

from sv_env_network_logs import boosted, policies, rewards, shallow, synth
from sv_env_network_logs.flows import Example, Label
from sv_env_network_logs.policies import UNUSUAL_PORTS, best_answer, port_rule, rate_rule
from sv_env_network_logs.public_mini import load_public_mini
from sv_env_network_logs.render import VIEWS, View
from sv_env_network_logs.rewards import WEIGHTS
from sv_env_network_logs.taskset import NetworkLogsData, NetworkLogsTask, NetworkLogsTaskConfig, make_task
from sv_shared.grading import Grade
from sv_shared.outcomes import Outcome
from sv_shared.policies import PolicyKind, PolicySpec
from sv_shared.rewards import ClassificationWeights, bayes_reward, reward_bounds
from sv_shared.splits import SEED_RANGES, Split

POLICIES = policies.policies()
CONFIG = NetworkLogsTaskConfig()
FEW: dict[View, int] = {"flow": 300, "window": 120}
VALID = (
    PolicyKind.CONSTANT, PolicyKind.SHALLOW, PolicyKind.HEURISTIC, PolicyKind.CEILING, PolicyKind.REFERENCE,
    PolicyKind.EXPLOIT,
)  # fmt: skip
INVALID = {
    "empty", "echo", "keyword-salad", "two-contradicting", "repeated", "reasoning-only", "buried",
}  # fmt: skip
BASELINES = [spec for spec in POLICIES.values() if spec.kind.is_honest_baseline]


def reply(spec: PolicySpec, data: NetworkLogsData, seed: int = 1) -> str:
    messages = [
        {"role": "system", "content": data.system_prompt},
        {"role": "user", "content": data.prompt},
    ]
    return str(spec.make(seed).act(data, messages, [])["content"])


def graded(spec: PolicySpec, task: NetworkLogsTask) -> Grade:
    return rewards.grade(reply(spec, task.data), task.data.truth, task.config.weights)


@pytest.fixture(scope="module", autouse=True)
def quick_learners() -> Iterator[None]:
    """The models that learn do so from few rows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(boosted, "TRAINING_ROWS", FEW)
        patch.setattr(shallow, "TRAINING_ROWS", 200)
        for cached in (boosted.reference_boosted, shallow.reference_shallow):
            cached.cache_clear()
        yield
    for cached in (boosted.reference_boosted, shallow.reference_shallow):
        cached.cache_clear()


@pytest.fixture(scope="module")
def tasks() -> list[NetworkLogsTask]:
    return [make_task(item.example, item.view, CONFIG) for item in load_public_mini()]


@pytest.fixture(scope="module")
def some(tasks: Sequence[NetworkLogsTask]) -> Sequence[NetworkLogsTask]:
    """Some of both views and all tiers."""
    views = {view: [task for task in tasks if task.data.view == view] for view in VIEWS}
    return [*views["flow"][:30], *views["window"][:15]]


def test_the_promised_policies_are_there() -> None:
    promised = {
        "reference", "random", "empty", "constant-malicious", "constant-benign", "always-abstain",
        "port-rule", "rate-rule", "shallow", "boosted", "bayes",
    }  # fmt: skip
    assert promised <= POLICIES.keys()
    assert all(name == spec.name and spec.summary for name, spec in POLICIES.items())
    assert {spec.name for spec in POLICIES.values() if spec.kind is PolicyKind.DEGENERATE} == {
        *INVALID,
        "random",
    }


@pytest.mark.parametrize("spec", POLICIES.values(), ids=POLICIES)
def test_every_prompt_gets_an_answer_of_the_right_form(
    spec: PolicySpec, tasks: Sequence[NetworkLogsTask]
) -> None:
    outcomes = {graded(spec, task).outcome for task in tasks}
    if spec.name in INVALID:
        assert outcomes == {Outcome.PARSE_FAIL}
    else:
        assert outcomes <= {Outcome.SCORED, Outcome.ABSTAINED}


def test_the_reference_earns_the_maximum(tasks: Sequence[NetworkLogsTask]) -> None:
    maximum = reward_bounds(WEIGHTS)[1]
    assert {graded(POLICIES["reference"], task).reward for task in tasks} == {maximum}


@pytest.mark.parametrize("spec", BASELINES, ids=lambda spec: spec.name)
def test_honest_baselines_read_the_prompt_alone(spec: PolicySpec, some: Sequence[NetworkLogsTask]) -> None:
    answers = set()
    for task in some:
        other: Label = "Benign" if task.data.truth == "Malicious" else "Malicious"
        changed = task.data.model_copy(
            update={
                "truth": other,
                "detail": "x",
                "posterior": None,
                "id": "x",
                "cluster": "x",
                "difficulty": "x",
            }
        )
        answers.add(reply(spec, task.data))
        assert reply(spec, changed) == reply(spec, task.data)
        assert reply(spec, changed, seed=2) == reply(spec, task.data)
    assert len(answers) > 1


def test_the_ceiling_plays_posteriors_and_nothing_else(tasks: Sequence[NetworkLogsTask]) -> None:
    bayes = POLICIES["bayes"]
    expected = 0.0
    for task in tasks:
        p = task.data.posterior
        assert p is not None
        assert bayes.can_play(task.data)
        answer = reply(bayes, task.data)
        expected += p * rewards.grade(answer, "Malicious").reward
        expected += (1 - p) * rewards.grade(answer, "Benign").reward
    best = bayes_reward(WEIGHTS, [task.data.posterior for task in tasks]).mean()
    assert expected / len(tasks) == pytest.approx(best)
    assert not bayes.can_play(tasks[0].data.model_copy(update={"posterior": None}))


@pytest.mark.parametrize("name", ["bayes", "port-rule", "rate-rule"])
@pytest.mark.parametrize(
    "weights", [{"abstain": None}, {"cost_ratio": 1.5}, {"calibration": 0.0}, {"abstain": 1.2}], ids=str
)
def test_baselines_play_for_the_points_in_force(name: str, weights: dict) -> None:
    config = NetworkLogsTaskConfig(weights=ClassificationWeights(**weights))
    answers = set()
    for item in load_public_mini()[:100]:
        task = make_task(item.example, item.view, config)
        grade = graded(POLICIES[name], task)
        assert grade.outcome in (Outcome.SCORED, Outcome.ABSTAINED)
        answers.add(str(grade.parsed))
        if name == "bayes":
            p = item.example.posterior
            paid = [
                rewards.grade(reply(POLICIES[name], task.data), truth, config.weights).reward
                for truth in ("Malicious", "Benign")
            ]
            best = float(bayes_reward(config.weights, p))
            assert p * paid[0] + (1 - p) * paid[1] == pytest.approx(best, abs=1e-3)
    assert len(answers) > 1


def test_a_prompt_without_points_is_played_under_the_default_weights() -> None:
    for belief in (0.05, 0.3, 0.9):
        assert json.loads(best_answer(belief, "no points"))["label"] == (
            "Benign" if belief < 0.115 else "Abstain" if belief < 0.5 else "Malicious"
        )


# Rules of thumb -------------------------------------------------------------------------------------------


def line(**fields: object) -> str:
    shown = " ".join(f"{name}={value}" for name, value in fields.items())
    return f"Points ...\n\nConnection to judge (duration in seconds):\n{shown}\n\nAnswer."


def window(targets: Sequence[str], **fields: object) -> str:
    rows = "\n".join(f"{len(targets) - i} {dst}" for i, dst in enumerate(targets))
    return f"Earlier connections of the same host, oldest first:\nago dst\n{rows}\n\n{line(**fields)}"


@pytest.mark.parametrize(
    ("low", "high"),
    [
        (line(dst_port=443, conn_state="SF"), line(dst_port=443, conn_state="S0")),
        (line(dst_port=443, conn_state="SF"), line(dst_port=23, conn_state="SF")),
        (line(dst_port=23, conn_state="SF"), line(dst_port=23, conn_state="REJ")),
        (line(dst_port=443, conn_state="S0"), line(dst_port=2323, conn_state="S0")),
    ],
)
def test_port_rule_minds_ports_and_failures(low: str, high: str) -> None:
    assert port_rule(low) < port_rule(high)


def test_port_rule_without_ports_and_states_is_its_prior() -> None:
    assert port_rule("") == port_rule(line(proto="tcp")) == port_rule(line(dst_port=443, conn_state="SF"))
    assert not {"80", "443", "53"} & UNUSUAL_PORTS


QUIET = {"duration": 2.0, "orig_pkts": 9, "orig_bytes": 500, "resp_bytes": 4000}


@pytest.mark.parametrize(
    "change",
    [
        {"duration": 0.001},
        {"orig_bytes": 5_000_000},
        {"orig_pkts": 1, "resp_bytes": 0},
    ],
    ids=["flood", "upload", "unanswered"],
)
def test_rate_rule_minds_rates_and_balance(change: dict) -> None:
    assert rate_rule(line(**QUIET)) < 0.5 < rate_rule(line(**{**QUIET, **change}))


def test_rate_rule_minds_the_number_of_targets() -> None:
    same, many = ["10.0.0.1"] * 12, [f"10.0.0.{i}" for i in range(12)]
    assert rate_rule(window(same, **QUIET)) < 0.5 < rate_rule(window(many, **QUIET))
    assert rate_rule(window(many[:5], **QUIET)) < 0.5, "five connections are no scan"


def test_signs_add_up() -> None:
    both = {**QUIET, "duration": 0.001, "orig_bytes": 5_000_000}
    assert rate_rule(line(**both)) > rate_rule(line(**{**QUIET, "duration": 0.001}))


# Learning -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("train", [boosted.reference_boosted, shallow.reference_shallow])
@pytest.mark.parametrize("view", VIEWS)
def test_what_learns_never_sees_a_test_row(
    view: View, train: Callable[[View], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = []

    def watched(n: int, *, seed: int, split: Split, view: View) -> Sequence[Example]:
        drawn.append((seed, split, view))
        return recipe(n, seed=seed, split=split, view=view)

    recipe = synth.recipe.generate
    monkeypatch.setattr(synth.recipe, "generate", watched)
    train.__wrapped__(view)  # type: ignore[attr-defined]
    ((seed, split, of),) = drawn
    assert (split, of) == ("train", view)
    assert seed in SEED_RANGES["train"]


def test_the_trees_give_probabilities(some: Sequence[NetworkLogsTask]) -> None:
    model = boosted.reference_boosted("flow")
    prompts = [str(task.data.prompt) for task in some if task.data.view == "flow"]
    together = model.predict_proba(prompts)
    assert together.shape == (len(prompts),)
    assert ((together > 0) & (together < 1)).all()
    assert [float(model.predict_proba([text])[0]) for text in prompts] == together.tolist()


DIGEST = """
import hashlib
from sv_env_network_logs import boosted
from sv_env_network_logs.public_mini import load_public_mini
from sv_env_network_logs.shallow import texts
boosted.TRAINING_ROWS = %s
prompts = texts([item.example for item in load_public_mini() if item.view == "flow"], "flow")
print(hashlib.sha256(boosted.reference_boosted("flow").predict_proba(prompts).tobytes()).hexdigest())
"""


def test_the_trees_are_the_same_in_every_process(tasks: Sequence[NetworkLogsTask]) -> None:
    prompts = [str(task.data.prompt) for task in tasks if task.data.view == "flow"]
    here = hashlib.sha256(boosted.reference_boosted("flow").predict_proba(prompts).tobytes()).hexdigest()
    ran = subprocess.run(
        [sys.executable, "-c", DIGEST % FEW],
        env={**os.environ, "PYTHONHASHSEED": "12345"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.strip() == here
