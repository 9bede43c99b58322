"""Configurations before they are text, and what can be done to them: edits, flaws, choices."""

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sv_env_config_verification.intent import Predicate
from sv_env_config_verification.rows import Format

Path = tuple[str | int, ...]
"""Keys and positions from an object's root."""

Pair = tuple[str, str]
"""(weakness, object identity)."""


class Expression(str):
    """A Terraform expression: written as it is, without quotes."""


class Call(NamedTuple):
    """A Terraform function of one value, such as jsonencode."""

    function: str
    value: Any


class Blocks(list[dict[str, Any]]):
    """Nested Terraform blocks of one type; a plain list is a list of values."""


class Drop:
    """The value of an edit that takes a key away."""


DROP = Drop()


@dataclass(frozen=True, slots=True)
class Item:
    """One object.

    Attributes:
        id: identity.
        body: the manifest, or a Terraform block's body; never changed in place.
        labels: of a Terraform block: ("resource", type, name); empty for Kubernetes.
        group: what belongs together, such as a workload and its Service; decides the file.
    """

    id: str
    body: Mapping[str, Any]
    labels: tuple[str, ...] = ()
    group: str = "main"


@dataclass(frozen=True, slots=True)
class Edit:
    """A change of one place: `value` is put there, or what is there is dropped."""

    object: str
    path: Path
    value: Any


@dataclass(frozen=True, slots=True)
class Flaw:
    """A way to break a configuration.

    Attributes:
        pair: the weakness that it brings, and where.
        edits: what to do.
        also: further (weakness, object) that follow from it.
        unseen: no tool reports `pair`; `fixes` tells when it is mended and `statement` why it is wrong.
        fixes: what is true of a mended workspace.
        statement: a sentence of the operator that settles the matter; true of the secure one.
        claims: places that it does not edit but whose findings it would change; as `compatible` takes them.
    """

    pair: Pair
    edits: tuple[Edit, ...]
    also: frozenset[Pair] = frozenset()
    unseen: bool = False
    fixes: tuple[Predicate, ...] = ()
    statement: str = ""
    claims: frozenset[tuple[str, Path]] = frozenset()

    @property
    def pairs(self) -> frozenset[Pair]:
        """All that it brings."""
        return self.also | {self.pair}

    @property
    def places(self) -> frozenset[tuple[str, Path]]:
        """Where it acts."""
        return self.claims | {(edit.object, edit.path) for edit in self.edits}


@dataclass(frozen=True, slots=True)
class Choice:
    """A setting that tools report and the operator decides: right with one sentence, wrong with another.

    Attributes:
        name: which setting.
        edits: what makes it.
        pairs: what tools report then.
        right: a statement that asks for the setting.
        wrong: a statement that rules it out.
        keep: what a patch must leave alone where it was asked for.
        claims: as a flaw's.
    """

    name: str
    edits: tuple[Edit, ...]
    pairs: frozenset[Pair]
    right: str
    wrong: str
    keep: tuple[Predicate, ...] = ()
    claims: frozenset[tuple[str, Path]] = frozenset()

    @property
    def places(self) -> frozenset[tuple[str, Path]]:
        """Where it acts."""
        return self.claims | {(edit.object, edit.path) for edit in self.edits}


@dataclass(frozen=True, slots=True)
class Scene:
    """A secure configuration and what can be done to it.

    Attributes:
        format: "kubernetes" or "terraform".
        families: the templates that it is made of.
        items: objects.
        intent: what must keep working.
        facts: sentences about it that decide nothing.
    """

    format: Format
    families: tuple[str, ...]
    items: tuple[Item, ...]
    intent: tuple[Predicate, ...] = ()
    facts: tuple[str, ...] = field(default=())


def apply(items: Iterable[Item], edits: Iterable[Edit]) -> tuple[Item, ...]:
    """The items with the edits made; the given ones stay as they are.

    Raises:
        KeyError, IndexError, TypeError: an edit's place is not there, which is a mistake in a template.
    """
    bodies = {item.id: (item, copy.deepcopy(dict(item.body))) for item in items}
    for edit in edits:
        place: Any = bodies[edit.object][1]
        for step in edit.path[:-1]:
            place = place[step]
        last = edit.path[-1]
        if isinstance(edit.value, Drop):
            del place[last]
        elif isinstance(place, list) and last == len(place):
            place.append(copy.deepcopy(edit.value))
        else:
            place[last] = copy.deepcopy(edit.value)
    return tuple(Item(item.id, body, item.labels, item.group) for item, body in bodies.values())


def compatible(one: Flaw | Choice, other: Flaw | Choice) -> bool:
    """Whether neither acts on, above or below a place of the other, and they bring different pairs."""
    mine = one.pairs
    return not (mine & other.pairs) and not any(
        a[0] == b[0] and (a[1][: len(b[1])] == b[1] or b[1][: len(a[1])] == a[1])
        for a in one.places
        for b in other.places
    )


def read(body: Any, path: Path) -> Any:
    """The value at a path, or None where there is none."""
    for step in path:
        try:
            body = body[step]
        except (KeyError, IndexError, TypeError):
            return None
    return body


def dotted(body: Any, path: Path) -> str:
    """A path as predicates write it; a list's member goes by its name where it has one, else by position."""
    text = ""
    for step in path:
        if isinstance(step, int):
            member = read(body, (step,))
            name = member.get("name") if isinstance(member, dict) else None
            text += f"[name={name}]" if isinstance(name, str) else f"[{step}]"
        elif any(mark in step for mark in './[]"=* '):
            text += f'["{step}"]'
        else:
            text += f".{step}" if text else step
        body = read(body, (step,))
    return text
