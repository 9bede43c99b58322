"""The chat loop: what a model gets wrong is told to it, and transports outlive no event loop."""

import asyncio
import json
from contextlib import AsyncExitStack
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sv_shared.harness import ChatHarness, answer_call, connect_tools


def call(arguments: str | None) -> dict[str, Any]:
    """A tool call with these arguments."""
    return {"id": "c", "type": "function", "function": {"name": "dig", "arguments": arguments}}


async def echo(name: str, arguments: dict[str, Any]) -> str:
    """A tool that says what it was called with."""
    json.dumps(arguments, ensure_ascii=False).encode()
    return f"{name} {arguments}"


async def told(arguments: str | None) -> str:
    """What a model is told after it called the tool so."""
    return await answer_call(call(arguments), echo)


@pytest.mark.parametrize("arguments", ["{}", "", None])
async def test_no_arguments_are_an_empty_object(arguments: str | None) -> None:
    assert await told(arguments) == "dig {}"


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        ("{", "error: the arguments of dig are not JSON"),
        ("{'a': 1}", "error: the arguments of dig are not JSON"),
        ('{"a": NaN}', "error: the arguments of dig are not JSON: NaN is not JSON"),
        ('{"a": -Infinity}', "error: the arguments of dig are not JSON: -Infinity is not JSON"),
        ('{"a": ' + "9" * 5000 + "}", "error: the arguments of dig are not JSON"),
        ("[1]", "error: the arguments of dig must be a JSON object"),
        ('"{}"', "error: the arguments of dig must be a JSON object"),
        ("null", "error: the arguments of dig must be a JSON object"),
        ("[" * 100_000, "error: the arguments of dig are nested too deeply"),
        ('{"a": ' + "[" * 70 + "]" * 70 + "}", "error: the arguments of dig are nested too deeply"),
    ],
)
async def test_bad_arguments_are_told(arguments: str, answer: str) -> None:
    assert (await told(arguments)).startswith(answer)


async def test_half_a_surrogate_pair_reaches_the_tool_mended() -> None:
    assert await told('{"a": "\\ud83d"}') == "dig {'a': '\ufffd'}"


@given(st.text(st.characters(exclude_categories=())))
def test_no_arguments_raise(arguments: str) -> None:
    answer = asyncio.run(told(arguments))
    assert answer.startswith(("dig {", "error: the arguments of dig "))


async def test_a_task_without_tools_says_so() -> None:
    async with AsyncExitStack() as stack:
        specs, call_tool = await connect_tools(stack, {}, 1.0)
        assert specs == []
        assert await call_tool("dig", {}) == "error: there is no tool 'dig'; this task has none"


def test_each_event_loop_has_a_session_of_its_own() -> None:
    """A second `asyncio.run` in one process must not get the session of the first one's dead loop."""

    async def session() -> Any:
        assert ChatHarness._session() is ChatHarness._session()
        return ChatHarness._session()

    async def in_another_loop(first: Any) -> None:
        second = await session()
        assert second is not first
        await second.close()
        assert await session() is not second
        await ChatHarness._session().close()
        await first.close()

    asyncio.run(in_another_loop(asyncio.run(session())))
