"""The repair funnel: the layers that a patch has to pass, in order; a repair passes all of them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import count

from sv_env_config_verification.adapters.toolbox import Toolbox
from sv_env_config_verification.blocks import other_blocks, outside
from sv_env_config_verification.inputs import InputError, Problem
from sv_env_config_verification.intent import all_hold
from sv_env_config_verification.patches import TAMPERING as PATCH_TAMPERING
from sv_env_config_verification.patches import PatchError, apply_patch
from sv_env_config_verification.preservation import TAMPERING as LOSS_TAMPERING
from sv_env_config_verification.preservation import Difference, Loss, losses, suppressions
from sv_env_config_verification.rows import Row
from sv_env_config_verification.schemas import schema_problems
from sv_env_config_verification.shapes import Shapes
from sv_shared.errors import DataError, ToolError
from sv_shared.findings import weaknesses

LAYERS = ("applies", "parses", "schema_valid", "targets_gone", "no_new_findings", "preserved", "intent_holds")
"""The layers in their order."""

Pairs = frozenset[tuple[str, str]]
"""(weakness, object) pairs."""

_BOMBS = frozenset({Problem.TOO_COMPLEX.value, Problem.TOO_LARGE.value, Problem.BINARY.value})

_controls = count()


@dataclass(frozen=True, slots=True)
class FunnelResult:
    """How far a patch came.

    Attributes:
        layers: whether it passed each layer, by name; after the first that it did not pass, none counts.
        cause: what it failed on, "" for a repair: a stable name, with details after a colon.
        tampering: whether it hides weaknesses or reaches beyond the files in place of mending them.
        crashed: whether it broke a tool that works on other input; the answer then scores the floor.
    """

    layers: Mapping[str, bool]
    cause: str = ""
    tampering: bool = False
    crashed: bool = False

    @property
    def repaired(self) -> bool:
        """Whether it passed every layer."""
        return all(self.layers.values())


NOT_RUN = FunnelResult(dict.fromkeys(LAYERS, False))
"""The result where there is no patch to judge."""


async def scan_baseline(row: Row, toolbox: Toolbox) -> Pairs:
    """What the tools say of a row's original files; a toolbox with a cache runs them once a row.

    Raises:
        ToolError, InputError: a tool does not work, or the row's own files can't be judged.
    """
    return frozenset(weaknesses(await toolbox.scan(row.files)))


async def run_funnel(row: Row, patch: str, toolbox: Toolbox, baseline: Pairs | None = None) -> FunnelResult:
    """Judge a patch of a row with violations.

    Layers: the diff applies to the row's files, exactly (applies); every file can be read (parses); changed
    Kubernetes objects fit the API's schema (schema_valid; Terraform has none that could be carried along, and
    unknown attributes fail at `preserved`); no tool reports a true violation any more, and where no tool sees
    one its `fixes` hold (targets_gone); no tool reports a weakness of an object that was not reported before
    (no_new_findings); nothing was lost (preserved, see `preservation`); the intent holds (intent_holds).

    Args:
        row: the row; a clean one has nothing to repair.
        patch: the unified diff.
        toolbox: the tools; each one that the row's truth rests on has to be there.
        baseline: what they say of the original (`scan_baseline`); None: asked when it is needed.

    Raises:
        DataError: the row can't be judged: it is clean, or nothing shows one of its violations.
        ToolError: a tool does not work, whatever the patch.
    """
    if row.is_clean:
        raise DataError("a clean row has nothing to repair", where=row.id)
    try:
        files = apply_patch(row.files, patch)
    except PatchError as error:
        return _stopped("applies", str(error), error.problem in PATCH_TAMPERING)
    hushed = suppressions(row.files, files)
    reader = toolbox._desk.reader
    original = await reader.read(row.files)
    try:
        shapes = await reader.read(files)
    except InputError as error:
        labels = sorted(error.labels)
        tampering = bool(hushed) or not _BOMBS.isdisjoint(labels)
        return _stopped("parses", f"{', '.join(labels)}: {error.notices[0].message}", tampering)
    except ToolError as error:
        return await _crash("parses", error, row, toolbox)
    lost = [*hushed, *_losses(row, files, original, shapes)]
    tampering = any(difference.loss in LOSS_TAMPERING for difference in lost)
    if problems := schema_problems(original.kubernetes, shapes.kubernetes):
        return _stopped("schema_valid", f"schema: {problems[0]}", tampering)
    before = await scan_baseline(row, toolbox) if baseline is None else baseline
    _check_truth(row, before)
    try:
        after = weaknesses(await toolbox.scan(files))
    except InputError as error:
        return _stopped("parses", f"{', '.join(sorted(error.labels))}: {error.notices[0].message}", tampering)
    except ToolError as error:
        return await _crash("targets_gone", error, row, toolbox)
    left = [
        v.key for v in row.violations if v.pair in after or not all_hold(row.fixes.get(v.key, ()), shapes)
    ]
    if left:
        return _stopped("targets_gone", f"still-there: {left[0]}", tampering)
    if new := sorted(after - before):
        return _stopped("no_new_findings", f"new-finding: {' '.join(new[0])}", tampering)
    if lost:
        return _stopped("preserved", f"not-preserved: {lost[0]}", tampering)
    if not all_hold(row.intent, shapes):
        return _stopped("intent_holds", "intent-broken")
    return FunnelResult(dict.fromkeys(LAYERS, True))


def _stopped(layer: str, cause: str, tampering: bool = False, crashed: bool = False) -> FunnelResult:
    """The result of a patch that came to a layer and did not pass it."""
    at = LAYERS.index(layer)
    layers = {name: i < at for i, name in enumerate(LAYERS)}
    return FunnelResult(layers, cause[:300], tampering, crashed)


def _losses(row: Row, files: Mapping[str, str], original: Shapes, shapes: Shapes) -> list[Difference]:
    """What the patch did not keep of objects and, where their text changed, of Terraform's other blocks."""
    lost = losses(original, shapes, row.pairs)
    if row.format != "terraform":
        return lost
    rest = {name: outside(name, text, original) for name, text in row.files.items()}
    changed = [name for name in sorted(rest) if outside(name, files[name], shapes) != rest[name]]
    if not changed:
        return lost
    sides = [
        other_blocks({name: texts[name] for name in changed}, parsed)
        for texts, parsed in ((row.files, original), (files, shapes))
    ]
    if sides[0] is None or sides[1] is None:
        return [*lost, Difference(Loss.OTHER_FIELD, changed[0])]
    weak = {weakness for weakness, _ in row.pairs}
    pairs = {(weakness, block.id) for weakness in weak for block in sides[0]}
    before, after = (replace(Shapes(), terraform=tuple(blocks)) for blocks in sides if blocks is not None)
    return lost + losses(before, after, pairs)


def _check_truth(row: Row, baseline: Pairs) -> None:
    unseen = [v.key for v in row.violations if v.pair not in baseline and v.key not in row.fixes]
    if unseen:
        raise DataError(
            f"no tool at hand reports {unseen[0]!r}, so that a repair can't be told",
            where=row.id,
            hint="Install every tool with sv tools install, or give the row predicates in `fixes`",
        )


async def _crash(layer: str, error: ToolError, row: Row, toolbox: Toolbox) -> FunnelResult:
    """The result of a patch on which a tool fails that works on the original.

    Raises:
        ToolError: it fails on the original too.
    """
    control = dict(row.files)
    name = min(control)
    # The comment makes it another text, so that no cache answers for the tool.
    control[name] += f"\n# control {next(_controls)}\n"
    await toolbox.scan(control)
    return _stopped(layer, f"tool-failed: {error.what}", tampering=True, crashed=True)
