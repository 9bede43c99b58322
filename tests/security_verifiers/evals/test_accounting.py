"""Total accounting: every planned rollout ends as exactly one outcome, and none leaves a denominator."""

import asyncio
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from security_verifiers.evals.record import Record
from security_verifiers.evals.results import Results
from sv_shared.answer_policies import answer_json
from sv_shared.outcomes import INVALID_ABOVE, Outcome
from sv_shared.policies import PolicyKind, text_policy
from sv_test_quick import ENDS, QUICK, follower

from .conftest import Play, Watching, bare_lines
from .doubles import Double, follow, said, script_of

EXPECTED = {
    **ENDS,
    "provider 429": Outcome.INFRA_ERROR,
    "provider 500": Outcome.INFRA_ERROR,
    "provider 400": Outcome.INFRA_ERROR,
}
FLOOR, MAXIMUM = -4.0, 1.5


@settings(max_examples=15, deadline=None)
@given(st.lists(st.sampled_from(sorted(EXPECTED)), min_size=1, max_size=30), st.integers(1, 8))
def test_counts_sum_to_the_plan(scripts: list[str], concurrency: int) -> None:
    with tempfile.TemporaryDirectory() as root:
        config = {"scripts": scripts, "rows": len(scripts)}
        run = Play()(QUICK, Double(follow), Path(root), config=config, concurrency=concurrency)
        lines = list(Results(run.folder))
    counts, wanted = run.summary["counts"], Counter(EXPECTED[script] for script in scripts)
    assert sum(counts.values()) == run.metadata["planned"] == len(scripts)
    assert counts == run.metadata["counts"] == {str(outcome): wanted[outcome] for outcome in Outcome}
    assert run.summary["missing"] == 0

    failed = counts["grader_error"] + counts["infra_error"]
    assert run.summary["invalid"] == (failed > INVALID_ABOVE * len(scripts))
    rewards = [line["reward"] for line in lines if line["reward"] is not None]
    assert run.summary["reward"]["n"] == len(rewards) == len(scripts) - failed
    bounds = run.summary["reward_bounds"]
    total = sum(rewards)
    assert bounds["worst"] == pytest.approx((total + failed * FLOOR) / len(scripts))
    assert bounds["best"] == pytest.approx((total + failed * MAXIMUM) / len(scripts))
    assert all(line["reward"] == FLOOR for line in lines if line["outcome"] in ("parse_fail", "refused"))
    for line in lines:
        assert (line["error"] is None) == (line["reward"] is not None)
        assert line["reward"] is None or sum(line["components"].values()) == line["reward"]
    correct = run.summary["metrics"]["accuracy"]
    assert correct["n"] == len(rewards)
    right = sum(line["metrics"]["correct"] for line in lines if line["reward"] is not None)
    assert correct["worst"] == pytest.approx(right / len(scripts))
    assert correct["best"] == pytest.approx((right + failed) / len(scripts))


def test_garbage_stays_in_the_denominator(play: Play, tmp_path: Path) -> None:
    config = {"scripts": ["right", *["garbage"] * 99], "rows": 100}
    run = play(QUICK, follower(), tmp_path, config=config)
    assert run.summary["counts"]["parse_fail"] == 99
    assert run.summary["metrics"]["accuracy"]["value"] == 0.01
    assert run.summary["metrics"]["correct"]["value"] == 0.01
    assert run.summary["reward"]["n"] == 100
    assert not run.summary["invalid"]


@pytest.mark.parametrize(("failed", "invalid"), [(0, False), (2, False), (3, True), (100, True)])
def test_two_percent_of_our_failures_are_borne(
    play: Play, tmp_path: Path, failed: int, invalid: bool
) -> None:
    scripts = ["grader crash", "provider 500"] * 50
    config = {"scripts": [*scripts[:failed], *["right"] * (100 - failed)], "rows": 100}
    run = play(QUICK, Double(follow), tmp_path, config=config)
    assert run.summary["invalid"] is invalid
    assert run.summary["reward_bounds"]["n_ours"] == failed
    if failed == 100:
        assert run.summary["reward"]["value"] is None
        assert run.summary["normalised"]["score"] is None
        assert (run.summary["reward_bounds"]["worst"], run.summary["reward_bounds"]["best"]) == (
            FLOOR,
            MAXIMUM,
        )
        assert run.summary["metrics"]["accuracy"]["value"] is None
    else:
        assert run.summary["metrics"]["accuracy"]["value"] == 1.0


def records_of(play: Play, root: Path, *scripts: str, **options: Any) -> dict[str, Record]:
    """One record a script."""
    watching = Watching()
    player = options.pop("player", None) or Double(follow)
    play(
        QUICK,
        player,
        root,
        config={"scripts": list(scripts), "rows": len(scripts)},
        watching=watching,
        **options,
    )
    return {scripts[int(record.task_id.removeprefix("row-"))]: record for record in watching.records}


