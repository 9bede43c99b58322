"""Strict parsing of a classification answer: text in, an answer or the reason why there is none out.

Nothing here raises because of a reply's content, and the time is linear in its length. A cause never quotes
the reply, so it can be stored where the reply itself must not be.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NoReturn

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from sv_shared.errors import UsageError

MAX_REPLY_CHARS = 2_000_000
"""Longest reply that is looked at, reasoning included: more than any model writes in one turn."""

MAX_ANSWER_CHARS = 150_000
"""Longest reply that is looked at once its reasoning is gone: the longest rationale fits with every
character escaped."""

MAX_TEXT_CHARS = 10_000
"""Longest free text inside an answer."""

PARSE_CAUSES: Mapping[str, str] = {
    "empty": "the reply has no text",
    "reasoning_only": "nothing but reasoning: the reply ends without an answer after it",
    "unclosed_reasoning": "a reasoning block is opened and never closed",
    "truncated": "the reply was cut off at the token limit before its answer was complete",
    "too_long": "the reply, or a text in its answer, is longer than allowed",
    "bad_text": "the reply holds NUL or half of a surrogate pair",
    "no_object": "the reply holds no JSON object",
    "broken_json": "the reply holds something like a JSON object that is not valid JSON",
    "many_objects": "the reply holds more than one JSON object",
    "prose": "there is text around the JSON object",
    "duplicate_key": "a key occurs twice in the JSON object",
    "not_finite": "NaN or Infinity is not a JSON number",
    "too_deep": "the JSON is nested too deeply",
    "unknown_key": "the JSON object has a key that the answer's form does not know",
    "missing_key": "the JSON object lacks a key that the answer's form requires",
    "bad_label": "the label is not one of those on offer",
    "bad_confidence": "the confidence is not a number from 0 to 1",
    "bad_field": "a field does not have the type or the size that the answer's form requires",
}
"""Every cause of a parse failure: its stable name and what it means."""

_CUT_OFF = frozenset({"empty", "reasoning_only", "unclosed_reasoning", "no_object", "broken_json", "prose"})
"""Causes that a cut at the token limit explains."""

Text = Annotated[str, StringConstraints(max_length=MAX_TEXT_CHARS, pattern=r"^[^\x00]*$")]
"""A free text of an answer: at most MAX_TEXT_CHARS characters, no NUL."""

Confidence = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
"""A probability. Strict mode keeps true and "0.9" out; a whole 0 or 1 may be written without a point."""


class ClassificationSchema(BaseModel):
    """The form of every classification answer; an environment's own fields are added by subclassing.

    The parser checks the label against its labels, and that only an abstention comes without a confidence.
    """

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    label: str
    """One of the labels on offer; case and surrounding white space don't matter."""
    confidence: Confidence | None = None
    """The probability that the label is right; may be left out of an abstention."""


class RationaleSchema(ClassificationSchema):
    """The default form: label, confidence, rationale."""

    rationale: Text
    """Why, in words; may be empty. It earns nothing."""


@dataclass(frozen=True, slots=True)
class ClassificationAnswer:
    """A parsed answer.

    Attributes:
        label: the label as the environment spells it, or the abstention label.
        confidence: the stated probability in [0, 1] that the label is right; None only on an abstention.
        extra: the form's other fields by name, such as "rationale", in the types that the form gives them.
    """

    label: str
    confidence: float | None
    extra: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ParseFailure:
    """Why a reply holds no answer.

    Attributes:
        cause: a key of `PARSE_CAUSES`.
    """

    cause: str

    def __str__(self) -> str:
        return f"{self.cause}: {PARSE_CAUSES[self.cause]}"


class _Rejected(ValueError):
    """Carries a cause from the place that found it up to `parse`; never leaves this module."""

    def __init__(self, cause: str) -> None:
        super().__init__(cause)
        self.cause = cause


