"""Findings: what a tool says is wrong with an object, in one form whatever the tool.

A finding names its engine besides its tool, so that a fallback engine's answer never passes for the tool's.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from sv_shared.errors import DataError


class Severity(StrEnum):
    """How bad a weakness is; ordered, `Severity.LOW < Severity.HIGH`."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    CRITICAL = "critical"

    @property
    def rank(self) -> int:
        """0 for low to 3 for critical."""
        return list(Severity).index(self)

    # A StrEnum would compare as text: "critical" < "low".
    def __lt__(self, other: object) -> bool:
        return self.rank < _rank(other)

    def __le__(self, other: object) -> bool:
        return self.rank <= _rank(other)

    def __gt__(self, other: object) -> bool:
        return self.rank > _rank(other)

    def __ge__(self, other: object) -> bool:
        return self.rank >= _rank(other)


def _rank(other: object) -> int:
    if not isinstance(other, Severity):
        # NotImplemented would let the text be compared after all, from its side.
        raise TypeError(f"a severity is not compared with {other!r}")
    return other.rank


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that one tool holds against one object.

    Attributes:
        tool: the tool whose rule it is, such as "opa".
        engine: the program that evaluated the rule: the tool itself, or a fallback engine's name.
        tool_version: the engine's version.
        rule: the tool's own id of the rule.
        weakness: id of the weakness class that the rule shows; "" for a rule about style or reliability.
        severity: how bad that weakness is.
        object: identity of the object, such as "Pod/default/web" or "aws_s3_bucket.logs".
        file: name of the file, as the caller named it.
        line: line of the finding, or of its object's start, from 1; None where the tool tells none.
        message: the tool's words.
    """

    tool: str
    engine: str
    tool_version: str
    rule: str
    weakness: str
    severity: Severity
    object: str
    file: str
    line: int | None
    message: str

    @property
    def is_fallback(self) -> bool:
        """Whether another engine stood in for the tool."""
        return self.engine != self.tool

    def to_dict(self) -> dict[str, Any]:
        """The finding as plain JSON values."""
        return asdict(self) | {"severity": self.severity.value}

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> "Finding":
        """The finding that `to_dict` wrote.

        Raises:
            DataError: a field is missing, unknown or of another type.
        """
        try:
            finding = cls(**{**row, "severity": Severity(row["severity"])})
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"not a finding: {error}", where=str(dict(row))[:200]) from error
        texts = [value for name, value in asdict(finding).items() if name != "line"]
        line_fits = finding.line is None or (type(finding.line) is int and finding.line >= 1)
        if not all(isinstance(text, str) for text in texts) or not line_fits:
            raise DataError("not a finding: a field has the wrong type", where=str(dict(row))[:200])
        return finding


def tidy(findings: Iterable[Finding]) -> list[Finding]:
    """Each finding once, in an order that depends on nothing but the findings: file, line, object, rule."""
    return sorted(set(findings), key=_place)


def weaknesses(findings: Iterable[Finding]) -> set[tuple[str, str]]:
    """The (weakness, object) pairs, which is the form in which tools can be compared and answers scored."""
    return {(finding.weakness, finding.object) for finding in findings if finding.weakness}


def worst(findings: Iterable[Finding]) -> Severity | None:
    """The highest severity among findings that show a weakness; None where there is none."""
    return max((finding.severity for finding in findings if finding.weakness), default=None)


def _place(finding: Finding) -> tuple[str | int, ...]:
    f = finding
    return (f.file, f.line or 0, f.object, f.tool, f.rule, f.message, f.engine, f.tool_version, f.weakness)
