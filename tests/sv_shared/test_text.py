"""Text from outside: what UTF-8 can't hold, and what is nested too deeply for a decoder."""

import json

from hypothesis import given
from hypothesis import strategies as st

from sv_shared.text import MAX_NESTING, mend_surrogates, nests_too_deep

ANY_TEXT = st.text(st.characters(exclude_categories=()))
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_TEXT, inner, max_size=3),
    max_leaves=10,
)


@given(ANY_TEXT)
def test_mended_text_is_utf8_and_of_the_same_length(text: str) -> None:
    mended = mend_surrogates(text)
    mended.encode()
    assert len(mended) == len(text)
    assert all(
        a == b or (b == "\ufffd" and "\ud800" <= a <= "\udfff") for a, b in zip(text, mended, strict=True)
    )


@given(st.text())
def test_sound_text_is_left_alone(text: str) -> None:
    assert mend_surrogates(text) == text


@given(ANY_JSON)
def test_values_keep_their_shape(value: object) -> None:
    mended = mend_surrogates(value)
    json.dumps(mended, ensure_ascii=False).encode()
    assert type(mended) is type(value)
    if isinstance(value, list):
        assert len(mended) == len(value)


@given(ANY_JSON)
def test_no_ordinary_json_is_too_deep(value: object) -> None:
    assert not nests_too_deep(json.dumps(value))


@given(st.integers(0, 3 * MAX_NESTING), st.sampled_from(["[", '{"a":']))
def test_depth_is_counted(depth: int, opening: str) -> None:
    closing = "]" if opening == "[" else "}"
    assert nests_too_deep(opening * depth + "1" + closing * depth) == (depth > MAX_NESTING)


@given(st.integers(MAX_NESTING + 1, 500))
def test_brackets_in_strings_do_not_count(count: int) -> None:
    assert not nests_too_deep(json.dumps({"text": "[" * count + '\\"' + "{" * count}))
    assert not nests_too_deep(json.dumps([[]] * count))


@given(ANY_TEXT)
def test_any_text_gets_an_answer(text: str) -> None:
    assert nests_too_deep(text) in (True, False)
