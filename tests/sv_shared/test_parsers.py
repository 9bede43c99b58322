"""The parser: exactly one object that fits, or a cause; never an exception, never slow."""

import json
import time
from typing import Annotated, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import Field

from sv_shared.errors import UsageError
from sv_shared.parsers import (
    MAX_ANSWER_CHARS,
    MAX_REPLY_CHARS,
    MAX_TEXT_CHARS,
    PARSE_CAUSES,
    ClassificationAnswer,
    ClassificationSchema,
    JsonClassificationParser,
    ParseFailure,
    Text,
    looks_like_refusal,
    strip_reasoning,
)

STRICT = JsonClassificationParser(["Benign", "Malicious"])
LENIENT = JsonClassificationParser(["Benign", "Malicious"], allow_prose=True)
GOOD = '{"label": "Malicious", "confidence": 0.9, "rationale": "S0 to port 23"}'
PARSED = ClassificationAnswer("Malicious", 0.9, {"rationale": "S0 to port 23"})

quick = settings(deadline=None, max_examples=150)


def cause(reply: str, parser: JsonClassificationParser = STRICT, **options: Any) -> str:
    """The cause of a failure, or "" where there is an answer."""
    result = parser.parse(reply, **options)
    return result.cause if isinstance(result, ParseFailure) else ""


def reply(**changes: Any) -> str:
    return json.dumps({"label": "Malicious", "confidence": 0.9, "rationale": "S0 to port 23"} | changes)


# What is an answer


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        f"\n\t {GOOD}  \n",
        f"```json\n{GOOD}\n```",
        f"```JSON\n{GOOD}\n```",
        f"```\n{GOOD}\n```\n",
        f"```json {GOOD} ```",
        f"<think>port 23, so ...</think>\n{GOOD}",
        f"port 23, so ...</think>\n{GOOD}",
        f"<THINKING>{GOOD}</THINKING>{GOOD}",
        f"[THINK]a[/THINK]```json\n{GOOD}\n```",
        f"<think>I should use <think> tags</think>{GOOD}",
        f"{GOOD}<think>was that right?</think>",
        f"{GOOD}<think>no</think>again</think>{GOOD}",
    ],
)
def test_the_object_is_found(text: str) -> None:
    assert STRICT.parse(text) == PARSED


@pytest.mark.parametrize("label", ["malicious", "MALICIOUS", "  Malicious\n", "mAlIcIoUs"])
def test_label_case_and_space_are_folded_to_the_canonical_label(label: str) -> None:
    result = STRICT.parse(reply(label=label))
    assert isinstance(result, ClassificationAnswer)
    assert result.label == "Malicious"


@pytest.mark.parametrize(("written", "value"), [("0", 0.0), ("1", 1.0), ("1e0", 1.0), ("5E-1", 0.5)])
def test_any_json_number_in_range_is_a_confidence(written: str, value: float) -> None:
    result = STRICT.parse(GOOD.replace("0.9", written))
    assert isinstance(result, ClassificationAnswer)
    assert result.confidence == value
    assert isinstance(result.confidence, float)


def test_only_an_abstention_may_leave_the_confidence_out() -> None:
    without = '{"label": "%s", "rationale": ""}'
    assert STRICT.parse(without % "abstain") == ClassificationAnswer("Abstain", None, {"rationale": ""})
    assert STRICT.parse(reply(label="Abstain")) == ClassificationAnswer("Abstain", 0.9, PARSED.extra)
    assert cause(without % "Benign") == "missing_key"
    assert cause(reply(label="Abstain", confidence=1.1)) == "bad_confidence"
    assert cause(reply(label="Abstain", confidence=None)) == "bad_confidence"


def test_a_reasoning_tag_inside_a_string_is_content() -> None:
    for tag in ("<think>", "</think>", "<think>{}</think>"):
        result = STRICT.parse(reply(rationale=tag))
        assert isinstance(result, ClassificationAnswer)
        assert result.extra == {"rationale": tag}


def test_abstaining_can_be_off_offer() -> None:
    assert (
        cause(reply(label="Abstain"), JsonClassificationParser(["Benign", "Malicious"], None)) == "bad_label"
    )


