"""Preservation: whether a patch kept what it should have kept, decided on parsed objects.

Two workspaces are compared, never two texts: comments, the order of keys and quotes are no change.
Every object has to be there still, in its file, and what changed has to lie in fields that a repair may touch
(catalogue/security_fields.toml).
"""

import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

from sv_env_config_verification.blocks import ADDABLE
from sv_env_config_verification.catalogue import FOLDER
from sv_env_config_verification.fields import MISSING, look_up, pod_template, same, steps
from sv_env_config_verification.shapes import Document, Json, Resource, Shapes
from sv_shared.errors import DataError

ITEM = "[*]"
"""The step into a list, whichever item."""

Leaf = tuple[str, ...]
"""Where a change lies: keys, and ITEM for lists."""


class Loss(StrEnum):
    """What a patch did not keep."""

    OBJECT_GONE = "object-gone"
    OBJECT_ADDED = "object-added"
    OTHER_FIELD = "field-not-open-to-repair"
    EMPTIED = "field-emptied"
    OTHER_IMAGE = "other-image"
    SUPPRESSION = "suppression"


TAMPERING = frozenset({Loss.OBJECT_GONE, Loss.OBJECT_ADDED, Loss.SUPPRESSION})
"""Losses that hide a weakness in place of mending it."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that was not kept.

    Attributes:
        loss: what it is.
        object: identity of the object; a file's name for a suppression.
        path: the field; "" where it is the object as a whole.
    """

    loss: Loss
    object: str
    path: str = ""

    def __str__(self) -> str:
        return " ".join(filter(None, (self.loss.value, self.object, self.path)))


def losses(before: Shapes, after: Shapes, violations: Iterable[tuple[str, str]] = ()) -> list[Difference]:
    """What a patch did to parsed objects that no repair needs.

    Args:
        before, after: the workspace and the patched one.
        violations: the true (weakness, object) pairs; some fields are open only to who mends these.

    Returns:
        The differences in a fixed order; none where all was kept.

    Raises:
        DataError: the list of fields is damaged.
    """
    old, new = _by_place(before), _by_place(after)
    counts = {place: (len(old.get(place, [])), len(new.get(place, []))) for place in {*old, *new}}
    found = [Difference(Loss.OBJECT_GONE, place[1]) for place, (had, has) in counts.items() if has < had]
    found += [
        Difference(Loss.OBJECT_ADDED, place[1])
        for place, (had, has) in counts.items()
        if has > had and not _is_addable(new[place][0])
    ]
    if found:
        return sorted(found, key=str)
    mends: dict[str, set[str]] = {}
    for weakness, identity in violations:
        mends.setdefault(identity, set()).add(weakness)
    for place in sorted(old):
        for one, other in zip(old[place], new.get(place, []), strict=False):
            found += _object_losses(one, other, mends.get(place[1], set()))
    return found


def suppressions(before: Mapping[str, str], after: Mapping[str, str]) -> list[Difference]:
    """The files in which a patch put something that is meant to silence a tool, in a comment or elsewhere.

    Args:
        before, after: text by file name.

    Raises:
        DataError: the list of fields is damaged.
    """
    pattern = load_rules().suppression
    return [
        Difference(Loss.SUPPRESSION, name)
        for name, text in sorted(after.items())
        if Counter(pattern.findall(text)) - Counter(pattern.findall(before.get(name, "")))
    ]


def differences(one: Json, other: Json, at: Leaf = ()) -> Iterator[Leaf]:
    """Where two values differ, each place as deep as it goes; equal values have none.

    Items of a list are paired by their `name` (or another field that tells them apart), else by likeness.
    """
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted({*one, *other}):
            yield from differences(one.get(key, MISSING), other.get(key, MISSING), (*at, key))
    elif isinstance(one, list) and isinstance(other, list):
        for left, right in _pairs(one, other):
            yield from differences(left, right, (*at, ITEM))
    elif one is MISSING or other is MISSING:
        yield from _leaves(one if other is MISSING else other, at)
    elif not same(one, other):
        yield at


# Rules ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FieldRule:
    """Fields that are open to repair.

    Attributes:
        kinds: kinds or Terraform types, by pattern; "@pod" is what makes pods.
        weaknesses: one of these must be the object's; empty: the fields are always open.
        paths: prefixes of what may change.
        keep: prefixes of what may not be emptied.
        required: fields that may change but not go while what they lie in stays; "a|b" asks for one of two.
    """

    kinds: tuple[str, ...]
    weaknesses: frozenset[str]
    paths: tuple[Leaf, ...]
    keep: tuple[Leaf, ...]
    required: tuple[Leaf, ...]


