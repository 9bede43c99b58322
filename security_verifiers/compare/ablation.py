"""Ablation: each player under each arm of an experiment, beside the control arm on the same tasks."""

import copy
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import verifiers.v1 as vf

from security_verifiers.compare.ablation_config import AblationConfig
from security_verifiers.compare.contrast import ArmResult, Measured, contrast, corrected
from security_verifiers.evals.engine import load_env
from security_verifiers.evals.evaluate import Run
from security_verifiers.evals.items import load_items
from security_verifiers.evals.launch import EvalRequest, Watcher, run_models
from security_verifiers.evals.rebuild import find_tasks, why_not
from security_verifiers.evals.rescore import regrade
from security_verifiers.evals.results import Results
from sv_shared.environment import Anchors, Environment, find
from sv_shared.errors import UsageError
from sv_shared.task import GradedTask

GRADING = "task"
"""The group of settings that grading reads; a rescored arm may change nothing else."""


@dataclass(frozen=True, slots=True)
class Ablation:
    """What came of an experiment.

    Attributes:
        config: the experiment, reduced to the arms that were played.
        environment: what was played.
        dataset: the "dataset" object of the control's metadata.
        controls: by player.
        results: players in order, and each one's arms.
    """

    config: AblationConfig
    environment: Environment
    dataset: Mapping[str, Any]
    controls: Mapping[str, Measured]
    results: tuple[ArmResult, ...]

    @property
    def invalid(self) -> bool:
        """Whether a run has to be resumed before the numbers can be believed."""
        return any(one.invalid for one in (*self.controls.values(), *(r.measured for r in self.results)))


async def ablate(
    config: AblationConfig, watcher: Watcher, output_dir: Path, *, concurrency: int = 8
) -> Ablation:
    """Play or rescore every arm with every player and compare each with the control.

    Args:
        config: the experiment.
        watcher: is told of the progress.
        output_dir: root of everything that is written.
        concurrency: rollouts in flight.

    Raises:
        UsageError: an arm has settings that do not exist, or that grading alone can't change.
    """
    environment = find(config.environment)
    check_arms(environment, config)
    runs: dict[str, list[Run]] = {}
    for name, arm in config.arms.items():
        if arm.how == "run":
            watcher.say(f"arm {name}")
            request = EvalRequest(
                environment=environment.alias,
                models=tuple(config.players),
                config=config.settings_of(name),
                tasks=config.tasks,
                samples=config.rollouts,
                seed=config.seed,
                concurrency=concurrency,
                output_dir=output_dir,
            )
            runs[name] = await run_models(request, watcher)
    results: list[ArmResult] = []
    controls: dict[str, Measured] = {}
    for i, control in enumerate(runs[config.control]):
        before = _played(environment, config.control, control)
        controls[before.player] = before
        drafts = []
        for name in list(config.arms)[1:]:
            if name in runs:
                after = _played(environment, name, runs[name][i])
            else:
                after = await rescored(environment, name, control, config.settings_of(name))
            drafts.append(contrast(environment, before, after, control.metadata["settings"]))
        results += corrected(drafts)
    dataset = runs[config.control][0].metadata["dataset"]
    return Ablation(config, environment, dataset, controls, tuple(results))


def check_arms(environment: Environment, config: AblationConfig) -> None:
    """Refuse an arm that can't be carried out, before anything is played.

    Raises:
        UsageError: names the arm, and the settings that do not exist or that make other tasks.
    """
    in_force = {}
    for name in config.arms:
        try:
            in_force[name] = _in_force(environment, config.settings_of(name))
        except UsageError as error:
            raise UsageError(f"arm {name}: {error.what}", where=error.where, hint=error.hint) from error
    control = in_force[config.control]
    for name, arm in config.arms.items():
        other = [key for key in control if key != GRADING and in_force[name][key] != control[key]]
        if arm.how == "rescore" and other:
            raise UsageError(
                f"arm {name} can't be rescored: {', '.join(other)} would make other tasks",
                hint=f"Set how: run, or change settings under {GRADING}. only",
            )


def _in_force(environment: Environment, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Every setting under the given ones, defaults included."""
    config: dict[str, Any] = load_env(environment, settings).taskset.config.model_dump(mode="json")
    return config


def _played(environment: Environment, arm: str, run: Run) -> Measured:
    declared = run.metadata["reward"]
    ends = Anchors(declared["chance"], declared["chance_answer"], declared["reference"], declared["ceiling"])
    player = run.metadata["seats"][run.metadata["evaluated_seat"]]["model"]
    items, _ = load_items(Results(run.folder), environment.classification)
    return Measured(arm, player, run.folder, items, ends, run.summary["invalid"])


async def rescored(environment: Environment, arm: str, control: Run, settings: Mapping[str, Any]) -> Measured:
    """The control's stored answers graded under another arm's settings.

    Args:
        environment: what was played.
        arm: the arm's name.
        control: the run whose answers are graded.
        settings: the arm's; they differ from the control's in how answers are graded only.
    """
    results = Results(control.folder)
    stored = find_tasks(environment, control.metadata, {key.task for key in results.keys})
    grading = load_env(environment, settings).taskset.config.task
    tasks = {key: _regraded_by(task, grading) for key, task in stored.by_hash.items()}
    lines, not_graded = [], Counter[str]()
    for line in results:
        if reason := why_not(line, stored):
            not_graded[reason] += 1
        else:
            verdict = await regrade(line, tasks[line["key"]["task"]], stored.env)
            lines.append({**line, **verdict, "seats": {}})
    if not lines:
        told = "; ".join(f"{count} of them: {reason}" for reason, count in not_graded.items())
        raise UsageError(f"no rollout of the control can be graded under arm {arm}: {told}")
    before = _played(environment, arm, control)
    items, _ = load_items(lines, environment.classification)
    ends = environment.anchors(list(tasks.values()))
    return replace(before, items=items, ends=ends, not_graded=dict(not_graded))


def _regraded_by(task: GradedTask, config: vf.TaskConfig) -> GradedTask:
    """The task as its prompt was shown, graded under another configuration."""
    clone = copy.copy(task)
    clone.config = config
    return clone
