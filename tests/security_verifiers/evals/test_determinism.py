"""The same seed gives the same lines, however many rollouts run at once and in whatever order."""

from pathlib import Path

import pytest

from security_verifiers.evals.plan import make_plan
from security_verifiers.evals.seats import rollout_seed
from sv_shared.errors import DataError, UsageError
from sv_shared.policies import PolicyKind, text_policy
from sv_test_duel import DUEL
from sv_test_quick import QUICK, follower

from .conftest import Play, bare_lines
from .doubles import Double, said


@pytest.mark.parametrize("policy", ["coin", "random", "follow"])
def test_runs_repeat_at_any_concurrency(play: Play, tmp_path: Path, policy: str) -> None:
    spec = QUICK.policies("agent")[policy]
    runs = [
        play(QUICK, spec, tmp_path, config={"rows": 30}, samples=2, concurrency=concurrency)
        for concurrency in (1, 16)
    ]
    assert bare_lines(runs[0].folder) == bare_lines(runs[1].folder)
    summaries = [{**run.summary, "run_id": ""} for run in runs]
    assert summaries[0] == summaries[1]


def test_games_repeat(play: Play, tmp_path: Path) -> None:
    spec = DUEL.policies("guesser")["upwards"]
    runs = [play(DUEL, spec, tmp_path, concurrency=concurrency) for concurrency in (1, 7)]
    assert bare_lines(runs[0].folder) == bare_lines(runs[1].folder)


def test_a_policy_knows_nothing_but_seed_task_and_sample(play: Play, tmp_path: Path) -> None:
    """A rollout's seed is the same in a run of few tasks and one sample as in a run of many."""
    policy = text_policy("seed", PolicyKind.DEGENERATE, "says it", lambda task, messages, seed: str(seed))

    def seeds(run_seed: int, tasks: int | None, samples: int) -> dict[tuple[str, int], str]:
        run = play(QUICK, policy, tmp_path, tasks=tasks, samples=samples, seed=run_seed)
        return {
            (line["key"]["task"], line["key"]["sample"]): line["seats"]["agent"]["completion"][0]["content"]
            for line in bare_lines(run.folder)
        }

    many, few, other = seeds(42, None, 3), seeds(42, 5, 1), seeds(43, None, 3)
    assert few.items() < many.items()
    assert len(set(many.values())) == len(many) == 72
    assert other.keys() == many.keys()
    assert not set(other.values()) & set(many.values())
    assert all(int(said) == rollout_seed(42, task, sample) for (task, sample), said in many.items())


def test_models_get_the_rollouts_seed(play: Play, tmp_path: Path) -> None:
    seen = []

    def note(messages: object, sampling: object) -> object:
        seen.append(sampling.seed)  # type: ignore[attr-defined]
        return said("hm")

    run = play(QUICK, Double(note), tmp_path, config={"rows": 3}, samples=2)  # type: ignore[arg-type]
    keys = [(line["key"]["task"], line["key"]["sample"]) for line in bare_lines(run.folder)]
    assert sorted(seen) == sorted(rollout_seed(42, *key) for key in keys)


def test_drawing_fewer_tasks_takes_some_of_the_same(tmp_path: Path) -> None:
    drawn = make_plan(QUICK, {"rows": 50}, tasks=10)
    again = make_plan(QUICK, {"rows": 50}, tasks=10)
    other = make_plan(QUICK, {"rows": 50}, tasks=10, seed=43)
    everything = make_plan(QUICK, {"rows": 50})
    assert [task.hash for task in drawn.tasks] == [task.hash for task in again.tasks]
    assert drawn.dataset_hash == again.dataset_hash != other.dataset_hash
    assert {task.hash for task in drawn.tasks} < {task.hash for task in everything.tasks}
    assert drawn.size == 10


def test_dataset_hash_does_not_depend_on_the_order_of_play() -> None:
    plans = [make_plan(QUICK, {"rows": 50}, seed=seed) for seed in (1, 2)]
    assert [t.hash for t in plans[0].tasks] != [t.hash for t in plans[1].tasks]
    assert plans[0].dataset_hash == plans[1].dataset_hash


@pytest.mark.parametrize(
    ("config", "options", "error", "told"),
    [
        ({}, {"tasks": 25}, DataError, "25 tasks were asked for and quick has 24"),
        ({}, {"tasks": 0}, UsageError, "0 tasks were asked for"),
        ({}, {"samples": 0}, UsageError, "0 rollouts a task"),
        ({"rows": 0}, {}, DataError, "quick has no tasks"),
        ({"rowz": 3}, {}, UsageError, "quick has no valid setting 'rowz'"),
        ({"rows": "many"}, {}, UsageError, "'rows'"),
        ({"task": {"weights": {"cost": -1}}}, {}, UsageError, "'task.weights.cost'"),
    ],
)
def test_plans_that_make_no_sense(
    config: dict[str, object], options: dict[str, int], error: type[Exception], told: str
) -> None:
    with pytest.raises(error) as refused:
        make_plan(QUICK, config, **options)  # type: ignore[arg-type]
    assert told in str(refused.value)


def test_a_task_that_stands_twice_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from sv_test_quick import QuickTaskset

    load = QuickTaskset.load
    monkeypatch.setattr(QuickTaskset, "load", lambda self: [*load(self), next(iter(load(self)))])
    with pytest.raises(DataError, match=r"a task stands twice in quick \(content hash [0-9a-f]{12}\)"):
        make_plan(QUICK, {})


def test_follower_needs_no_seed(play: Play, tmp_path: Path) -> None:
    """Different seeds order the play, not the results of a policy that ignores them."""
    runs = [play(QUICK, follower(), tmp_path, seed=seed) for seed in (1, 2)]
    assert runs[0].summary["reward"] == runs[1].summary["reward"]