@dataclass(frozen=True, slots=True)
class FieldRules:
    """security_fields.toml, read.

    Attributes:
        kubernetes, terraform: rules in their order.
        suppression: matches what silences a tool.
    """

    kubernetes: tuple[FieldRule, ...]
    terraform: tuple[FieldRule, ...]
    suppression: re.Pattern[str]


@cache
def load_rules(path: Path = FOLDER / "security_fields.toml") -> FieldRules:
    """Read the list of fields. Read once a path.

    Raises:
        DataError: the file is missing or damaged.
    """
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        return FieldRules(
            tuple(_rule(row, row["kinds"]) for row in table["kubernetes"]),
            tuple(_rule(row, row["types"]) for row in table["terraform"]),
            re.compile("|".join(table["suppression"]["patterns"]), re.IGNORECASE),
        )
    except (OSError, KeyError, TypeError, ValueError, re.error) as error:
        raise DataError(f"the list of fields can't be read: {error}", where=str(path)) from error


def _rule(row: Mapping[str, Any], kinds: list[str]) -> FieldRule:
    return FieldRule(
        tuple(kinds),
        frozenset(row.get("weaknesses", ())),
        tuple(_leaf(path) for path in row["paths"]),
        tuple(_leaf(path) for path in row.get("keep", ())),
        tuple(_leaf(path) for path in row.get("required", ())),
    )


def _leaf(path: str) -> Leaf:
    return tuple(ITEM if kind == "every" else step for kind, step in steps(path))


# Comparing ------------------------------------------------------------------------------------------------


def _by_place(shapes: Shapes) -> dict[tuple[str, str], list[Document | Resource]]:
    """Objects by (file, identity); several where one identity is given more than once."""
    found: dict[tuple[str, str], list[Document | Resource]] = {}
    for item in shapes.items():
        found.setdefault((item.file, item.id), []).append(item)
    return found


def _object_losses(one: Document | Resource, other: Document | Resource, mends: set[str]) -> list[Difference]:
    old, new = _body(one), _body(other)
    changed = sorted(set(differences(old, new)))
    if not changed:
        return []
    open_paths, kept, required = _open(one, mends)
    found = [
        Difference(Loss.OTHER_FIELD, one.id, _spell(leaf))
        for leaf in changed
        if not any(_below(leaf, prefix) for prefix in open_paths)
    ]
    if isinstance(one, Document) and _images(one.object) != _images(
        other.object if isinstance(other, Document) else {}
    ):
        found.append(Difference(Loss.OTHER_IMAGE, one.id))
    emptied = [leaf for leaf in kept if _filled(old, leaf) > _filled(new, leaf)]
    emptied += [leaf for leaf in required if _lacking(new, leaf) > _lacking(old, leaf)]
    return found + [Difference(Loss.EMPTIED, one.id, _spell(leaf)) for leaf in emptied]


def _is_addable(item: Document | Resource) -> bool:
    return isinstance(item, Resource) and item.type in ADDABLE


def _body(item: Document | Resource) -> dict[str, Json]:
    return item.object if isinstance(item, Document) else item.attributes


def _open(item: Document | Resource, mends: set[str]) -> tuple[list[Leaf], list[Leaf], list[Leaf]]:
    """(prefixes that may change, what may not be emptied, what may not go) of an object."""
    rules = load_rules()
    prefix: Leaf = ()
    if isinstance(item, Document):
        pool, kind, prefix = rules.kubernetes, str(item.object.get("kind")), _pod_prefix(item)
    else:
        pool, kind = rules.terraform, item.type
    opened: list[Leaf] = []
    kept: list[Leaf] = []
    required: list[Leaf] = []
    for rule in pool:
        if rule.weaknesses and not rule.weaknesses & mends:
            continue
        is_pod = "@pod" in rule.kinds
        if is_pod and isinstance(item, Document) and pod_template(item.object) is not None:
            opened += [(*prefix, *path) for path in rule.paths]
            kept += [(*prefix, *path) for path in rule.keep]
            required += [(*prefix, *path) for path in rule.required]
        elif any(fnmatchcase(kind, pattern) for pattern in rule.kinds):
            opened += rule.paths
            kept += rule.keep
            required += rule.required
    return opened, kept, required


