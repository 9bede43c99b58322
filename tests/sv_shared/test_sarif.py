"""SARIF: what the standard requires of a log, checked against its text: no package ships the schema."""

import json
from dataclasses import replace
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sv_shared.findings import Finding, Severity
from sv_shared.sarif import Notice, RuleText, sarif

BASE = Finding("opa", "opa", "1.0", "k8s.x", "w", Severity.HIGH, "Pod/default/a", "a.yaml", 3, "bad")
RAN = [("opa", "opa", "1.0"), ("semgrep", "semgrep", "2.0")]
LEVELS = ("none", "note", "warning", "error")

words = st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), min_size=1, max_size=10)
rows = st.lists(
    st.builds(
        Finding,
        tool=st.just("opa"),
        engine=st.just("opa"),
        tool_version=st.just("1.0"),
        rule=st.sampled_from(["k8s.x", "k8s.y", "tf.z"]),
        weakness=st.sampled_from(["", "w"]),
        severity=st.sampled_from(Severity),
        object=st.text(max_size=5),
        file=words,
        line=st.none() | st.integers(1, 999),
        message=st.text(max_size=5),
    ),
    max_size=6,
)


def check(log: Any) -> None:
    """The requirements of SARIF 2.1.0 on what we write; section numbers of the standard in the comments."""
    assert set(log) <= {"$schema", "version", "runs"}
    assert log["version"] == "2.1.0"  # 3.13.2
    for run in log["runs"]:  # 3.14
        assert set(run) <= {"tool", "columnKind", "invocations", "results"}
        assert run["columnKind"] in ("utf16CodeUnits", "unicodeCodePoints")  # 3.14.17
        driver = run["tool"]["driver"]  # 3.18.2
        assert driver["name"]  # 3.19.8
        ids = [rule["id"] for rule in driver["rules"]]
        assert len(ids) == len(set(ids))  # 3.19.23: rules are unique
        for rule in driver["rules"]:
            assert rule["id"]
            assert rule["defaultConfiguration"]["level"] in LEVELS  # 3.50.3
            assert len(set(rule["properties"]["tags"])) == len(rule["properties"]["tags"])  # 3.8.2
        for invocation in run["invocations"]:
            assert isinstance(invocation["executionSuccessful"], bool)  # 3.20.14
            for notification in invocation.get("toolExecutionNotifications", []):
                assert notification["message"]["text"]  # 3.58.5
                assert notification["level"] in LEVELS
                for location in notification["locations"]:
                    check_location(location)
        for result in run["results"]:
            assert result["message"]["text"]  # 3.27.11
            assert result["level"] in LEVELS  # 3.27.10
            assert ids[result["ruleIndex"]] == result["ruleId"]  # 3.27.6
            assert all(isinstance(text, str) for text in result["partialFingerprints"].values())  # 3.27.17
            for location in result["locations"]:
                check_location(location)


def check_location(location: Any) -> None:
    physical = location["physicalLocation"]
    uri = physical["artifactLocation"]["uri"]  # 3.4.3: a URI reference
    assert uri.isascii()
    assert not set(uri) & set(' <>"{}|\\^`')
    assert not urlsplit(uri).scheme
    if "region" in physical:
        assert physical["region"]["startLine"] >= 1  # 3.30.5


def results(log: Any) -> list[Any]:
    return [result for run in log["runs"] for result in run["results"]]


@given(rows)
def test_every_log_keeps_the_standard_and_loses_no_finding(found):
    log = json.loads(json.dumps(sarif(found, ran=RAN)))
    check(log)
    told = {
        (
            result["ruleId"],
            unquote(result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]),
            result["locations"][0]["physicalLocation"].get("region", {}).get("startLine"),
            result["properties"]["severity"],
        )
        for result in results(log)
    }
    assert told == {(f.rule, f.file.replace("\\", "/"), f.line, str(f.severity)) for f in found}
    assert len(results(log)) == len(set(found))


def test_a_tool_that_found_nothing_has_a_run_too():
    log = sarif([BASE], ran=RAN)
    assert [(run["tool"]["driver"]["name"], len(run["results"])) for run in log["runs"]] == [
        ("opa", 1),
        ("semgrep", 0),
    ]
    assert all(run["invocations"][0]["executionSuccessful"] for run in log["runs"])


def test_a_fallback_engine_is_named():
    found = replace(BASE, engine="opa-eval", tool_version="0.1")
    log = sarif([found], ran=[("opa", "opa-eval", "0.1")])
    assert "opa-eval" in log["runs"][0]["tool"]["driver"]["name"]
    assert results(log)[0]["properties"]["engine"] == "opa-eval"


def test_a_tool_that_was_not_run_is_an_error():
    with pytest.raises(ValueError, match="not among the tools run"):
        sarif([replace(BASE, tool_version="9")], ran=RAN)


def test_a_rule_carries_cwe_controls_and_a_score():
    text = RuleText("Privileged container", 250, ("CIS Kubernetes 5.2.1",))
    rule = sarif([BASE], ran=RAN, texts={"w": text})["runs"][0]["tool"]["driver"]["rules"][0]
    assert rule["shortDescription"] == {"text": "Privileged container"}
    assert rule["properties"]["tags"] == ["security", "external/cwe/cwe-250"]
    assert rule["properties"]["controls"] == ["CIS Kubernetes 5.2.1"]
    assert rule["properties"]["security-severity"] == "8.0"


def test_levels_and_scores_rise_with_severity():
    logs = [sarif([replace(BASE, severity=s)], ran=RAN)["runs"][0] for s in Severity]
    levels = [LEVELS.index(run["results"][0]["level"]) for run in logs]
    scores = [float(run["tool"]["driver"]["rules"][0]["properties"]["security-severity"]) for run in logs]
    assert levels == sorted(levels)
    assert scores == sorted(set(scores))


def test_a_style_rule_is_no_security_rule():
    rule = sarif([replace(BASE, weakness="")], ran=RAN)["runs"][0]["tool"]["driver"]["rules"][0]
    assert rule["properties"] == {"tags": ["style"]}


def test_a_file_that_was_not_judged_makes_the_run_unsuccessful():
    log = sarif([], ran=RAN, notices=[Notice("b c.yaml", 4, "invalid-yaml", "no")])
    check(log)
    invocation = log["runs"][0]["invocations"][0]
    assert not invocation["executionSuccessful"]
    notice = invocation["toolExecutionNotifications"][0]
    assert notice["descriptor"]["id"] == "invalid-yaml"
    assert notice["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "b%20c.yaml"


def test_a_fingerprint_outlives_a_move_and_tells_objects_apart():
    def mark(finding: Finding) -> str:
        return str(results(sarif([finding], ran=RAN))[0]["partialFingerprints"])

    assert mark(BASE) == mark(replace(BASE, line=99))
    assert mark(BASE) != mark(replace(BASE, object="Pod/default/b"))
