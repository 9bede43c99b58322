"""Whether the tools say of a draft what its recipe claims; without this no synthetic row is used."""

import asyncio
from collections.abc import Sequence

from sv_env_config_verification.adapters.toolbox import Toolbox
from sv_env_config_verification.catalogue import load_catalogue
from sv_env_config_verification.intent import all_hold
from sv_env_config_verification.reading import Reader
from sv_env_config_verification.synth.model import Pair
from sv_env_config_verification.synth.recipe import Draft
from sv_shared.errors import DataError
from sv_shared.findings import Finding

_TOGETHER = 50
"""Drafts that are checked at the same time, so that tools can take them in batches."""


async def confirm(drafts: Sequence[Draft], toolbox: Toolbox) -> list[dict[str, frozenset[Pair]]]:
    """What each tool reports of each draft, after everything that the drafts claim was found to be so.

    Of the broken files the tools together report what is to be seen and the false alarms, no more and no
    less; of the mended ones the false alarms only. The intent holds of both, and the fixes of the mended ones
    only. What only a missing tool knows is not asked for.

    Args:
        drafts: rows of the recipe.
        toolbox: the tools.

    Raises:
        DataError: a draft's claim does not hold; names the row.
        ToolError: a tool failed.
    """
    found: list[dict[str, frozenset[Pair]]] = []
    for start in range(0, len(drafts), _TOGETHER):
        some = drafts[start : start + _TOGETHER]
        found += await asyncio.gather(*(_confirmed(one, toolbox) for one in some))
    reader = Reader()
    try:
        for one in drafts:
            await _check_predicates(one, reader)
    finally:
        await reader.close()
    return found


def known_pairs(pairs: frozenset[Pair], tools: Sequence[str]) -> frozenset[Pair]:
    """The pairs that at least one of the tools has a rule for."""
    rules = load_catalogue().rules
    known = {weakness for tool in tools for weakness in rules[tool].values()}
    return frozenset(pair for pair in pairs if pair[0] in known)


def tool_pairs(findings: Sequence[Finding]) -> frozenset[Pair]:
    """(weakness, object) of the findings that show a weakness."""
    return frozenset((finding.weakness, finding.object) for finding in findings if finding.weakness)


async def _confirmed(one: Draft, toolbox: Toolbox) -> dict[str, frozenset[Pair]]:
    broken = await toolbox.scan(one.row.files)
    mended = await toolbox.scan(one.secure) if one.row.patch else broken
    tools = sorted(toolbox.adapters)
    _check(one, "its files", tool_pairs(broken), known_pairs(one.seen | one.alarms, tools))
    _check(one, "its mended files", tool_pairs(mended), known_pairs(one.alarms, tools))
    return {tool: tool_pairs([f for f in broken if f.tool == tool]) for tool in tools}


def _check(one: Draft, what: str, found: frozenset[Pair], wanted: frozenset[Pair]) -> None:
    if found != wanted:
        raise DataError(
            f"the tools do not say of {what} what the recipe claims: missing {sorted(wanted - found)}, "
            f"besides {sorted(found - wanted)}",
            where=one.row.id,
            hint="A template, a flaw or a rule has changed: make them agree, and raise RECIPE_VERSION",
        )


async def _check_predicates(one: Draft, reader: Reader) -> None:
    broken, mended = await reader.read(one.row.files), await reader.read(one.secure)
    for name, shapes in (("its files", broken), ("its mended files", mended)):
        for clause in one.row.intent:
            if not all_hold((clause,), shapes):
                raise DataError(f"the intent does not hold of {name}: {clause!r}", where=one.row.id)
    for key, clauses in one.row.fixes.items():
        if not all_hold(clauses, mended) or all_hold(clauses, broken):
            raise DataError(
                f"the fix of {key!r} does not tell broken from mended: {clauses!r}", where=one.row.id
            )
