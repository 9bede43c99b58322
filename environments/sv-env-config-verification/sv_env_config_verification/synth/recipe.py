"""The recipe: rows of a seed, drawn without any tool; `confirm` checks them against the tools."""

import difflib
import random
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, islice
from typing import TypeVar

from sv_env_config_verification.catalogue import load_catalogue
from sv_env_config_verification.intent import ImageIs, Predicate
from sv_env_config_verification.rows import Difficulty, Format, Row, RowKind, Violation
from sv_env_config_verification.synth import kubernetes, terraform
from sv_env_config_verification.synth.kubernetes_choices import kubernetes_choices
from sv_env_config_verification.synth.kubernetes_flaws import kubernetes_flaws
from sv_env_config_verification.synth.kubernetes_unseen import kubernetes_unseen
from sv_env_config_verification.synth.model import Choice, Flaw, Pair, Scene, apply, compatible
from sv_env_config_verification.synth.names import Names
from sv_env_config_verification.synth.splits import owned
from sv_env_config_verification.synth.terraform_choices import terraform_choices
from sv_env_config_verification.synth.terraform_flaws import terraform_flaws
from sv_env_config_verification.synth.terraform_unseen import terraform_unseen
from sv_env_config_verification.synth.text import Style, write
from sv_shared.errors import UsageError
from sv_shared.splits import Split, require_seed

RECIPE_VERSION = 1
"""Raised whenever the same seed gives other rows."""

BATCH = 20
MOST_VIOLATIONS = 8
LINES = range(20, 401)
"""Sizes of a row, all its files together."""


T = TypeVar("T", Flaw, Choice)


@dataclass(frozen=True, slots=True)
class Plan:
    """What a row is to be.

    Attributes:
        kind: as `Row.kind`.
        seen: whether it has flaws that tools see, besides what its kind brings.
        right: settings that tools report and the operator asked for.
        wrong: whether it has such a setting that the operator ruled out.
    """

    kind: RowKind
    seen: bool = False
    right: int = 0
    wrong: bool = False


PLANS: tuple[Plan, ...] = (
    *[Plan("clean")] * 4,
    *[Plan("false-alarm", right=2)] * 2,
    Plan("intent", right=1),
    *[Plan("false-alarm", seen=True, right=1)] * 2,
    Plan("intent", seen=True, right=1),
    *[Plan("intent", wrong=True)] * 2,
    *[Plan("unseen")] * 2,
    *[Plan("unseen", seen=True)] * 2,
    *[Plan("tools-agree", seen=True)] * 4,
)
"""Of BATCH consecutive rows; 7 are clean, and in 10 the truth is not what the tools say."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A row, and what the tools have to say about it.

    Attributes:
        row: the row.
        secure: the files as they are when everything is mended.
        alarms: what tools report and is no violation, before and after.
        seen: true violations that a tool has to report.
        families: the templates.
    """

    row: Row
    secure: Mapping[str, str]
    alarms: frozenset[Pair]
    seen: frozenset[Pair]
    families: tuple[str, ...]


def draft(n: int, *, seed: int, split: Split) -> list[Draft]:
    """The first `n` rows of a seed, unconfirmed.

    Args:
        n: how many; more rows continue the same sequence.
        seed: a seed of the split.
        split: "train", "dev" or "test"; no row of one split is a near-duplicate of another's.

    Raises:
        UsageError: n is negative, or the seed belongs to another split.
    """
    require_seed(seed, split)
    if n < 0:
        raise UsageError(f"n = {n} is out of range", hint="Use n >= 0")
    return list(islice(_sequence(seed, split), n))


def _sequence(seed: int, split: Split) -> Iterator[Draft]:
    for batch in count():
        rng = random.Random(f"e2/{RECIPE_VERSION}/{split}/{seed}/batch/{batch}")
        rows = [(plan, _format(number, batch)) for number, plan in enumerate(PLANS)]
        rng.shuffle(rows)
        for place, (plan, format_) in enumerate(rows):
            yield _row(seed, split, batch * BATCH + place, plan, format_)


def _format(number: int, batch: int) -> Format:
    """Two fifths of each batch are Terraform, and in the long run two fifths of each plan's rows."""
    return "terraform" if (2 * number + batch) % 5 < 2 else "kubernetes"


def _row(seed: int, split: Split, index: int, plan: Plan, format_: Format) -> Draft:
    for attempt in count():
        rng = random.Random(f"e2/{RECIPE_VERSION}/{split}/{seed}/{index}/{attempt}")
        made = _attempt(rng, f"synth{RECIPE_VERSION}-{format_}:{seed}:{index}", plan, format_)
        if made is not None and owned(near_key(made.row.files), split):
            return made
    raise AssertionError("count() does not end")


