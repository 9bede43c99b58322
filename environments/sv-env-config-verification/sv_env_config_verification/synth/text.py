"""Configurations as text: YAML and HCL, with comments that stand at the same places whatever was edited."""

import json
import random
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sv_env_config_verification.synth.model import Blocks, Call, Expression, Item
from sv_env_config_verification.synth.names import Names

_FIRST_KEYS = ("apiVersion", "kind", "metadata", "name", "namespace", "sid", "bucket", "image")
_BESIDE = frozenset(
    {
        "metadata",
        "spec",
        "template",
        "selector",
        "containers",
        "labels",
        "rules",
        "subjects",
        "roleRef",
        "data",
    }
)
"""Keys that no edit takes away: comments stand before these and before objects only."""
_PLAIN = re.compile(r"[A-Za-z/_][A-Za-z0-9_./@-]*(?::[A-Za-z0-9_./@-]+)*")
_RESERVED = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


@dataclass(frozen=True, slots=True)
class Style:
    """How a configuration is written down; drawn once a row, so that a repair changes only what it must.

    Attributes:
        seed: of the comments.
        comments: share of the places for a comment that have one.
        indented: whether a YAML list is indented below its key.
        order: identities in the order in which they are written.
        files: file name by identity.
    """

    seed: str
    comments: float
    indented: bool
    order: tuple[str, ...]
    files: Mapping[str, str]

    def comment(self, place: str) -> str:
        """The comment before a place, or ""."""
        rng = random.Random(f"{self.seed} {place}")
        return Names(rng).comment() if rng.random() < self.comments else ""


def write(items: Iterable[Item], style: Style) -> dict[str, str]:
    """The files' texts by name."""
    by_id = {item.id: item for item in items}
    parts: dict[str, list[str]] = {}
    for identity in style.order:
        item = by_id[identity]
        lines = _block(item, style) if item.labels else _document(item, style)
        if comment := style.comment(identity):
            lines.insert(0, f"# {comment}")
        parts.setdefault(style.files[identity], []).append("\n".join(lines))
    return {
        name: ("\n\n" if name.endswith(".tf") else "\n---\n").join(texts) + "\n"
        for name, texts in sorted(parts.items())
    }


def _ordered(body: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Conventional keys first, the others by name: an edited key stands where it always would."""
    rank = {key: number for number, key in enumerate(_FIRST_KEYS)}
    return sorted(body.items(), key=lambda pair: (rank.get(pair[0], len(rank)), pair[0]))


def _document(item: Item, style: Style) -> list[str]:
    return _mapping(item.body, "", item.id, style)


def _mapping(body: Mapping[str, Any], indent: str, place: str, style: Style) -> list[str]:
    lines: list[str] = []
    for key, value in _ordered(body):
        here = f"{place}.{key}"
        if key in _BESIDE and (comment := style.comment(here)):
            lines.append(f"{indent}# {comment}")
        name = scalar(key)
        if isinstance(value, Mapping) and value:
            lines += [f"{indent}{name}:", *_mapping(value, f"{indent}  ", here, style)]
        elif isinstance(value, list) and value:
            lines += [f"{indent}{name}:", *_sequence(value, indent + "  " * style.indented, here, style)]
        elif isinstance(value, str) and "\n" in value:
            body_lines = [f"{indent}  {line}".rstrip() for line in value.rstrip("\n").split("\n")]
            lines += [f"{indent}{name}: |", *body_lines]
        else:
            lines.append(f"{indent}{name}: {scalar(value)}")
    return lines


def _sequence(values: list[Any], indent: str, place: str, style: Style) -> list[str]:
    lines: list[str] = []
    for number, value in enumerate(values):
        if isinstance(value, Mapping) and value:
            inner = _mapping(value, f"{indent}  ", f"{place}.{number}", style)
            first = next(i for i, line in enumerate(inner) if not line.lstrip().startswith("#"))
            inner[first] = f"{indent}- {inner[first][len(indent) + 2 :]}"
            lines += inner
        else:
            lines.append(f"{indent}- {scalar(value)}")
    return lines


def scalar(value: Any) -> str:
    """A YAML scalar, or an empty collection; a text is quoted where it could be read as something else.

    Texts are of characters up to U+FFFF: JSON writes the others as two, which YAML does not join.
    """
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _RESERVED:
        return value
    return json.dumps(value)


def _block(item: Item, style: Style) -> list[str]:
    kind, *names = item.labels
    head = " ".join([kind, *(f'"{name}"' for name in names)])
    return [f"{head} {{", *_body(item.body, "  ", item.id, style), "}"]


def _body(body: Mapping[str, Any], indent: str, place: str, style: Style) -> list[str]:
    """Arguments, aligned as `terraform fmt` does where they are one line each, then nested blocks."""
    scripts = [(key, value) for key, value in _ordered(body) if isinstance(value, str) and "\n" in value]
    arguments = [
        (key, value)
        for key, value in _ordered(body)
        if not isinstance(value, Blocks) and (key, value) not in scripts
    ]
    width = max((len(key) for key, _ in arguments), default=0)
    lines = [line for key, value in arguments for line in f"{key.ljust(width)} = {_value(value)}".split("\n")]
    for key, script in scripts:
        lines += [f"{key} = <<-EOT", *(f"  {line}" for line in script.rstrip("\n").split("\n")), "EOT"]
    lines = [f"{indent}{line}" for line in lines]
    for key, blocks in _ordered(body):
        if not isinstance(blocks, Blocks):
            continue
        for number, inner in enumerate(blocks):
            here = f"{place}.{key}.{number}"
            lines += [""] if lines else []
            lines += [f"{indent}{key} {{", *_body(inner, f"{indent}  ", here, style), f"{indent}}}"]
    return lines


def _value(value: Any, depth: int = 0) -> str:
    """An HCL value, its further lines indented by depth."""
    inner, outer = "  " * (depth + 1), "  " * depth
    if isinstance(value, Expression):
        return str(value)
    if isinstance(value, Call):
        return f"{value.function}({_value(value.value, depth)})"
    if isinstance(value, Mapping):
        entries = [f"{inner}{_name(key)} = {_value(item, depth + 1)}" for key, item in value.items()]
        return "\n".join(["{", *entries, f"{outer}}}"])
    if isinstance(value, list):
        if any(isinstance(item, Mapping) for item in value):
            entries = [f"{inner}{_value(item, depth + 1)}," for item in value]
            return "\n".join(["[", *entries, f"{outer}]"])
        return f"[{', '.join(_value(item) for item in value)}]"
    return json.dumps(value)


def _name(key: str) -> str:
    return key if _NAME.fullmatch(key) else json.dumps(key)