def test_an_environment_adds_its_own_fields() -> None:
    class EvidenceSchema(ClassificationSchema):
        evidence: Annotated[list[Text], Field(max_length=2)]

    parser = JsonClassificationParser(["Legitimate", "Phishing"], schema=EvidenceSchema)
    text = '{"label": "phishing", "confidence": 1, "evidence": %s}'
    assert parser.parse(text % '["a", "b"]') == ClassificationAnswer(
        "Phishing", 1.0, {"evidence": ["a", "b"]}
    )
    assert cause(text % '["a", "b", "c"]', parser) == "bad_field"
    assert cause(text % "[1]", parser) == "bad_field"
    assert cause(GOOD, parser) == "missing_key"


# What is none


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "empty"),
        (" \n\t", "empty"),
        ("Malicious, 0.9", "no_object"),
        ("null", "no_object"),
        ("[]", "no_object"),
        ("{'label': 'Malicious'}", "broken_json"),
        (GOOD[:-1], "broken_json"),
        (GOOD[:-1] + ",}", "broken_json"),
        (f"[{GOOD}]", "prose"),
        (f"Answer: {GOOD}", "prose"),
        (f"{GOOD}.", "prose"),
        (f"```python\n{GOOD}\n```", "prose"),
        (f"```json\n{GOOD}\n```\nas I said", "prose"),
        (f"```json\n{GOOD}\n", "prose"),
        (GOOD + GOOD, "many_objects"),
        (f"{GOOD}\n{reply(label='Benign')}", "many_objects"),
        (f"```json\n{GOOD}\n```\n```json\n{GOOD}\n```", "many_objects"),
        (f"{{}} {GOOD}", "many_objects"),
        (GOOD[:-1] + ', "label": "Malicious"}', "duplicate_key"),
        (GOOD[:-1] + ', "confidence": 0.9}', "duplicate_key"),
        (GOOD.replace("0.9", '{"a": 1, "a": 1}'), "duplicate_key"),
        (GOOD.replace("0.9", "NaN"), "not_finite"),
        (GOOD.replace("0.9", "Infinity"), "not_finite"),
        (GOOD.replace("0.9", "-Infinity"), "not_finite"),
        (GOOD.replace("0.9", "1e999"), "bad_confidence"),
        (GOOD.replace("0.9", "9" * 4000), "bad_confidence"),
        (reply(confidence=True), "bad_confidence"),
        (reply(confidence="0.9"), "bad_confidence"),
        (reply(confidence=1.1), "bad_confidence"),
        (reply(confidence=-0.1), "bad_confidence"),
        (reply(confidence=1.0000000000000002), "bad_confidence"),
        (reply(confidence=None), "bad_confidence"),
        (reply(confidence=[0.9]), "bad_confidence"),
        (reply(label="Evil"), "bad_label"),
        (reply(label=""), "bad_label"),
        (reply(label=1), "bad_label"),
        (reply(label=["Malicious"]), "bad_label"),
        (reply(severity="high"), "unknown_key"),
        ('{"Label": "Malicious", "confidence": 0.9, "rationale": ""}', "missing_key"),
        ('{"label": "Malicious", "confidence": 0.9}', "missing_key"),
        ("{}", "missing_key"),
        (f'{{"answer": {GOOD}}}', "missing_key"),
        (reply(rationale=None), "bad_field"),
        (reply(rationale=["a"]), "bad_field"),
        (reply(rationale="x" * (MAX_TEXT_CHARS + 1)), "too_long"),
        (reply(rationale="\0"), "bad_text"),
        (reply(rationale="\ud800"), "bad_text"),
        (GOOD.replace("S0", "\ud800"), "bad_text"),
        (GOOD.replace("S0", "\0"), "bad_text"),
        (GOOD.replace("0.9", "9" * 5000), "bad_field"),
        (f"<think>{GOOD}</think>", "reasoning_only"),
        (f"<think>{GOOD}</think>\n", "reasoning_only"),
        (f"{GOOD}</think>", "reasoning_only"),
        (f"<think>{GOOD}", "unclosed_reasoning"),
        (f"{GOOD}<think>or not", "unclosed_reasoning"),
        (f"<think>a<reasoning>b</reasoning>{GOOD}", "unclosed_reasoning"),
        (f"<think>a<think>b</think>{GOOD}</think>", "reasoning_only"),
        ("<think></think>", "reasoning_only"),
        (f"<think>{GOOD}</think>It is an attack.", "no_object"),
    ],
)
def test_everything_else_is_a_failure_with_its_cause(text: str, expected: str) -> None:
    assert cause(text) == expected


