"""The registry of environments, what they need, and the ends of their scores."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sv_shared.environment
from sv_shared.environment import Anchors, Requirement, find, installed
from sv_shared.errors import DataError, ToolError, UsageError
from sv_shared.taskset import draw_indices
from sv_test_duel import DUEL
from sv_test_quick import QUICK


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two environments are installed."""
    monkeypatch.setattr(sv_shared.environment, "installed", lambda: {"duel": DUEL, "quick": QUICK})


@pytest.mark.usefixtures("two")
@pytest.mark.parametrize("name", ["quick", "QUICK", "sv-test-quick", "SV-Test-Quick"])
def test_found_by_alias_and_by_name(name: str) -> None:
    assert find(name) is QUICK


@pytest.mark.usefixtures("two")
@pytest.mark.parametrize(
    ("name", "hint"),
    [("quik", "Did you mean quick?"), ("sv-test-dual", "Did you mean sv-test-duel?"), ("", "Installed: ")],
)
def test_a_misspelt_name_gets_a_hint(name: str, hint: str) -> None:
    with pytest.raises(UsageError, match="no environment named") as refused:
        find(name)
    assert hint in str(refused.value)


def test_nothing_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sv_shared.environment, "installed", dict)
    with pytest.raises(UsageError, match="Installed: none"):
        find("e1")


def test_installed_packages_join_by_their_entry_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "sv_test_joined-1.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: sv-test-joined\nVersion: 1\n")
    (package / "entry_points.txt").write_text(
        "[security_verifiers.environments]\nquick = sv_test_quick:QUICK\nduel = sv_test_duel:DUEL\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    installed.cache_clear()
    try:
        assert {"duel", "quick", "e1"} <= set(installed())
        assert list(installed()) == sorted(installed())
        assert installed()["quick"] is QUICK
    finally:
        installed.cache_clear()


def test_what_an_environment_lacks_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    from security_verifiers.evals.plan import make_plan

    needs = (
        Requirement("opa", lambda: "opa is not installed: run sv tools install opa"),
        Requirement("python", lambda: None),
    )
    assert QUICK.unmet() == []
    monkeypatch.setattr(type(QUICK), "requirements", needs)
    assert QUICK.unmet() == ["opa is not installed: run sv tools install opa"]
    with pytest.raises(ToolError, match="quick can't run here: opa is not installed"):
        make_plan(QUICK, {})


@given(st.floats(-10, 10), st.floats(-10, 10).filter(lambda x: abs(x) > 1e-3), st.floats(-3, 3, width=32))
def test_normalised_scores(chance: float, span: float, share: float) -> None:
    anchors = Anchors(chance, "nothing", chance + span)
    score = anchors.normalise(chance + share * span)
    if span < 0:
        assert score is None
    else:
        assert score == pytest.approx(share, abs=1e-9 / span + 1e-9)


def test_no_score_where_the_ends_coincide() -> None:
    assert Anchors(1.0, "x", 1.0).normalise(1.0) is None


@given(st.integers(0, 200), st.integers(0, 300), st.integers())
def test_draws_are_without_replacement(available: int, wanted: int, seed: int) -> None:
    if wanted > available:
        with pytest.raises(DataError, match=f"{wanted} tasks were asked for and d has {available}"):
            draw_indices(available, wanted, seed, "d")
        return
    drawn = draw_indices(available, wanted, seed, "d")
    assert len(drawn) == len(set(drawn)) == wanted
    assert all(0 <= i < available for i in drawn)
    assert drawn == draw_indices(available, wanted, seed, "d")
    assert sorted(draw_indices(available, None, seed, "d")) == list(range(available))
