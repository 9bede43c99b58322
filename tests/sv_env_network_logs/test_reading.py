"""Reading a prompt back: nothing breaks it, and what was displayed comes out."""

import math
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sv_env_network_logs.boosted import features
from sv_env_network_logs.flows import Example
from sv_env_network_logs.policies import port_rule, rate_rule
from sv_env_network_logs.reading import earlier_rows, judged, number, shows_window, stated_weights
from sv_env_network_logs.render import FLOW_LINE, View, instructions, prompt, value_text
from sv_env_network_logs.rewards import WEIGHTS, payoffs
from sv_shared.rewards import CalibrationForm, ClassificationWeights

from .test_render import flows

POINTS = payoffs(WEIGHTS)

LINES = st.sampled_from(
    [
        "Connection to judge (duration in seconds):",
        "Earlier connections of the same host, oldest first (ago = seconds before the one to judge):",
        "ago dst dst_port conn_state",
        "1 2 3",
        "none",
        "nan inf - 1e999",
        "proto=tcp dst_port=22 duration=x orig_pkts=1e400 =5 a==b",
        "Points: right label 1; Benign on an attack 4",
        "",
    ]
)
TEXTS = st.lists(LINES | st.text(max_size=30), max_size=8).map("\n".join)


@given(TEXTS)
def test_any_text_is_read_without_a_fault(text: str) -> None:
    heading, rows = earlier_rows(text)
    assert all(len(row) == len(heading) for row in rows)
    assert all(isinstance(value, str) for value in judged(text).values())
    assert stated_weights(text) is None or "right label" in text
    assert 0 <= port_rule(text) <= 1
    assert 0 <= rate_rule(text) <= 1
    assert len(features(text)) == len(features(""))


@given(flows)
def test_the_line_to_judge_comes_out_as_displayed(flow) -> None:
    read = judged(prompt(Example(flow, "Benign"), "flow", POINTS).user)
    shown = {name: value_text(flow, name) for name in FLOW_LINE if getattr(flow, name) is not None}
    assert {name: read.get(name) for name in shown} == shown


def test_a_sources_own_feature_never_passes_for_a_field() -> None:
    from sv_env_network_logs.flows import Flow

    flow = Flow(proto="tcp", dst_port=80, extra={"dst_port": 22, "Bytes/dst_port": 23, "Max duration": 9})
    assert judged(prompt(Example(flow, "Benign"), "flow", POINTS).user)["dst_port"] == "80"
    assert "duration" not in judged(prompt(Example(flow, "Benign"), "flow", POINTS).user)


@pytest.mark.parametrize("view", ["flow", "window"])
def test_the_recipes_prompts_come_out_as_displayed(view: View) -> None:
    from sv_env_network_logs.synth.recipe import generate

    for example in generate(40, seed=11, split="train", view=view):
        text = prompt(example, view, POINTS).user
        assert judged(text) == {
            name: value_text(example.flow, name)
            for name in FLOW_LINE
            if any(getattr(flow, name) is not None for flow in (example.flow, *example.history))
        }
        heading, rows = earlier_rows(text)
        assert shows_window(text) == (view == "window")
        assert len(rows) == len(example.history)
        for row, flow in zip(rows, example.history, strict=True):
            cells = dict(zip(heading, row, strict=True))
            assert float(cells.pop("ago")) == pytest.approx(example.flow.ts - flow.ts, abs=0.006)
            cells.pop("src", None)
            assert cells == {name: value_text(flow, name) for name in cells}
            assert {"dst", "dst_port", "conn_state"} <= cells.keys()


@pytest.mark.parametrize(("shown", "read"), [("12.5", 12.5), ("0", 0.0), ("-", None), ("tcp", None)])
def test_numbers(shown: str, read: float | None) -> None:
    assert number({"x": shown}, "x") == read
    assert number({}, "x") is None


@given(
    accuracy=st.integers(0, 4000).map(lambda n: n / 1000),
    calibration=st.integers(0, 4000).map(lambda n: n / 1000),
    cost_ratio=st.integers(1, 500),
    abstain=st.none() | st.integers(-4000, 4000).map(lambda n: n / 1000),
    form=st.sampled_from(get_args(CalibrationForm)),
)
def test_stated_points_are_paid_by_the_weights_that_are_read(
    accuracy: float, calibration: float, cost_ratio: int, abstain: float | None, form: CalibrationForm
) -> None:
    weights = ClassificationWeights(
        accuracy=accuracy,
        calibration=calibration,
        cost_ratio=cost_ratio,
        abstain=abstain,
        calibration_form=form,
    )
    stated = payoffs(weights)
    read = stated_weights(instructions(stated))
    assert read is not None
    for name in ("right", "false_alarm", "missed", "abstain", "calibration"):
        there, back = getattr(stated, name), getattr(payoffs(read), name)
        assert (there is None) == (back is None)
        assert there is None or math.isclose(there, back, abs_tol=1e-9)
    assert read.calibration_form == form or not calibration


def test_points_that_nobody_could_pay_are_none() -> None:
    assert stated_weights("right label 1; Benign on an attack 4") is None
    assert stated_weights("right label 1") is None
    assert stated_weights("") is None
