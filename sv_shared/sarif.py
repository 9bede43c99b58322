"""SARIF 2.1.0: findings in the form that code-scanning services and editors read.

Source: OASIS Standard "Static Analysis Results Interchange Format (SARIF) Version 2.1.0", 27 March 2020;
the numbers in parentheses below are its sections.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from sv_shared.findings import Finding, Severity, tidy

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
VERSION = "2.1.0"

_LEVELS: Mapping[Severity, str] = {
    Severity.LOW: "note",
    Severity.MEDIUM: "warning",
    Severity.HIGH: "error",
    Severity.CRITICAL: "error",
}
_SCORES: Mapping[Severity, str] = {
    Severity.LOW: "3.0",
    Severity.MEDIUM: "5.0",
    Severity.HIGH: "8.0",
    Severity.CRITICAL: "9.5",
}
"""`security-severity`, by which code-scanning services tell four levels where SARIF itself has three."""


@dataclass(frozen=True, slots=True)
class RuleText:
    """What a report says of a weakness.

    Attributes:
        title: one line.
        cwe: number in the Common Weakness Enumeration; None where there is none.
        controls: sections of standards that ask for its absence.
    """

    title: str
    cwe: int | None = None
    controls: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that kept a file from being judged.

    Attributes:
        file: its name.
        line: from 1; None where it is not known.
        label: short id of the kind of problem.
        message: what was wrong.
    """

    file: str
    line: int | None
    label: str
    message: str


def sarif(
    findings: Iterable[Finding],
    *,
    ran: Sequence[tuple[str, str, str]],
    texts: Mapping[str, RuleText] | None = None,
    notices: Sequence[Notice] = (),
) -> dict[str, Any]:
    """A SARIF log: one run a tool, also for a tool that found nothing.

    Args:
        findings: of tools that are in `ran`.
        ran: (tool, engine, version) of each tool that was run.
        texts: what to say of a weakness, by its id.
        notices: files that could not be judged; they make `executionSuccessful` false.

    Returns:
        The log as plain JSON values; equal findings give an equal log.

    Raises:
        ValueError: a finding's tool is not in `ran`.
    """
    ordered = tidy(findings)
    known = set(ran)
    for finding in ordered:
        if (finding.tool, finding.engine, finding.tool_version) not in known:
            raise ValueError(
                f"a finding of {finding.tool} ({finding.engine}), which is not among the tools run"
            )
    runs = [_run(key, [f for f in ordered if _key(f) == key], texts or {}, notices) for key in ran]
    return {"$schema": SCHEMA, "version": VERSION, "runs": runs}


def _key(finding: Finding) -> tuple[str, str, str]:
    return finding.tool, finding.engine, finding.tool_version


def _run(
    ran: tuple[str, str, str],
    findings: Sequence[Finding],
    texts: Mapping[str, RuleText],
    notices: Sequence[Notice],
) -> dict[str, Any]:
    """One run (3.14): its tool with the rules it used (3.19), its results (3.27) and how it went (3.20)."""
    tool, engine, version = ran
    by_rule = {finding.rule: finding for finding in findings}
    rules = sorted(by_rule)
    driver: dict[str, Any] = {
        "name": tool if engine == tool else f"{tool} (fallback engine {engine})",
        "version": version,
        "rules": [_rule(by_rule[rule], texts.get(by_rule[rule].weakness)) for rule in rules],
    }
    invocation: dict[str, Any] = {"executionSuccessful": not notices}
    if notices:
        invocation["toolExecutionNotifications"] = [_notification(notice) for notice in notices]
    return {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "invocations": [invocation],
        "results": [_result(finding, rules.index(finding.rule)) for finding in findings],
    }


def _rule(finding: Finding, text: RuleText | None) -> dict[str, Any]:
    """A reportingDescriptor (3.49)."""
    tags = ["security"] if finding.weakness else ["style"]
    properties: dict[str, Any] = {"tags": tags}
    rule: dict[str, Any] = {"id": finding.rule, "properties": properties}
    rule["defaultConfiguration"] = {"level": _LEVELS[finding.severity]}
    if finding.weakness:
        properties["weakness"] = finding.weakness
        properties["security-severity"] = _SCORES[finding.severity]
    if text is not None:
        rule["shortDescription"] = {"text": text.title}
        if text.controls:
            properties["controls"] = list(text.controls)
        if text.cwe is not None:
            tags.append(f"external/cwe/cwe-{text.cwe:03d}")
    return rule


def _result(finding: Finding, rule_index: int) -> dict[str, Any]:
    location = _location(finding.file, finding.line)
    if finding.object:
        location["logicalLocations"] = [{"fullyQualifiedName": finding.object, "kind": "object"}]
    return {
        "ruleId": finding.rule,
        "ruleIndex": rule_index,
        "level": _LEVELS[finding.severity],
        "message": {"text": finding.message or finding.rule},
        "locations": [location],
        # A line moves when text above it changes; the object stays, so that a service knows a finding again.
        "partialFingerprints": {"objectRuleMessage/v1": _fingerprint(finding)},
        "properties": {"severity": finding.severity.value, "engine": finding.engine},
    }


def _notification(notice: Notice) -> dict[str, Any]:
    """A notification (3.58)."""
    return {
        "level": "error",
        "message": {"text": notice.message},
        "descriptor": {"id": notice.label},
        "locations": [_location(notice.file, notice.line)],
    }


def _location(file: str, line: int | None) -> dict[str, Any]:
    """A location (3.28); the file's name becomes a URI reference (3.4.3), so that blanks and `%` are safe."""
    safe = quote(file.replace("\\", "/"), safe="/-._~")
    physical: dict[str, Any] = {"artifactLocation": {"uri": safe}}
    if line is not None:
        physical["region"] = {"startLine": line}
    return {"physicalLocation": physical}


def _fingerprint(finding: Finding) -> str:
    parts = (finding.tool, finding.rule, finding.object, finding.file, finding.message)
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()
