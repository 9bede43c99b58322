"""Batcher: answers keep to their requests, a failure finds its request, giving up is safe."""

import asyncio

import pytest

from sv_env_config_verification.adapters.batch import Batcher
from sv_shared.errors import ToolError
from sv_shared.tools import Ending, ToolFailed, ToolResult


def result(text: str, ending: Ending = Ending.EXITED) -> ToolResult:
    return ToolResult(0, text.encode(), b"", 0.0, ending, "t", "1")


class Tool:
    """Echoes requests; crashes where one of them is "bad"; keeps what it was called with."""

    def __init__(self, pause: float = 0.0) -> None:
        self.calls: list[list[str]] = []
        self.pause, self.at_once, self.most_at_once = pause, 0, 0

    async def __call__(self, requests):
        self.calls.append(list(requests))
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await asyncio.sleep(self.pause)
        finally:
            self.at_once -= 1
        if "bad" in requests:
            raise ToolFailed("crashed", result("", Ending.SIGNALLED))
        if "garbage" in requests:
            raise ToolError("garbage")
        if "defect" in requests:
            raise ZeroDivisionError
        return [result(text) for text in requests]


async def ask(batcher, names):
    answers = await asyncio.gather(*(batcher.submit(name) for name in names), return_exceptions=True)
    return [a.stdout.decode() if isinstance(a, ToolResult) else type(a).__name__ for a in answers]


async def test_requests_of_a_moment_share_a_call_in_order():
    tool = Tool()
    batcher = Batcher(tool, linger_s=0.02, most=10)
    names = [f"r{i}" for i in range(7)]
    assert await ask(batcher, names) == names
    assert tool.calls == [names]


async def test_a_call_has_at_most_so_many_and_the_rest_follow():
    tool = Tool()
    batcher = Batcher(tool, linger_s=0.01, most=3)
    names = [f"r{i}" for i in range(8)]
    assert await ask(batcher, names) == names
    assert [len(call) for call in tool.calls] == [3, 3, 2]


async def test_while_all_turns_are_taken_requests_gather():
    tool = Tool(pause=0.2)
    batcher = Batcher(tool, linger_s=0.0, most=100, parallel=1)
    first = asyncio.create_task(ask(batcher, ["a"]))
    await asyncio.sleep(0.05)
    later = [asyncio.create_task(ask(batcher, [f"b{i}"])) for i in range(5)]
    await asyncio.gather(first, *later)
    assert tool.calls == [["a"], ["b0", "b1", "b2", "b3", "b4"]]
    assert tool.most_at_once == 1


async def test_a_crash_is_put_down_to_its_request():
    tool = Tool()
    batcher = Batcher(tool, linger_s=0.01, most=10)
    assert await ask(batcher, ["a", "bad", "b"]) == ["a", "ToolFailed", "b"]
    assert tool.calls == [["a", "bad", "b"], ["a"], ["bad"], ["b"]]
    assert (batcher.stats.requests, batcher.stats.calls) == (3, 4)


async def test_a_lie_is_everyones_error_and_is_not_asked_again():
    tool = Tool()
    assert await ask(Batcher(tool, linger_s=0.01, most=10), ["a", "garbage"]) == ["ToolError", "ToolError"]
    assert len(tool.calls) == 1


async def test_a_defect_of_ours_reaches_whoever_waits():
    tool = Tool()
    assert await ask(Batcher(tool, linger_s=0.01, most=10), ["a", "defect"]) == ["ZeroDivisionError"] * 2


async def test_who_gives_up_is_not_served_and_harms_no_one():
    tool = Tool()
    batcher = Batcher(tool, linger_s=0.05, most=10)
    early = asyncio.create_task(batcher.submit("early"))
    other = asyncio.create_task(batcher.submit("other"))
    await asyncio.sleep(0.01)
    early.cancel()
    assert (await other).stdout == b"other"
    assert tool.calls == [["other"]]
    assert await ask(batcher, ["next"]) == ["next"]


async def test_closing_ends_what_is_under_way():
    tool = Tool(pause=30)
    batcher = Batcher(tool, linger_s=0.0, most=10)
    task = asyncio.create_task(batcher.submit("a"))
    await asyncio.sleep(0.05)
    await batcher.close()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert tool.at_once == 0
