"""The audit's checks of E2: what replies are paid, what prompts show, how far the tools are the truth."""

import asyncio
import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from sv_env_config_verification.adapters.base import Desk
from sv_env_config_verification.adapters.toolbox import Toolbox
from sv_env_config_verification.anchors import pairs_of
from sv_env_config_verification.grading import grade
from sv_env_config_verification.policies import reply
from sv_env_config_verification.prompts import system_prompt, user_prompt, weaknesses_for
from sv_env_config_verification.rewards import FLOOR, MAXIMUM
from sv_env_config_verification.rows import Row
from sv_env_config_verification.shared_box import BoxSettings, open_box, run_apart
from sv_env_config_verification.taskset import AuditTask, row_of
from sv_shared.findings import weaknesses
from sv_shared.grading import Grade
from sv_shared.outcomes import Outcome
from sv_shared.reward_lint import LintResult
from sv_shared.task import GradedTask

SAMPLE = 25
"""Items that replies are tried on."""
MIN_DIFFERENT = 0.25
"""Share of items in which the truth has to differ from what the tools report together."""
SMALLEST = 100
"""Items below which shares are told and not judged."""
MAX_SHALLOW = 0.85
"""Accuracy that a bag of words may reach on "is anything wrong": a weak setting is a word, and no leak."""
FOLDS = 5

_ODD = (
    "",
    "null",
    "[]",
    "{}",
    '{"violations": []}',
    '{"violations": null, "patch": null}',
    '{"violations": [1], "patch": null}',
    '{"violations": [{"id": "x", "object": "y", "severity": "worst"}], "patch": null}',
    '{"violations": [], "patch": 3}',
    '{"violations": [], "patch": null, "score": 1}',
    '{"violations": [], "patch": null} {"violations": [], "patch": null}',
    '<think>{"violations": [], "patch": null}</think>',
    "{" * 5_000,
    "\ud800",
    "\x00",
    '{"violations": [], "patch": NaN}',
)
"""Replies that hold no answer."""


def checks(tasks: Sequence[GradedTask[Any, Any, Any]]) -> list[LintResult]:
    """All of them.

    Args:
        tasks: E2 tasks under one set of settings.

    Raises:
        ToolError: a tool that is not left out is missing or broken.
    """
    audits = [task for task in tasks if isinstance(task, AuditTask)]
    return [
        check_format(audits),
        check_sets(audits),
        check_clean(audits),
        check_promise(audits),
        check_words(audits),
        check_classes(audits),
        check_tools(audits),
        check_shallow(audits),
    ]


def check_format(tasks: Sequence[AuditTask]) -> LintResult:
    """A reply without an answer scores the floor, whatever it is."""
    graded = [grade_without_tools(task, odd) for task in tasks[:SAMPLE] for odd in _ODD]
    wrong = [g for g in graded if g.reward != FLOOR or g.outcome not in (Outcome.PARSE_FAIL, Outcome.REFUSED)]
    detail = (
        f"{len(wrong)} of {len(graded)} odd replies are paid or parsed" if wrong else "odd replies score 0"
    )
    return LintResult("format gate", not wrong, detail)


def check_sets(tasks: Sequence[AuditTask]) -> LintResult:
    """Order and repetition of violations change nothing; each further false one costs; all stay in range."""
    failures: list[str] = []
    for task in tasks[:SAMPLE]:
        true = sorted(pairs_of(task))
        honest = grade_without_tools(task, reply(true, None)).reward
        if grade_without_tools(task, reply([*reversed(true), *true * 10], None)).reward != honest:
            failures.append(f"{task.data.id}: repetition changes the reward")
        false = [(w.id, "Pod/none/none") for w in weaknesses_for(task.data.format)[:3]]
        paid = [grade_without_tools(task, reply([*true, *false[:n]], None)).reward for n in range(4)]
        falling = all(a > b for a, b in pairwise(paid)) if true else paid[0] > paid[1]
        if not falling:
            failures.append(f"{task.data.id}: false claims cost nothing")
        if not all(math.isfinite(p) and FLOOR <= p <= MAXIMUM for p in paid):
            failures.append(f"{task.data.id}: {paid} leaves the range")
    detail = failures[0] if failures else "repetition changes nothing, false claims cost"
    return LintResult("answers are sets", not failures, detail)


def check_clean(tasks: Sequence[AuditTask]) -> LintResult:
    """Where nothing is wrong the empty answer earns the maximum and a claim loses the detection part."""
    clean = [task for task in tasks if not pairs_of(task)][:SAMPLE]
    failures = 0
    for task in clean:
        weights = task.config.weights.detection(task.data.tools)
        claim = grade_without_tools(task, reply([("host-pid", "Pod/none/none")], None)).reward
        empty = grade_without_tools(task, reply([], None)).reward
        failures += empty != MAXIMUM or abs(claim - (1 - weights)) > 1e-9
    detail = (
        f"{failures} of {len(clean)} clean items are paid otherwise" if failures else f"{len(clean)} tried"
    )
    return LintResult("clean items", not failures, detail)


