"""The recipe: same seed, same items; flows that can exist; posteriors that are exact and calibrated."""

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import chi2

from sv_env_network_logs.flows import Example, Flow
from sv_env_network_logs.render import FLOW_LINE, VIEWS, View, render_flow, render_window, round_seconds
from sv_env_network_logs.synth.columns import categories
from sv_env_network_logs.synth.laws import MSS
from sv_env_network_logs.synth.playbooks import PLAYBOOKS
from sv_env_network_logs.synth.posterior import posteriors
from sv_env_network_logs.synth.profiles import PROFILES
from sv_env_network_logs.synth.recipe import BATCH, generate
from sv_env_network_logs.synth.tiers import DIFFICULTIES
from sv_shared.errors import DataError, UsageError
from sv_shared.splits import SEED_RANGES

COUNTS = {"flow": 900, "window": 90}


def reliability(p: np.ndarray, y: np.ndarray, bins: int = 20) -> tuple[float, float, float]:
    """The Hosmer-Lemeshow p value over equal-mass bins, the largest bin's |z|, and the overall |z|."""
    order = np.argsort(p, kind="stable")
    groups = np.array_split(order, bins)
    excess = np.array([(y[rows] - p[rows]).sum() for rows in groups])
    variance = np.array([(p[rows] * (1 - p[rows])).sum() for rows in groups])
    sure = variance < 1  # a handful of expected errors at most: normal bounds do not hold there
    z = excess[~sure] / np.sqrt(variance[~sure])
    assert (np.abs(excess[sure]) < 6).all()
    overall = abs(excess.sum()) / np.sqrt(variance.sum())
    return float(chi2.sf((z**2).sum(), len(z))), float(np.abs(z).max()), float(overall)


