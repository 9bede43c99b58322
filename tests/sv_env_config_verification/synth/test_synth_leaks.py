"""Names, order, comments and sizes do not tell clean rows from others."""

import pytest

from sv_env_config_verification.synth import leaks
from sv_env_config_verification.synth.recipe import draft

INNOCENT = 0.58
"""Area under the curve that what should tell nothing may reach: chance is 0.5, its standard error 0.024."""
TELLING = 0.85
"""The same for the whole text, whose settings are what a reader has to judge."""


@pytest.mark.slow
def test_shallow_models_stay_below_the_bounds() -> None:
    measured = leaks.leaks()
    for name in ("comments", "names of objects and files", "kinds in their order", "number of lines"):
        assert measured[name] < INNOCENT, name
    assert measured["statement"] < 0.72
    assert 0.6 < measured["files and statement"] < TELLING


def test_the_check_would_see_a_leak(monkeypatch: pytest.MonkeyPatch) -> None:
    told = {"names": lambda row: "bad" if row.violations else "good", "nothing": lambda row: "same"}
    monkeypatch.setattr(leaks, "VIEWS", told)
    measured = leaks.leaks(100, 60)
    assert measured == {"names": 1.0, "nothing": 0.5}


def test_views_show_what_they_say() -> None:
    row = next(one.row for one in draft(40, seed=5, split="train") if "# " in str(one.row.files))
    shown = {name: view(row) for name, view in leaks.VIEWS.items()}
    assert "apiVersion" not in shown["comments"]
    assert len(shown["comments"]) > 10
    assert "securityContext" not in shown["names of objects and files"]
    assert shown["statement"] == row.statement