def check_promise(tasks: Sequence[AuditTask]) -> LintResult:
    """Every prompt states the points, tools and calls in force, and is made of what may be shown only."""
    wrong = 0
    for task in tasks:
        data, config = task.data, task.config
        tools = config.box.tools if config.tools else ()
        wrong += data.system_prompt != system_prompt(config.weights, tools, config.tool_calls)
        wrong += data.prompt != user_prompt(data.files, data.format, data.statement)
    detail = f"{wrong} prompts differ" if wrong else "every prompt follows from files, statement and settings"
    return LintResult("stated points", not wrong, detail)


def check_words(tasks: Sequence[AuditTask]) -> LintResult:
    """No prompt holds an item's id, its cluster or its patch; every true weakness is among those listed."""
    found: list[str] = []
    for task in tasks:
        shown = f"{task.data.system_prompt}\n{task.data.prompt}"
        found += [word for word in (task.data.id or "", task.data.cluster) if len(word) > 3 and word in shown]
        if (patch := task.data.truth["patch"]) and patch in shown:
            found.append("the patch")
        listed = {weakness.id for weakness in weaknesses_for(task.data.format)}
        found += [f"{weakness} is not listed" for weakness, _ in pairs_of(task) if weakness not in listed]
    detail = (
        f"{len(found)} times, such as {found[0]!r}" if found else "no id, cluster or patch; all ids listed"
    )
    return LintResult("words in prompts", not found, detail)


def check_classes(tasks: Sequence[AuditTask]) -> LintResult:
    """Both clean and vulnerable items are there."""
    clean = sum(not pairs_of(task) for task in tasks)
    detail = f"{clean} of {len(tasks)} are clean"
    return LintResult("two classes", 0 < clean < len(tasks), detail, {"clean": clean / len(tasks)})


def check_tools(tasks: Sequence[AuditTask]) -> LintResult:
    """In a quarter of the items or more the truth is not what the tools report together."""
    unions = run_apart(_unions([row_of(task.data) for task in tasks], tasks[0].config.box))
    different = sum(pairs_of(task) != union for task, union in zip(tasks, unions, strict=True))
    share = different / len(tasks)
    detail = f"in {different} of {len(tasks)} ({share:.2f}) the truth is not the union of the tools' findings"
    if len(tasks) < SMALLEST:
        return LintResult("truth beyond tools", True, f"exempt below {SMALLEST} items: {detail}")
    return LintResult(
        "truth beyond tools", share >= MIN_DIFFERENT, f"{detail}; needed {MIN_DIFFERENT}", {"share": share}
    )


async def _unions(rows: Sequence[Row], settings: BoxSettings) -> list[frozenset[tuple[str, str]]]:
    async with await open_box(settings) as box:
        found = await asyncio.gather(*(box.scan(row.files) for row in rows))
    return [frozenset(weaknesses(findings)) for findings in found]


def check_shallow(tasks: Sequence[AuditTask]) -> LintResult:
    """A bag of words, and one of file names and sizes, do not tell whether anything is wrong."""
    labels = np.array([bool(pairs_of(task)) for task in tasks])
    if len(tasks) < SMALLEST or min(labels.sum(), (~labels).sum()) < FOLDS:
        return LintResult("shallow model", True, f"exempt: {len(tasks)} items are too few to cross-validate")
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold, cross_val_score
    from sklearn.pipeline import make_pipeline

    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=0)
    texts = {
        "words": [str(task.data.prompt) for task in tasks],
        "statement": [task.data.statement for task in tasks],
        "shape": [_shape(task) for task in tasks],
    }
    figures = {}
    for name, shown in texts.items():
        model = make_pipeline(
            TfidfVectorizer(token_pattern=r"\S+"), LogisticRegression(max_iter=1_000, class_weight="balanced")
        )
        scores = cross_val_score(model, shown, labels, cv=folds, scoring="balanced_accuracy")
        figures[name] = float(scores.mean())
    told = ", ".join(f"{name} {value:.3f}" for name, value in figures.items())
    detail = f"cross-validated balanced accuracy: {told}; limit {MAX_SHALLOW}"
    return LintResult("shallow model", max(figures.values()) <= MAX_SHALLOW, detail, figures)


def _shape(task: AuditTask) -> str:
    """What is left of a workspace without its content: names of files, and sizes in steps of twenty lines."""
    return " ".join(f"{name} {name}:{text.count(chr(10)) // 20}" for name, text in task.data.files.items())


def grade_without_tools(task: AuditTask, text: str) -> Grade:
    """The grade of a reply that has no patch to judge, so that no tool is asked."""
    work = grade(text, row_of(task.data), _NO_TOOLS, task.config.weights, task.data.tools)
    try:
        work.send(None)
    except StopIteration as done:
        verdict: Grade = done.value
        return verdict
    work.close()
    raise ValueError("the reply asks a tool")


_NO_TOOLS = Toolbox(Desk.open(), {}, ())