def _attempt(rng: random.Random, name: str, plan: Plan, format_: Format) -> Draft | None:
    """A row of the plan; None where this draw does not allow one."""
    names = Names(rng)
    scene = _scene(names, format_)
    cast = _cast(scene, plan, names)
    if cast is None:
        return None
    style = _style(scene, names)
    right_edits = [edit for choice in cast.right for edit in choice.edits]
    secure = apply(scene.items, right_edits)
    broken = apply(secure, [edit for part in _both(cast.flaws, cast.wrong) for edit in part.edits])
    texts, mended = write(broken, style), write(secure, style)
    if sum(text.count("\n") for text in texts.values()) not in LINES:
        return None
    return _finished(name, plan, scene, cast, texts, mended, names)


@dataclass(frozen=True, slots=True)
class _Cast:
    flaws: tuple[Flaw, ...]
    right: tuple[Choice, ...]
    wrong: tuple[Choice, ...]
    decoys: tuple[str, ...]

    @property
    def pairs(self) -> frozenset[Pair]:
        return frozenset(pair for part in _both(self.flaws, self.wrong) for pair in part.pairs)


def _scene(names: Names, format_: Format) -> Scene:
    number = names.pick((1, 1, 2, 2, 3))
    if format_ == "kubernetes":
        chosen = tuple(names.rng.choices(kubernetes.FAMILIES, k=number))
        return kubernetes.kubernetes_scene(names, chosen)
    first = names.pick(terraform.FAMILIES)
    same = [family for family in terraform.FAMILIES if terraform.cloud(family) == terraform.cloud(first)]
    return terraform.terraform_scene(names, (first, *names.rng.choices(same, k=number - 1)))


def _cast(scene: Scene, plan: Plan, names: Names) -> _Cast | None:
    """What happens to the scene; no two sentences of the operator are about the same object."""
    if scene.format == "kubernetes":
        choices = list(kubernetes_choices(scene, names))
        unseen = list(kubernetes_unseen(scene, names))
        seen = list(kubernetes_flaws(scene, names))
    else:
        choices = list(terraform_choices(scene, names))
        unseen = list(terraform_unseen(scene, names))
        seen = list(terraform_flaws(scene, names))
    taken: list[Flaw | Choice] = []
    right = _take(choices, plan.right, taken, names)
    wrong = _take(choices, int(plan.wrong), taken, names)
    hidden = _take(unseen, names.pick((1, 1, 2)) if plan.kind == "unseen" else 0, taken, names)
    if len(right) < plan.right or len(wrong) < plan.wrong or (plan.kind == "unseen" and not hidden):
        return None
    spoken = _objects(_both(hidden, [*right, *wrong]))
    room = MOST_VIOLATIONS - sum(len(part.pairs) for part in _both(hidden, wrong))
    visible = _flaws(seen, names.rng.randint(1, room) if plan.seen else 0, taken, names)
    if plan.seen and not visible:
        return None
    quiet = [part for part in _both(unseen, choices) if not _objects([part]) & spoken]
    decoys = _sentences(quiet, names.rng.randint(1, 3), names)
    return _Cast((*hidden, *visible), tuple(right), tuple(wrong), decoys)


def _both(flaws: Iterable[Flaw], choices: Iterable[Choice]) -> list[Flaw | Choice]:
    return [*flaws, *choices]


def _objects(parts: Iterable[Flaw | Choice]) -> set[str]:
    return {edit.object for part in parts for edit in part.edits}


def _take(pool: Sequence[T], number: int, taken: list[Flaw | Choice], names: Names) -> list[T]:
    """Some of the pool, each about other objects than what is taken already, and compatible with it."""
    found: list[T] = []
    for part in names.rng.sample(pool, len(pool)):
        if len(found) == number:
            break
        if not _objects([part]) & _objects(taken) and all(compatible(part, other) for other in taken):
            found.append(part)
            taken.append(part)
    return found


def _flaws(pool: list[Flaw], number: int, taken: list[Flaw | Choice], names: Names) -> list[Flaw]:
    """Compatible flaws with at most `number` violations together; each weakness is as likely as another."""
    groups: defaultdict[str, list[Flaw]] = defaultdict(list)
    for flaw in pool:
        groups[flaw.pair[0]].append(flaw)
    found: list[Flaw] = []
    for weakness in names.rng.sample(sorted(groups), len(groups)):
        for flaw in names.rng.sample(groups[weakness], min(2, len(groups[weakness]))):
            fits = sum(len(one.pairs) for one in (*found, flaw)) <= number
            if fits and all(compatible(flaw, other) for other in taken):
                found.append(flaw)
                taken.append(flaw)
    return found


