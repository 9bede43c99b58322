"""Variants of real items are possible, consistent and different."""

from dataclasses import replace
from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sv_env_network_logs.flows import Example, Flow
from sv_env_network_logs.synth.laws import MSS
from sv_env_network_logs.synth.perturb import perturb
from sv_env_network_logs.synth.recipe import generate
from sv_shared.errors import DataError, UsageError

counts = st.none() | st.integers(0, 5000)
addresses = (
    st.none()
    | st.ip_addresses().map(str)
    | st.sampled_from(["192.168.1.5", "192.168.1.9", "8.8.8.8", "8.8.8.4"])
)


@st.composite
def real_flows(draw) -> Flow:
    """Flows as captures have them: absent fields, gaps, any address."""
    sides = {}
    for side in ("orig", "resp"):
        payload, pkts, headers = draw(counts), draw(counts), draw(st.none() | st.integers(-50, 4000))
        total = None if headers is None else max(0, (payload or 0) + headers)
        sides |= {f"{side}_bytes": payload, f"{side}_pkts": pkts, f"{side}_ip_bytes": total}
    ends = {
        "src": draw(addresses),
        "dst": draw(addresses),
        "src_port": draw(counts),
        "dst_port": draw(counts),
    }
    ts, duration = draw(st.none() | st.floats(0, 2e9)), draw(st.none() | st.floats(0, 1e5))
    return Flow(ts=ts, duration=duration, conn_state="SF", **ends, **sides)


examples = st.builds(
    lambda flow, history: Example(flow, "Malicious", "x", "capture", tuple(history), "", 0.3, "file:7"),
    real_flows(),
    st.lists(real_flows(), max_size=4),
)


def pairs(item: Example, variant: Example) -> list[tuple[Flow, Flow]]:
    return list(zip((*item.history, item.flow), (*variant.history, variant.flow), strict=True))


@given(examples, st.integers(0, 2**32), st.floats(0, 0.9))
def test_invariants_hold(item: Example, seed: int, noise: float) -> None:
    variant = perturb(item, seed, noise=noise)
    assert (variant.label, variant.cluster, variant.posterior) == (item.label, item.cluster, None)
    assert variant.row == f"file:7~{seed}"
    for old, new in pairs(item, variant):
        kept = (
            "src_port",
            "dst_port",
            "orig_pkts",
            "resp_pkts",
            "conn_state",
            "history",
            "missed_bytes",
            "proto",
        )
        assert [getattr(new, name) for name in kept] == [getattr(old, name) for name in kept]
        for name in (
            "duration",
            "orig_bytes",
            "resp_bytes",
            "orig_ip_bytes",
            "resp_ip_bytes",
            "src",
            "dst",
            "ts",
        ):
            assert (getattr(new, name) is None) == (getattr(old, name) is None)
        if old.duration is not None:
            assert (new.duration > 0) == (old.duration > 0)
            assert abs(new.duration - old.duration) <= noise * old.duration + 1e-6
        for side in ("orig", "resp"):
            check_side(old, new, side, noise)


def check_side(old: Flow, new: Flow, side: str, noise: float) -> None:
    payload, pkts, total = (getattr(old, f"{side}_{name}") for name in ("bytes", "pkts", "ip_bytes"))
    now, total_now = getattr(new, f"{side}_bytes"), getattr(new, f"{side}_ip_bytes")
    if payload is None or (total is not None and total < payload):
        assert (now, total_now) == (payload, total)
        return
    assert (now > 0) == (payload > 0)
    assert abs(now - payload) <= noise * payload + 1
    if pkts is not None:
        assert now <= max(payload, MSS * pkts)
    if total is not None:
        assert total_now - now == total - payload


@given(examples, st.integers(0, 2**32))
def test_addresses_are_swapped_one_to_one_by_network(item: Example, seed: int) -> None:
    swapped: dict[str, str] = {}
    for old, new in pairs(item, perturb(item, seed)):
        for before, after in ((old.src, new.src), (old.dst, new.dst)):
            if before is not None:
                assert swapped.setdefault(before, after) == after
    assert len(set(swapped.values())) == len(swapped)
    for before, after in swapped.items():
        one, two = ip_address(before), ip_address(after)
        assert one.version == two.version
        assert one.is_multicast == two.is_multicast
        assert one.is_loopback == two.is_loopback


def test_hosts_of_one_network_stay_together_and_kinds_stay() -> None:
    flow = Flow(ts=9.0, src="192.168.1.5", dst="192.168.1.9")
    variant = perturb(Example(flow, "Benign", history=(Flow(ts=1.0, src="192.168.1.5", dst="8.8.8.8"),)), 1)
    new, outside = variant.flow, ip_address(variant.history[0].dst or "")
    assert (new.src, new.dst) != (flow.src, flow.dst)
    assert new.src.rsplit(".", 1)[0] == new.dst.rsplit(".", 1)[0]
    assert (new.src.split(".")[0], new.src.split(".")[-1], new.dst.split(".")[-1]) == ("10", "5", "9")
    assert str(outside).startswith("100.")
    assert perturb(Example(replace(flow, dst="224.0.0.251"), "Benign"), 1).flow.dst == "224.0.0.251"


def test_a_seed_determines_the_variant_and_order_stays() -> None:
    item = generate(1, seed=31, split="train", view="window")[0]
    assert perturb(item, 5) == perturb(item, 5)
    assert perturb(item, 5) != perturb(item, 6)
    variant = perturb(item, 5)
    times = [flow.ts for flow in (*variant.history, variant.flow)]
    assert times == sorted(times)
    assert times != [flow.ts for flow in (*item.history, item.flow)]


def test_no_noise_changes_addresses_only() -> None:
    item = generate(1, seed=32, split="train")[0]
    variant = perturb(item, 5, noise=0)
    assert replace(variant.flow, src=item.flow.src, dst=item.flow.dst) == item.flow


def test_payloads_stay_within_their_packets() -> None:
    full = Example(Flow(orig_bytes=1450, orig_pkts=1, orig_ip_bytes=1490), "Benign")
    payloads = {perturb(full, seed, noise=0.5).flow.orig_bytes for seed in range(50)}
    assert max(payloads) == MSS
    assert min(payloads) < 1000


def test_flows_with_further_features_keep_their_numbers() -> None:
    item = generate(1, seed=32, split="train")[0]
    rich = replace(item, flow=replace(item.flow, extra={"sbytes": item.flow.orig_bytes or 0}))
    variant = perturb(rich, 5, noise=0.5)
    assert variant.flow.orig_bytes == item.flow.orig_bytes
    assert variant.flow.src != item.flow.src


def test_nonsense_is_refused() -> None:
    with pytest.raises(UsageError, match="out of range"):
        perturb(Example(Flow(), "Benign"), 1, noise=1.0)
    with pytest.raises(DataError, match="'printer' is not an IP address"):
        perturb(Example(Flow(src="printer"), "Benign"), 1)
