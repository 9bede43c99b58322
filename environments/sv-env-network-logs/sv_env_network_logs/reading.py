"""Reading a prompt back: the displayed fields, as the baselines see them."""

import re
from collections.abc import Mapping

_FIELD = re.compile(r"(\w+)=(\S+)")
_JUDGED = re.compile(r"^Connection to judge.*\n(.*)$", re.MULTILINE)
_EARLIER = re.compile(r"^Earlier connections.*\n((?:.+\n)*)", re.MULTILINE)


def judged(prompt: str) -> dict[str, str]:
    """The fields of the line to judge, as displayed; empty where a prompt has no such line."""
    match = _JUDGED.search(prompt)
    return dict(_FIELD.findall(match.group(1))) if match else {}


def earlier_rows(prompt: str) -> tuple[list[str], list[list[str]]]:
    """The table of earlier connections: its heading and its rows, cell by cell; empty where there is none."""
    match = _EARLIER.search(prompt)
    lines = [line.split() for line in match.group(1).splitlines()] if match else []
    return (lines[0], lines[1:]) if lines else ([], [])


def shows_window(prompt: str) -> bool:
    """Whether a prompt is one of the window view."""
    return _EARLIER.search(prompt) is not None


def number(flow: Mapping[str, str], name: str) -> float | None:
    """A displayed number; None where it is missing or no number."""
    try:
        return float(flow[name])
    except (KeyError, ValueError):
        return None
