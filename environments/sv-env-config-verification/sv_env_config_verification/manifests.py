"""Reading Kubernetes YAML (and JSON, which is YAML) into Documents, with bounds on what a file may cost.

Scalars mean what they mean to Kubernetes, which reads YAML 1.1 by Go's rules and turns it into JSON: `yes` is
true, `0644` is octal, `1e3` is a number, but `22:22` and `2001-01-01` stay text. What two readers might take
differently (a key given twice) is refused: a finding must be true of what the cluster gets.
"""

import math
import re
from collections.abc import Iterator
from typing import Any

import yaml

from sv_env_config_verification.inputs import Problem, is_helm_template, problem
from sv_env_config_verification.shapes import Document, Json, identity

MAX_DEPTH = 60
"""Most nested levels; the deepest field of the Kubernetes API lies below 30."""

MAX_NODES = 50_000
"""Most values in a file, each use of an anchor counted in full: what an alias bomb runs into."""

_TAG = "tag:yaml.org,2002:"
_MAX_INT = (1 << 64) - 1


class _Loader(yaml.CSafeLoader):
    """CSafeLoader with Go's meaning of plain scalars, and an error for a key given twice."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 - typed so in PyYAML

    def construct_mapping(self, node: yaml.Node, deep: bool = False) -> dict[Any, Any]:
        if not isinstance(node, yaml.MappingNode):
            raise yaml.constructor.ConstructorError(None, None, "expected a mapping", node.start_mark)
        self._refuse_duplicates(node)
        self.flatten_mapping(node)
        return {self._key(key): self.construct_object(value, deep=True) for key, value in node.value}

    def _refuse_duplicates(self, node: yaml.MappingNode) -> None:
        seen: set[str] = set()
        for key_node, _ in node.value:
            key = self._key(key_node)
            if key in seen:
                message = f"the key {key[:60]!r} is given twice"
                raise _DuplicateKey(None, None, message, key_node.start_mark)
            seen.add(key)

    def _key(self, node: yaml.Node) -> str:
        """A key as JSON has it, where every key is text."""
        if isinstance(node, yaml.ScalarNode) and node.tag == _TAG + "merge":
            return "<<"
        key = self.construct_object(node, deep=True) if isinstance(node, yaml.ScalarNode) else None
        if key is None:
            raise yaml.constructor.ConstructorError(None, None, "a key is no plain value", node.start_mark)
        return str(key).lower() if isinstance(key, bool) else str(key)


class _DuplicateKey(yaml.constructor.ConstructorError):
    """A mapping has a key twice."""


def _construct_map(loader: _Loader, node: yaml.Node) -> dict[Any, Any]:
    return loader.construct_mapping(node)


def _construct_text(loader: _Loader, node: yaml.Node) -> str:
    return str(loader.construct_scalar(node))  # type: ignore[arg-type]


def _construct_int(loader: _Loader, node: yaml.ScalarNode) -> int:
    text = node.value.replace("_", "").lower()
    sign, digits = (-1, text[1:]) if text[0] == "-" else (1, text.lstrip("+"))
    for prefix, base in (("0x", 16), ("0b", 2), ("0o", 8), ("0", 8)):
        if digits.startswith(prefix) and digits != "0":
            return _bounded(node, sign * int(digits.removeprefix(prefix), base))
    return _bounded(node, sign * int(digits))


def _bounded(node: yaml.Node, value: int) -> int:
    if abs(value) > _MAX_INT:
        raise yaml.constructor.ConstructorError(None, None, "a number beyond 64 bits", node.start_mark)
    return value


def _construct_float(loader: _Loader, node: yaml.ScalarNode) -> float:
    text = node.value.replace("_", "").lower()
    infinite = text.lstrip("+-") in (".inf", ".nan")
    if infinite or not math.isfinite(value := float(text)):
        raise yaml.constructor.ConstructorError(None, None, f"{text[:20]} is no JSON number", node.start_mark)
    return value


def _construct_unknown(loader: _Loader, node: yaml.Node) -> None:
    raise yaml.constructor.ConstructorError(None, None, f"the tag {node.tag} is unknown", node.start_mark)


def _configure() -> None:
    digits = r"[-+]?(?:0b[01_]+|0o?[0-7_]+|0|[1-9][0-9_]*|0x[0-9a-fA-F_]+)"
    special = r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
    number = r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]{1,3})?|" + special
    words = r"yes|Yes|YES|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF"
    for name, pattern, first in (
        ("bool", words, "yYnNtTfFoO"),
        ("int", digits, "-+0123456789"),
        ("float", number, "-+.0123456789"),
        ("null", "~|null|Null|NULL|", "~nN"),
        ("merge", "<<", "<"),
    ):
        _Loader.add_implicit_resolver(_TAG + name, re.compile(f"^(?:{pattern})$"), [*first])
    _Loader.add_implicit_resolver(_TAG + "null", re.compile("^$"), [""])
    _Loader.add_constructor(_TAG + "map", _construct_map)
    _Loader.add_constructor(_TAG + "int", _construct_int)
    _Loader.add_constructor(_TAG + "float", _construct_float)
    for name in ("timestamp", "binary"):
        _Loader.add_constructor(_TAG + name, _construct_text)
    for name in ("set", "omap", "pairs"):
        _Loader.add_constructor(_TAG + name, _construct_unknown)


_configure()


def read_manifests(file: str, text: str) -> list[Document]:
    """The Kubernetes objects of a file; the members of a List one by one.

    Args:
        file: its name, for Documents and messages.
        text: YAML, one or more documents. Empty documents are passed over.

    Raises:
        InputError: it is not YAML, is a Helm template, has a key twice or more than MAX_NODES values, nests
            deeper than MAX_DEPTH, or a document is no Kubernetes object (a mapping with apiVersion and kind).
    """
    if is_helm_template(text):
        raise problem(Problem.HELM_TEMPLATE, "holds Helm template actions; render the chart first", file)
    try:
        _measure(file, text)
        documents = [doc for node in _nodes(text) for doc in _documents(file, *node)]
    except _DuplicateKey as error:
        raise problem(Problem.DUPLICATE_KEY, str(error.problem), file, _line(error)) from error
    except (yaml.YAMLError, ValueError) as error:
        if "{{" in text:
            message = "holds template actions ({{ }}) and is no YAML; render it first"
            raise problem(Problem.HELM_TEMPLATE, message, file, _line(error)) from error
        why = getattr(error, "problem", None) or str(error).split("\n")[0]
        raise problem(Problem.INVALID_YAML, str(why)[:200], file, _line(error)) from error
    return [
        Document(file, index, first, last, identity(manifest), manifest)
        for index, (first, last, manifest) in enumerate(documents)
    ]


def _measure(file: str, text: str) -> None:
    """Walk the events, which cost nothing beyond the text, before anything is built from them."""
    sizes: dict[str, int] = {}
    open_nodes: list[tuple[str | None, int]] = []
    total = 0
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        if isinstance(event, yaml.DocumentStartEvent):
            sizes.clear()
        elif isinstance(event, yaml.AliasEvent):
            if event.anchor not in sizes:  # an alias to what it lies in would be endless
                raise problem(
                    Problem.TOO_COMPLEX, f"*{event.anchor} names no anchor before it", file, _at(event)
                )
            total += sizes[event.anchor]
        elif isinstance(event, yaml.CollectionStartEvent):
            open_nodes.append((event.anchor, total))
            total += 1
        elif isinstance(event, yaml.ScalarEvent):
            total += 1
            if event.anchor:
                sizes[event.anchor] = 1
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = open_nodes.pop()
            if anchor:
                sizes[anchor] = total - before
        if len(open_nodes) > MAX_DEPTH:
            raise problem(Problem.TOO_COMPLEX, f"nests deeper than {MAX_DEPTH} levels", file, _at(event))
        if total > MAX_NODES:
            raise problem(Problem.TOO_COMPLEX, f"holds more than {MAX_NODES:,} values", file, _at(event))


def _nodes(text: str) -> Iterator[tuple[yaml.Node, Json]]:
    loader = _Loader(text)
    try:
        while loader.check_node():
            node = loader.get_node()
            if node is not None:
                yield node, loader.construct_document(node)
    finally:
        loader.dispose()


def _documents(file: str, node: yaml.Node, value: Json) -> Iterator[tuple[int, int, dict[str, Json]]]:
    """(first line, last line, manifest) of the objects in a document."""
    if value is None:
        return
    assert node.start_mark is not None
    assert node.end_mark is not None
    first = node.start_mark.line + 1
    # The end mark of a block stands where the next thing begins.
    last = max(first, node.end_mark.line + (1 if node.end_mark.column else 0))
    if not _is_object(value):
        message = "a document is no Kubernetes object: no mapping with apiVersion and kind"
        raise problem(Problem.NOT_AN_OBJECT, message, file, first)
    items = value.get("items")
    if not value["kind"].endswith("List") or not isinstance(items, list) or "spec" in value:
        yield first, last, value
        return
    assert isinstance(node, yaml.MappingNode), "a mapping was built from it"
    item_nodes = next(child.value for key, child in node.value if key.value == "items")
    for item_node, item in zip(item_nodes, items, strict=True):
        typed = _typed_item(value, item)
        yield from _documents(file, item_node, typed)


def _typed_item(parent: dict[str, Json], item: Json) -> Json:
    """A member of a typed list (PodList) may leave out the kind and version that the list's own tell."""
    kind = parent["kind"].removesuffix("List")
    if isinstance(item, dict) and kind:
        return {"apiVersion": parent["apiVersion"], "kind": kind, **item}
    return item


def _is_object(value: Json) -> bool:
    if not isinstance(value, dict):
        return False
    return all(isinstance(value.get(key), str) and value[key] for key in ("apiVersion", "kind"))


def _at(event: yaml.Event) -> int:
    mark = event.start_mark
    return 0 if mark is None else int(mark.line) + 1


def _line(error: Exception) -> int | None:
    mark = getattr(error, "problem_mark", None)
    return None if mark is None else int(mark.line) + 1
