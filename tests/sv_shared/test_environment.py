"""Environments: finding them by name, what they need, and the scale of the normalised score."""

import math
from collections.abc import Iterator, Sequence
from importlib.metadata import EntryPoint
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sv_shared import environment
from sv_shared.environment import GROUP, Anchors, Environment, Requirement, find, installed
from sv_shared.errors import UsageError
from sv_shared.policies import PolicySpec


class Made(Environment):
    """An environment that is only declared."""

    title = "made up"
    version = "1"
    core_metrics = ()
    sheet_metrics = ()
    default_policies = ()

    def __init__(self, alias: str, identifier: str) -> None:
        self.alias, self.id = alias, identifier  # type: ignore[misc]

    def policies(self, seat: str) -> dict[str, PolicySpec]:
        return {}

    def anchors(self, tasks: Sequence[Any]) -> Anchors:
        return Anchors(0.0, "", 1.0)

    def checks(self, tasks: Sequence[Any]) -> Sequence[Any]:
        return ()


ONE, TWO = Made("e1", "sv-env-one"), Made("e2", "sv-env-the-other")


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Two installed packages, found the way real ones are."""
    points = [
        EntryPoint("e2", f"{__name__}:TWO", GROUP),
        EntryPoint("e1", f"{__name__}:ONE", GROUP),
    ]
    monkeypatch.setattr(environment, "entry_points", lambda group: points if group == GROUP else [])
    installed.cache_clear()
    yield
    installed.cache_clear()


@pytest.mark.usefixtures("registry")
def test_packages_are_found_by_their_entry_points() -> None:
    assert installed() == {"e1": ONE, "e2": TWO}
    assert list(installed()) == ["e1", "e2"]


@pytest.mark.usefixtures("registry")
@pytest.mark.parametrize("name", ["e2", "E2", "sv-env-the-other", "SV-ENV-The-Other"])
def test_alias_and_full_id_name_the_same(name: str) -> None:
    assert find(name) is TWO


@pytest.mark.usefixtures("registry")
@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("sv-env-oen", "Did you mean sv-env-one?"),
        ("env-the-other", "Did you mean sv-env-the-other?"),
        ("e11", "Did you mean e1?"),
        ("phishing", "Installed: e1, sv-env-one, e2, sv-env-the-other"),
        ("", "Installed: e1"),
    ],
)
def test_a_name_that_is_none_gets_a_hint(name: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        find(name)
    assert caught.value.what == f"no environment named {name!r}"
    assert caught.value.hint.startswith(hint)


def test_nothing_installed_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "installed", dict)
    with pytest.raises(UsageError, match="Installed: none"):
        find("e1")


def test_the_network_logs_are_installed() -> None:
    found = find("e1")
    assert found is find("sv-env-network-logs")
    assert found.alias == "e1"
    assert found.unmet() == []
    sample = found.loader_sample()
    assert sample is not None
    assert set(found.default_policies) <= found.policies(found.evaluated_seat).keys()


# The scale ------------------------------------------------------------------------------------------------

REWARDS = st.floats(-1e6, 1e6)


@given(chance=REWARDS, span=st.floats(1e-3, 1e6), share=st.floats(-10, 10))
def test_chance_is_0_and_the_reference_1(chance: float, span: float, share: float) -> None:
    ends = Anchors(chance, "", chance + span)
    assert ends.normalise(ends.chance) == 0.0
    assert ends.normalise(ends.reference) == 1.0
    between = ends.normalise(chance + share * span)
    assert between is not None
    assert math.isclose(between, share, rel_tol=1e-5, abs_tol=1e-5)


@given(chance=REWARDS, below=st.floats(0, 1e6), reward=REWARDS)
def test_without_a_span_there_is_no_score(chance: float, below: float, reward: float) -> None:
    assert Anchors(chance, "", chance - below).normalise(reward) is None


# Needs ----------------------------------------------------------------------------------------------------


def test_what_is_missing_is_said_in_order() -> None:
    needy = Made("x", "x")
    assert needy.unmet() == []
    needy.requirements = (  # type: ignore[misc]
        Requirement("a tool", lambda: None),
        Requirement("opa", lambda: "opa is not there: run sv tools install opa"),
        Requirement("kernel", lambda: "no user namespaces"),
    )
    assert needy.unmet() == ["opa is not there: run sv tools install opa", "no user namespaces"]
    assert needy.loader_sample() is None
