"""Chat completions of every kind, and of none, become one shape or are malformed."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from security_verifiers.models.endpoint import parse_completion
from security_verifiers.models.transport import Malformed

from .fake_provider import chat

TOOL_CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at": 1}'}}


@pytest.mark.parametrize(
    ("response", "message"),
    [
        (
            chat(None, message={"content": None, "tool_calls": [TOOL_CALL]}, finish_reason="tool_calls"),
            {"content": None, "tool_calls": [TOOL_CALL]},
        ),
        (
            chat(message={"content": "a", "reasoning_content": "b"}),
            {"content": "a", "reasoning_content": "b"},
        ),
        (chat(message={"content": "a", "reasoning": "b"}), {"content": "a", "reasoning_content": "b"}),
        (chat(message={"content": None, "refusal": "no"}), {"content": "", "refusal": "no"}),
        (chat(message={"content": [{"type": "text", "text": "a"}]}), {"content": "a"}),
        # A reasoning model that ran out of length has nothing to say, and that is its own result.
        (chat(message={"content": None}, finish_reason="length"), {"content": ""}),
    ],
    ids=["tool call", "reasoning_content", "reasoning", "refusal", "text parts", "cut before the answer"],
)
def test_messages_of_every_kind_come_out_in_one_shape(response: Any, message: Any) -> None:
    assert parse_completion(response).message == {"role": "assistant", **message}


def test_details_of_usage_are_read() -> None:
    usage = {
        "prompt_tokens": 50,
        "completion_tokens": 20,
        "completion_tokens_details": {"reasoning_tokens": 15},
        "prompt_tokens_details": {"cached_tokens": 40},
    }
    parsed = parse_completion(chat() | {"usage": usage}).usage
    assert parsed is not None
    assert (parsed.reasoning_tokens, parsed.cached_tokens, parsed.total_tokens) == (15, 40, 70)


@pytest.mark.parametrize(
    ("choice", "ids", "logprobs"),
    [
        (
            {"logprobs": {"content": [{"logprob": -0.5}, {"logprob": -1}]}, "token_ids": [7, 8]},
            [7, 8],
            [-0.5, -1],
        ),
        ({"logprobs": {"content": [{"logprob": -0.5, "id": 7}]}}, [7], [-0.5]),
        ({"logprobs": {"content": [{"logprob": -0.5}]}}, None, [-0.5]),
        ({"token_ids": [7, 8]}, [7, 8], None),
        ({"logprobs": None}, None, None),
    ],
    ids=["vLLM", "llama.cpp", "OpenAI", "ids alone", "none"],
)
def test_tokens_and_log_probabilities_are_read_where_they_are_given(
    choice: Any, ids: list[int] | None, logprobs: list[float] | None
) -> None:
    parsed = parse_completion(chat(**choice))
    assert (parsed.token_ids, parsed.logprobs) == (ids, logprobs)


json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.fixed_dictionaries(
        {
            "choices": json_values
            | st.lists(
                st.dictionaries(
                    st.sampled_from(["message", "finish_reason", "logprobs", "token_ids"]), json_values
                ),
                max_size=2,
            )
        },
        optional={"usage": json_values, "model": json_values, "error": json_values},
    )
)
def test_any_object_is_a_completion_or_malformed(response: dict[str, Any]) -> None:
    try:
        parsed = parse_completion(response)
    except Malformed:
        return
    assert parsed.message["role"] == "assistant"
    assert isinstance(parsed.finish_reason, str)
