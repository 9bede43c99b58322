"""Fields: where a value lies in a parsed object, and what lies there."""

import re
from collections.abc import Iterator
from typing import Annotated, Final

from pydantic import AfterValidator, Field

from sv_env_config_verification.shapes import Json

MISSING: Final = object()
"""What a path leads to where there is nothing."""

_STEP = re.compile(
    r"""\.?(?P<key>[^.\[\]"=*\s]+)
    | \[(?P<index>[0-9]{1,6})\]
    | \[(?P<every>\*)\]
    | \["(?P<quoted>[^"\]]+)"\]
    | \[(?P<by>[\w-]+=[^\]]+)\]
    """,
    re.VERBOSE,
)


def _checked_path(text: str) -> str:
    list(steps(text))
    return text


Path = Annotated[str, Field(min_length=1, max_length=300), AfterValidator(_checked_path)]
"""Where a field lies: `spec.template.spec.containers[name=web].image`, `ingress[*].cidr_blocks[0]`,
`metadata.labels["app.kubernetes.io/name"]`. In a manifest for Kubernetes, in the attributes for Terraform."""


def look_up(value: Json, path: str) -> list[Json]:
    """What a path leads to: a value, or MISSING, for each way that `[*]` and `[key=value]` open.

    A selection that finds no item leads to MISSING once, `[*]` over an empty list nowhere. null is MISSING.

    Raises:
        ValueError: it is no path.
    """
    found = [value]
    for key, step in steps(path):
        found = [following for one in found for following in _follow(one, key, step)]
    return [MISSING if one is None else one for one in found]


def same(one: Json, other: Json) -> bool:
    """Equality of JSON values: true is not 1, but 1 is 1.0."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def pod_template(manifest: Json) -> dict[str, Json] | None:
    """The pod of a Kubernetes object: {"metadata", "spec"}; None for an object that makes no pods."""
    if not isinstance(manifest, dict):
        return None
    paths = {"Pod": "", "CronJob": "spec.jobTemplate.spec.template"}
    path = paths.get(str(manifest.get("kind")), "spec.template")
    pod = look_up(manifest, path)[0] if path else manifest
    return pod if isinstance(pod, dict) and isinstance(pod.get("spec"), dict) else None


def steps(path: str) -> Iterator[tuple[str, str]]:
    """(kind, text) of each step of a path."""
    position = 0
    while position < len(path):
        step = _STEP.match(path, position)
        # A dot stands before a key, but before the first one none.
        if step is None or (step["key"] is not None and (path[position] == ".") is (position == 0)):
            raise ValueError(f"{path!r} is no path (at character {position + 1})")
        assert step.lastgroup is not None, "each way to match is a group"
        yield step.lastgroup, step[step.lastgroup]
        position = step.end()


def _follow(value: Json, kind: str, step: str) -> list[Json]:
    if kind in ("key", "quoted"):
        return [value.get(step, MISSING) if isinstance(value, dict) else MISSING]
    if not isinstance(value, list):
        return [MISSING]
    if kind == "every":
        return value
    if kind == "index":
        return [value[int(step)] if int(step) < len(value) else MISSING]
    key, _, text = step.partition("=")
    chosen = [item for item in value if isinstance(item, dict) and item.get(key) == text]
    return chosen or [MISSING]
