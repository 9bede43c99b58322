"""What each storage mode lets through."""

import json
import re
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sv_shared.storage import PLAIN, Storage, apply_storage, fingerprint, redact

# No hex digits and no letters of our keys and words: what of such a text survives can't be there by chance.
SECRET = st.text(alphabet="ŻÄ漢字👾QWXZ!?§ \n\ud800", min_size=4, max_size=30)
VALUE = st.recursive(
    st.one_of(SECRET, st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(["label", "note", "path"]), inner)
    ),
    max_leaves=6,
)
MESSAGES = st.lists(
    st.fixed_dictionaries(
        {"role": st.one_of(st.sampled_from(["user", "assistant", "tool"]), SECRET), "content": VALUE},
        optional={
            "reasoning_content": SECRET,
            "name": SECRET,
            "tool_calls": st.lists(
                st.fixed_dictionaries(
                    {
                        "id": SECRET,
                        "function": st.fixed_dictionaries(
                            {"name": SECRET, "arguments": st.one_of(SECRET, st.dictionaries(SECRET, VALUE))}
                        ),
                    }
                ),
                max_size=2,
            ),
        },
    ),
    max_size=3,
)
RECORD = st.fixed_dictionaries(
    {
        "type": st.just("rollout"),
        "key": st.just({"task": "k1", "sample": 0, "seed": 42}),
        "outcome": st.just("scored"),
        "reward": st.floats(-4, 1.5),
        "parsed": VALUE,
        "truth": VALUE,
        "cause": SECRET,
        "error": st.one_of(st.none(), st.fixed_dictionaries({"where": st.just("tools"), "message": SECRET})),
        "seats": st.dictionaries(
            st.sampled_from(["agent", "defender"]),
            st.fixed_dictionaries({"model": st.just("m"), "prompt": MESSAGES, "completion": MESSAGES}),
            max_size=2,
        ),
        "a field of tomorrow": VALUE,
    }
)


def texts(value: Any) -> list[str]:
    """Every string of a record, keys of tool arguments included, that is drawn from SECRET."""
    if isinstance(value, str):
        return [value] if set(value) <= set("ŻÄ漢字👾QWXZ!?§ \n\ud800") and value else []
    if isinstance(value, dict):
        return [text for key, item in value.items() for text in (*texts(key), *texts(item))]
    return [text for item in value for text in texts(item)] if isinstance(value, list) else []


@given(record=RECORD)
@settings(max_examples=150)
def test_no_piece_of_any_text_survives_hash_only(record: dict[str, Any]) -> None:
    before = json.dumps(record)
    stored = apply_storage(record, Storage.HASH_ONLY)
    assert json.dumps(record) == before
    kept = json.dumps(stored, ensure_ascii=False)
    escaped = json.dumps(stored)
    for text in texts(record):
        for start in range(len(text) - 3):
            piece = text[start : start + 4]
            if piece.strip():
                assert piece not in kept
                assert json.dumps(piece)[1:-1] not in escaped


@given(record=RECORD)
@settings(max_examples=50)
def test_numbers_and_our_own_words_stay(record: dict[str, Any]) -> None:
    for storage in (Storage.HASH_ONLY, Storage.REDACTED):
        stored = apply_storage(record, storage)
        assert list(stored) == list(record)
        for key in ("type", "key", "outcome", "reward"):
            assert stored[key] == record[key]
        for name, seat in record["seats"].items():
            assert stored["seats"][name]["model"] == seat["model"]


@given(record=RECORD)
def test_full_keeps_everything(record: dict[str, Any]) -> None:
    assert apply_storage(record, Storage.FULL) == record


