"""Ablations: arms beside their control, with every number found by other means too."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sv_shared.environment
from security_verifiers.compare.ablation import Ablation, ablate
from security_verifiers.compare.ablation_config import AblationConfig
from security_verifiers.compare.contrast import DISTINCT, NORMALISED, REWARD, ArmResult, Row, align
from security_verifiers.evals.items import Items
from security_verifiers.evals.results import Results
from security_verifiers.reports.ablation import ablation_json, ablation_tables
from security_verifiers.stats.multiple import holm
from sv_env_network_logs.environment import NETWORK_LOGS
from sv_shared.errors import UsageError
from sv_test_duel import DUEL
from sv_test_quick import QUICK
from tests.security_verifiers.evals.conftest import Watching

MIXED = {"scripts": ["right", "wrong", "abstain", "right", "garbage"], "rows": 60, "clusters": 12}
TASKS = 60


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """E1 and the test environments can be found."""
    _find_them(monkeypatch)


def _find_them(patch: pytest.MonkeyPatch) -> None:
    known = {"e1": NETWORK_LOGS, "quick": QUICK, "duel": DUEL}
    patch.setattr(sv_shared.environment, "installed", lambda: known)


def ablated(root: Path, environment: str, *players: str, **rest: Any) -> Ablation:
    """The ablation of an environment."""
    content = {"environment": environment, "players": list(players), **rest}
    return asyncio.run(ablate(AblationConfig.model_validate(content), Watching(), root))


def quick(root: Path, arms: Mapping[str, Any], player: str = "policy:follow", **rest: Any) -> Ablation:
    """An ablation of the quick environment; the control has no settings of its own."""
    return ablated(root, "quick", player, **{"settings": MIXED, "arms": {"full": {}, **arms}, **rest})


def rows_of(result: ArmResult) -> dict[str, Row]:
    """The rows by metric."""
    return {row.metric: row for row in result.rows}


def values(row: Row) -> list[float]:
    """(control, arm)."""
    assert row.control is not None
    assert row.arm is not None
    return [row.control.value, row.arm.value]


def delta(row: Row) -> float:
    """Arm minus control."""
    assert row.contrast is not None
    return row.contrast.delta


def arm_of(ablation: Ablation, name: str) -> ArmResult:
    """The only result of an arm."""
    (found,) = [one for one in ablation.results if one.measured.arm == name]
    return found


def lines_of(folder: Path) -> dict[str, dict[str, Any]]:
    """Result lines by task id."""
    return {line["task_id"]: line for line in Results(folder)}


def brier_of(lines: Mapping[str, Mapping[str, Any]]) -> float:
    """Brier over the answers that decide, from the lines alone."""
    stated = [
        (line["parsed"]["p_positive"] - (line["truth"] == "Malicious")) ** 2
        for line in lines.values()
        if line["outcome"] == "scored"
    ]
    return sum(stated) / len(stated)


@pytest.fixture(scope="module")
def bayes(tmp_path_factory: pytest.TempPathFactory) -> Ablation:
    """E1's best player, which reads the payoffs in the prompt, on public-mini."""
    weights = {"no-calibration": {"task.weights.calibration": 0}}
    arms = {
        "full": {},
        "linear": {"settings": {"task.weights.calibration_form": "linear"}},
        "no-calibration": {"settings": weights["no-calibration"]},
        "no-calibration-rescored": {"how": "rescore", "settings": weights["no-calibration"]},
        "dear-rescored": {"how": "rescore", "settings": {"task.weights.cost_ratio": 50.0}},
    }
    with pytest.MonkeyPatch.context() as patch:
        _find_them(patch)
        return ablated(tmp_path_factory.mktemp("bayes"), "e1", "policy:bayes", tasks=TASKS, arms=arms)


def test_an_improper_score_makes_the_best_player_overconfident(bayes: Ablation) -> None:
    linear = arm_of(bayes, "linear")
    said = [
        {line["parsed"]["confidence"] for line in lines_of(folder).values() if line["outcome"] == "scored"}
        for folder in (bayes.controls["policy:bayes"].folder, linear.measured.folder)
    ]
    assert said[1] <= {0.0, 1.0}
    assert len(said[0]) > 10
    rows = rows_of(linear)
    assert values(rows[DISTINCT]) == [len(one) for one in said]
    full = brier_of(lines_of(bayes.controls["policy:bayes"].folder))
    worse = brier_of(lines_of(linear.measured.folder))
    assert values(rows["brier"]) == pytest.approx([full, worse])
    assert delta(rows["brier"]) == pytest.approx(worse - full)
    assert worse > 1.3 * full


