"""public-mini: what is in the file, that it can be made again, and that a damaged one is refused."""

import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sv_env_network_logs.flows import Example, Flow
from sv_env_network_logs.public_mini import PATH, Item, dump, dumps, load, load_public_mini, loads, parse
from sv_env_network_logs.render import prompt
from sv_env_network_logs.rewards import WEIGHTS, payoffs
from sv_env_network_logs.synth import build as building
from sv_env_network_logs.synth.build import build, public_mini, spot_check, with_sign_offs
from sv_env_network_logs.synth.card import card
from sv_env_network_logs.synth.posterior import posteriors
from sv_shared.errors import DataError
from sv_shared.splits import SEED_RANGES

SPOT_CHECK, CARD = PATH.with_name("e1.spot-check.jsonl"), PATH.with_name("e1.card.md")


@pytest.fixture(scope="module")
def items() -> list[Item]:
    return load_public_mini()


def records() -> list[dict]:
    return [json.loads(text) for text in SPOT_CHECK.read_text().splitlines()]


def test_the_file_is_what_its_seeds_give(tmp_path: Path) -> None:
    dump(tmp_path / "again.jsonl", public_mini())
    assert (tmp_path / "again.jsonl").read_bytes() == PATH.read_bytes()


def test_the_spot_check_is_of_these_items_and_may_be_signed(items: list[Item]) -> None:
    unsigned = [{**record, "verdict": None, "reviewer": None, "date": None} for record in records()]
    assert unsigned == spot_check(items)
    assert len(unsigned) == 0.05 * len(items)
    by_row = {item.example.row: item for item in items}
    for record in records():
        assert list(record)[-3:] == ["verdict", "reviewer", "date"]
        item = by_row[record["id"]]
        assert record["prompt"] == prompt(item.example, item.view, payoffs(WEIGHTS)).user
        assert (record["verdict"] is None) == (record["reviewer"] is None) == (record["date"] is None)


@pytest.mark.slow
def test_the_card_is_up_to_date(items: list[Item]) -> None:
    assert card(items, records()) == CARD.read_text()


def test_the_card_names_the_file_and_what_is_in_it(items: list[Item]) -> None:
    import hashlib

    text = CARD.read_text()
    assert hashlib.sha256(PATH.read_bytes()).hexdigest() in text
    labels = Counter(item.example.label for item in items)
    assert f"| all | both | {labels['Benign']} | {labels['Malicious']} |" in text
    assert f"Signed off: {sum(record['verdict'] is not None for record in records())} of 15" in text


def test_composition(items: list[Item]) -> None:
    tally = Counter((item.example.difficulty, item.view) for item in items)
    assert tally == {
        (tier, view): n for tier in ("easy", "medium", "hard") for view, n in (("flow", 80), ("window", 20))
    }
    assert len({item.example.row for item in items}) == 300
    clusters = Counter(item.example.cluster for item in items)
    assert len(clusters) >= 10
    assert max(clusters.values()) <= 20
    assert 120 <= sum(item.example.label == "Malicious" for item in items) <= 180
    assert all(int(item.example.row.split(":")[1]) in SEED_RANGES["test"] for item in items)
    for start in range(0, 300, 15):  # any prefix is a fair sample
        some = items[start : start + 15]
        assert Counter(item.example.difficulty for item in some) == {"easy": 5, "medium": 5, "hard": 5}
        assert sum(item.view == "window" for item in some) == 3


def test_stored_posteriors_are_those_of_the_stored_flows(items: list[Item]) -> None:
    for view in ("flow", "window"):
        examples = [item.example for item in items if item.view == view]
        assert posteriors(examples, view).tolist() == [example.posterior for example in examples]


numbers = st.none() | st.integers(0, 2**50)
words = st.none() | st.text()
reals = st.floats(allow_nan=False, allow_infinity=False)
flows = st.builds(
    Flow, ts=st.none() | reals, src=words, src_port=numbers, dst=words, dst_port=numbers, proto=words,
    service=words, duration=st.none() | reals, orig_bytes=numbers, conn_state=words, resp_ip_bytes=numbers,
    extra=st.dictionaries(st.text(), reals | st.integers(-(2**50), 2**50) | st.text()),
)  # fmt: skip
stored = st.builds(
    Item,
    st.sampled_from(["flow", "window"]),
    st.builds(
        Example, flow=flows, label=st.sampled_from(["Benign", "Malicious"]), detail=st.text(),
        cluster=st.text(), history=st.lists(flows, max_size=2).map(tuple), difficulty=st.text(),
        posterior=st.none() | reals, row=st.text(),
    ),
)  # fmt: skip


@given(stored)
def test_any_item_survives_storage(item: Item) -> None:
    assert loads(dumps([item, item]), "here") == [item, item]


def damaged(**changes: object) -> str:
    record = json.loads(PATH.read_text().splitlines()[0])
    return json.dumps({key: value for key, value in (record | changes).items() if value != "DROP"})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", r"the line: Invalid JSON.*\(f:3\)"),
        ("[]", r"the line: .*\(f:3\)"),
        (damaged(schema_version=2), r"schema_version: .*\(f:3\)"),
        (damaged(label="malicious"), "label: "),
        (damaged(posterior="0.5"), "posterior: "),
        (damaged(posterior="DROP"), "posterior: Field required"),
        (damaged(colour="red"), "colour: Extra inputs"),
        (damaged(view="packet"), "view: "),
        (damaged(flow={"dst_port": "443"}), "flow.dst_port: "),
        (damaged(flow={"dstport": 443}), "flow.dstport: Extra"),
        (damaged(history=[{"dst_port": 1.5}]), "history.0.dst_port: "),
    ],
)
def test_a_damaged_line_is_refused_with_its_place(text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        parse(text, "f:3")


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    lines = PATH.read_text().splitlines(keepends=True)
    for name, content, message in (
        ("cut.jsonl", "".join(lines[:3])[:-20], "cut off"),
        ("empty.jsonl", "", "empty"),
        ("second.jsonl", lines[0] + "{}\n", r"second.jsonl:2"),
    ):
        (tmp_path / name).write_text(content)
        with pytest.raises(DataError, match=message):
            load(tmp_path / name)
    (tmp_path / "bytes.jsonl").write_bytes(b"\xff\xfe\n")
    for name in ("bytes.jsonl", "missing.jsonl"):
        with pytest.raises(DataError, match=r"can't read the data set.*Build it again"):
            load(tmp_path / name)


def test_building_keeps_sign_offs_and_refuses_to_lose_them(
    items: list[Item], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        building, "card", lambda items, records: f"{sum(r['verdict'] is not None for r in records)}\n"
    )
    build(tmp_path)
    path = tmp_path / "e1.spot-check.jsonl"
    assert [json.loads(text) for text in path.read_text().splitlines()] == spot_check(items)
    assert (tmp_path / "e1.card.md").read_text() == "0\n"
    signed = spot_check(items)
    signed[4] |= {"verdict": "plausible", "reviewer": "A. Reviewer", "date": "2026-11-21"}
    path.write_text("".join(json.dumps(record) + "\n" for record in signed))
    build(tmp_path)
    assert [json.loads(text) for text in path.read_text().splitlines()] == signed
    assert (tmp_path / "e1.card.md").read_text() == "1\n"
    with pytest.raises(DataError, match="1 sign-offs are for items that have changed"):
        with_sign_offs(spot_check(items)[:4], path)