def _sentences(parts: Sequence[Flaw | Choice], number: int, names: Names) -> tuple[str, ...]:
    """What the operator says about objects of which nothing is to be decided."""
    chosen: dict[str, str] = {}
    for part in names.rng.sample(parts, len(parts)):
        if len(chosen) < number:
            text = part.wrong if isinstance(part, Choice) else part.statement
            chosen.setdefault(part.edits[0].object, text)
    return tuple(chosen.values())


def _style(scene: Scene, names: Names) -> Style:
    order = [item.id for item in scene.items]
    if names.some(0.5):
        names.rng.shuffle(order)
    ending = "yaml" if scene.format == "kubernetes" else "tf"
    single = f"{'manifests' if scene.format == 'kubernetes' else 'main'}.{ending}"
    split = names.some(0.4)
    files = {item.id: f"{item.group}.{ending}" if split else single for item in scene.items}
    comments = names.pick((0.0, 0.05, 0.15))
    return Style(names.word(12), comments, names.some(0.5), tuple(order), files)


def _finished(
    name: str,
    plan: Plan,
    scene: Scene,
    cast: _Cast,
    texts: Mapping[str, str],
    mended: Mapping[str, str],
    names: Names,
) -> Draft:
    weaknesses = load_catalogue().weaknesses
    hidden = [flaw for flaw in cast.flaws if flaw.unseen]
    violations = [
        Violation(id=weakness, object=identity, severity=weaknesses[weakness].severity)
        for weakness, identity in sorted(cast.pairs)
    ]
    said = [choice.right for choice in cast.right] + [choice.wrong for choice in cast.wrong]
    sentences = [*said, *(flaw.statement for flaw in hidden), *cast.decoys, *scene.facts]
    sentences = list(dict.fromkeys(sentences))
    names.rng.shuffle(sentences)
    row = Row(
        id=name,
        format=scene.format,
        files=dict(texts),
        statement=" ".join(sentences),
        intent=(
            *_untouched(scene.intent, cast.flaws),
            *(clause for choice in cast.right for clause in choice.keep),
        ),
        violations=tuple(violations),
        fixes={f"{flaw.pair[0]} {flaw.pair[1]}": flaw.fixes for flaw in hidden},
        patch=unified(texts, mended) or None,
        difficulty=_difficulty(plan, len(violations), texts),
        cluster=f"{scene.format}-{scene.families[0]}",
        kind=plan.kind,
    )
    alarms = frozenset(pair for choice in cast.right for pair in choice.pairs)
    unseen = frozenset(flaw.pair for flaw in hidden)
    return Draft(row, dict(mended), alarms, cast.pairs - unseen, scene.families)


def _untouched(intent: Iterable[Predicate], flaws: Iterable[Flaw]) -> list[Predicate]:
    """The clauses, less those about an image that a flaw changes: a repair changes it again."""
    changed = {edit.object for flaw in flaws for edit in flaw.edits if edit.path[-1] == "image"}
    return [clause for clause in intent if not (isinstance(clause, ImageIs) and clause.object in changed)]


def _difficulty(plan: Plan, violations: int, texts: Mapping[str, str]) -> Difficulty:
    long = sum(text.count("\n") for text in texts.values()) > 200
    points = (plan.kind not in ("clean", "tools-agree")) + (violations >= 4) + long
    levels: tuple[Difficulty, ...] = ("easy", "medium", "hard")
    return levels[min(points, 2)]


def unified(old: Mapping[str, str], new: Mapping[str, str]) -> str:
    """A unified diff from one set of files to another of the same names; "" where they are equal."""
    parts: list[str] = []
    for name in sorted(old):
        before, after = old[name].splitlines(keepends=True), new[name].splitlines(keepends=True)
        parts += difflib.unified_diff(before, after, f"a/{name}", f"b/{name}")
    return "".join(parts)


_KEY = re.compile(r"^(\s*(?:- )?)([\w./\"-]+)(:| +=| +\"| \{)\s*(.*)$")


def near_key(files: Mapping[str, str]) -> str:
    """What near-duplicates have in common: keys, block types, switches and names in capitals, in their order.

    Names of things, numbers, comments and the layout in files do not count.
    """
    lines = [
        line
        for name in sorted(files)
        for line in files[name].split("\n")
        if not line.lstrip().startswith("#")
    ]
    shape = []
    for line in lines:
        found = _KEY.match(line)
        value = found[4].strip('"') if found else line.strip()
        keep = value if value in ("true", "false") or re.fullmatch(r"[A-Z][A-Z_]+", value) else ""
        shape.append(f"{found[2].strip() if found else ''}={keep}")
    return "\n".join(shape)
