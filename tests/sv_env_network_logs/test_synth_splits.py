"""No item of one split is a copy, or nearly one, of another split's."""

from itertools import pairwise

import pytest

from sv_env_network_logs.flows import Example, Flow
from sv_env_network_logs.render import VIEWS, View, render_flow, value_text
from sv_env_network_logs.synth.recipe import generate
from sv_shared.splits import SEED_RANGES, SPLITS

BLURRED = ("duration", "orig_bytes", "resp_bytes", "orig_pkts", "resp_pkts")
KEPT = ("proto", "service", "dst_port", "conn_state", "history")


def near_key(flow: Flow) -> tuple[str, ...]:
    """What is displayed, less addresses, source port and headers, numbers cut to two significant digits."""
    return (*(value_text(flow, name) for name in KEPT), *(cut(value_text(flow, name)) for name in BLURRED))


def cut(number: str) -> str:
    """ "0.01234" -> "0.01200", "98765" -> "98000"."""
    seen, result = 0, ""
    for character in number:
        if character.isdigit():
            seen += seen > 0 or character != "0"
            character = character if seen <= 2 else "0"
        result += character
    return result.rstrip("0").rstrip(".") if "." in result else result


@pytest.fixture(scope="module")
def items() -> dict[str, dict[str, list[Example]]]:
    counts = {"flow": 4000, "window": 60}
    return {
        view: {split: generate(n, seed=SEED_RANGES[split][3], split=split, view=view) for split in SPLITS}
        for view, n in counts.items()
    }


@pytest.mark.parametrize("view", VIEWS)
def test_splits_have_no_near_duplicate_in_common(view: View, items: dict) -> None:
    keys = {split: {near_key(item.flow) for item in items[view][split]} for split in SPLITS}
    lines = {split: {render_flow(item.flow) for item in items[view][split]} for split in SPLITS}
    for one, other in (("train", "dev"), ("train", "test"), ("dev", "test")):
        assert not keys[one] & keys[other]
        assert not lines[one] & lines[other]


def test_without_the_partition_there_would_be_some(items: dict) -> None:
    """The same key does repeat within a split, so that its absence across splits says something."""
    keys = [near_key(item.flow) for item in items["flow"]["train"]]
    half = len(keys) // 2
    assert len(set(keys[:half]) & set(keys[half:])) > 10


def test_every_split_sees_every_scenario(items: dict) -> None:
    kinds = [
        {(i.label, i.flow.proto, i.flow.service, i.flow.conn_state) for i in items["flow"][s]} for s in SPLITS
    ]
    assert kinds[0] == kinds[1] == kinds[2]


def test_seed_ranges_do_not_overlap() -> None:
    bounds = sorted((seeds.start, seeds.stop) for seeds in SEED_RANGES.values())
    assert all(stop <= start for (_, stop), (start, _) in pairwise(bounds))


@pytest.mark.parametrize(
    ("number", "text"), [("0.01234", "0.012"), ("98765", "98000"), ("12.3", "12"), ("7", "7"), ("-", "-")]
)
def test_cut(number: str, text: str) -> None:
    assert cut(number) == text