def test_errors_say_where_and_what(play: Play, tmp_path: Path) -> None:
    records = records_of(
        play, tmp_path, "grader crash", "grader nan", "grader overpays", "provider 429", "player crash"
    )
    told = {script: record.error for script, record in records.items()}
    places = {script: error.where for script, error in told.items() if error is not None}
    assert places == {
        "grader crash": "grader",
        "grader nan": "grader",
        "grader overpays": "grader",
        "provider 429": "provider",
        "player crash": "player",
    }
    messages = {script: error.message for script, error in told.items() if error is not None}
    assert "RuntimeError: the grader choked" in messages["grader crash"]
    assert messages["grader nan"] == "QuickTask graded without a finite number for accuracy"
    assert messages["grader overpays"] == "QuickTask paid 1e+06, outside its declared range -4 to 1.5"
    assert "the provider answered 429" in messages["provider 429"]
    assert messages["player crash"] == "double raised RuntimeError: the player fell over"
    assert all("\n" not in message for message in messages.values())


def test_content_that_breaks_a_sound_grader_scores_the_floor(play: Play, tmp_path: Path) -> None:
    record = records_of(play, tmp_path, "poison")["poison"]
    assert (record.outcome, record.reward) == (Outcome.SCORED, FLOOR)
    assert record.cause == "the answer made the grader fail: RuntimeError"
    assert record.metrics["correct"] == 0.0


def test_a_grader_that_hangs_on_everything_is_our_error(
    play: Play, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sv_test_quick import QuickTask

    monkeypatch.setattr(QuickTask, "grading_limit_s", 0.1)
    record = records_of(play, tmp_path, "grader hang")["grader hang"]
    assert record.outcome is Outcome.GRADER_ERROR
    assert record.error is not None
    assert record.error.where == "grader"


def test_time_limit_is_ours_whatever_was_said_before(play: Play, tmp_path: Path) -> None:
    async def dawdle(messages: Any, sampling: Any) -> Any:
        if script_of(messages) == "slow":
            await asyncio.sleep(60)
        return said("a short answer")

    records = records_of(play, tmp_path, "slow", "garbage", player=Double(dawdle), time_limit_s=0.3)
    slow = records["slow"]
    assert (slow.outcome, slow.reward) == (Outcome.INFRA_ERROR, None)
    assert slow.error is not None
    assert (slow.error.where, slow.error.message) == ("time limit", "seat agent did not finish in time")
    assert records["garbage"].outcome is Outcome.PARSE_FAIL
    assert 0.25 < slow.seconds["total"] < 5


@pytest.mark.parametrize(
    "text", ["", "\x00", "\ud800", "NaN", "[" * 100_000, "\u2028", "x" * 1_000_000, "{}" * 5000]
)
def test_no_text_is_our_failure(play: Play, tmp_path: Path, text: str) -> None:
    """Whatever a model writes is a result of the model, and the line can be read back."""
    policy = text_policy("odd", PolicyKind.DEGENERATE, "odd", lambda task, messages, seed: text)
    run = play(QUICK, policy, tmp_path, config={"rows": 2})
    assert run.summary["counts"]["parse_fail"] == 2


def test_half_a_surrogate_pair_in_an_answer_is_mended(play: Play, tmp_path: Path) -> None:
    reply = '{"label": "Risky", "confidence": 1.0, "rationale": "cut emoji \ud83d"}'
    policy = text_policy("cut", PolicyKind.DEGENERATE, "cut", lambda task, messages, seed: reply)
    run = play(QUICK, policy, tmp_path, config={"rows": 2})
    (line, _) = Results(run.folder)
    assert run.summary["counts"]["scored"] == 2
    assert line["parsed"]["rationale"] == "cut emoji \ufffd"


def rounded(tree: Any) -> Any:
    """The same with every float to 9 digits."""
    if isinstance(tree, dict):
        return {name: rounded(branch) for name, branch in tree.items()}
    return round(tree, 9) if isinstance(tree, float) else tree


def test_hash_only_runs_have_the_same_numbers(play: Play, tmp_path: Path) -> None:
    """What is stored as a hash can't be read, and the metrics are none the worse for it."""
    config = {"scripts": ["right", "wrong", "abstain", "right", "garbage"], "rows": 30}
    plain = play(QUICK, follower(), tmp_path / "plain", config=config)
    hashed = play(QUICK, follower(), tmp_path / "hashed", config={**config, "storage": "hash_only"})
    for name in ("counts", "reward", "metrics", "calibration", "components", "by_difficulty"):
        # Rows are read in the order of their hashes, which the storage rule changes; sums then round apart.
        assert rounded(hashed.summary[name]) == rounded(plain.summary[name]), name
    assert 0 < plain.summary["metrics"]["accuracy"]["value"] < 1
    text = (hashed.folder / "results.jsonl").read_text()
    assert "risky" not in text.lower()
    assert answer_json("Risky", 0.9)[2:] not in text
    resumed = play(
        QUICK, follower(), tmp_path, config={**config, "storage": "hash_only"}, resume=hashed.folder
    )
    assert resumed.summary == hashed.summary
    assert bare_lines(resumed.folder) == bare_lines(hashed.folder)