def test_text_at_its_longest_is_still_an_answer() -> None:
    assert cause(reply(rationale="x" * MAX_TEXT_CHARS)) == ""
    assert cause(reply(rationale="\U0001f600" * MAX_TEXT_CHARS)) == ""  # each written as two \\u escapes
    assert cause(GOOD + " " * MAX_ANSWER_CHARS) == ""
    assert cause(GOOD + " " * MAX_ANSWER_CHARS + GOOD) == "too_long"


def test_every_cause_has_its_sentence_and_quotes_nothing() -> None:
    failure = STRICT.parse(reply(secret_key_name=1))
    assert str(failure) == f"unknown_key: {PARSE_CAUSES['unknown_key']}"
    assert "secret" not in str(failure)


@pytest.mark.parametrize("labels", [[], ["A", "a"], ["A", " "], ["Abstain", "A"], ["A ", "A"]])
def test_ambiguous_labels_are_refused(labels: list[str]) -> None:
    with pytest.raises(UsageError, match="labels must be"):
        JsonClassificationParser(labels)


# Truncation


@pytest.mark.parametrize("end", range(len(GOOD)))
def test_a_reply_cut_anywhere_is_truncated(end: int) -> None:
    assert cause(GOOD[:end], finish_reason="length") == "truncated"
    assert cause(GOOD[:end], LENIENT, finish_reason="length") == "truncated"
    assert cause(GOOD[:end], finish_reason="stop") in ("empty", "broken_json")


@pytest.mark.parametrize("text", [f"<think>so {GOOD}", f"```json\n{GOOD}\n", f"```json\n{GOOD[:30]}"])
def test_a_cut_explains_open_blocks(text: str) -> None:
    assert cause(text, finish_reason="length") == "truncated"


def test_a_cut_explains_no_wrong_answer() -> None:
    assert STRICT.parse(GOOD, finish_reason="length") == PARSED
    assert cause(reply(confidence="0.9"), finish_reason="length") == "bad_confidence"
    assert cause(GOOD + GOOD, finish_reason="length") == "many_objects"


def test_after_a_cut_prose_may_not_follow_the_object() -> None:
    assert LENIENT.parse(f"I say {GOOD}", finish_reason="length") == PARSED
    assert cause(f"I say {GOOD} although", LENIENT, finish_reason="length") == "truncated"


# Prose


@pytest.mark.parametrize(
    "text",
    [
        f"I say {GOOD}.",
        f"{{ so }} and {{x}}: ```json\n{GOOD}\n``` bye",
        f"<think>{GOOD}</think>Well: {GOOD}",
        GOOD,
    ],
)
def test_prose_around_the_object_where_the_form_allows_it(text: str) -> None:
    assert LENIENT.parse(text) == PARSED


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"I say {GOOD} or {reply(label='Benign')}", "many_objects"),
        (f"Well <think>{GOOD}</think> yes", "no_object"),
        (f"Well <think>{GOOD}", "unclosed_reasoning"),
        (f'{{"a": {GOOD}, oops', "broken_json"),
        (f"I say {reply(confidence=2)}", "bad_confidence"),
    ],
)
def test_prose_is_no_excuse(text: str, expected: str) -> None:
    assert cause(text, LENIENT) == expected


# Any string at all

PIECES = '{ } " [ ] : , ``` json <think> </think> <reasoning> \\ "label" "Benign" "confidence" 0.5 NaN 1e999'
SCRAPS = st.lists(
    st.sampled_from([*PIECES.split(), "\n", " ", "\0", "\ud800", GOOD, '{"a": ', "}}"]), max_size=25
).map("".join)

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)

ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=[]), max_size=200) | SCRAPS


def check_total(text: str, parser: JsonClassificationParser, finish_reason: str | None) -> None:
    result = parser.parse(text, finish_reason=finish_reason)
    if isinstance(result, ParseFailure):
        assert result.cause in PARSE_CAUSES
        return
    assert result.label in ("Benign", "Malicious", "Abstain")
    assert result.confidence is None or 0.0 <= result.confidence <= 1.0
    assert result.confidence is not None or result.label == "Abstain"
    assert isinstance(result.extra["rationale"], str)


@quick
@given(ANY_TEXT, st.sampled_from([STRICT, LENIENT]), st.sampled_from([None, "length", "stop", "?"]))
def test_any_string_gives_an_answer_or_a_cause(
    text: str, parser: JsonClassificationParser, finish_reason: str | None
) -> None:
    check_total(text, parser, finish_reason)
    assert looks_like_refusal(text) in (True, False)


