"""The verifiers skin of E2: an item, its task, and the datasets it comes from."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import verifiers.v1 as vf
from pydantic import Field

from sv_env_config_verification.agent_tools import AuditState, AuditTools, AuditToolsConfig
from sv_env_config_verification.catalogue import load_catalogue
from sv_env_config_verification.grading import grade
from sv_env_config_verification.prompts import system_prompt, user_prompt
from sv_env_config_verification.public_mini import load, load_public_mini
from sv_env_config_verification.rewards import FLOOR, MAXIMUM, Weights
from sv_env_config_verification.rows import Format, Row
from sv_env_config_verification.shared_box import BoxSettings, open_box, run_apart, shared_toolbox
from sv_env_config_verification.synth.confirm import confirm
from sv_env_config_verification.synth.recipe import RECIPE_VERSION, Draft, draft
from sv_shared.environment import DatasetInfo
from sv_shared.errors import DataError, UsageError
from sv_shared.grading import Grade
from sv_shared.splits import SEED_RANGES, SPLITS, require_seed
from sv_shared.task import GradedData, GradedTask, last_answer
from sv_shared.taskset import DatasetConfig, DatasetTaskset, draw_indices

PUBLIC_MINI, SYNTH = "public-mini", "synth"


class AuditTaskConfig(vf.TaskConfig):
    """How an audit is done and paid."""

    weights: Weights = Weights()
    """The reward's weights; the prompt states the points that they pay."""
    tools: bool = True
    """Whether the agent can call the tools. Grading uses them either way."""
    tool_calls: int = Field(8, ge=1, le=100)
    """Calls a rollout."""
    without: list[str] = Field(default_factory=list)
    """Tools to do without: opa, kubelinter, semgrep. Items that only they can judge are left out."""
    allow_fallback: bool = False
    """Whether opa-eval may stand in where OPA is not installed; every finding then says so."""

    @property
    def box(self) -> BoxSettings:
        """Which tools grade, and are on offer."""
        return BoxSettings(tuple(self.without), self.allow_fallback)


class ConfigVerificationConfig(DatasetConfig):
    """Which files."""

    task: AuditTaskConfig = AuditTaskConfig()
    synth_rows: int = Field(200, ge=1)
    """Rows of the dataset "synth"."""
    synth_seed: int | None = None
    """Seed of the dataset "synth"; unset takes the first of the split's range."""
    difficulty: str | None = None
    """One tier; unset takes all."""


class AuditData(GradedData):
    """One item. Only `system_prompt` and `prompt` reach a model.

    `truth` holds the row's violations, patch, intent and fixes.
    """

    format: Format = "kubernetes"
    files: dict[str, str] = Field(default_factory=dict)
    statement: str = ""
    kind: str = ""
    """How the truth relates to what the tools say; see `Row.kind`."""
    tools: bool = True
    """Whether the agent can call the tools."""


class AuditTask(GradedTask[AuditData, AuditState, AuditTaskConfig]):
    """Audit one workspace."""

    async def setup(self, trace: vf.Trace, runtime: vf.Runtime) -> None:
        """Hand the files to the tool server through the rollout's state."""
        trace.state.files = dict(self.data.files)

    async def finalize(self, trace: vf.Trace, runtime: vf.Runtime) -> None:
        """Take them back: the item has them, and a result line need not."""
        trace.state.files = {}

    async def grade(self, trace: vf.Trace) -> Grade:
        answer = last_answer(trace)
        verdict = await self._grade(answer.text, answer.finish_reason, answer.refusal)
        calls = float(getattr(trace.state, "calls", 0))
        return replace(verdict, metrics={**verdict.metrics, "tool_calls": calls})

    async def control(self) -> bool:
        return (await self._grade(reference_reply(self.data.truth))).reward == MAXIMUM

    def bounds(self) -> tuple[float, float]:
        return FLOOR, MAXIMUM

    def ungradable(self, cause: str) -> Grade:
        row, weights = row_of(self.data), self.config.weights
        # A reply without an answer asks no tool.
        unanswered = run_apart(grade("", row, None, weights, self.data.tools))  # type: ignore[arg-type]
        return replace(super().ungradable(cause), metrics={**unanswered.metrics, "tool_calls": 0.0})

    async def validate(self, runtime: vf.Runtime) -> bool:
        """verifiers' own gold check: the reference answer earns the maximum."""
        return await self.control()

    async def _grade(self, reply: str, finish_reason: str | None = None, refusal: str | None = None) -> Grade:
        return await grade(
            reply,
            row_of(self.data),
            await shared_toolbox(self.config.box),
            self.config.weights,
            self.data.tools,
            finish_reason=finish_reason,
            refusal=refusal,
        )


def make_task(row: Row, config: AuditTaskConfig) -> AuditTask:
    """The task of a row.

    Raises:
        UsageError: `without` names no tool, or all of them.
    """
    tools = config.box.tools if config.tools else ()
    content: Mapping[str, Any] = row.model_dump(mode="json")
    data = AuditData(
        id=row.id,
        system_prompt=system_prompt(config.weights, tools, config.tool_calls),
        prompt=user_prompt(row.files, row.format, row.statement),
        truth={name: content[name] for name in ("violations", "patch", "intent", "fixes")},
        cluster=row.cluster,
        difficulty=row.difficulty,
        format=row.format,
        files=row.files,
        statement=row.statement,
        kind=row.kind,
        tools=config.tools,
    )
    return AuditTask(data, config)


