"""Blocks: the parts of Terraform files that are no resources (variables, outputs, providers, settings).

`terraform` evaluates resources; what else a file says is read here, unevaluated, so that a patch can be held
against it too.
"""

from collections.abc import Mapping

from sv_env_config_verification.inputs import language
from sv_env_config_verification.shapes import Json, Resource, Shapes

MAX_CHARS = 20_000
"""Most characters outside resources that are read in one file; python-hcl2 takes 0.3 s for them."""

ADDABLE = frozenset({"variable", "locals"})
"""Blocks that a repair may add: where a password stood, a variable may stand."""


def other_blocks(files: Mapping[str, str], shapes: Shapes) -> list[Resource] | None:
    """The blocks outside resources, each as a Resource with the address "<type>.<labels>".

    Args:
        files: text by name; what is not .tf is passed over.
        shapes: the same files, parsed.

    Returns:
        Blocks by file, the `locals` of a file as one; None where a text is too long or can't be read.
    """
    found: list[Resource] = []
    for name in sorted(files):
        if language(name) != "hcl":
            continue
        blocks = _read(outside(name, files[name], shapes))
        if blocks is None:
            return None
        found += [
            Resource(name, 0, 0, ".".join([kind, *labels]), kind, "", body) for kind, labels, body in blocks
        ]
    return found


def outside(name: str, text: str, shapes: Shapes) -> str:
    """The lines of a file that lie in no resource, without those that are empty or a comment as a whole."""
    inside = {line for r in shapes.terraform if r.file == name for line in range(r.line, r.last_line + 1)}
    rest = (line.strip() for number, line in enumerate(text.split("\n"), start=1) if number not in inside)
    return "\n".join(line for line in rest if line and not line.startswith(("#", "//")))


def _read(text: str) -> list[tuple[str, list[str], dict[str, Json]]] | None:
    """(type, labels, content) of each block."""
    import hcl2
    from lark.exceptions import LarkError

    if len(text) > MAX_CHARS:
        return None
    try:
        parsed = hcl2.loads(text + "\n")
    except (LarkError, ValueError, TypeError, KeyError, RecursionError):
        return None
    found: list[tuple[str, list[str], dict[str, Json]]] = []
    local: dict[str, Json] = {}
    for kind, group in parsed.items():
        for body in group if isinstance(group, list) else [{kind: group}]:
            labels = []
            while isinstance(body, dict) and len(body) == 1 and next(iter(body)).startswith('"'):
                label, body = next(iter(body.items()))
                labels.append(label.strip('"'))
            if kind == "locals" and isinstance(body, dict):
                local |= body
            else:
                found.append((kind, labels, body if isinstance(body, dict) else {"": body}))
    return [*found, ("locals", [], local)] if local else found
