"""The toolbox with a tool server for each rollout: its notes lie in the server's own memory."""

import os
from collections.abc import Iterable
from typing import Any

import verifiers.v1 as vf

from sv_shared.environment import DatasetInfo
from sv_shared.grading import Grade
from sv_shared.harness import ChatHarness
from sv_shared.outcomes import Outcome
from sv_shared.solo import SoloEnv
from sv_shared.task import GradedData, GradedTask, last_answer
from sv_shared.taskset import DatasetConfig, DatasetTaskset
from sv_test_toolbox import Notes, ToolboxEnvironment

__all__ = ["ChatHarness", "PocketTaskset", "SoloEnv"]


class Pocket(vf.Toolset[vf.ToolsetConfig, Notes]):
    """Write a note, read all notes of this process."""

    TOOL_PREFIX = "box"
    notes: tuple[str, ...] = ()

    @vf.tool
    async def write(self, text: str) -> str:
        """Keep a note."""
        self.notes = (*self.notes, text)
        self.state.notes = [str(os.getpid())]
        return f"{len(self.notes)} notes"

    @vf.tool
    async def read(self) -> str:
        """All notes, joined by commas."""
        return ",".join(self.notes)


class PocketTask(GradedTask[GradedData, Notes]):
    """Write the word twice, read the notes back, answer with them."""

    @classmethod
    def toolsets(cls, config: Any) -> list[vf.Toolset]:
        return [Pocket(vf.ToolsetConfig())]

    async def grade(self, trace: vf.Trace) -> Grade:
        right = last_answer(trace).text == ",".join([self.data.truth] * 2)
        return Grade(Outcome.SCORED, {"right": float(right)}, parsed={"process": trace.state.notes})

    def bounds(self) -> tuple[float, float]:
        return 0.0, 1.0


class PocketTaskset(DatasetTaskset, vf.Taskset[PocketTask, DatasetConfig]):
    """Two words."""

    def load(self) -> Iterable[PocketTask]:
        for word in ("left", "right"):
            data = GradedData(id=word, prompt=f"Write {word} twice, then read.", truth=word, cluster=word)
            yield PocketTask(data, self.config.task)

    def info(self) -> DatasetInfo:
        return DatasetInfo("pocket", "made up", self.config.split, 2, "word")


class PocketEnvironment(ToolboxEnvironment):
    """The declaration."""

    id = "sv-test-pocket"
    alias = "pocket"
    title = "Pocket"


POCKET = PocketEnvironment()

if __name__ == "__main__":
    Pocket.run()