class JsonClassificationParser:
    """Finds exactly one JSON object that fits the form in a reply.

    Around the object there may be white space and one code fence (bare or marked json), nothing else; with
    `allow_prose` any text that holds no second object. Reasoning blocks are taken out first, unless the whole
    reply is one object, where a tag can only be content of a string.

    Args:
        labels: the labels on offer, as the environment spells them.
        abstain_label: the label that declines to decide; None where that is not on offer.
        schema: the form of the answer.
        allow_prose: whether text may stand around the object.

    Raises:
        UsageError: two labels are the same but for case, or there is none.
    """

    def __init__(
        self,
        labels: Sequence[str],
        abstain_label: str | None = "Abstain",
        *,
        schema: type[ClassificationSchema] = RationaleSchema,
        allow_prose: bool = False,
    ) -> None:
        self.labels = tuple(labels)
        self.abstain_label = abstain_label
        self.schema = schema
        self.allow_prose = allow_prose
        spelled = [*self.labels, *([] if abstain_label is None else [abstain_label])]
        self._canonical = {_fold(label): label for label in spelled}
        if not self.labels or len(self._canonical) < len(spelled) or "" in self._canonical:
            raise UsageError(
                f"labels must be non-empty and differ by more than case, not {spelled}",
                hint="Name each label once",
            )

    def parse(self, reply: str, *, finish_reason: str | None = None) -> ClassificationAnswer | ParseFailure:
        """The answer in a reply, or why there is none; never raises, whatever the reply holds.

        Args:
            reply: the assistant's content. Reasoning that the provider returns apart is not passed in.
            finish_reason: why generation ended; under "length" a failure that a cut explains is "truncated".
        """
        cut = finish_reason == "length"
        try:
            return self._answer(self._only_object(reply, cut))
        except _Rejected as rejected:
            return ParseFailure("truncated" if cut and rejected.cause in _CUT_OFF else rejected.cause)

    def _only_object(self, reply: str, cut: bool) -> dict[str, Any]:
        """The one JSON object that the reply consists of."""
        if len(reply) > MAX_REPLY_CHARS:
            raise _Rejected("too_long")
        if _REASONING_TAG.search(reply) is None:
            return _single_object(reply, self.allow_prose, cut)
        try:
            return _single_object(reply, False, cut)
        except _Rejected:
            return _single_object(strip_reasoning(reply), self.allow_prose, cut)

    def _answer(self, value: dict[str, Any]) -> ClassificationAnswer:
        """The answer that a JSON object states."""
        try:
            form = self.schema.model_validate(value)
        except ValidationError as error:
            raise _Rejected(_schema_cause(error)) from None
        label = self._canonical.get(_fold(form.label))
        if label is None:
            raise _Rejected("bad_label")
        if form.confidence is None and ("confidence" in value or label != self.abstain_label):
            raise _Rejected("bad_confidence" if "confidence" in value else "missing_key")
        extra = {name: form_value for name, form_value in form if name not in ("label", "confidence")}
        return ClassificationAnswer(label, form.confidence, extra)


def _fold(label: str) -> str:
    return label.strip().lower()


