"""Reading a prompt back: the displayed fields and the stated points, as the baselines see them."""

import re
from collections.abc import Mapping

from pydantic import ValidationError

from sv_shared.rewards import ClassificationWeights

_JUDGED = re.compile(r"^Connection to judge.*\n(.*)$", re.MULTILINE)
_EARLIER = re.compile(r"^Earlier connections.*\n((?:.+\n)*)", re.MULTILINE)
_POINTS = {
    "accuracy": r"right label {}",
    "missed": r"Benign on an attack {}",
    "abstain": r"Abstain {} for sure",
    "calibration": r"earns up to {} for an honest confidence",
}
_LINEAR = "for an honest confidence (1 minus its distance"
_STATED = {
    name: re.compile(words.format(r"(-?[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?)"))
    for name, words in _POINTS.items()
}


def judged(prompt: str) -> dict[str, str]:
    """The fields of the line to judge, as displayed; empty where a prompt has no such line."""
    match = _JUDGED.search(prompt)
    fields: dict[str, str] = {}
    for part in match.group(1).split() if match else ():
        name, separator, value = part.partition("=")
        if separator:
            # A source's own features follow Zeek's fields and may repeat a name.
            fields.setdefault(name, value)
    return fields


def earlier_rows(prompt: str) -> tuple[list[str], list[list[str]]]:
    """The table of earlier connections: its heading and its rows, each as long as the heading, cell by cell;
    empty where there is none."""
    match = _EARLIER.search(prompt)
    lines = [line.split() for line in match.group(1).splitlines()] if match else []
    heading, *rows = lines or [[]]
    return heading, [row for row in rows if len(row) == len(heading)]


def shows_window(prompt: str) -> bool:
    """Whether a prompt is one of the window view."""
    return _EARLIER.search(prompt) is not None


def number(flow: Mapping[str, str], name: str) -> float | None:
    """A displayed number; None where it is missing or no number."""
    try:
        return float(flow[name])
    except (KeyError, ValueError):
        return None


def stated_weights(prompt: str) -> ClassificationWeights | None:
    """Weights that pay the points that a prompt states; None where it states none that could be paid."""
    found = {name: pattern.search(prompt) for name, pattern in _STATED.items()}
    points = {name: float(match.group(1)) for name, match in found.items() if match}
    if "accuracy" not in points or "missed" not in points:
        return None
    try:
        return ClassificationWeights(
            accuracy=points["accuracy"],
            calibration=points.get("calibration", 0.0),
            cost_ratio=1.0 - points["missed"],
            abstain=points.get("abstain"),
            calibration_form="linear" if _LINEAR in prompt else "brier",
        )
    except ValidationError:
        return None
