"""Answers: strict parsing of an audit's reply into the violations that it states and its patch."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, ValidationError

from sv_env_config_verification.patches import MAX_PATCH_CHARS
from sv_shared.findings import Severity
from sv_shared.parsers import (
    _CUT_OFF,
    _REASONING_TAG,
    MAX_REPLY_CHARS,
    ParseFailure,
    _Rejected,
    _schema_cause,
    _single_object,
    strip_reasoning,
)

MAX_VIOLATIONS = 5_000
"""Most entries of the list, repeated ones included."""


class Claim(NamedTuple):
    """A violation that an answer states; the fields are those of `rows.Violation`."""

    id: str
    object: str
    severity: Severity

    @property
    def pair(self) -> tuple[str, str]:
        """(weakness, object)."""
        return self.id, self.object


@dataclass(frozen=True, slots=True)
class Answer:
    """A parsed answer.

    Attributes:
        claims: what it says is wrong; a set, so that repeating one changes nothing.
        patch: a unified diff; None where there is none (null, or nothing but white space).
    """

    claims: frozenset[Claim]
    patch: str | None

    @property
    def pairs(self) -> frozenset[tuple[str, str]]:
        """The (weakness, object) pairs."""
        return frozenset(claim.pair for claim in self.claims)

    def severities(self, pair: tuple[str, str]) -> set[Severity]:
        """Every severity that it states for a pair."""
        return {claim.severity for claim in self.claims if claim.pair == pair}

    def to_dict(self) -> dict[str, Any]:
        """The answer as plain JSON values, violations in order."""
        rows = [{"id": c.id, "object": c.object, "severity": c.severity.value} for c in sorted(self.claims)]
        return {"violations": rows, "patch": self.patch}


def _fold(value: object) -> object:
    return value.strip().lower() if isinstance(value, str) else value


def _severity(value: object) -> object:
    return next((severity for severity in Severity if severity.value == _fold(value)), value)


_Name = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=400, pattern=r"^[^\x00]*$")
]


class _ViolationForm(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    id: Annotated[_Name, BeforeValidator(_fold)]
    object: _Name
    severity: Annotated[Severity, BeforeValidator(_severity)]


class _AnswerForm(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    violations: list[_ViolationForm] = Field(max_length=MAX_VIOLATIONS)
    patch: Annotated[str, StringConstraints(max_length=MAX_PATCH_CHARS, pattern=r"^[^\x00]*$")] | None


def parse_answer(reply: str, *, finish_reason: str | None = None) -> Answer | ParseFailure:
    """The answer in a reply, or why there is none; never raises, whatever the reply holds.

    The reply holds exactly one JSON object {"violations": [{"id", "object", "severity"}], "patch"}, all
    of the keys and no others; text around it is allowed as long as it holds no second object. Reasoning
    blocks are taken out first. The case of ids and severities, and white space around names, do not matter.

    Args:
        reply: the assistant's content. Reasoning that the provider returns apart is not passed in.
        finish_reason: why generation ended; under "length" a failure that a cut explains is "truncated".
    """
    cut = finish_reason == "length"
    try:
        return _answer(_object(reply, cut))
    except _Rejected as rejected:
        return ParseFailure("truncated" if cut and rejected.cause in _CUT_OFF else rejected.cause)


def answer_schema() -> dict[str, Any]:
    """The answer's form as a JSON schema, for servers that can force a model into it."""
    violation = {
        "type": "object",
        "properties": {
            "id": {"type": "string", "maxLength": 60},
            "object": {"type": "string", "maxLength": 200},
            "severity": {"enum": [severity.value for severity in Severity]},
        },
        "required": ["id", "object", "severity"],
        "additionalProperties": False,
    }
    return {
        "type": "object",
        "properties": {
            "violations": {"type": "array", "items": violation, "maxItems": 40},
            "patch": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        },
        "required": ["violations", "patch"],
        "additionalProperties": False,
    }


def _object(reply: str, cut: bool) -> Mapping[str, Any]:
    if len(reply) > MAX_REPLY_CHARS:
        raise _Rejected("too_long")
    if _REASONING_TAG.search(reply) is None:
        return _single_object(reply, True, cut)
    try:
        return _single_object(reply, False, cut)  # a tag can only be content of a string then
    except _Rejected:
        return _single_object(strip_reasoning(reply), True, cut)


def _answer(value: Mapping[str, Any]) -> Answer:
    try:
        form = _AnswerForm.model_validate(value)
    except ValidationError as error:
        raise _Rejected(_schema_cause(error)) from None
    claims = frozenset(Claim(row.id, row.object, row.severity) for row in form.violations)
    patch = form.patch if form.patch is not None and form.patch.strip() else None
    return Answer(claims, patch)
