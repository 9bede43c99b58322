"""What a prompt shows, and what it must never show."""

import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sv_env_network_logs.data import open_dataset
from sv_env_network_logs.flows import Example, Flow
from sv_env_network_logs.render import (
    FLOW_LINE,
    Payoffs,
    View,
    instructions,
    prompt,
    render_flow,
    render_window,
    round_seconds,
    seconds,
)
from sv_env_network_logs.rewards import WEIGHTS, payoffs
from sv_env_network_logs.synth.recipe import generate
from sv_shared.errors import DataError, UsageError

POINTS = payoffs(WEIGHTS)
NOW = 1_700_000_000.25
FLOW = Flow(
    ts=NOW, src="10.0.0.1", src_port=51234, dst="203.0.113.9", dst_port=443, proto="tcp", service="ssl",
    duration=12.3456, orig_bytes=5123, resp_bytes=88120, conn_state="SF", history="ShADadFf", missed_bytes=0,
    orig_pkts=20, orig_ip_bytes=6163, resp_pkts=70, resp_ip_bytes=91760,
)  # fmt: skip

counts = st.none() | st.integers(0, 2**40)
words = st.none() | st.text(max_size=12)
instants = st.floats(0, 2e9)
flows = st.builds(
    Flow,
    ts=st.none() | instants,
    src=words, src_port=counts, dst=words, dst_port=counts, proto=words, service=words,
    duration=st.none() | st.floats(0, 1e7), orig_bytes=counts, resp_bytes=counts, conn_state=words,
    history=words, missed_bytes=counts, orig_pkts=counts, orig_ip_bytes=counts, resp_pkts=counts,
    resp_ip_bytes=counts,
    extra=st.dictionaries(st.text(max_size=8), st.floats() | st.integers() | st.text(max_size=8), max_size=4),
)  # fmt: skip


def body(text: str) -> str:
    """The part of a user prompt that depends on the item."""
    return text.removeprefix(instructions(POINTS))


@given(flows)
def test_any_flow_is_one_printable_line(flow: Flow) -> None:
    line = render_flow(flow)
    assert line.isprintable()
    assert line.isascii()
    assert line.split(" ")[: len(FLOW_LINE)] == [part for part in line.split(" ") if part][: len(FLOW_LINE)]
    assert [part.split("=")[0] for part in line.split(" ")][: len(FLOW_LINE)] == list(FLOW_LINE)


@given(flows)
def test_every_field_is_shown_with_its_value_or_as_not_recorded(flow: Flow) -> None:
    text = body(prompt(Example(flow, "Benign"), "flow", POINTS).user)
    missing = {name for name in FLOW_LINE if getattr(flow, name) is None}
    listed = {
        name for line in text.splitlines() if line.startswith("Not recorded: ") for name in line.split()[2:]
    }
    assert listed == missing
    shown = [part.split("=")[0] for part in text.splitlines()[3].split(" ")]
    assert shown[: len(FLOW_LINE) - len(missing)] == [name for name in FLOW_LINE if name not in missing]


@pytest.mark.parametrize("view", ["flow", "window"])
def test_labels_tags_and_places_change_nothing(view: View) -> None:
    for item in generate(20, seed=3, split="train", view=view):
        label = "Benign" if item.label == "Malicious" else "Malicious"
        other = Example(item.flow, label, "x", "y", item.history, "z", None, "file.csv:17")
        assert prompt(item, view, POINTS) == prompt(other, view, POINTS)
        text = body(prompt(item, view, POINTS).user).lower()
        for word in ("malicious", "benign", "attack", item.cluster, item.row, item.difficulty):
            assert word not in text


@given(st.integers(-(10**6), 10**6))
def test_absolute_time_is_not_shown(shift: int) -> None:
    earlier = replace(FLOW, ts=NOW - 61.5)
    moved = Example(
        replace(FLOW, ts=NOW + shift), "Benign", history=(replace(earlier, ts=NOW - 61.5 + shift),)
    )
    still = Example(FLOW, "Benign", history=(earlier,))
    assert prompt(moved, "window", POINTS) == prompt(still, "window", POINTS)
    assert prompt(moved, "flow", POINTS) == prompt(replace(still, history=()), "flow", POINTS)


@given(st.floats(1e-9, 1e12))
def test_durations_have_three_significant_digits_and_no_exponent(value: float) -> None:
    text = seconds(value)
    assert "e" not in text
    assert len(text.replace(".", "").strip("0")) <= 3
    assert math.isclose(float(text), value, rel_tol=0.00501)
    assert round_seconds(float(text)) == float(text)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (12.3456, "12.3"), (0.0021349, "0.00213"), (4531.0, "4530"), (0.99951, "1")],
)
def test_durations(value: float, text: str) -> None:
    assert seconds(value) == text


def test_features_of_the_source_keep_their_names_and_zeros_are_named_once() -> None:
    extra = {
        "Flow IAT Mean": 1234.567,
        "PSH Flags": 0,
        "sttl": 254,
        "state": "INT",
        "rate": math.inf,
        "idle": 0.0,
    }
    assert render_flow(Flow(extra=extra), ()) == (
        "Flow_IAT_Mean=1235 sttl=254 state=INT rate=inf zero=PSH_Flags,idle"
    )


