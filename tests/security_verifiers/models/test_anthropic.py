"""The Messages dialect: translation both ways, and the same faults as any provider's."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from security_verifiers.models.anthropic import parse_message, translate_messages, translate_tool
from security_verifiers.models.base import Sampling
from security_verifiers.models.retries import RetryPolicy
from security_verifiers.models.transport import Malformed
from sv_shared.errors import ModelError

from .conftest import Connect
from .fake_provider import KEY, FakeProvider, FakeTime, answer, anthropic_message, ask, failing, failure

TEXT = {"type": "text", "text": "ok"}


def entry_of(provider: FakeProvider, **changes: Any) -> Any:
    return provider.entry("anthropic", sampling={"max_tokens": 64}, takes_seed=False, **changes)


async def test_a_tool_conversation_goes_there_and_back(provider: FakeProvider, connected: Connect) -> None:
    """The assistant's own tool calls, fed back as they came, arrive as the blocks that they came from."""
    use = [
        {"type": "tool_use", "id": "t1", "name": "look", "input": {"at": "ü", "n": [1, 2]}},
        {"type": "tool_use", "id": "t2", "name": "look", "input": {}},
    ]
    provider.script = [answer(anthropic_message(TEXT, *use, stop_reason="tool_use"))]
    provider.default = answer(anthropic_message(TEXT))
    tool = {
        "type": "function",
        "function": {"name": "look", "description": "Looks.", "parameters": {"type": "object"}},
    }
    model = connected(entry_of(provider))
    await model.start()
    talk: list[dict[str, Any]] = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Look twice."},
    ]
    first = await model.complete(talk, [tool], Sampling(temperature=0.3, seed=9))
    assert first.finish_reason == "tool_calls"
    talk.append(first.message)
    for call in first.message["tool_calls"]:
        talk.append({"role": "tool", "tool_call_id": call["id"], "content": f"saw {call['id']}"})
    talk.append({"role": "user", "content": "And now?"})
    second = await model.complete(talk, [tool], Sampling())
    await model.close()

    assert provider.paths == ["/v1/messages"] * 2
    assert provider.headers[0]["x-api-key"] == KEY
    assert provider.headers[0]["anthropic-version"] == "2023-06-01"
    assert provider.bodies[0] == {
        "model": "fake-1",
        "system": "Be brief.",
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Look twice."}]}],
        "tools": [{"name": "look", "description": "Looks.", "input_schema": {"type": "object"}}],
        "max_tokens": 64,
        "temperature": 0.3,
    }
    assert provider.bodies[1]["messages"][1:] == [
        {"role": "assistant", "content": [TEXT, *use]},
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "t1", "content": "saw t1"},
                {"type": "tool_result", "tool_use_id": "t2", "content": "saw t2"},
                {"type": "text", "text": "And now?"},
            ],
        },
    ]
    assert (second.message, second.finish_reason) == ({"role": "assistant", "content": "ok"}, "stop")
    assert second.usage is not None
    assert (second.usage.prompt_tokens, second.usage.completion_tokens) == (10, 4)


arguments = st.dictionaries(st.text(), st.none() | st.booleans() | st.integers() | st.text(), max_size=4)


@given(st.lists(st.tuples(st.text(min_size=1), arguments), max_size=4), st.text())
def test_tool_calls_survive_the_round_trip(calls: list[tuple[str, dict[str, Any]]], text: str) -> None:
    blocks = [
        {"type": "tool_use", "id": f"t{i}", "name": name, "input": given_}
        for i, (name, given_) in enumerate(calls)
    ]
    spoken = [{"type": "text", "text": text}] if text else []
    came = json.loads(json.dumps(anthropic_message(*spoken, *blocks)))
    message = parse_message(came).message
    _, turns = translate_messages([{"role": "user", "content": "go"}, message])
    assert turns[1:] == ([{"role": "assistant", "content": came["content"]}] if came["content"] else [])


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("tool_use", "tool_calls"),
        ("refusal", "content_filter"),
        ("pause_turn", "pause_turn"),
    ],
)
def test_stop_reasons_become_finish_reasons(reason: str, finish: str) -> None:
    assert parse_message(anthropic_message(TEXT, stop_reason=reason)).finish_reason == finish


def test_a_refusal_says_so_even_without_words() -> None:
    parsed = parse_message(anthropic_message(stop_reason="refusal"))
    assert parsed.message["content"] == ""
    assert parsed.message["refusal"]


def test_thinking_becomes_reasoning_content() -> None:
    thought = {"type": "thinking", "thinking": "hm", "signature": "abc"}
    message = parse_message(anthropic_message(thought, TEXT)).message
    assert message == {"role": "assistant", "content": "ok", "reasoning_content": "hm"}


def test_cached_prompt_tokens_are_part_of_the_prompt() -> None:
    response = anthropic_message(TEXT)
    response["usage"] |= {"cache_read_input_tokens": 30, "cache_creation_input_tokens": 5}
    usage = parse_message(response).usage
    assert usage is not None
    assert (usage.prompt_tokens, usage.cached_tokens) == (45, 30)


@pytest.mark.parametrize(
    "response",
    [
        {},
        {"content": "text", "stop_reason": "end_turn"},
        {"content": [None], "stop_reason": "end_turn"},
        {"content": [{"type": "text"}], "stop_reason": "end_turn"},
        {"content": [{"type": "tool_use", "id": "1", "name": "f"}], "stop_reason": "tool_use"},
        {"content": [], "stop_reason": None},
    ],
)
async def test_what_is_no_message_is_malformed(
    response: Any, provider: FakeProvider, connected: Connect
) -> None:
    with pytest.raises(Malformed):
        parse_message(response)
    provider.default = answer(response)
    error = await failing(connected(entry_of(provider), policy=RetryPolicy(attempts=2)))
    assert (error.kind, provider.requests) == ("malformed", 2)


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ([{"role": "user", "content": "a"}, {"role": "system", "content": "b"}], "only at the start"),
        ([{"role": "narrator", "content": "a"}], "no role 'narrator'"),
        ([{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}], "only text"),
        (
            [
                {
                    "role": "assistant",
                    "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "[1]"}}],
                }
            ],
            "JSON object",
        ),
    ],
)
def test_what_the_dialect_cannot_say_is_an_error(messages: Any, words: str) -> None:
    with pytest.raises(ModelError, match=words):
        translate_messages(messages)


def test_a_tool_without_parameters_takes_an_empty_object() -> None:
    tool = {"type": "function", "function": {"name": "ping"}}
    assert translate_tool(tool) == {"name": "ping", "input_schema": {"type": "object", "properties": {}}}


async def test_both_temperature_and_top_p_are_refused_before_sending(
    provider: FakeProvider, connected: Connect
) -> None:
    with pytest.raises(ModelError, match="not both"):
        await ask(connected(entry_of(provider)), sampling=Sampling(temperature=0.5, top_p=0.9))
    assert provider.requests == 0


async def test_faults_are_handled_as_in_the_other_dialect(
    provider: FakeProvider, connected: Connect, fake_time: FakeTime
) -> None:
    provider.script = [failure(529), failure(429, {"retry-after": "3"})]
    provider.default = answer(anthropic_message(TEXT))
    assert (await ask(connected(entry_of(provider)))).attempts == 3
    assert fake_time.slept == [0.5, 3.5]
    provider.default = failure(429, details={"error_code": "enforced_spend_limit_reached"})
    assert not (await failing(connected(entry_of(provider)))).retryable
    provider.default = failure(401)
    assert "FAKE_API_KEY" in str(await failing(connected(entry_of(provider))))
