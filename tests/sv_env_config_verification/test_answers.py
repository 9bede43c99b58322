"""One JSON object of the right form is an answer; anything else is a parse failure with its cause."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sv_env_config_verification.answers import Answer, Claim, answer_schema, parse_answer
from sv_shared.findings import Severity
from sv_shared.parsers import PARSE_CAUSES, ParseFailure

GOOD = {"violations": [{"id": "host-pid", "object": "Pod/a/b", "severity": "high"}], "patch": None}


def parsed(value: Any, **settings: Any) -> Answer:
    answer = parse_answer(value if isinstance(value, str) else json.dumps(value), **settings)
    assert isinstance(answer, Answer), answer
    return answer


def cause(reply: Any, **settings: Any) -> str:
    answer = parse_answer(reply if isinstance(reply, str) else json.dumps(reply), **settings)
    assert isinstance(answer, ParseFailure), answer
    return answer.cause


def test_a_set_of_claims_and_a_patch() -> None:
    answer = parsed(GOOD | {"violations": GOOD["violations"] * 1000, "patch": "--- a\n"})
    assert answer.claims == {Claim("host-pid", "Pod/a/b", Severity.HIGH)}
    assert answer.pairs == {("host-pid", "Pod/a/b")}
    assert answer.patch == "--- a\n"
    assert parsed(answer.to_dict()) == answer


def test_case_and_white_space_are_folded_once() -> None:
    rough = [{"id": " Host-PID", "object": "Pod/a/b ", "severity": "HIGH"}]
    assert parsed(GOOD | {"violations": rough, "patch": " \n"}) == parsed(GOOD)
    assert parsed(GOOD | {"violations": [rough[0] | {"object": "pod/a/b"}]}) != parsed(GOOD)


def test_text_around_the_object_is_allowed_and_a_second_object_is_not() -> None:
    text = json.dumps(GOOD)
    assert parsed(f"I looked at it.\n```json\n{text}\n```\nDone.") == parsed(GOOD)
    assert parsed(f"<think>{text[:-9]} hm</think>{text}") == parsed(GOOD)
    assert cause(f"{text}{text}") == "many_objects"
    assert cause(f"<think>{text}</think>") == "reasoning_only"


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("", "empty"),
        ("hello", "no_object"),
        ('{"violations": [', "broken_json"),
        ([GOOD], ""),
        ({"violations": []}, "missing_key"),
        ({"patch": None}, "missing_key"),
        (GOOD | {"note": ""}, "unknown_key"),
        (GOOD | {"violations": None}, "bad_field"),
        (GOOD | {"violations": {}}, "bad_field"),
        (GOOD | {"violations": ["host-pid"]}, "bad_field"),
        (GOOD | {"violations": [{"id": "x", "object": "y"}]}, "missing_key"),
        (GOOD | {"violations": [{"id": "x", "object": "y", "severity": "huge"}]}, "bad_field"),
        (GOOD | {"violations": [{"id": "x", "object": "y", "severity": 3}]}, "bad_field"),
        (GOOD | {"violations": [{"id": "", "object": "y", "severity": "low"}]}, "bad_field"),
        (GOOD | {"violations": [{"id": 1, "object": "y", "severity": "low"}]}, "bad_field"),
        (GOOD | {"violations": [{"id": "x", "object": "y\0", "severity": "low"}]}, "bad_text"),
        (GOOD | {"patch": 7}, "bad_field"),
        (GOOD | {"patch": ["-"]}, "bad_field"),
        (GOOD | {"patch": "\0"}, "bad_text"),
        ('{"violations": [], "patch": null, "patch": "x"}', "duplicate_key"),
        ('{"violations": [NaN], "patch": null}', "not_finite"),
    ],
    ids=lambda value: None if isinstance(value, dict | list) else str(value)[:20],
)
def test_every_misfit_has_its_cause(reply: Any, expected: str) -> None:
    if expected:
        assert cause(reply) == expected
    else:
        assert parsed(reply) == parsed(GOOD)  # the brackets around the one object are text around it


def test_a_cut_reply_says_so() -> None:
    text = json.dumps(GOOD)
    assert cause(text[:-4], finish_reason="length") == "truncated"
    assert cause(f"{text} and", finish_reason="length") == "truncated"
    assert parsed(text, finish_reason="length") == parsed(GOOD)


@given(
    st.text(max_size=300)
    | st.dictionaries(st.sampled_from(["violations", "patch", "x"]), st.none()).map(json.dumps)
)
def test_no_reply_raises(reply: str) -> None:
    answer = parse_answer(reply)
    assert isinstance(answer, Answer) or answer.cause in PARSE_CAUSES


ROWS = st.fixed_dictionaries(
    {
        "id": st.sampled_from(["a", "b"]),
        "object": st.sampled_from(["x", "y"]),
        "severity": st.sampled_from(list(Severity)),
    }
)


@given(st.lists(ROWS, max_size=6), st.randoms())
def test_order_and_repetition_change_nothing(rows: list[dict[str, str]], random: Any) -> None:
    shuffled = rows * 2
    random.shuffle(shuffled)
    assert parsed(GOOD | {"violations": rows}) == parsed(GOOD | {"violations": shuffled})


def test_the_schema_describes_what_the_parser_takes() -> None:
    from jsonschema import Draft202012Validator

    validator = Draft202012Validator(answer_schema())
    assert validator.is_valid(GOOD)
    assert not validator.is_valid(GOOD | {"note": 1})
    assert not validator.is_valid({"violations": []})
