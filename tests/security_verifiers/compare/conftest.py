"""What the tests of comparisons share: runs of scripted players on the quick environment."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import sv_shared.environment
from security_verifiers.evals.evaluate import Run
from sv_shared.answer_policies import answer_json
from sv_shared.environment import Environment
from sv_shared.policies import PolicyKind, PolicySpec, text_policy
from sv_test_duel import DUEL
from sv_test_quick import LABELS, QUICK
from tests.security_verifiers.evals.conftest import Play
from tests.security_verifiers.evals.doubles import Double

ROWS: Mapping[str, Any] = {"rows": 400, "clusters": 100, "scripts": ["right"]}
INSTALLED: dict[str, Environment] = {"quick": QUICK, "duel": DUEL}


def wrong_every(step: int, confidence: float = 0.9) -> PolicySpec:
    """A policy that is wrong on every `step`-th row; 0: on none."""

    def answer(task: Any, messages: Any, seed: int) -> str:
        wrong = step and int(task.id.removeprefix("row-")) % step == 0
        return answer_json(LABELS[1 - LABELS.index(task.truth)] if wrong else task.truth, confidence)

    return text_policy(f"every-{step}", PolicyKind.HEURISTIC, f"wrong on every {step}th", answer)


RunOf = Callable[..., Run]


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test environments can be found."""
    monkeypatch.setattr(sv_shared.environment, "installed", lambda: INSTALLED)


@pytest.fixture
def run_of(tmp_path: Path) -> RunOf:
    """Plays a policy or a model's double on the quick environment."""

    def play(player: PolicySpec | Double, config: Mapping[str, Any] = ROWS, **options: Any) -> Run:
        return Play()(QUICK, player, tmp_path, config=config, **options)

    return play
