"""Rebuild: the task and the traces of a stored rollout, as its grader once saw them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import verifiers.v1 as vf
from verifiers.v1.configs.agent import WireAgentConfig
from verifiers.v1.dialects.chat import FINISH_REASONS, parse_message
from verifiers.v1.graph import MessageNode
from verifiers.v1.state import state_cls
from verifiers.v1.trace import AgentInfo, ModelCall, TraceTask

from security_verifiers.evals.engine import load_env
from sv_shared.environment import Environment
from sv_shared.errors import ArtifactError, DataError
from sv_shared.outcomes import Outcome
from sv_shared.storage import Storage
from sv_shared.task import PROVIDER_KEY, GradedTask
from sv_shared.taskset import DatasetTaskset

TASK_GONE = "its task is not in the dataset any more"
TASK_CHANGED = "its task reads differently now"
NO_ANSWER = "infra_error: there is no answer to grade"
NO_WORLD = "the rollout's state was not stored"
NO_REFUSAL = "the provider's refusal text was not stored"
CUT_SHORT = "messages of the rollout are missing"


@dataclass(frozen=True, slots=True)
class StoredTasks:
    """Today's tasks of a run, found by their content.

    Attributes:
        env: verifiers' environment with the dataset loaded.
        by_hash: the run's tasks that today's dataset still holds, by content hash.
        ids: names of all tasks of the dataset; empty where every task was found.
    """

    env: vf.Env
    by_hash: Mapping[str, GradedTask]
    ids: frozenset[str]

    def why_missing(self, line: Mapping[str, Any]) -> str:
        """Why the task of a result line was not found."""
        return TASK_CHANGED if line["task_id"] and line["task_id"] in self.ids else TASK_GONE


def find_tasks(environment: Environment, metadata: Mapping[str, Any], wanted: Iterable[str]) -> StoredTasks:
    """Look up a run's tasks in its dataset, under the settings that were in force.

    The run's own draw is repeated first; the whole dataset is read only where that leaves a task unfound.

    Args:
        environment: the run's.
        metadata: the run's.
        wanted: content hashes.

    Raises:
        DataError: the dataset is missing or broken.
        UsageError: a setting of the run does not exist any more.
    """
    env = load_env(environment, metadata["settings"])
    taskset = env.taskset
    assert isinstance(taskset, DatasetTaskset)
    missing = set(wanted)
    found: dict[str, GradedTask] = {}
    try:
        drawn = taskset.draw(metadata["tasks"], metadata["seed"])
    except DataError:
        drawn = []  # The dataset may have shrunk; where it is broken the next line says so.
    _collect(drawn, missing, found)
    everything = list(taskset.load()) if missing else []
    _collect(everything, missing, found)
    return StoredTasks(env, found, frozenset(task.data.id for task in everything if task.data.id))


def _collect(tasks: Iterable[GradedTask], missing: set[str], found: dict[str, GradedTask]) -> None:
    for task in tasks:
        if task.hash in missing:
            missing.discard(task.hash)
            found[task.hash] = task


def why_not(line: Mapping[str, Any], tasks: StoredTasks) -> str | None:
    """Why a result line can't be graded again, or None where it can."""
    storage = line.get("storage", Storage.FULL)
    if storage != Storage.FULL:
        return f"its text was stored as {storage}"
    if line["outcome"] == Outcome.INFRA_ERROR or line["seat"] not in line["seats"]:
        return NO_ANSWER
    if line["cause"].startswith("provider_refusal") and line["seats"][line["seat"]].get("refusal") is None:
        return NO_REFUSAL
    task = tasks.by_hash.get(line["key"]["task"])
    if task is None:
        return tasks.why_missing(line)
    return next((why for seat in line["seats"].values() if (why := _why_no_trace(seat, task))), None)


def _why_no_trace(seat: Mapping[str, Any], task: GradedTask) -> str | None:
    world = seat.get("world", {})
    if "lacking" in world:
        return str(world["lacking"])
    if not world and state_cls(type(task)).model_fields.keys() - vf.State.model_fields.keys():
        return NO_WORLD
    said = sum(message["role"] == "assistant" for message in seat["completion"])
    return CUT_SHORT if said < seat["turns"] else None


def rebuild_trace(name: str, seat: Mapping[str, Any], task: GradedTask) -> vf.Trace:
    """One seat's trace: its messages in a chain, its model calls, its state; no timing and no sampled tokens.

    Assistant messages that were part of the prompt are told from answers by the count of answered calls. A
    seat's trace carries the row that was dispatched, where a game may have given it a variant of its own.

    Args:
        name: the seat.
        seat: its part of a result line; `why_not` found nothing against it.
        task: the rollout's task.

    Raises:
        ArtifactError: the stored messages or state are not what a run writes.
    """
    world = seat.get("world", {})
    messages = [*seat["prompt"], *seat["completion"]]
    said = [i for i, message in enumerate(messages) if message["role"] == "assistant"]
    answers = said[len(said) - seat["turns"] :]
    try:
        nodes = [
            MessageNode(parent=i - 1 if i else None, message=parse_message(message), sampled=i in answers)
            for i, message in enumerate(messages)
        ]
        state = state_cls(type(task)).model_validate(world.get("state", {}))
    except (KeyError, TypeError, ValueError) as error:
        raise ArtifactError(f"seat {name} of a result line can't be read: {error!r}") from error
    trace: vf.Trace = vf.Trace(
        task=TraceTask(type=type(task).__name__, data=task.data, key=task.key, hash=task.hash),
        state=state,
        agent=AgentInfo(config=WireAgentConfig(), name=name),
        nodes=nodes,
        calls=[
            ModelCall(node=i, finish_reason=_reason(seat, messages[i], last=i == answers[-1]))
            for i in answers
        ],
        info=dict(world.get("info", {})),
        is_completed=True,
        ok=True,
        stop_condition="agent_completed",
    )
    if answers:
        provider = {"finish_reason": seat["finish_reason"], "refusal": seat.get("refusal")}
        trace.info[PROVIDER_KEY] = provider
    return trace


def _reason(seat: Mapping[str, Any], message: Mapping[str, Any], *, last: bool) -> Any:
    """Why a call ended, in verifiers' three words; the provider's own stand in the trace's info."""
    reason = seat["finish_reason"] if last else "tool_calls" if message.get("tool_calls") else "stop"
    return reason if reason in FINISH_REASONS else None
