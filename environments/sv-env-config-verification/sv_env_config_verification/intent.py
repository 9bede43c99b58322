"""Predicates: what must hold of a workspace, so that a patch that breaks what the operator needs is seen.

Every predicate is decided on parsed objects, never on text, and is total: an object that is missing, or of
another form than the predicate asks about, makes it false. A clause about an object that occurs several
times (Terraform's `count`, two documents with one identity) must be true of each.
"""

from collections.abc import Callable
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from sv_env_config_verification.fields import MISSING, Path, look_up, pod_template, same
from sv_env_config_verification.ports import opens
from sv_env_config_verification.shapes import Document, Json, Shapes

ObjectId = Annotated[str, Field(min_length=1, max_length=400)]
"""An identity (`shapes.Document.id`, `shapes.Resource.id`)."""


class _Clause(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class FieldEquals(_Clause):
    """Each value that the path leads to is this one, and there is one."""

    kind: Literal["field_equals"] = "field_equals"
    object: ObjectId
    path: Path
    value: JsonValue


class FieldIn(_Clause):
    """Each value that the path leads to is one of these, and there is one."""

    kind: Literal["field_in"] = "field_in"
    object: ObjectId
    path: Path
    values: tuple[JsonValue, ...] = Field(min_length=1)


class FieldPresent(_Clause):
    """Wherever the path leads there is a value (null is none), and it leads somewhere."""

    kind: Literal["field_present"] = "field_present"
    object: ObjectId
    path: Path


class FieldAbsent(_Clause):
    """The object exists, and nowhere the path leads is a value."""

    kind: Literal["field_absent"] = "field_absent"
    object: ObjectId
    path: Path


class NotFieldEquals(_Clause):
    """The object exists, and nowhere the path leads is this value."""

    kind: Literal["not_field_equals"] = "not_field_equals"
    object: ObjectId
    path: Path
    value: JsonValue


class Selects(_Clause):
    """The Service's selector is not empty and fits the labels of the workload's pods, in one namespace."""

    kind: Literal["selects"] = "selects"
    service: ObjectId
    workload: ObjectId


class PortOpen(_Clause):
    """The object offers the port or lets it in (`ports.opens`)."""

    kind: Literal["port_open"] = "port_open"
    object: ObjectId
    port: int = Field(ge=1, le=65535)


class ObjectExists(_Clause):
    """The object exists."""

    kind: Literal["object_exists"] = "object_exists"
    object: ObjectId


class ImageIs(_Clause):
    """The workload's container (or init container) of this name runs this image, as it is written."""

    kind: Literal["image_is"] = "image_is"
    object: ObjectId
    container: str
    image: str


class Allows(_Clause):
    """The Role or ClusterRole lets its subjects do this.

    Attributes:
        role: identity of the role.
        verb: such as "get".
        resource: plural name, with the subresource: "pods", "pods/log".
        group: API group; None: any.
        name: the one object that is needed; None: all objects, so that a rule with resourceNames does not do.
    """

    kind: Literal["allows"] = "allows"
    role: ObjectId
    verb: str
    resource: str
    group: str | None = None
    name: str | None = None


Predicate = Annotated[
    FieldEquals
    | FieldIn
    | FieldPresent
    | FieldAbsent
    | NotFieldEquals
    | Selects
    | PortOpen
    | ObjectExists
    | ImageIs
    | Allows,
    Field(discriminator="kind"),
]
"""One clause, told apart by its `kind`."""


def holds(predicate: Predicate, shapes: Shapes | None) -> bool:
    """Whether a predicate is true of a workspace; never raises.

    Args:
        predicate: the clause.
        shapes: the parsed workspace; None where it can't be parsed, which makes every predicate false.
    """
    if shapes is None:
        return False
    match predicate:
        case Selects():
            return _selects(shapes, predicate.service, predicate.workload)
        case Allows():
            return _every(shapes, predicate.role, lambda role: _allows(role, predicate))
        case PortOpen():
            items = [item for item in shapes.items() if item.id == predicate.object]
            return bool(items) and all(opens(item, predicate.port) for item in items)
        case ImageIs():
            return _every(shapes, predicate.object, lambda value: _runs(value, predicate))
        case ObjectExists():
            return bool(_bodies(shapes, predicate.object))
        case _:
            return _every(shapes, predicate.object, lambda value: _field_holds(value, predicate))


def all_hold(predicates: tuple[Predicate, ...], shapes: Shapes | None) -> bool:
    """Whether all of them hold; true of none."""
    return all(holds(predicate, shapes) for predicate in predicates)


def _bodies(shapes: Shapes, identity: str) -> list[Json]:
    return [
        item.object if isinstance(item, Document) else item.attributes
        for item in shapes.items()
        if item.id == identity
    ]


def _every(shapes: Shapes, identity: str, test: Callable[[Json], bool]) -> bool:
    bodies = _bodies(shapes, identity)
    return bool(bodies) and all(test(body) for body in bodies)


def _field_holds(
    body: Json, predicate: FieldEquals | FieldIn | FieldPresent | FieldAbsent | NotFieldEquals
) -> bool:
    found = look_up(body, predicate.path)
    present = [value for value in found if value is not MISSING]
    complete = bool(found) and len(present) == len(found)
    match predicate:
        case FieldEquals():
            return complete and all(same(value, predicate.value) for value in present)
        case FieldIn():
            return complete and all(any(same(value, v) for v in predicate.values) for value in present)
        case FieldPresent():
            return complete
        case FieldAbsent():
            return not present
        case NotFieldEquals():
            return not any(same(value, predicate.value) for value in present)


def _selects(shapes: Shapes, service: str, workload: str) -> bool:
    if service.split("/")[1:2] != workload.split("/")[1:2]:
        return False
    pods = [pod_template(body) for body in _bodies(shapes, workload)]
    labels = [None if pod is None else look_up(pod, "metadata.labels")[0] for pod in pods]

    def selects(body: Json) -> bool:
        selector = look_up(body, "spec.selector")[0]
        return (
            isinstance(selector, dict)
            and bool(selector)
            and all(isinstance(have, dict) and selector.items() <= have.items() for have in labels)
        )

    return bool(labels) and service.startswith("Service/") and _every(shapes, service, selects)


def _runs(body: Json, predicate: ImageIs) -> bool:
    pod = pod_template(body)
    if pod is None:
        return False
    lists = [pod["spec"].get(key) for key in ("containers", "initContainers")]
    containers = [one for found in lists if isinstance(found, list) for one in found if isinstance(one, dict)]
    named = [one for one in containers if one.get("name") == predicate.container]
    return bool(named) and all(one.get("image") == predicate.image for one in named)


def _allows(role: Json, asked: Allows) -> bool:
    rules = role.get("rules") if isinstance(role, dict) else None
    return isinstance(rules, list) and any(_rule_allows(rule, asked) for rule in rules)


def _rule_allows(rule: Json, asked: Allows) -> bool:
    def names(key: str) -> list[Json]:
        value = rule.get(key) if isinstance(rule, dict) else None
        return value if isinstance(value, list) else []

    def grants(key: str, wanted: str) -> bool:
        return wanted in names(key) or "*" in names(key)

    _, slash, sub = asked.resource.partition("/")
    resource = grants("resources", asked.resource) or (bool(slash) and f"*/{sub}" in names("resources"))
    group = bool(names("apiGroups")) if asked.group is None else grants("apiGroups", asked.group)
    named = not names("resourceNames") or (asked.name is not None and asked.name in names("resourceNames"))
    return grants("verbs", asked.verb) and resource and group and named