def figures(examples: list[Example]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([e.posterior for e in examples]), np.array([e.label == "Malicious" for e in examples])


@pytest.mark.parametrize("view", VIEWS)
def test_a_seed_determines_the_items_and_n_only_their_number(view: View) -> None:
    items = generate(30, seed=11, split="train", view=view)
    assert items == generate(30, seed=11, split="train", view=view)
    assert items[:7] == generate(7, seed=11, split="train", view=view)
    other = generate(30, seed=12, split="train", view=view)
    assert not {render_flow(item.flow) for item in items} & {render_flow(item.flow) for item in other}
    hard = generate(10, seed=11, split="train", view=view, difficulty="hard")
    assert [item for item in items if item.difficulty == "hard"] == hard


@pytest.mark.parametrize("view", VIEWS)
def test_items_are_tagged(view: View) -> None:
    items = generate(3 * BATCH + 3, seed=11, split="train", view=view)
    names = {scenario.name: scenario.label for scenario in (*PROFILES, *PLAYBOOKS)}
    assert [item.difficulty for item in items[:3]] == list(DIFFICULTIES)
    assert len({item.row for item in items}) == len(items)
    assert len({item.cluster for item in items}) == 6
    for item in items:
        judged = item.detail.split(" beside ")[0]
        assert names[judged] == item.label
        assert len(item.history) == (8 if view == "window" else 0)


def test_balance_is_the_share_of_attacks() -> None:
    for balance in (0.1, 0.5, 0.8):
        _, y = figures(generate(6000, seed=13, split="train", balance=balance))
        assert y.mean() == pytest.approx(balance, abs=0.025)


@pytest.mark.parametrize("view", VIEWS)
def test_flows_can_exist(view: View) -> None:
    for item in generate(COUNTS[view], seed=14, split="train", view=view):
        times = [flow.ts for flow in (*item.history, item.flow)]
        assert times == sorted(times)
        assert len({flow.src for flow in (*item.history, item.flow)}) == 1
        for flow in (*item.history, item.flow):
            check_flow(flow)


def check_flow(flow: Flow) -> None:
    assert flow.src != flow.dst
    header = 40 if flow.proto == "tcp" else 28
    for payload, pkts, total in (
        (flow.orig_bytes, flow.orig_pkts, flow.orig_ip_bytes),
        (flow.resp_bytes, flow.resp_pkts, flow.resp_ip_bytes),
    ):
        assert 0 <= payload <= MSS * pkts
        assert total >= payload + header * pkts
    assert flow.orig_pkts >= 1
    assert flow.duration == round_seconds(flow.duration) > 0
    if flow.conn_state in ("S0", "REJ"):
        assert flow.resp_bytes == 0
        assert (flow.resp_pkts == 0) == (flow.conn_state == "S0")
    else:
        assert flow.resp_pkts >= 1
    assert ("d" in flow.history) == (flow.resp_bytes > 0) or flow.history in ("ShAR", "ShAdFf")
    assert ("D" in flow.history) == (flow.orig_bytes > 0)


def parsed(text: str) -> Flow:
    """The flow of a displayed line."""
    values = dict(part.split("=", 1) for part in text.split(" "))
    numbers = {name: float(value) if name == "duration" else int(value) for name, value in values.items()
               if re.fullmatch(r"[\d.]+", value) and name not in ("src", "dst")}  # fmt: skip
    return Flow(**{name: None if value == "-" else value for name, value in values.items()} | numbers)


def test_the_flow_views_posterior_is_a_function_of_what_is_displayed() -> None:
    items = generate(600, seed=15, split="train")
    seen = [replace(item, flow=parsed(render_flow(item.flow, FLOW_LINE)), label="Benign") for item in items]
    assert posteriors(seen, "flow").tolist() == [item.posterior for item in items]


@pytest.mark.parametrize(
    "change",
    [
        lambda f: replace(f, src_port=1025 if f.src_port > 2000 else 60000),
        lambda f: replace(f, dst_port=4443 if f.dst_port == 443 else 8080),
        lambda f: replace(f, dst="10.0.0.1" if f.dst[:3] != "10." else "192.0.2.1"),
        lambda f: replace(f, duration=round_seconds(f.duration * 3)),
        lambda f: replace(f, orig_ip_bytes=f.orig_ip_bytes + (12 if f.orig_bytes else -12) * f.orig_pkts),
        lambda f: replace(f, resp_bytes=f.resp_bytes // 2),
        lambda f: replace(
            f, orig_bytes=f.orig_bytes // 2, orig_ip_bytes=f.orig_ip_bytes - (f.orig_bytes + 1) // 2
        ),
        lambda f: replace(f, resp_pkts=f.resp_pkts + 5),
        lambda f: replace(f, conn_state="RSTR", history="ShADadr") if f.history == "ShADadFf" else f,
    ],
    ids=[
        "src_port",
        "dst_port",
        "dst",
        "duration",
        "header",
        "resp_bytes",
        "orig_bytes",
        "resp_pkts",
        "ending",
    ],
)
def test_every_displayed_field_bears_on_the_posterior(change: Callable[[Flow], Flow]) -> None:
    """A posterior that overlooks a field would still be calibrated, but would be no ceiling."""
    moved = 0
    for item in generate(60, seed=15, split="train", difficulty="medium"):
        try:
            other = posteriors([replace(item, flow=change(item.flow))], "flow")[0]
        except DataError:  # no scenario does that
            continue
        moved += abs(other - (item.posterior or 0.0)) > 0.001
    assert moved > 2


def test_the_window_views_posterior_is_a_function_of_what_is_displayed() -> None:
    """What the table leaves out (source ports, IP-level bytes, history) is replaced by something else."""
    histories: dict[tuple[str, str | None, str], str] = {}
    for proto, service, ending in categories():
        histories.setdefault((proto, service, ending.state), ending.history)
    items = generate(60, seed=15, split="train", view="window")
    seen = []
    for item in items:
        table, line = render_window(item.history, item.flow).split("\n\n")
        heading, *rows = (row.split(" ") for row in table.splitlines()[1:])
        earlier = []
        for row in rows:
            ago, *shown = (f"{name}={value}" for name, value in zip(heading, row, strict=True))
            flow = parsed(" ".join(shown))
            history = histories[flow.proto, flow.service, flow.conn_state]
            age = float(ago.removeprefix("ago="))
            earlier.append(
                replace(flow, ts=-age, src_port=1, orig_ip_bytes=10**9, resp_ip_bytes=0, history=history)
            )
        judged = replace(parsed(line.splitlines()[1]), ts=0.0)
        seen.append(replace(item, flow=judged, history=tuple(earlier), label="Benign"))
    assert [e.history for i in seen for e in i.history] != [e.history for i in items for e in i.history]
    assert posteriors(seen, "window").tolist() == [item.posterior for item in items]


@pytest.mark.parametrize("view", VIEWS)
def test_posteriors_are_calibrated(view: View) -> None:
    n = 12_000 if view == "flow" else 1500
    p, y = figures(generate(n, seed=16, split="train", view=view))
    fit, worst, overall = reliability(p, y, bins=10)
    assert fit > 1e-3
    assert worst < 4
    assert overall < 4


def test_calibration_holds_at_another_balance_and_in_another_split() -> None:
    p, y = figures(generate(9000, seed=SEED_RANGES["dev"][1], split="dev", balance=0.15))
    fit, worst, overall = reliability(p, y, bins=10)
    assert fit > 1e-3
    assert max(worst, overall) < 4


def test_a_wrong_posterior_would_be_noticed() -> None:
    p, y = figures(generate(12_000, seed=16, split="train"))
    sharper = p**1.3 / (p**1.3 + (1 - p) ** 1.3)
    assert reliability(sharper, y, bins=10)[0] < 1e-3


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("difficulty", DIFFICULTIES)
@pytest.mark.parametrize("view", VIEWS)
def test_posteriors_are_calibrated_on_100_000_items(view: View, difficulty: str) -> None:
    p, y = figures(generate(100_000, seed=17, split="train", view=view, difficulty=difficulty))
    fit, worst, overall = reliability(p, y)
    print(f"\n{view} {difficulty}: Hosmer-Lemeshow p {fit:.3f}, worst |z| {worst:.2f}, overall {overall:.2f}")
    assert fit > 1e-3
    assert worst < 4
    assert overall < 4


def test_a_reader_who_is_not_told_the_tier_knows_less() -> None:
    items = generate(3000, seed=18, split="train")
    told, y = figures(items)
    blind = posteriors(items, "flow", tiers=DIFFICULTIES)
    assert np.maximum(blind, 1 - blind).mean() < np.maximum(told, 1 - told).mean()
    assert reliability(blind, y, bins=10)[0] > 1e-3


def test_foreign_flows_have_no_posterior() -> None:
    item = generate(1, seed=19, split="train")[0]
    for foreign in (replace(item.flow, service="irc"), replace(item.flow, duration=None), Flow()):
        with pytest.raises(DataError, match="recipe"):
            posteriors([replace(item, flow=foreign)], "flow")
    with pytest.raises(DataError, match="no scenario"):
        posteriors([replace(item, flow=replace(item.flow, duration=1e9))], "flow")
    with pytest.raises(DataError, match="8 earlier flows"):
        posteriors([item], "window")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"seed": SEED_RANGES["test"][0], "split": "train"},
            "belongs to the test split and cannot be used for train",
        ),
        ({"seed": SEED_RANGES["dev"][0], "split": "train"}, "belongs to the dev split"),
        ({"seed": 7, "split": "test"}, "belongs to the train split"),
        ({"seed": -1, "split": "train"}, "belongs to no split"),
        ({"seed": 7, "split": "holdout"}, "unknown split"),
        ({"view": "packet"}, "unknown view"),
        ({"difficulty": "brutal"}, "unknown difficulty"),
        ({"balance": 1.0}, "out of range"),
        ({"n": -1}, "out of range"),
    ],
)
def test_bad_arguments_are_refused(arguments: dict, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        generate(**{"n": 1, "seed": 7, "split": "train"} | arguments)
