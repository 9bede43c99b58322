"""What a model gets to see of an item: one connection, or a host's recent connections and the one to judge.

Field names are those of Zeek's conn.log. Rounding is defined here and nowhere else: durations keep three
significant digits (an analyst reads magnitudes, and finer digits would only fingerprint a row); ages are
rounded to 10 ms, so that gaps can be compared; ports, packets and bytes are exact; further features keep four
significant digits.

Absent is shown, never filled in: a field that no line of the prompt has a value for is named once under
"Not recorded"; anywhere else a missing value is "-". What is masked is named under "Hidden". Absolute times,
labels, scenario names, files and row numbers are never rendered.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np

from sv_env_network_logs.flows import Example, Flow
from sv_shared.errors import DataError, UsageError

View = Literal["flow", "window"]
VIEWS: tuple[View, ...] = get_args(View)

ABSENT = "-"
"""How a missing value looks inside a line, as in Zeek's own logs."""

FLOW_LINE: tuple[str, ...] = (
    "proto", "service", "src", "src_port", "dst", "dst_port", "duration", "orig_bytes", "resp_bytes",
    "conn_state", "history", "missed_bytes", "orig_pkts", "orig_ip_bytes", "resp_pkts", "resp_ip_bytes",
)  # fmt: skip
"""The fields of the line to judge, in display order: all of Flow's but the absolute time."""

HISTORY_COLUMNS: tuple[str, ...] = (
    "dst", "dst_port", "proto", "service", "conn_state", "duration", "orig_bytes", "resp_bytes",
    "orig_pkts", "resp_pkts",
)  # fmt: skip
"""The fields of an earlier flow in the window view: no source ports and IP-level counts, for length."""

SYSTEM = "You are a network security analyst. You answer with exactly one JSON object and nothing else."


class Prompt(NamedTuple):
    """A chat of two messages."""

    system: str
    user: str


@dataclass(frozen=True, slots=True)
class Payoffs:
    """The points that the prompt promises; they must be those that the reward pays.

    Attributes:
        right: for the right label.
        false_alarm: for Malicious on a benign flow.
        missed: for Benign on an attack.
        abstain: for Abstain, whatever the truth and the confidence; None where it is not on offer.
        calibration: the weight w of w * (1 - (confidence - 1[right])^2), which every label earns on top.
        form: "brier", or "linear" for w * (1 - |confidence - 1[right]|), an ablation.
    """

    right: float
    false_alarm: float
    missed: float
    abstain: float | None
    calibration: float
    form: Literal["brier", "linear"] = "brier"


def prompt(example: Example, view: View, payoffs: Payoffs, mask: Collection[str] = ()) -> Prompt:
    """The complete prompt of an item; what all items share comes first, so that servers can cache it.

    Args:
        example: the item; nothing but its flow and (window view) its history is used.
        view: "flow" for one connection, "window" for the host's earlier connections too.
        payoffs: the points to promise.
        mask: fields and groups of fields to hide (`data.mask`).

    Raises:
        UsageError: an unknown view or mask name.
        DataError: the window view of flows without times or source addresses.
    """
    if mask:
        example, hidden = _masked(example, mask)
    else:
        hidden = frozenset()
    if view == "window":
        body = render_window(example.history, example.flow, hidden)
    elif view == "flow":
        body = _judged(example.flow, (), hidden)
    else:
        raise UsageError(f"unknown view {view!r}", hint=f"Use one of: {', '.join(VIEWS)}")
    if mask:
        body += f"\nHidden: {' '.join(sorted(mask))}"
    return Prompt(SYSTEM, f"{instructions(payoffs)}\n\n{body}\n\nAnswer with the JSON object only.")


def instructions(payoffs: Payoffs) -> str:
    """The task, the answer's schema and the points, in words that do not depend on the item."""
    p = payoffs
    labels = '"Malicious" or "Benign"' + (' or "Abstain"' if p.abstain is not None else "")
    points = [
        f"right label {_points(p.right)}",
        f"Malicious on a harmless flow {_points(p.false_alarm)}",
        f"Benign on an attack {_points(p.missed)}",
    ]
    if p.right > p.false_alarm:
        times = (p.right - p.missed) / (p.right - p.false_alarm)
        points[-1] += f", so a missed attack costs {_points(times)} times a false alarm"
    if p.abstain is not None:
        points.append(f"Abstain {_points(p.abstain)} for sure")
    lines = [
        "Decide whether a network connection belongs to an attack. Reply in this form:",
        f'{{"label": {labels}, "confidence": 0.0 to 1.0, "rationale": "short reason"}}',
        "confidence = the probability that your label is right.",
        f"Points: {'; '.join(points)}.",
    ]
    if p.calibration:
        form = "Brier score" if p.form == "brier" else "1 minus its distance from the outcome"
        lines.append(f"A label also earns up to {_points(p.calibration)} for an honest confidence ({form}).")
    return "\n".join(lines)