def test_a_value_missing_in_one_flow_only_is_a_dash() -> None:
    earlier = replace(FLOW, ts=NOW - 10, service=None, duration=None)
    lines = render_window((earlier,), FLOW).splitlines()
    assert (
        lines[1]
        == "ago dst dst_port proto service conn_state duration orig_bytes resp_bytes orig_pkts resp_pkts"
    )
    assert lines[2] == "10 203.0.113.9 443 tcp - SF - 5123 88120 20 70"
    assert "Not recorded" not in "\n".join(lines)


def test_another_source_address_gets_a_column() -> None:
    earlier = replace(FLOW, ts=NOW - 10, src="10.0.0.2")
    assert render_window((earlier,), FLOW).splitlines()[2].startswith("10 10.0.0.2 203.0.113.9 443 ")


def test_an_empty_history_is_said() -> None:
    assert render_window((), FLOW).splitlines()[1] == "none"


@pytest.mark.parametrize("lacking", ["ts", "src"])
def test_a_window_without_times_or_sources_is_refused(lacking: str) -> None:
    earlier = replace(FLOW, **{lacking: None})
    with pytest.raises(DataError, match=rf"{lacking} is missing \(flow 1 of 2.*flow view"):
        render_window((earlier,), FLOW)


def test_a_later_flow_in_the_history_is_refused() -> None:
    with pytest.raises(DataError, match="after the flow to judge"):
        render_window((replace(FLOW, ts=NOW + 1),), FLOW)


@pytest.mark.parametrize("view", ["flow", "window"])
def test_masked_fields_are_gone_from_all_lines_and_named(view: View) -> None:
    item = generate(1, seed=3, split="train", view=view)[0]
    text = body(prompt(item, view, POINTS, mask={"ports", "addresses", "time"}).user)
    assert text.splitlines()[-3] == "Hidden: addresses ports time"
    for value in (item.flow.src, item.flow.dst, str(item.flow.src_port), "dst_port", "ago"):
        assert str(value) not in text.replace("Hidden: addresses ports time", "")
    assert "Not recorded" not in text


def test_unknown_masks_and_views_are_refused() -> None:
    with pytest.raises(UsageError, match="mask"):
        prompt(Example(FLOW, "Benign"), "flow", POINTS, mask={"colour"})
    with pytest.raises(UsageError, match="unknown view"):
        prompt(Example(FLOW, "Benign"), "packet", POINTS)


@given(
    accuracy=st.sampled_from([0.0, 1.0, 2.0]),
    calibration=st.sampled_from([0.0, 0.5, 1.0]),
    cost_ratio=st.floats(1, 50),
    abstain=st.sampled_from(["auto", None, 0.25]),
)
def test_the_promised_points_are_the_paid_ones(
    accuracy: float, calibration: float, cost_ratio: float, abstain: str | float | None
) -> None:
    weights = WEIGHTS.model_copy(
        update={
            "accuracy": accuracy,
            "calibration": calibration,
            "cost_ratio": cost_ratio,
            "abstain": abstain,
        }
    )
    points = payoffs(weights)
    text = instructions(points)
    assert f"right label {accuracy:g};" in text
    assert f"Benign on an attack {round(points.missed, 3):g}" in text
    assert ("Abstain" in text) == (abstain is not None)
    assert ("for an honest confidence" in text) == (calibration > 0)
    assert ("times a false alarm" in text) == (accuracy > 0)


def test_default_points_in_words() -> None:
    text = instructions(POINTS)
    assert "a missed attack costs 5 times a false alarm; Abstain 0.875 for sure" in text


def test_prompts_are_short() -> None:
    """SmolLM2 reads 3.3 characters a token here: 1,150 characters are under 350 tokens, 3,500 under 1,100."""
    for view, most in (("flow", 1150), ("window", 3500)):
        assert (
            max(
                len(prompt(item, view, POINTS).user)
                for item in generate(200, seed=5, split="train", view=view)
            )
            < most
        )


@settings(max_examples=50)
@given(st.lists(flows.filter(lambda flow: flow.src is not None and flow.ts is not None), max_size=4))
def test_any_past_renders_as_a_table_of_equal_rows(history: list[Flow]) -> None:
    last = replace(FLOW, ts=max((flow.ts or 0.0 for flow in history), default=0.0))
    table = render_window(history, last).split("\n\n")[0].splitlines()[1:]
    assert len(table) == (len(history) + 1 if history else 1)
    assert len({len(row.split(" ")) for row in table}) == 1


def test_payoffs_without_abstention_do_not_offer_it() -> None:
    assert "Abstain" not in prompt(Example(FLOW, "Benign"), "flow", Payoffs(1, 0, -4, None, 0.5)).user


@pytest.mark.real_data
@pytest.mark.parametrize(
    ("source", "most"),
    [("iot23_ctu34_zeek", 1100), ("iot23_hf_schema", 1100), ("unsw_nb15_native", 1900),
     ("cicids2017_native_thu_webattacks", 3500)],
)  # fmt: skip
def test_real_flows_render_without_their_labels(shared_data: Path, source: str, most: int) -> None:
    table = open_dataset(str(shared_data / "E1" / source), split="test")
    for row in range(0, len(table), 50):
        example = table.example(row)
        text = prompt(example, "flow", POINTS).user
        assert len(text) < most
        words = re.split(r"[^a-z]+", body(text).lower())
        assert not {"malicious", "benign", "attack", "botnet"} & set(words)
        assert len(example.detail) < 4 or example.detail.lower() not in body(text).lower()
