"""A stateful tool environment for tests: each rollout has notes of its own behind one shared tool server."""

import asyncio
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import verifiers.v1 as vf
from pydantic import Field

from sv_shared.environment import Anchors, DatasetInfo, Environment
from sv_shared.grading import Grade
from sv_shared.harness import ChatHarness
from sv_shared.outcomes import Outcome
from sv_shared.policies import Message, PolicyKind, PolicySpec, ToolSpec, text_policy
from sv_shared.solo import SoloEnv
from sv_shared.task import GradedData, GradedTask, last_answer
from sv_shared.taskset import DatasetConfig, DatasetTaskset

__all__ = ["ChatHarness", "SoloEnv", "ToolboxTaskset"]


class Notes(vf.State):
    """One rollout's notes."""

    notes: list[str] = Field(default_factory=list)


class ToolboxConfig(vf.SharedToolsetConfig):
    """Nothing to set."""


class Toolbox(vf.Toolset[ToolboxConfig, Notes]):
    """Write a note, read all notes."""

    TOOL_PREFIX = "box"

    @vf.tool
    async def write(self, text: str) -> str:
        """Keep a note."""
        self.state.notes.append(text)
        return f"{len(self.state.notes)} notes"

    @vf.tool
    async def read(self) -> str:
        """All notes, joined by commas."""
        return ",".join(self.state.notes)

    @vf.tool
    async def sleep(self, seconds: float) -> str:
        """Come back late."""
        await asyncio.sleep(seconds)
        return "slept"

    @vf.tool
    async def fail(self) -> str:
        """Raise."""
        raise RuntimeError("the tool is broken")

    @vf.tool
    async def die(self) -> str:
        """Take the whole server down."""
        os._exit(1)


class ToolboxTask(GradedTask[GradedData, Notes]):
    """Write the word twice, read the notes back, answer with them."""

    async def grade(self, trace: vf.Trace) -> Grade:
        wanted = ",".join([self.data.truth] * 2)
        kept = ",".join(trace.state.notes)
        right = last_answer(trace).text == wanted == kept
        return Grade(
            Outcome.SCORED, {"right": float(right)}, {"notes": float(len(trace.state.notes))}, {"kept": kept}
        )

    def bounds(self) -> tuple[float, float]:
        return 0.0, 1.0


class ToolboxDataConfig(DatasetConfig):
    """How many words."""

    words: int = 6


class ToolboxTaskset(DatasetTaskset, vf.Taskset[ToolboxTask, ToolboxDataConfig]):
    """One word a task."""

    @classmethod
    def toolsets(cls, config: ToolboxDataConfig) -> list[vf.Toolset]:
        return [Toolbox(ToolboxConfig())]

    def load(self) -> Iterable[ToolboxTask]:
        for i in range(self.config.words):
            word = f"word{i}"
            data = GradedData(id=word, prompt=f"Write {word} twice, then read.", truth=word, cluster=word)
            yield ToolboxTask(data, self.config.task)

    def info(self) -> DatasetInfo:
        return DatasetInfo("toolbox", "made up", self.config.split, self.config.words, "word")


class Diligent:
    """Calls write twice and read once, then answers with what read returned."""

    def act(self, task: Any, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> Message:
        names = {tool["function"]["name"] for tool in tools}
        assert names >= {"box_write", "box_read"}
        done = sum(message["role"] == "tool" for message in messages)
        if done < 2:
            return call(f"c{done}", "box_write", f'{{"text": "{task.truth}"}}')
        if done == 2:
            return call("c2", "box_read", "{}")
        return {"role": "assistant", "content": messages[-1]["content"]}


class Clumsy:
    """Makes every mistake a model makes with tools, then gives up."""

    MISTAKES = (("box_write", "{not json"), ("box_write", "[1]"), ("box_burn", "{}"), ("box_write", "{}"))

    def act(self, task: Any, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> Message:
        done = sum(message["role"] == "tool" for message in messages)
        if done < len(self.MISTAKES):
            return call(f"c{done}", *self.MISTAKES[done])
        return {
            "role": "assistant",
            "content": "\n".join(m["content"] for m in messages if m["role"] == "tool"),
        }


class Caller:
    """Calls one tool once and answers with what it said."""

    def __init__(self, name: str, arguments: str = "{}") -> None:
        self._name, self._arguments = name, arguments

    def act(self, task: Any, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> Message:
        if messages[-1]["role"] == "tool":
            return {"role": "assistant", "content": messages[-1]["content"]}
        return call("c0", self._name, self._arguments)


def caller(name: str, arguments: str = "{}") -> PolicySpec:
    """The policy that calls one tool once."""
    return PolicySpec(name, PolicyKind.DEGENERATE, "calls it once", lambda seed: Caller(name, arguments))


def call(identifier: str, name: str, arguments: str) -> Message:
    """An assistant message with one tool call."""
    function = {"name": name, "arguments": arguments}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": identifier, "type": "function", "function": function}],
    }


class ToolboxEnvironment(Environment):
    """The declaration."""

    id = "sv-test-toolbox"
    alias = "toolbox"
    title = "Toolbox"
    version = "1"
    core_metrics = ("notes",)
    sheet_metrics = (("notes", "notes"),)
    default_policies = ("reference",)

    def policies(self, seat: str) -> Mapping[str, PolicySpec]:
        return {
            "reference": PolicySpec(
                "reference", PolicyKind.REFERENCE, "uses the tools", lambda seed: Diligent()
            ),
            "clumsy": PolicySpec("clumsy", PolicyKind.DEGENERATE, "misuses the tools", lambda seed: Clumsy()),
            "empty": text_policy(
                "empty", PolicyKind.CONSTANT, "says nothing", lambda task, messages, seed: ""
            ),
        }

    def anchors(self, tasks: Sequence[GradedTask]) -> Anchors:
        return Anchors(chance=0.0, chance_answer="nothing", reference=1.0)

    def checks(self, tasks: Sequence[GradedTask]) -> Sequence[Any]:
        return []


TOOLBOX = ToolboxEnvironment()

if __name__ == "__main__":
    Toolbox.run()