def test_hash_only_by_hand() -> None:
    record = {
        "cause": "wrong_label: the label 'Banana' is not known",
        "parsed": {"label": "Malicious", "confidence": 0.9, "note": ""},
        "flags": ["tampering"],
        "error": {"where": "tools", "type": "ToolError", "message": "rm -rf"},
        "seats": {
            "agent": {
                "model": "m",
                "finish_reason": "stop",
                "completion": [{"role": "assistant", "content": "hello"}],
                "token_ids": [[1, 2], [3]],
            }
        },
    }
    stored = apply_storage(record, Storage.HASH_ONLY)
    assert stored["cause"] == "wrong_label"
    assert stored["parsed"] == {"label": fingerprint("Malicious"), "confidence": 0.9, "note": ""}
    assert stored["flags"] == ["tampering"]
    assert stored["error"] == {"where": "tools", "type": "ToolError", "message": fingerprint("rm -rf")}
    agent = stored["seats"]["agent"]
    assert (agent["model"], agent["finish_reason"]) == ("m", "stop")
    assert agent["completion"] == [{"role": "assistant", "content": fingerprint("hello")}]
    assert agent["token_ids"] == fingerprint("[[1, 2], [3]]")
    assert fingerprint("hello") == {
        "sha256": "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824",
        "chars": 5,
    }


def test_redacted_by_hand() -> None:
    record = {
        "truth": "see http://evil.example/x",
        "parsed": {"label": "Malicious"},
        "seats": {
            "agent": {
                "completion": [{"role": "assistant", "content": "mail bob@corp.example now"}],
                "token_ids": [[17, 18]],
            }
        },
    }
    stored = apply_storage(record, Storage.REDACTED)
    assert stored["truth"] == "see [url]"
    assert stored["parsed"] == {"label": "Malicious"}
    message = stored["seats"]["agent"]["completion"][0]
    assert message["role"] == "assistant"
    assert message["content"] == {**fingerprint("mail bob@corp.example now"), "text": "mail [email] now"}
    assert stored["seats"]["agent"]["token_ids"] == fingerprint("[[17, 18]]")
    loud = apply_storage(record, Storage.REDACTED, redactor=lambda text: text.upper())
    assert loud["truth"] == "SEE HTTP://EVIL.EXAMPLE/X"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("go to https://a.example/p?q=1#x, then", "go to [url] then"),
        ("hxxp://evil.example and www.evil.example", "[url] and [url]"),
        ("from a.b+c@mail.example", "from [email]"),
        ("host 192.168.1.10 in 10.0.0.0/8", "host [ip] in [ip]"),
        ("peer fe80::1ff:fe23:4567:890a. At 12:34:56 ::1", "peer [ip]. At 12:34:56 [ip]"),
        ("card 4111 1111 1111 1111, phone 555-123-4567", "card [number], phone [number]"),
        ("key sk-abcdefghijklmnop1234567890", "key [token]"),
        ("aGVsbG8gd29ybGQgaGVsbG8gd29ybGQ=", "[token]"),
        ("port 443, 1024 bytes, a-perfectly-ordinary-hyphenated-word", None),
        ("--------------------------------", None),
    ],
)
def test_default_redactor(text: str, expected: str | None) -> None:
    assert redact(text) == (text if expected is None else expected)


@given(st.text(max_size=200) | st.text(alphabet="0123456789aBf.:/@- wht\n", max_size=200))
def test_redactor_takes_any_text_and_is_settled_after_one_pass(text: str) -> None:
    once = redact(text)
    assert redact(once) == once


@pytest.mark.parametrize("unit", ["a", "1", "1 ", "a.", "a@", ":", "1.", "http://", "%", "A1b2"])
def test_redactor_takes_linear_time(unit: str) -> None:
    text = unit * (200_000 // len(unit))
    started = time.process_time()
    redact(text)
    assert (
        time.process_time() - started < 3.0
    )  # at most 0.2 s where it was measured; quadratic would take hours


def test_plain_paths_name_fields_of_a_record() -> None:
    assert all(re.fullmatch(r"[a-z_]+|\*", part) for path in PLAIN for part in path)
    assert not any({"prompt", "completion", "content", "truth", "parsed"} & set(path) for path in PLAIN)
