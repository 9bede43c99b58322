"""A two-seat, three-turn environment for tests: a guesser asks, a keeper answers higher or lower."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, ClassVar

import verifiers.v1 as vf
from verifiers.v1.runtimes import SubprocessConfig

from sv_shared.environment import Anchors, DatasetInfo, Environment
from sv_shared.grading import Grade
from sv_shared.harness import ChatHarness
from sv_shared.outcomes import Outcome
from sv_shared.policies import PolicyKind, PolicySpec, text_policy
from sv_shared.task import GradedData, GradedTask, record_grade
from sv_shared.taskset import DatasetConfig, DatasetTaskset

__all__ = ["ChatHarness", "DuelEnv", "DuelTaskset"]

TURNS = 3


class DuelTask(GradedTask[GradedData]):
    """Guess a number of 0 to 6 in three turns. Scored by the game, not by one seat's trace."""

    scoring_deferred = True

    async def grade(self, trace: vf.Trace) -> Grade:
        raise AssertionError("the game grades its seats")

    def bounds(self) -> tuple[float, float]:
        return 0.0, 1.0


class DuelEnvConfig(vf.EnvConfig):
    """Two seats."""

    guesser: vf.AgentConfig = vf.AgentConfig(runtime=SubprocessConfig())
    keeper: vf.AgentConfig = vf.AgentConfig(runtime=SubprocessConfig())


class DuelEnv(vf.Env[DuelEnvConfig]):
    """The guesser speaks first, three exchanges at most."""

    async def run(self, task: vf.Task, agents: vf.Agents) -> None:
        keeper_task = task.with_data(prompt=None, system_prompt="Say higher, lower or right.")
        async with (
            agents.guesser.interaction(task) as guesser,
            agents.keeper.interaction(keeper_task) as keeper,
        ):
            said = await guesser.turn()
            for turn in range(TURNS):
                if said.terminated:
                    break
                answer = await keeper.turn(said.last_reply)
                if answer.terminated or answer.last_reply == "right" or turn == TURNS - 1:
                    break
                said = await guesser.turn(answer.last_reply)

    async def finalize(self, task: vf.Task, episode: vf.Episode) -> None:
        by_seat = {trace.agent.name: trace for trace in episode.traces}
        won = by_seat["keeper"].last_reply == "right"
        for seat, reward in (("guesser", float(won)), ("keeper", float(not won))):
            trace = by_seat[seat]
            trace.record_reward("won", reward)
            metrics = {"turns": float(trace.num_turns)}
            record_grade(trace, Grade(Outcome.SCORED, {"won": reward}, metrics, truth=task.data.truth))


class DuelTaskset(DatasetTaskset, vf.Taskset[DuelTask, DatasetConfig]):
    """One number a task."""

    def load(self) -> Iterable[DuelTask]:
        for number in range(7):
            data = GradedData(
                id=str(number), prompt="Guess a number of 0 to 6.", truth=number, cluster=str(number)
            )
            yield DuelTask(data, self.config.task)

    def info(self) -> DatasetInfo:
        return DatasetInfo("duel", "made up", self.config.split, 7, "number")


def bisect(task: Any, messages: Sequence[Mapping[str, Any]], seed: int) -> str:
    """The guess that halves what the answers leave."""
    low, high = 0, 6
    for before, answer in pairwise(messages):
        if before["role"] == "assistant" and answer["role"] == "user":
            guess = int(before["content"])
            low, high = (guess + 1, high) if answer["content"] == "higher" else (low, guess - 1)
    return str((low + high) // 2)


def upwards(task: Any, messages: Sequence[Mapping[str, Any]], seed: int) -> str:
    """0, then 1, then 2."""
    return str(sum(message["role"] == "assistant" for message in messages))


def compare(task: Any, messages: Sequence[Mapping[str, Any]], seed: int) -> str:
    """The keeper's honest answer."""
    guess, number = int(messages[-1]["content"]), task.truth
    return "right" if guess == number else "higher" if guess < number else "lower"


class DuelEnvironment(Environment):
    """The declaration."""

    id = "sv-test-duel"
    alias = "duel"
    title = "Duel"
    version = "1"
    core_metrics = ("turns",)
    sheet_metrics = (("turns", "turns"),)
    seats = ("guesser", "keeper")
    evaluated_seat = "guesser"
    default_opponents: ClassVar[Mapping[str, str]] = {"keeper": "honest"}
    default_policies = ("bisect",)

    def policies(self, seat: str) -> Mapping[str, PolicySpec]:
        specs = {
            "guesser": [
                text_policy("bisect", PolicyKind.REFERENCE, "halves the range", bisect),
                text_policy("upwards", PolicyKind.HEURISTIC, "0, 1, 2", upwards),
                text_policy("stubborn", PolicyKind.CONSTANT, "always 0", lambda task, messages, seed: "0"),
            ],
            "keeper": [text_policy("honest", PolicyKind.REFERENCE, "compares", compare)],
        }
        return {spec.name: spec for spec in specs[seat]}

    def anchors(self, tasks: Sequence[GradedTask]) -> Anchors:
        return Anchors(chance=1 / 7, chance_answer="0", reference=1.0)

    def checks(self, tasks: Sequence[GradedTask]) -> Sequence[Any]:
        return []


DUEL = DuelEnvironment()