@quick
@given(JSON_VALUES, st.sampled_from([STRICT, LENIENT]))
def test_any_json_value_gives_an_answer_or_a_cause(value: Any, parser: JsonClassificationParser) -> None:
    check_total(json.dumps(value), parser, None)


@quick
@given(JSON_VALUES.filter(lambda value: not isinstance(value, (int, float)) or isinstance(value, bool)))
def test_no_value_but_a_number_is_a_confidence(value: Any) -> None:
    assert cause(json.dumps({"label": "Benign", "confidence": value, "rationale": ""})) != ""


@quick
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_confidence_is_taken_exactly_if_it_is_a_probability(value: float) -> None:
    result = STRICT.parse(reply(confidence=value))
    if 0 <= value <= 1:
        assert result == ClassificationAnswer("Malicious", value, PARSED.extra)
    else:
        assert result == ParseFailure("bad_confidence")


CLEAN_TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=100)


@quick
@given(CLEAN_TEXT, st.booleans())
def test_what_was_written_is_read_back(rationale: str, ascii_only: bool) -> None:
    fields = {"label": "Benign", "confidence": 0.25, "rationale": rationale}
    text = json.dumps(fields, ensure_ascii=ascii_only)
    expected = ClassificationAnswer("Benign", 0.25, {"rationale": rationale})
    assert STRICT.parse(text) == expected
    assert STRICT.parse(f"```json\n{text}\n```") == expected
    assert cause(text + text) == "many_objects"
    assert cause(f"<think>{text}</think>") != ""


@quick
@given(SCRAPS.filter(lambda text: "</think>" not in text), SCRAPS)
def test_reasoning_in_front_changes_nothing(reasoning: str, rest: str) -> None:
    if "think" not in rest and "reasoning" not in rest and rest.strip():
        assert STRICT.parse(f"<think>{reasoning}</think>{rest}") == STRICT.parse(rest)


HOSTILE = {
    "open lists": "[" * 10_000_000,
    "open objects": '{"a":' * 2_000_000,
    "long string": '{"label": "' + "a" * 10_000_000,
    "open think": "<think>" * 1_400_000,
    "closed think": "</think>" * 200_000,
    "tag starts": "<" * (MAX_REPLY_CHARS - 1),
    "deep object": '{"a":' * (MAX_ANSWER_CHARS // 6),
    "deep list": '{"a":' + "[" * (MAX_ANSWER_CHARS - 10),
    "deep closed list": '{"a":' + "[" * 45_000 + "]" * 45_000 + "}",
    "braces": "{" * (MAX_ANSWER_CHARS - 1),
    "brace quotes": '{"' * (MAX_ANSWER_CHARS // 2 - 1),
    "brace spaces": "{ " * (MAX_ANSWER_CHARS // 2 - 1),
    "escaped quotes": '{"' + '\\"{' * 30_000,
    "long integer": '{"a":' + "9" * 90_000 + "}",
    "long fraction": GOOD.replace("0.9", "0." + "9" * 90_000 + "x"),
    "many keys": "{" + ",".join(f'"{n}":1' for n in range(9000)) + "}",
    "nested starts": ('{"a":[' + "1," * 100) * 400,
    "surrogates": "\ud800" * (MAX_ANSWER_CHARS - 1),
    "spaces": " " * (MAX_REPLY_CHARS - 1),
    "refusal words": "i can't " * 70,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_replies_fail_fast(name: str) -> None:
    begin = time.process_time()
    for parser in (STRICT, LENIENT):
        assert cause(HOSTILE[name], parser) in PARSE_CAUSES
    looks_like_refusal(HOSTILE[name])
    assert time.process_time() - begin < 2.0


def test_reasoning_that_fills_the_reply_is_linear_not_quadratic() -> None:
    begin = time.process_time()
    assert STRICT.parse("<think>" + "<reasoning>" * 150_000 + "</think>" + GOOD) == PARSED
    assert time.process_time() - begin < 2.0


def test_no_reply_is_read_beyond_its_limit() -> None:
    reasoned = f"<think>{'hm ' * (MAX_REPLY_CHARS // 3)}</think>"
    assert cause(reasoned + GOOD) == "too_long"
    assert STRICT.parse(f"<think>{'hm ' * (MAX_REPLY_CHARS // 4)}</think>" + GOOD) == PARSED


def test_strip_reasoning_says_when_nothing_is_left() -> None:
    assert strip_reasoning("a<think>b</think>c") == "ac"
    with pytest.raises(ValueError, match="unclosed_reasoning"):
        strip_reasoning("a<think>b")