def test_prompts_that_state_other_payoffs_are_paired_by_task_id(bayes: Ablation) -> None:
    linear, rescored = arm_of(bayes, "linear"), arm_of(bayes, "no-calibration-rescored")
    control = lines_of(bayes.controls["policy:bayes"].folder)
    assert control.keys() == lines_of(linear.measured.folder).keys()
    assert {line["key"]["task"] for line in control.values()}.isdisjoint(linear.measured.items.task.tolist())
    assert (linear.paired_by, linear.pairs, linear.left_out) == ("task id", TASKS, 0)
    assert (rescored.paired_by, rescored.pairs, rescored.left_out) == ("content", TASKS, 0)


def test_rescored_answers_are_the_controls_and_paid_by_the_arm(bayes: Ablation) -> None:
    rescored, control = arm_of(bayes, "no-calibration-rescored"), bayes.controls["policy:bayes"]
    lines = lines_of(control.folder)
    paid = dict(zip(rescored.measured.items.task_id, rescored.measured.items.reward, strict=True))
    for name, line in lines.items():
        if line["outcome"] == "scored":
            assert paid[name] == pytest.approx(line["reward"] - line["components"]["calibration"])
        else:
            # Abstaining pays what the best call earns, so its price falls with the calibration term.
            assert (line["outcome"], paid[name]) == ("abstained", pytest.approx(0.5))
    played = arm_of(bayes, "no-calibration").measured.ends
    assert rescored.measured.ends == played != control.ends
    assert lines == lines_of(control.folder)
    for metric in ("accuracy", "brier", "coverage", "cost"):
        contrast = rows_of(rescored)[metric].contrast
        assert contrast is not None
        assert (contrast.delta, contrast.corrected, contrast.verdict) == (0, None, "")


def test_the_reward_has_no_difference_and_the_normalised_score_has(bayes: Ablation) -> None:
    for result in bayes.results:
        rows, ends = rows_of(result), result.measured.ends
        mean = float(np.mean(result.measured.items.reward))
        assert rows[REWARD].contrast is None
        assert values(rows[REWARD])[1] == pytest.approx(mean)
        control, arm = values(rows[NORMALISED])
        assert arm == pytest.approx((mean - ends.chance) / (ends.reference - ends.chance))
        assert delta(rows[NORMALISED]) == pytest.approx(arm - control)
        contrast = rows[NORMALISED].contrast
        assert contrast is not None
        assert (contrast.lower or 0) < contrast.delta < (contrast.upper or 0)


def test_holm_is_over_all_tests_of_a_player(bayes: Ablation) -> None:
    contrasts = [row.contrast for one in bayes.results for row in one.rows if row.contrast]
    tests = [c for c in contrasts if c.p_value is not None]
    assert [c.corrected for c in tests] == holm([c.p_value for c in tests if c.p_value is not None])
    # Played arms have seven metrics and the normalised score, rescored ones that only.
    assert len(tests) == 2 * 7 + 2
    assert {c.corrected for c in contrasts if c.p_value is None} == {None}


def test_the_tables_say_what_can_be_compared(bayes: Ablation) -> None:
    overview, *arms = [table.markdown() for table in ablation_tables(bayes)]
    assert len(arms) == 4
    assert "can't be compared across arms" in overview
    assert "priced as in the control" in overview
    for said, arm in (("paired by task id", 0), ("Played anew", 0), ("Rescored: the control's answers", 2)):
        assert said in arms[arm]
    assert "paired by" not in arms[2]
    told = ablation_json(bayes)
    assert [one["arm"] for one in told["results"]] == list(bayes.config.arms)[1:]
    assert told["results"][0]["metrics"]["reward"]["difference"] is None
    assert told["results"][0]["metrics"]["brier"]["difference"]["delta"] > 0


def test_an_arm_that_changes_nothing_differs_in_nothing(tmp_path: Path) -> None:
    ablation = quick(tmp_path, {"again": {}, "stored": {"how": "rescore"}}, rollouts=2)
    for result in ablation.results:
        assert (result.paired_by, result.pairs, result.left_out) == ("content", 120, 0)
        for row in result.rows:
            assert row.control == row.arm
            if row.contrast:
                assert (row.contrast.delta, row.contrast.lower, row.contrast.upper) == (0, 0, 0)
                assert row.contrast.verdict in ("tie", "")


def test_errors_cost_the_same_in_every_arm(bayes: Ablation) -> None:
    """A miss costs the control's five false alarms, not the arm's fifty, except in the reward."""
    dear = rows_of(arm_of(bayes, "dear-rescored"))
    assert delta(dear["cost"]) == 0
    assert values(dear["cost"])[0] > 0
    control, arm = values(dear[REWARD])
    assert arm < control


