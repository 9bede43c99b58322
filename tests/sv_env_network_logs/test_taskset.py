"""The tasks of E1: which items they are, what a model sees of them, and what they pay."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from security_verifiers.evals.plan import Plan, make_plan
from sv_env_network_logs import rewards
from sv_env_network_logs.data import GROUPS
from sv_env_network_logs.environment import NETWORK_LOGS
from sv_env_network_logs.flows import FLOW_FIELDS, Example
from sv_env_network_logs.render import VIEWS, View, instructions
from sv_env_network_logs.synth.recipe import generate
from sv_env_network_logs.taskset import NetworkLogsTask, NetworkLogsTaskConfig, make_task
from sv_shared.answer_policies import answer_json
from sv_shared.errors import DataError, UsageError
from sv_shared.outcomes import Outcome
from sv_shared.rewards import ClassificationWeights
from sv_shared.splits import SEED_RANGES

CONFIG = NetworkLogsTaskConfig()
REAL = (
    "iot23_ctu34_zeek",
    "iot23_hf_schema",
    "iot23_mixed_tsv23",
    "cicids2017_native_thu_webattacks",
    "unsw_nb15_native",
)
POOL = 240
EASY = {"difficulty": "easy"}
"""A third of public-mini, which is enough for most tests."""
WITH_HOSTS_AND_TIMES = ("iot23_ctu34_zeek", "iot23_mixed_tsv23")


@cache
def pool(view: View) -> Sequence[Example]:
    """Training items of all tiers."""
    return generate(POOL, seed=SEED_RANGES["train"][5], split="train", view=view)


def plan(*, tasks: int | None = None, seed: int = 42, **config: Any) -> Plan:
    return make_plan(NETWORK_LOGS, config, tasks=tasks, seed=seed)


def ids(of: Plan) -> list[str | None]:
    return [task.data.id for task in of.tasks]


def body(task: Any) -> str:
    """What a prompt says besides the instructions, which all items share."""
    text = str(task.data.prompt)
    shared = instructions(rewards.payoffs(task.config.weights))
    assert text.startswith(shared)
    return text.removeprefix(shared)


@pytest.fixture(scope="module")
def mini() -> Plan:
    return plan()


# public-mini ----------------------------------------------------------------------------------------------


def test_public_mini_is_the_default_and_every_task_another(mini: Plan) -> None:
    assert mini.info.id == "public-mini/e1"
    assert len(mini.tasks) == mini.info.rows == 300
    assert len({task.hash for task in mini.tasks}) == 300
    assert all(task.data.posterior is not None and task.data.cluster for task in mini.tasks)


def test_a_task_survives_saving_and_loading(mini: Plan) -> None:
    for task in mini.tasks:
        assert isinstance(task, NetworkLogsTask)
        loaded = NetworkLogsTask(
            type(task.data).model_validate_json(task.data.model_dump_json()), task.config
        )
        assert loaded.hash == task.hash
        assert loaded.data == task.data


def test_verifiers_own_gold_check_holds(mini: Plan) -> None:
    async def validate_all() -> list[bool]:
        return [await task.validate(runtime=None) for task in mini.tasks]  # type: ignore[attr-defined]

    assert all(asyncio.run(validate_all()))


def test_the_gold_check_can_fail() -> None:
    example = pool("flow")[0]
    overpriced = NetworkLogsTaskConfig(weights=ClassificationWeights(abstain=1.6))
    assert not asyncio.run(make_task(example, "flow", overpriced).validate(runtime=None))


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_picks_the_rows_made_for_it(view: View, mini: Plan) -> None:
    chosen = plan(view=view)
    assert 0 < len(chosen.tasks) < 300
    assert set(ids(chosen)) == {task.data.id for task in mini.tasks if task.data.view == view}
    assert all(
        ("Earlier connections" in str(task.data.prompt)) == (view == "window") for task in chosen.tasks
    )


def test_a_tier_picks_its_rows(mini: Plan) -> None:
    assert set(ids(plan(difficulty="hard"))) == {t.data.id for t in mini.tasks if t.data.difficulty == "hard"}


# Drawing --------------------------------------------------------------------------------------------------


def test_the_draw_depends_on_the_seed_alone() -> None:
    first, again, other = (plan(tasks=40, seed=seed, **EASY) for seed in (7, 7, 8))
    assert ids(first) == ids(again) != ids(other)
    assert first.dataset_hash == again.dataset_hash != other.dataset_hash
    assert len(set(ids(first))) == 40
    everything = plan(seed=7, **EASY), plan(seed=8, **EASY)
    assert ids(everything[0]) != ids(everything[1]), "the order of all rows is drawn too"


def test_the_draw_is_uniform() -> None:
    taskset = plan(**EASY).env.taskset
    drawn = [task.data.id for seed in range(120) for task in taskset.draw(10, seed)]
    counts = [drawn.count(identifier) for identifier in set(drawn)]
    # 120 draws of a tenth: Binomial(120, 0.1) a row, mean 12, standard deviation 3.3.
    assert len(counts) == 100
    assert min(counts) > 0
    assert max(counts) < 12 + 5 * 3.3


def test_more_tasks_than_rows_is_an_error_with_both_numbers() -> None:
    with pytest.raises(DataError, match=r"101 tasks were asked for and public-mini/e1 has 100"):
        plan(tasks=101, **EASY)
    with pytest.raises(DataError, match=r"31 tasks .* synth/e1/flow has 30"):
        plan(tasks=31, dataset="synth", synth_rows=30)


def test_a_draw_of_one_class_is_an_error() -> None:
    with pytest.raises(DataError, match="single class"):
        plan(tasks=1, **EASY)


# What a model sees ----------------------------------------------------------------------------------------


@settings(deadline=None)
@given(number=st.integers(0, POOL - 1), view=st.sampled_from(VIEWS))
def test_the_prompt_never_names_label_scenario_row_or_batch(number: int, view: View) -> None:
    example = pool(view)[number]
    task = make_task(example, view, CONFIG)
    shown = f"{task.data.system_prompt}\n{body(task)}".lower()
    for word in ("malicious", "benign", example.row, example.cluster):
        assert word.lower() not in shown
    if example.label == "Malicious":
        assert example.detail not in shown
    other = "Benign" if example.label == "Malicious" else "Malicious"
    renamed = replace(
        example, label=other, detail="x", cluster="y", difficulty="z", posterior=0.5, row="file.csv:1"
    )
    told = make_task(renamed, view, CONFIG).data
    assert (told.prompt, told.system_prompt) == (task.data.prompt, task.data.system_prompt)


@pytest.mark.parametrize("name", [*GROUPS, *FLOW_FIELDS, "extra"])
@pytest.mark.parametrize("view", VIEWS)
def test_a_mask_hides_what_it_names_and_says_so(name: str, view: View) -> None:
    example = pool(view)[0]
    task = make_task(example, view, CONFIG, frozenset({name}))
    fields = GROUPS[name].fields if name in GROUPS else (name,)
    shown = body(task)
    assert f"\nHidden: {name}\n" in shown
    words = shown.replace(f"Hidden: {name}", "").split()
    for field in fields:
        assert not any(word.startswith(f"{field}=") for word in words)
        assert field not in words, "neither a column nor under Not recorded"
    assert ("ago" in words) == (view == "window" and "ts" not in fields)
    assert task.data.posterior is None
    assert make_task(example, view, CONFIG).data.posterior == example.posterior


def test_the_mask_setting_reaches_every_task() -> None:
    masked = plan(mask=["ports", "addresses"], tasks=50, **EASY)
    assert all("\nHidden: addresses ports\n" in body(task) for task in masked.tasks)
    assert not any("port=" in body(task) for task in masked.tasks)
    assert masked.anchors.ceiling is None


# The recipe's items ---------------------------------------------------------------------------------------


def test_the_recipe_is_a_dataset_with_a_range_of_seeds_a_split() -> None:
    dev = plan(dataset="synth", split="dev", synth_rows=40)
    assert dev.info.id == "synth/e1/flow"
    assert dev.info.details["seed"] == SEED_RANGES["dev"].start
    assert len(dev.tasks) == 40
    assert {task.data.view for task in dev.tasks} == {"flow"}
    test = plan(dataset="synth", synth_rows=40)
    assert test.info.split == "test"
    assert not {task.data.prompt for task in test.tasks} & {task.data.prompt for task in dev.tasks}
    windows = plan(dataset="synth", synth_rows=12, view="window", difficulty="hard")
    assert {(task.data.view, task.data.difficulty) for task in windows.tasks} == {("window", "hard")}


def test_test_seeds_make_no_training_data() -> None:
    seed = SEED_RANGES["test"].start
    with pytest.raises(UsageError, match=f"seed {seed} belongs to the test split"):
        plan(dataset="synth", split="train", synth_seed=seed)


# Real data ------------------------------------------------------------------------------------------------


@pytest.mark.real_data
@pytest.mark.parametrize("name", REAL)
def test_real_data_become_tasks(name: str, shared_data: Path) -> None:
    real = plan(dataset=str(shared_data / "E1" / name), tasks=120)
    assert real.info.split == "test"
    assert real.info.rows > 1000
    assert {task.data.truth for task in real.tasks} == {"Malicious", "Benign"}
    assert real.anchors.ceiling is None
    for task in real.tasks:
        shown = body(task).lower()
        assert "malicious" not in shown
        assert "benign" not in shown
        assert str(task.data.id).lower() not in shown
        assert not (len(task.data.detail) > 2 and task.data.detail.lower() in shown)


@pytest.mark.real_data
@pytest.mark.parametrize("name", REAL)
def test_the_window_view_of_real_data(name: str, shared_data: Path) -> None:
    config = {"dataset": str(shared_data / "E1" / name), "view": "window", "window_flows": 3}
    if name not in WITH_HOSTS_AND_TIMES:
        with pytest.raises(DataError, match="the window view needs"):
            plan(tasks=40, **config)
        return
    real = plan(tasks=40, **config)
    tables = [body(task).split("\n\n")[1].splitlines() for task in real.tasks]
    rows = [0 if table[1] == "none" else len(table) - 2 for table in tables]
    assert max(rows) == 3


@pytest.mark.real_data
@pytest.mark.parametrize("name", REAL)
def test_a_single_capture_has_no_train_split(name: str, shared_data: Path) -> None:
    with pytest.raises(DataError, match="no train split: a single capture"):
        plan(dataset=str(shared_data / "E1" / name), split="train")


@pytest.mark.real_data
def test_what_real_data_lack_is_refused(shared_data: Path) -> None:
    source = str(shared_data / "E1" / "iot23_mixed_tsv23")
    with pytest.raises(UsageError, match="no difficulty tiers"):
        plan(dataset=source, difficulty="hard")
    with pytest.raises(DataError, match=r"5000 rows were asked for, but there are \d+"):
        plan(dataset=source, tasks=5000)


# Settings -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"colour": 1}, "'colour'"),
        ({"task": {"weights": {"luck": 1}}}, r"'task\.weights\.luck'"),
        ({"task": {"weights": {"accuracy": -1}}}, r"'task\.weights\.accuracy'"),
        ({"view": "side"}, "'view'"),
        ({"mask": "ports"}, "'mask'"),
        ({"mask": ["colour"]}, "unknown mask 'colour'"),
        ({"window_flows": 0}, "'window_flows'"),
        ({"window_seconds": float("inf")}, "'window_seconds'"),
        ({"synth_rows": 1}, "'synth_rows'"),
        ({"difficulty": "extreme"}, "unknown difficulty 'extreme'"),
        ({"split": "train"}, "public-mini has a test split only"),
        ({"dataset": "synth", "split": "all"}, "unknown split 'all'"),
        ({"dataset": "synth", "difficulty": "extreme"}, "unknown difficulty 'extreme'"),
    ],
)
def test_settings_that_do_not_exist_are_refused(config: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        plan(**config)


def test_missing_data_are_never_replaced(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="the folder has no data files"):
        plan(dataset=str(tmp_path))


# What is paid ---------------------------------------------------------------------------------------------


def test_the_weights_in_force_are_the_points_that_the_prompt_states() -> None:
    weights = {"cost_ratio": 3, "calibration": 0.25, "abstain": None}
    changed = plan(tasks=20, task={"weights": weights}, **EASY)
    prompt = str(changed.tasks[0].data.prompt)
    assert "Benign on an attack -2, so a missed attack costs 3 times a false alarm." in prompt
    assert "earns up to 0.25 for an honest confidence" in prompt
    assert "Abstain" not in prompt
    assert changed.bounds == (-2.0, 1.25)
    assert changed.settings["task"]["weights"]["cost_ratio"] == 3
    assert changed.anchors.reference == 1.25


def test_default_points_are_those_of_the_reward_rules(mini: Plan) -> None:
    assert mini.bounds == (-4.0, 1.5)
    assert "Abstain 0.875 for sure" in str(mini.tasks[0].data.prompt)


def costs(**weights: Any) -> tuple[float, float]:
    return NETWORK_LOGS.classification.costs({"task": {"weights": weights}})


def test_the_report_counts_the_costs_that_are_paid() -> None:
    assert costs(cost_ratio=5, abstain_risk=0.5) == pytest.approx((5, 0.5))
    assert costs(cost_ratio=2, abstain_risk=0.4) == pytest.approx((2, 0.4))
    assert costs(cost_ratio=5, cost=0) == pytest.approx((1, 0.5)), "paid, not stated"
    assert costs(accuracy=2, cost=2, calibration=0, abstain_risk=0.3) == pytest.approx((5, 0.3))
    assert costs(abstain=None) == (5, 0)
    assert costs(abstain=9.0) == pytest.approx((5, 0))


@settings(max_examples=30, deadline=None)
@given(
    ratio=st.floats(1, 20), risk=st.floats(0.05, 0.95), calibration=st.floats(0, 1), p=st.floats(0.001, 0.999)
)
def test_where_a_call_is_paid_as_much_as_abstaining_it_costs_as_much(
    ratio: float, risk: float, calibration: float, p: float
) -> None:
    from sv_shared.rewards import Call, abstain_value, expected_reward

    weights = ClassificationWeights(cost_ratio=ratio, abstain_risk=risk, calibration=calibration)
    _, abstention = costs(**weights.model_dump())
    price = abstain_value(weights)
    assert price is not None
    gain = expected_reward(weights, Call.POSITIVE, p, p) - price
    if abs(gain) > 1e-6:
        assert (gain > 0) == (1 - p < abstention)


def test_a_grader_that_fails_leaves_the_same_metrics() -> None:
    task = make_task(pool("flow")[0], "flow", CONFIG)
    graded = rewards.grade(answer_json(task.data.truth, 1.0), task.data.truth)
    fallen = task.ungradable("the grader fell over")
    assert fallen.metrics.keys() == graded.metrics.keys()
    assert fallen.reward == task.bounds()[0]
    assert (fallen.outcome, fallen.cause) == (Outcome.SCORED, "the grader fell over")


@pytest.fixture
def count_calls(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How many tasks were made since."""
    from sv_env_network_logs import taskset

    made = []
    real = taskset.make_task
    monkeypatch.setattr(taskset, "make_task", lambda *args: made.append(1) or real(*args))
    return lambda: len(made)


def test_only_the_drawn_tasks_are_made(count_calls: Callable[[], int]) -> None:
    plan(tasks=20, **EASY)
    assert count_calls() == 20
