"""Masks hide what they name, everywhere, and nothing else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sv_env_network_logs.data import GROUPS, check_mask, mask_example, mask_flow
from sv_env_network_logs.flows import FLOW_FIELDS, Example, Flow
from sv_shared.errors import UsageError

FULL = Flow(
    ts=1.0, src="10.0.0.1", src_port=1, dst="10.0.0.2", dst_port=2, proto="tcp", service="http", duration=1.0,
    orig_bytes=1, resp_bytes=1, conn_state="SF", history="S", missed_bytes=0, orig_pkts=1, orig_ip_bytes=1,
    resp_pkts=1, resp_ip_bytes=1, extra={"sttl": 254, "swin": 255, "is_sm_ips_ports": 0, "sload": 1.5},
)  # fmt: skip


@given(st.sets(st.sampled_from([*GROUPS, "extra", *FLOW_FIELDS])))
def test_exactly_the_named_fields_are_hidden(names: set[str]) -> None:
    masked = mask_flow(FULL, names)
    hidden = {field for name in names for field in (GROUPS[name].fields if name in GROUPS else (name,))}
    hidden |= names - GROUPS.keys() - {"extra"}
    for field in FLOW_FIELDS:
        assert getattr(masked, field) == (None if field in hidden else getattr(FULL, field))


@pytest.mark.parametrize(
    ("names", "left"),
    [
        ({"ttl"}, {"swin", "is_sm_ips_ports", "sload"}),
        ({"tcp-window", "ports"}, {"sttl", "sload"}),
        ({"extra"}, set()),
        (set(), {"sttl", "swin", "is_sm_ips_ports", "sload"}),
    ],
)
def test_groups_reach_the_extra_features(names: set[str], left: set[str]) -> None:
    assert set(mask_flow(FULL, names).extra) == left


def test_history_is_masked_and_metadata_is_not() -> None:
    example = Example(FULL, "Malicious", detail="DDoS", cluster="c", history=(FULL,), row="f:1")
    masked = mask_example(example, {"addresses"})
    assert (masked.flow.src, masked.history[0].dst) == (None, None)
    assert (masked.label, masked.detail, masked.cluster, masked.row) == ("Malicious", "DDoS", "c", "f:1")
    assert mask_example(example, set()) == example


def test_an_unknown_mask_lists_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"unknown mask 'colour'. Use any of: .*ports.*ttl.*extra.*dst_port"):
        check_mask({"ports", "colour"})