def test_games_without_confidences_have_their_own_metrics(tmp_path: Path) -> None:
    arms = {"full": {}, "again": {}, "stored": {"how": "rescore"}}
    ablation = ablated(tmp_path, "duel", "policy:bisect", "policy:upwards", arms=arms)
    assert [(one.measured.player, one.measured.arm) for one in ablation.results] == [
        ("policy:bisect", "again"),
        ("policy:bisect", "stored"),
        ("policy:upwards", "again"),
        ("policy:upwards", "stored"),
    ]
    for result in ablation.results:
        assert list(rows_of(result)) == [REWARD, NORMALISED, "turns"]
        assert result.pairs == 7
    assert len(ablation_tables(ablation)) == 6


@pytest.mark.parametrize(
    ("arms", "said"),
    [
        ({"odd": {"settings": {"colour": 1}}}, "arm odd: quick has no valid setting"),
        (
            {"odd": {"settings": {"salt": "x"}, "how": "rescore"}},
            "arm odd can't be rescored: salt",
        ),
        (
            {"odd": {"settings": {"task.weights.cost": -1}}},
            "'task.weights.cost'",
        ),
    ],
    ids=["unknown", "other tasks", "out of range"],
)
def test_arms_that_cannot_be_carried_out_leave_nothing(
    tmp_path: Path, arms: Mapping[str, Any], said: str
) -> None:
    with pytest.raises(UsageError) as refused:
        quick(tmp_path, arms)
    assert said in str(refused.value)
    assert list(tmp_path.iterdir()) == []


def test_texts_that_were_not_kept_cannot_be_rescored(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="60 of them: its text was stored as hash_only"):
        quick(tmp_path, {"stored": {"how": "rescore"}}, settings={**MIXED, "storage": "hash_only"})


def test_what_failed_through_us_is_left_out_and_told(tmp_path: Path) -> None:
    scripts = {**MIXED, "scripts": ["right", "wrong", "player crash"]}
    ablation = quick(tmp_path, {"again": {}, "stored": {"how": "rescore"}}, settings=scripts)
    assert ablation.invalid
    again, stored = ablation.results
    assert (again.pairs, again.left_out) == (stored.pairs, stored.left_out) == (40, 20)
    assert stored.measured.not_graded == {"infra_error: there is no answer to grade": 20}
    assert any("20 rollouts left out" in table.markdown() for table in ablation_tables(ablation))


def items_of(rows: list[tuple[str, str, int, float]]) -> Items:
    """Items of (content hash, task id, sample, reward)."""
    task, name, sample, reward = zip(*rows, strict=True) if rows else ((),) * 4
    text = np.array(task, dtype=np.str_)
    return Items(
        task=text,
        task_id=np.array(name, dtype=np.str_),
        sample=np.array(sample, dtype=np.intp),
        cluster=text,
        tier=text,
        outcome=text,
        reward=np.array(reward, dtype=np.float64),
        metrics={},
        components={},
        answers=None,
    )


KEYS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 2)), min_size=1, max_size=20, unique=True)


@settings(deadline=None)
@given(KEYS, KEYS, st.booleans(), st.data())
def test_pairs_are_those_that_a_dictionary_finds(
    one: list[tuple[int, int]], other: list[tuple[int, int]], reworded: bool, data: st.DataObject
) -> None:
    """With and without the same content; some rollouts failed through us."""
    failed = set(data.draw(st.lists(st.sampled_from(one))))
    again = "r" if reworded else "h"
    before = items_of([(f"h{t}", f"id{t}", s, np.nan if (t, s) in failed else t + s / 8) for t, s in one])
    after = items_of([(f"{again}{t}", f"id{t}", s, t + s / 8 + 100) for t, s in other])
    shared = set(one) & set(other)
    if not shared:
        with pytest.raises(UsageError, match="shares no task"):
            align(before, after, "x")
        return
    control, arm, left_out, how = align(before, after, "x")
    paired = list(
        zip((int(name[2:]) for name in control.task_id.tolist()), control.sample.tolist(), strict=True)
    )
    assert sorted(paired) == sorted(shared - failed)
    assert (arm.reward - control.reward == 100).all()
    assert left_out == len(set(one) | set(other)) - len(paired)
    same = not reworded and {t for t, _ in other} <= {t for t, _ in one}
    assert how == ("content" if same else "task id")


@pytest.mark.parametrize("ids", [("a", "a"), ("a", "")], ids=["twice", "empty"])
def test_tasks_that_differ_need_ids(ids: tuple[str, str]) -> None:
    before = items_of([("h1", ids[0], 0, 1.0), ("h2", ids[1], 0, 1.0)])
    after = items_of([("r1", ids[0], 0, 1.0), ("r2", ids[1], 0, 1.0)])
    with pytest.raises(UsageError, match="no ids to pair them by"):
        align(before, after, "x")