def _schema_cause(error: ValidationError) -> str:
    """The cause behind the first thing that does not fit the form."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    where = first["loc"][0] if first["loc"] else ""
    by_type = {
        "extra_forbidden": "unknown_key",
        "missing": "missing_key",
        "string_too_long": "too_long",
        "string_unicode": "bad_text",
        "string_pattern_mismatch": "bad_text",
    }
    by_field = {"label": "bad_label", "confidence": "bad_confidence"}
    return by_type.get(first["type"]) or by_field.get(str(where), "bad_field")


# Reasoning ------------------------------------------------------------------------------------------------

_REASONING_TAG = re.compile(
    r"[<\[◁](/?)(think|thinking|thought|reasoning|analysis|reflection|scratchpad)[>\]▷]", re.IGNORECASE
)


def strip_reasoning(text: str) -> str:
    """The text without its reasoning blocks.

    A block runs from its opening tag to the first closing tag of the same name. A closing tag without an
    opening one ends a block that the chat template opened: all before it is reasoning.

    Raises:
        ValueError: nothing is left, or a block is never closed, so that all is reasoning.
    """
    kept: list[str] = []
    cursor, inside = 0, ""
    for tag in _REASONING_TAG.finditer(text):
        closing, name = bool(tag[1]), tag[2].lower()
        if inside and not (closing and name == inside):
            continue
        if inside:
            inside = ""
        elif closing:
            kept.clear()
        else:
            kept.append(text[cursor : tag.start()])
            inside = name
        cursor = tag.end()
    if inside:
        raise _Rejected("unclosed_reasoning")
    answer = "".join([*kept, text[cursor:]])
    if not answer.strip():
        raise _Rejected("reasoning_only" if text.strip() else "empty")
    return answer


# JSON -----------------------------------------------------------------------------------------------------


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise _Rejected("duplicate_key")
    return value


def _not_finite(_: str) -> NoReturn:
    raise _Rejected("not_finite")


_DECODER = json.JSONDecoder(object_pairs_hook=_unique_keys, parse_constant=_not_finite)

# A brace that can't open an object is skipped here, where it costs least.
_OBJECT_START = re.compile(r'\{\s*["}]')

# Each error of the decoder costs a pass over the text before it (it counts lines).
_MAX_BROKEN = 100


def _single_object(text: str, allow_prose: bool, cut: bool) -> dict[str, Any]:
    """The one JSON object in a text.

    Where the text was cut off, only white space may follow the object: what else would have come is unknown.
    """
    body = text.strip()
    if not body:
        raise _Rejected("empty")
    if len(body) > MAX_ANSWER_CHARS:
        raise _Rejected("too_long")
    _check_text(body)
    body = _without_fence(body)
    found = _objects(body)
    if not found:
        raise _Rejected("broken_json" if "{" in body else "no_object")
    if len(found) > 1:
        raise _Rejected("many_objects")
    value, start, end = found[0]
    if (start > 0 and not allow_prose) or (end < len(body) and (cut or not allow_prose)):
        raise _Rejected("prose")
    return value


def _check_text(text: str) -> None:
    """Rejects what no UTF-8 file and no C string can hold."""
    if "\0" in text:
        raise _Rejected("bad_text")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise _Rejected("bad_text") from None


def _without_fence(body: str) -> str:
    """The inside of a code fence that is bare or marked json; any other text as it is."""
    if len(body) < 6 or not (body.startswith("```") and body.endswith("```")):
        return body
    inner = body[3:-3]
    return (inner[4:] if inner[:4].lower() == "json" else inner).strip()


def _objects(text: str) -> list[tuple[dict[str, Any], int, int]]:
    """The first two JSON objects in a text, each with its start and end.

    After a broken object the search goes on where it broke, not inside what was read already: that keeps the
    time linear, and a part of a broken object is no answer.
    """
    found: list[tuple[dict[str, Any], int, int]] = []
    position, broken = 0, 0
    while len(found) < 2 and broken < _MAX_BROKEN and (start := _OBJECT_START.search(text, position)):
        try:
            value, position = _DECODER.raw_decode(text, start.start())
            found.append((value, start.start(), position))
        except json.JSONDecodeError as error:
            position, broken = max(error.pos, start.start() + 1), broken + 1
        except RecursionError:
            raise _Rejected("too_deep") from None
        except _Rejected:
            raise
        except ValueError:
            # The interpreter refuses to read integers of more than 4,300 digits.
            raise _Rejected("bad_field") from None
    return found


# Refusals -------------------------------------------------------------------------------------------------

_MAX_REFUSAL_CHARS = 600

_REFUSAL = re.compile(
    r"""
    # English
    (?:(?:i(?:'|\ a)m\ (?:very\ |so\ |really\ )?sorry|sorry|i\ apologi[sz]e|apologies|unfortunately)
        [\s,.;:!—-]{0,3} (?:but\ )?)?
    (?:as\ an?\ (?:ai|language\ model)\b [^.,\n]{0,60},\ )?
    (?:
        i(?:\ can't|\ cannot|\ can\ not|\ won't|\ will\ not|(?:\ am|'m)\ (?:unable|not\ able)\ to)\ (?:
            assist\b | help\b(?!\ but) | comply\b | fulfill?\b | participate\b | do\ (?:that|this)\b
            | (?:provide|offer|give|share)\ (?:you\ )?(?:with\ )?(?:that\ |this\ |any\ )?
              (?:information|assistance|help|guidance|instructions|support)\b
            | (?:answer|respond\ to|process|continue\ with|complete)\ (?:that|this|your)
              \ (?:request|question|task)\b
        )
        | i\ (?:must|have\ to|need\ to)\ (?:respectfully\ |politely\ )?(?:decline|refuse)\b
        | i\ (?:respectfully\ |politely\ )?(?:decline|refuse)\ to\b
    )
    # German
    | (?:(?:es\ )?tut\ mir\ leid|entschuldigung|leider) [\s,.;:!—-]{0,3} (?:aber\ )?
        (?:dabei\ |damit\ |hierbei\ )? (?:ich\ kann|kann\ ich)\b
        [^.!?\n]{0,60} \b(?:nicht|keine?)\b [^.!?\n]{0,40}
        \b(?:helfen|weiterhelfen|unterstützen|behilflich|nachkommen|hilfe)\b
    | (?:dabei|damit|hierbei)\ kann\ ich\ (?:ihnen\ |dir\ )?(?:leider\ )?nicht\ (?:weiter)?helfen\b
    | ich\ kann\ (?:ihnen\ |dir\ )?(?:dabei\ |damit\ |hierbei\ )(?:leider\ )?nicht\ (?:weiter)?helfen\b
    | ich\ muss\ (?:das|dies|diese\ (?:anfrage|bitte|aufgabe))\ (?:leider\ )?ablehnen\b
    # Spanish
    | (?:(?:lo\ siento|lo\ lamento|disculp[ae]|perdón|lamentablemente) [\s,.;:!—-]{0,3} (?:pero\ )?)?
        (?:
            no\ (?:te\ |le\ )?(?:puedo|podré)\ (?:
                ayudar(?:te|le)?\b | asistir(?:te|le)?\b | cumplir\b | colaborar\b
                | (?:proporcionar|ofrecer|dar)(?:te|le)?\ (?:esa|ese|eso|ayuda|asistencia)\b
            )
            | (?:debo|tengo\ que)\ (?:rechazar|declinar)\b
        )
    # Japanese
    | (?:(?:大変)?申し訳(?:ありません|ございません|ないです)|すみません|ごめんなさい) [^\n]{0,60}
        (?:手伝い|お答え|対応|協力|支援|応じる) [^。\n]{0,10}
        (?:できません|できかねます|[い致]たしかねます|致しかねます)
    """,
    re.IGNORECASE | re.VERBOSE,
)


def looks_like_refusal(text: str) -> bool:
    """True where a reply without an answer opens by declining the task (English, German, Spanish, Japanese).

    Meant for replies that failed to parse. Conservative: at most 600 characters, no brace, and the refusal is
    the opening. Doubt about the data ("I cannot determine whether ...") is no refusal but a missing answer.
    Both score the floor: a miss moves a reply from one outcome to another and never changes a reward.
    """
    if len(text) > MAX_REPLY_CHARS:
        return False
    try:
        opening = strip_reasoning(text).strip(" \t\r\n*_\"'“”「").replace("’", "'")
    except _Rejected:
        return False
    return len(opening) <= _MAX_REFUSAL_CHARS and "{" not in opening and _REFUSAL.match(opening) is not None
