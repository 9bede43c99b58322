"""Chance: the best constant answer."""

from itertools import combinations

import pytest

from sv_env_config_verification.anchors import anchors, best_list
from sv_env_config_verification.public_mini import load_public_mini
from sv_env_config_verification.rewards import Weights, detection_score
from sv_env_config_verification.taskset import AuditTaskConfig, make_task

A, B, C = ("host-pid", "Pod/a/b"), ("host-ipc", "Pod/a/b"), ("privileged-container", "Pod/a/b")
CLEAN: frozenset[tuple[str, str]] = frozenset()


@pytest.mark.parametrize("truths", [
    [CLEAN, frozenset({A})],
    [frozenset({A, B}), frozenset({A}), frozenset({C})],
    [frozenset({A, B, C})] * 3 + [CLEAN],
])  # fmt: skip
@pytest.mark.parametrize("tools", [True, False])
def test_chance_is_the_best_of_all_lists(truths: list[frozenset[tuple[str, str]]], tools: bool) -> None:
    share = Weights().detection(tools)

    def pays(claims: frozenset[tuple[str, str]]) -> float:
        paid = [share * detection_score(claims, t) + (1 - share) * (not t) for t in truths]
        return sum(paid) / len(paid)

    every = [frozenset(some) for size in range(4) for some in combinations((A, B, C), size)]
    assert best_list(truths, Weights(), tools)[1] == pytest.approx(max(map(pays, every)))


def test_chance_on_public_mini_is_the_share_of_clean_items() -> None:
    rows = load_public_mini()
    ends = anchors([make_task(row, AuditTaskConfig()) for row in rows])
    assert ends.chance == pytest.approx(sum(row.is_clean for row in rows) / len(rows))
    assert ends.chance_answer == "nothing is wrong, no patch"
    assert ends.reference == 1.0