def render_flow(flow: Flow, fields: Sequence[str] = FLOW_LINE) -> str:
    """One line "name=value ..." with "-" for what is missing.

    Further features follow, blanks in their names as "_", those equal to 0 by name only.
    """
    parts = [f"{name}={value_text(flow, name)}" for name in fields]
    zeros = [name for name, value in flow.extra.items() if value == 0]
    parts += [f"{_name(name)}={_number(value)}" for name, value in flow.extra.items() if value != 0]
    if zeros:
        parts.append(f"zero={','.join(map(_name, zeros))}")
    return " ".join(parts)


def render_window(history: Sequence[Flow], flow: Flow, hidden: Collection[str] = ()) -> str:
    """The host's earlier flows as a table, oldest first with their age in seconds, then the flow to judge.

    The source address gets a column only where an earlier flow has another one than the flow to judge.

    Args:
        history: earlier flows, oldest first.
        flow: the flow to judge.
        hidden: fields that are masked; nothing is said of them.

    Raises:
        DataError: a time or source address is missing without being hidden, or a flow is not earlier.
    """
    flows = (*history, flow)
    _require_window_fields(flows, hidden)
    columns = [name for name in HISTORY_COLUMNS if name not in hidden and _any_value(flows, name)]
    if "src" not in hidden and any(earlier.src != flow.src for earlier in history):
        columns.insert(0, "src")
    rows = [[value_text(earlier, name) for name in columns] for earlier in history]
    title = "Earlier connections of the same host, oldest first"
    if "ts" not in hidden:
        title += " (ago = seconds before the one to judge)"
        columns.insert(0, "ago")
        rows = [[_age(earlier, flow), *row] for earlier, row in zip(history, rows, strict=True)]
    table = [" ".join(cells) for cells in (columns, *rows)] if history else ["none"]
    return "\n".join((f"{title}:", *table, "", _judged(flow, history, hidden)))


def value_text(flow: Flow, name: str) -> str:
    """A field's value as displayed; "-" where it is missing."""
    value = getattr(flow, name)
    if value is None:
        return ABSENT
    return seconds(value) if name == "duration" else _number(value)


def round_seconds(value: float) -> float:
    """A duration as it is displayed: three significant digits."""
    return float(f"{value:.3g}")


def seconds(value: float) -> str:
    """A duration in positional notation with three significant digits, such as "0.00213", "12.3", "4530"."""
    return _positional(round_seconds(value))


def word(text: str) -> str:
    """A text as one printable ASCII token: other characters and blanks escaped, "" as "(empty)"."""
    return re.sub(r"[^!-~]", lambda c: f"\\x{ord(c[0]):02x}", text) or "(empty)"


def _masked(example: Example, mask: Collection[str]) -> tuple[Example, frozenset[str]]:
    """The example without what is masked, and the Flow fields that this hides."""
    from sv_env_network_logs.data.mask import GROUPS, mask_example  # pulls in pyarrow

    fields = {field for name in mask for field in (GROUPS[name].fields if name in GROUPS else (name,))}
    return mask_example(example, mask), frozenset(fields)


def _judged(flow: Flow, history: Sequence[Flow], hidden: Collection[str]) -> str:
    """The line to judge; below it the fields that no flow of the prompt has."""
    open_fields = [name for name in FLOW_LINE if name not in hidden]
    recorded = [name for name in open_fields if _any_value((flow, *history), name)]
    missing = [name for name in open_fields if name not in recorded]
    lines = ["Connection to judge (duration in seconds; orig = its source, resp = its destination):"]
    lines.append(render_flow(flow, recorded))
    if missing:
        lines.append(f"Not recorded: {' '.join(missing)}")
    return "\n".join(lines)


def _any_value(flows: Iterable[Flow], name: str) -> bool:
    return any(getattr(flow, name) is not None for flow in flows)


def _require_window_fields(flows: Sequence[Flow], hidden: Collection[str]) -> None:
    for index, flow in enumerate(flows):
        lacking = [name for name in ("ts", "src") if name not in hidden and getattr(flow, name) is None]
        if lacking:
            raise DataError(
                f"the window view needs times and source addresses, and {' and '.join(lacking)} is missing",
                where=f"flow {index + 1} of {len(flows)} in the window",
                hint="Use the flow view with this source",
            )


def _age(earlier: Flow, flow: Flow) -> str:
    assert earlier.ts is not None  # both checked by _require_window_fields
    assert flow.ts is not None
    age = round(flow.ts - earlier.ts, 2)
    if age < 0:
        raise DataError(
            "an earlier flow starts after the flow to judge",
            where=f"{-age} s later",
            hint="Sort the source by time",
        )
    return _positional(age + 0.0)


def _name(text: str) -> str:
    return word(text.replace(" ", "_"))


def _number(value: float | int | str) -> str:
    if isinstance(value, str):
        return word(value)
    if isinstance(value, int):
        return str(value)
    return _positional(float(f"{value:.4g}"))


def _points(value: float) -> str:
    return f"{round(value, 3):g}"


def _positional(value: float) -> str:
    return np.format_float_positional(value, trim="-") if np.isfinite(value) else str(value)