def _pod_prefix(item: Document) -> Leaf:
    named: dict[str, Leaf] = {"Pod": (), "CronJob": ("spec", "jobTemplate", "spec", "template")}
    return named.get(str(item.object.get("kind")), ("spec", "template"))


def _below(leaf: Leaf, prefix: Leaf) -> bool:
    return len(leaf) >= len(prefix) and all(
        step == part if ITEM in (step, part) else fnmatchcase(step, part)
        for step, part in zip(leaf, prefix, strict=False)
    )


def _images(manifest: Json) -> list[tuple[str, str]]:
    """(container, image without tag and digest) of a workload, in order of names."""
    pod = pod_template(manifest)
    containers = [
        one
        for key in ("containers", "initContainers", "ephemeralContainers")
        for one in (look_up(pod, f"spec.{key}[*]") if pod else [])
        if isinstance(one, dict)
    ]
    return sorted((str(one.get("name")), _repository(str(one.get("image")))) for one in containers)


def _repository(image: str) -> str:
    name = image.partition("@")[0]
    folder, slash, last = name.rpartition("/")
    return folder + slash + last.partition(":")[0]


def _filled(value: Json, leaf: Leaf) -> int:
    """How many values that a prefix leads to are neither missing nor empty."""
    if not leaf:
        return int(value is not MISSING and value not in (None, [], {}, ""))
    if leaf[0] == ITEM:
        return sum(_filled(item, leaf[1:]) for item in value) if isinstance(value, list) else 0
    return _filled(value.get(leaf[0], MISSING), leaf[1:]) if isinstance(value, dict) else 0


def _lacking(value: Json, leaf: Leaf) -> int:
    """How many values that the path's last step is asked of do not have it."""
    if leaf[0] == ITEM:
        return sum(_lacking(item, leaf[1:]) for item in value) if isinstance(value, list) else 0
    if not isinstance(value, dict):
        return 0
    if len(leaf) == 1:
        return int(not any(_filled(value, (name,)) for name in leaf[0].split("|")))
    return _lacking(value.get(leaf[0]), leaf[1:])


def _leaves(value: Json, at: Leaf) -> Iterator[Leaf]:
    if isinstance(value, dict) and value:
        for key in sorted(value):
            yield from _leaves(value[key], (*at, key))
    elif isinstance(value, list) and value:
        for item in value:
            yield from _leaves(item, (*at, ITEM))
    else:
        yield at


_TELLING = ("name", "mountPath", "containerPort", "key", "host", "ip", "path")


def _pairs(one: list[Json], other: list[Json]) -> Iterator[tuple[Json, Json]]:
    """The items of two lists side by side; MISSING stands where a side has none."""
    for field in _TELLING:
        left, right = _named(one, field), _named(other, field)
        if left is not None and right is not None:
            names = list(dict.fromkeys([*left, *right]))
            yield from ((left.get(name, MISSING), right.get(name, MISSING)) for name in names)
            if [name for name in left if name in right] != [name for name in right if name in left]:
                yield "order", "changed"
            return
    left_texts, right_texts = ([_canonical(item) for item in side] for side in (one, other))
    matcher = SequenceMatcher(None, left_texts, right_texts, autojunk=False)
    for tag, a, b, c, d in matcher.get_opcodes():
        if tag != "equal":
            for i in range(max(b - a, d - c)):
                yield one[a + i] if a + i < b else MISSING, other[c + i] if c + i < d else MISSING


def _named(items: list[Json], field: str) -> dict[str, Json] | None:
    """Items by the text of a field; None where one lacks it or two share it."""
    names = [item.get(field) if isinstance(item, dict) else None for item in items]
    if (
        not items
        or any(not isinstance(name, str | int) for name in names)
        or len(set(map(str, names))) < len(names)
    ):
        return None
    return dict(zip(map(str, names), items, strict=True))


def _canonical(value: Json) -> str:
    if isinstance(value, dict):
        return "{" + ",".join(f"{key!r}:{_canonical(value[key])}" for key in sorted(value)) + "}"
    return "[" + ",".join(map(_canonical, value)) + "]" if isinstance(value, list) else repr(value)


def _spell(leaf: Leaf) -> str:
    return ".".join(leaf).replace(f".{ITEM}", ITEM)
