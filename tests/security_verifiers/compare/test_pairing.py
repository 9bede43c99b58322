"""Pairing: what can be compared is aligned by key; what can't is refused, with every reason."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from security_verifiers.compare.pairing import pair
from security_verifiers.evals.artifacts import METADATA, file_sha256
from security_verifiers.evals.evaluate import Run
from security_verifiers.evals.results import RESULTS
from security_verifiers.evals.stored import load_run
from sv_shared.errors import UsageError
from sv_test_quick import follower
from tests.security_verifiers.evals.doubles import Double, follow

from .conftest import ROWS, RunOf, wrong_every


def rearranged(run: Run) -> Run:
    """The same run, as if its rollouts had finished in another order."""
    path = run.folder / RESULTS
    path.write_text("".join(sorted(path.read_text().splitlines(keepends=True), key=hash)))
    metadata = json.loads((run.folder / METADATA).read_text())
    (run.folder / METADATA).write_text(json.dumps(metadata | {"results_sha256": file_sha256(path)}))
    return load_run(run.folder)


def test_rows_are_aligned_by_key_not_by_order_of_arrival(run_of: RunOf) -> None:
    base, candidate = run_of(wrong_every(0)), run_of(wrong_every(7))
    pairs = pair(base, rearranged(candidate))
    assert len(pairs.before) == len(pairs.after) == ROWS["rows"]
    assert (pairs.before.task == pairs.after.task).all()
    assert (pairs.before.cluster == pairs.after.cluster).all()
    wrong = {f"row-{number}" for number in range(0, ROWS["rows"], 7)}
    assert set(pairs.after.task_id[pairs.after.metrics["correct"] == 0]) == wrong
    assert pairs.deterministic
    assert pairs.left_out == 0


def test_pairs_that_failed_through_us_are_left_out_and_counted(run_of: RunOf) -> None:
    config = {**ROWS, "scripts": [*["right"] * 99, "provider 500"]}
    base, candidate = run_of(follower(), config), run_of(Double(follow), config)
    pairs = pair(base, candidate)
    assert (pairs.left_out, len(pairs.before)) == (4, 396)
    assert not np.isnan(pairs.after.reward).any()
    assert not pairs.deterministic


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"config": {**ROWS, "salt": "!"}}, "data hash"),
        ({"seed": 7}, "seed 42 against 7"),
        ({"samples": 2}, "samples a task 1 against 2"),
        (
            {"config": {**ROWS, "task": {"weights": {"calibration": 0}}}},
            "reward scale: maximum 1.5 against 1",
        ),
        (
            {"config": {**ROWS, "task": {"weights": {"abstain_risk": 0.3}}}},
            "task setting weights.abstain_risk",
        ),
    ],
)
def test_other_data_seeds_and_scales_are_refused(run_of: RunOf, change: dict[str, Any], reason: str) -> None:
    with pytest.raises(UsageError, match="can't be compared") as refusal:
        pair(run_of(wrong_every(0)), run_of(wrong_every(0), **change))
    assert reason in refusal.value.what


def test_every_reason_is_named(run_of: RunOf) -> None:
    other = run_of(wrong_every(0), {**ROWS, "salt": "!"}, seed=7)
    with pytest.raises(UsageError) as refusal:
        pair(run_of(wrong_every(0)), other)
    assert "data hash" in refusal.value.what
    assert "seed" in refusal.value.what


def test_an_invalid_run_is_refused(run_of: RunOf) -> None:
    broken = run_of(Double(follow), {**ROWS, "scripts": ["right", "provider 500"]})
    with pytest.raises(
        UsageError, match=r"is invalid \(200 failed through us, 0 missing of 400: resume it\)"
    ):
        pair(broken, broken)


def test_what_a_partial_run_lacks_is_left_out_and_counted(run_of: RunOf) -> None:
    base, candidate = run_of(wrong_every(0)), run_of(wrong_every(7))
    path: Path = candidate.folder / RESULTS
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([lines[0], "not JSON\n", *lines[3:]]))
    pairs = pair(base, load_run(candidate.folder, allow_partial=True))
    assert (pairs.left_out, len(pairs.before)) == (2, 398)
    assert (pairs.before.task == pairs.after.task).all()
    gone = {json.loads(line)["task_id"] for line in lines[1:3]}
    assert not gone & set(pairs.before.task_id)
