"""Prompts: what a model sees of an item. Pure functions of what it may know; the truth is no argument."""

from collections.abc import Mapping, Sequence
from functools import cache

from sv_env_config_verification.catalogue import Weakness, load_catalogue
from sv_env_config_verification.rewards import SEVERITY_WEIGHT, Weights
from sv_env_config_verification.rows import Format

TOOL_NAMES: Mapping[str, str] = {
    "opa": "run_opa",
    "kubelinter": "run_kubelinter",
    "semgrep": "run_semgrep",
}
"""The name under which the agent calls each tool."""

_RULES: Mapping[Format, tuple[str, ...]] = {
    "kubernetes": ("k8s.", "k8s-"),
    "terraform": ("tf.", "tf-"),
}
"""How our own rules for a format begin; KubeLinter's names tell no format, for it knows Kubernetes only."""


@cache
def weaknesses_for(format_: Format) -> tuple[Weakness, ...]:
    """The weaknesses that an item of a format can have, in the catalogue's order: a closed list."""
    catalogue = load_catalogue()
    known = {
        weakness
        for tool, rules in catalogue.rules.items()
        for rule, weakness in rules.items()
        if rule.startswith(_RULES[format_]) or (tool == "kubelinter" and format_ == "kubernetes")
    }
    return tuple(weakness for weakness in catalogue.weaknesses.values() if weakness.id in known)


def system_prompt(weights: Weights, tools: Sequence[str], calls: int) -> str:
    """The auditor's instructions: the answer's form, what is paid, and the tools on offer.

    Args:
        weights: the weights in force.
        tools: names of the tools that the agent can call; empty where there are none.
        calls: how many calls it has.
    """
    detection = weights.detection(bool(tools))
    scale = ", ".join(f"{severity.value} {weight:g}" for severity, weight in SEVERITY_WEIGHT.items())
    return "\n".join(
        [
            "You audit configuration files and mend them. Find every weakness, whether or not a scanner",
            "would report it, leave out what the operator's statement makes right, and write one patch that",
            "mends all of them and changes nothing else.",
            "",
            "Answer with exactly one JSON object, and no other object around it:",
            '{"violations": [{"id": <weakness id>, "object": <identity>, "severity": <severity>}, ...], '
            '"patch": <unified diff as one string, or null>}',
            "- id: one of the listed weaknesses; severity: the one that the list gives for it.",
            "- object: Kubernetes: Kind/namespace/name (namespace default where none is set; Kind//name for",
            "  kinds without a namespace). Terraform: type.name, data.type.name, module.m.type.name.",
            "- Where nothing is wrong: an empty list and a null patch.",
            "- patch: a unified diff (--- a/FILE, +++ b/FILE, @@ hunks) against the files as shown; context",
            "  has to fit exactly. No file may be added, removed or renamed.",
            "",
            "Points:",
            f"- up to {detection:g} for detection: severity-weighted F1 over the set of (id, object) pairs "
            f"({scale}). Where nothing is wrong: all of it for an empty list, else nothing.",
            f"- {1 - detection:g} for repair, all or nothing: the patch applies, the files parse and fit",
            "  their schema, every weakness is gone, no tool reports a new one, no object and no setting",
            "  without a bearing on security is changed or lost, and what the operator states still holds.",
            "  Where nothing is wrong: for a null patch.",
            "- An answer in another form earns 0. Comments and annotations that silence tools mend nothing.",
            *_tools_part(tools, calls),
        ]
    )


def user_prompt(files: Mapping[str, str], format_: Format, statement: str) -> str:
    """The item: the statement, the weaknesses that can occur, and the files.

    Args:
        files: text by name.
        format_: what they hold.
        statement: the operator's intent in words; "" where there is none.
    """
    listed = [f"- {w.id} ({w.severity.value}): {w.title}" for w in weaknesses_for(format_)]
    shown = [f"=== {name}\n{files[name]}" for name in sorted(files)]
    return "\n".join(
        [
            f"Format: {format_}",
            f"Operator's statement: {statement or 'none'}",
            "",
            "Weaknesses:",
            *listed,
            "",
            f"Files ({len(files)}), each after a line with its name:",
            "\n".join(text if text.endswith("\n") else f"{text}\n" for text in shown),
        ]
    )


def _tools_part(tools: Sequence[str], calls: int) -> list[str]:
    if not tools:
        return []
    names = ", ".join(TOOL_NAMES[tool] for tool in tools)
    return [
        "",
        f"Tools: {names}; {calls} calls in all. Each takes a patch, or an empty text for the files as they",
        "are, and tells its findings. A finding may be right as it is, and no tool sees everything. Calls",
        "earn nothing.",
    ]
