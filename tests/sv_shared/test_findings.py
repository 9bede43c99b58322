"""Findings: severities are ordered as such, rows survive a round trip, order depends on content only."""

import itertools
import json
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sv_shared.errors import DataError
from sv_shared.findings import Finding, Severity, tidy, weaknesses, worst

ORDER = ["low", "medium", "high", "critical"]
BASE = Finding("opa", "opa", "1.0", "k8s.x", "w", Severity.HIGH, "Pod/default/a", "a.yaml", 3, "bad")

texts = st.text(max_size=12)
findings = st.builds(
    Finding,
    tool=st.sampled_from(["opa", "semgrep"]),
    engine=st.sampled_from(["opa", "opa-eval"]),
    tool_version=texts,
    rule=texts,
    weakness=texts,
    severity=st.sampled_from(Severity),
    object=texts,
    file=texts,
    line=st.none() | st.integers(1, 10**6),
    message=texts,
)


@pytest.mark.parametrize(("a", "b"), list(itertools.product(ORDER, repeat=2)))
def test_severities_compare_by_rank_and_not_as_text(a, b):
    left, right, i, j = Severity(a), Severity(b), ORDER.index(a), ORDER.index(b)
    assert (left < right, left <= right, left > right, left >= right) == (i < j, i <= j, i > j, i >= j)


def test_a_severity_is_not_compared_with_other_text():
    with pytest.raises(TypeError):
        _ = Severity.LOW < "medium"
    assert sorted(Severity, reverse=True)[0] is Severity.CRITICAL


@given(findings)
def test_a_finding_survives_json(finding):
    assert Finding.from_dict(json.loads(json.dumps(finding.to_dict()))) == finding


@pytest.mark.parametrize(
    "change",
    [
        {"severity": "fatal"},
        {"line": 0},
        {"line": True},
        {"line": "3"},
        {"message": None},
        {"object": 7},
        {"extra": 1},
    ],
    ids=str,
)
def test_what_is_no_finding_is_an_error(change):
    with pytest.raises(DataError, match="not a finding"):
        Finding.from_dict(BASE.to_dict() | change)


def test_a_missing_field_is_an_error():
    row = BASE.to_dict()
    del row["rule"]
    with pytest.raises(DataError, match="rule"):
        Finding.from_dict(row)


@given(st.lists(findings, max_size=8), st.randoms(use_true_random=False))
def test_tidy_depends_on_the_findings_only(rows, rng: random.Random):
    mixed = [*rows, *rows]
    rng.shuffle(mixed)
    once = tidy(mixed)
    assert once == tidy(rows)
    assert set(once) == set(rows)
    assert len(once) == len(set(rows))


def test_tidy_orders_by_file_line_and_object():
    rows = [
        replace(BASE, file="b.yaml", line=1),
        replace(BASE, line=10),
        replace(BASE, line=9),
        replace(BASE, line=None),
        replace(BASE, line=9, object="Pod/default/0"),
    ]
    assert [(f.file, f.line, f.object[-1]) for f in tidy(rows)] == [
        ("a.yaml", None, "a"),
        ("a.yaml", 9, "0"),
        ("a.yaml", 9, "a"),
        ("a.yaml", 10, "a"),
        ("b.yaml", 1, "a"),
    ]


def test_style_counts_neither_as_a_weakness_nor_for_the_worst():
    style = replace(BASE, weakness="", severity=Severity.CRITICAL)
    assert weaknesses([BASE, style]) == {("w", "Pod/default/a")}
    assert worst([BASE, style, replace(BASE, severity=Severity.MEDIUM)]) is Severity.HIGH
    assert worst([style]) is None


def test_a_fallback_is_told_by_its_engine():
    assert not BASE.is_fallback
    assert replace(BASE, engine="opa-eval").is_fallback
