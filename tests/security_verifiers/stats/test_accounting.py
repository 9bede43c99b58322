"""Runs that failures of ours spoil are called so."""

import pytest

from security_verifiers.stats.accounting import is_invalid, ours


def test_more_than_two_per_cent_of_our_own_failures_spoil_a_run() -> None:
    assert not is_invalid({"scored": 90, "parse_fail": 8, "grader_error": 1, "infra_error": 1})
    assert is_invalid({"scored": 97, "grader_error": 1, "infra_error": 2})
    assert not is_invalid({"parse_fail": 50, "refused": 50})
    assert is_invalid({})
    assert is_invalid({"scored": 0})


def test_counts_must_be_of_outcomes() -> None:
    with pytest.raises(ValueError, match="lost"):
        ours({"scored": 1, "lost": 1})
    with pytest.raises(ValueError, match="negative"):
        ours({"scored": -1})