def reference_reply(truth: Mapping[str, Any]) -> str:
    """The true answer as a reply.

    Args:
        truth: an item's truth, with its violations and patch.
    """
    return json.dumps({"violations": truth["violations"], "patch": truth["patch"]})


def row_of(data: AuditData) -> Row:
    """The row that a task was made of."""
    return Row.model_validate(
        {
            "id": data.id,
            "format": data.format,
            "files": data.files,
            "statement": data.statement,
            "difficulty": data.difficulty,
            "cluster": data.cluster,
            "kind": data.kind,
            **data.truth,
        }
    )


# Items ----------------------------------------------------------------------------------------------------


class Items(NamedTuple):
    """A dataset's rows, and where they come from."""

    rows: Sequence[Row]
    info: DatasetInfo


def open_items(settings: ConfigVerificationConfig) -> Items:
    """The items that the settings name, without those that only a left-out tool can judge.

    Raises:
        DataError: the source is missing or broken, or no item is left.
        UsageError: settings that do not fit the source.
    """
    box = settings.task.box
    rows, info = _source(settings, box)
    kept = [row for row in rows if settings.difficulty in (None, row.difficulty)]
    judged = [row for row in kept if is_judgeable(row, box.tools)]
    if not judged:
        raise DataError(
            f"{info.id} has no items under these settings", hint="Leave difficulty or without out"
        )
    details = {**info.details, "tools": list(box.tools), "unjudgeable_left_out": len(kept) - len(judged)}
    return Items(
        judged, DatasetInfo(info.id, info.source, info.split, len(judged), info.cluster_kind, details)
    )


def is_judgeable(row: Row, tools: Sequence[str]) -> bool:
    """Whether every true violation is one that a tool at hand has a rule for, or that `fixes` recognise."""
    catalogue = load_catalogue()
    return all(v.key in row.fixes or not catalogue.tools_for(v.id).isdisjoint(tools) for v in row.violations)


def _source(settings: ConfigVerificationConfig, box: BoxSettings) -> Items:
    if settings.dataset in ("", PUBLIC_MINI):
        return _public_mini(settings)
    if settings.dataset == SYNTH:
        return _synthetic(settings, box)
    return _file(settings)


def _public_mini(settings: ConfigVerificationConfig) -> Items:
    _test_only(settings, "public-mini")
    rows = load_public_mini()
    return Items(
        rows, DatasetInfo("public-mini/e2", "recipe, test seeds", "test", len(rows), "template family")
    )


def _synthetic(settings: ConfigVerificationConfig, box: BoxSettings) -> Items:
    if settings.split not in SPLITS:
        raise UsageError(f"unknown split {settings.split!r}", hint=f"Use one of: {', '.join(SPLITS)}")
    first = next(seeds.start for name, seeds in SEED_RANGES.items() if name == settings.split)
    seed = first if settings.synth_seed is None else settings.synth_seed
    drafts = draft(settings.synth_rows, seed=seed, split=require_seed(seed, settings.split))
    run_apart(_confirm(drafts, box))
    details = {"recipe": RECIPE_VERSION, "seed": seed}
    info = DatasetInfo("synth/e2", "recipe", settings.split, len(drafts), "template family", details)
    return Items([one.row for one in drafts], info)


async def _confirm(drafts: Sequence[Draft], box: BoxSettings) -> None:
    async with await open_box(box) as tools:
        await confirm(drafts, tools)


def _file(settings: ConfigVerificationConfig) -> Items:
    """Rows of a file of public-mini's form."""
    path = Path(settings.dataset)
    if path.suffix != ".jsonl":
        raise DataError(
            "no labelled items with reference patches",
            where=settings.dataset,
            hint="Give a .jsonl file of rows, synth, or nothing for public-mini",
        )
    _test_only(settings, path.name)
    rows = load(path)
    return Items(rows, DatasetInfo(f"file/{path.name}", str(path), "test", len(rows), "template family"))


def _test_only(settings: ConfigVerificationConfig, name: str) -> None:
    if settings.split != "test":
        raise UsageError(
            f"{name} has a test split only, not {settings.split!r}",
            hint="Train on --dataset synth --split train",
        )


class ConfigVerificationTaskset(DatasetTaskset, vf.Taskset[AuditTask, ConfigVerificationConfig]):
    """E2 items from the configured source."""

    @classmethod
    def toolsets(cls, config: ConfigVerificationConfig) -> list[vf.Toolset]:
        task = config.task
        if not task.tools:
            return []
        offered = AuditToolsConfig(
            without=tuple(task.without), allow_fallback=task.allow_fallback, calls=task.tool_calls
        )
        return [AuditTools(offered)]

    @cached_property
    def _items(self) -> Items:
        return open_items(self.config)

    def info(self) -> DatasetInfo:
        return self._items.info

    def load(self) -> Iterable[AuditTask]:
        return (make_task(row, self.config.task) for row in self._items.rows)

    def draw(self, tasks: int | None, seed: int) -> list[GradedTask]:
        rows = self._items.rows
        drawn = draw_indices(len(rows), tasks, seed, self.info().id)
        return [make_task(rows[i], self.config.task) for i in drawn]
