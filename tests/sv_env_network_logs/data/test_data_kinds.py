"""The two faces of a kind agree: what the fast parse refuses, the search for a culprit finds, and no more."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sv_env_network_logs.data import cicids, kinds, zeek
from sv_env_network_logs.data.kinds import BadCell, Kind, Marks
from sv_env_network_logs.data.schema import Bound, Column
from sv_env_network_logs.data.text import Block, TextLayout, parse
from sv_shared.errors import DataError

MARKS = Marks(frozenset({"-"}), frozenset({"(empty)"}))
KINDS: dict[str, Kind] = {
    "time": kinds.TIME, "duration": kinds.SECONDS, "count": kinds.COUNT, "round count": kinds.ROUND_COUNT,
    "port": kinds.PORT, "any port": kinds.ANY_PORT, "address": kinds.ADDRESS, "number": kinds.MEASURE,
    "state": zeek.STATE, "service": zeek.SERVICE, "history": zeek.HISTORY, "protocol": cicids.PROTOCOL,
    "timestamp": cicids.TIMESTAMP, "microseconds": cicids.MICROSECONDS, "text": kinds.TEXT,
}  # fmt: skip
AWKWARD = [
    "S0", "RSTOS0", "-", "(empty)", "nan", "NaN", "nan(1)", "inf", "-Infinity", "1e400", "9" * 18,
    "9" * 20, "0x10",
    "0X1f", "+1", "-0", "00001", " 1", "1 ", "1_0", "\u0661", "1.", ".5", "1E+5", "ShADad", "",
]  # fmt: skip
fields = st.one_of(
    st.text("0123456789.+-eExXaAfF :/", max_size=12),
    st.sampled_from(AWKWARD),
    st.sampled_from(
        ["1.2.3.4", "fe80::1", "::", "1::2::3", "1.2.3", "2017-07-03 11:55:58.5", "3/7/2017 8:55"]
    ),
    st.integers(-10, 70000).map(str),
    st.floats(-1e6, 1e12).map(str),
    st.text(st.characters(blacklist_characters="\t\n\r\0", blacklist_categories=("Cs",)), max_size=6),
)


def layout(kind: Kind) -> TextLayout:
    columns = (Bound(1, "first", Column(kinds.TEXT)), Bound(2, "field", Column(kind)))
    return TextLayout("file", "\t", columns, MARKS, False, 1, lambda _line, _number: None, ())


def read(kind: Kind, texts: list[str]) -> object:
    """The converted column, by the way that a file takes; DataError or BadCell where it is refused."""
    data = "".join(f"x\t{text}\n" for text in texts).encode()
    arrays = parse(Block(data, np.arange(1, len(texts) + 1), {}, False), layout(kind))
    values = kind.convert(arrays[1], MARKS) if kind.convert else arrays[1]
    if kind.required and values.null_count:
        raise BadCell(values.is_null().index(True).as_py(), "has no value")
    return values


@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=60, deadline=None)
@given(text=fields)
def test_a_field_is_refused_with_its_place_or_typed(name: str, text: str) -> None:
    kind = KINDS[name]
    why = kind.fault(text.encode().decode("latin-1"), MARKS)
    place = outcome(kind, ["-" if not kind.required else "1", text])
    if place == "typed":
        assert why is None or kind.convert is None
    elif place != "refused by its kind":
        assert why is not None, f"{text!r} was refused at {place}, and the search would have found nothing"
        assert place == "file, line 2, column 2 'field'"


def outcome(kind: Kind, texts: list[str]) -> str:
    """Where the texts were refused, or that they were typed."""
    try:
        read(kind, texts)
    except DataError as error:
        return error.where
    except BadCell:
        return "refused by its kind"
    return "typed"


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (kinds.COUNT, "12", 12), (kinds.COUNT, "-", None), (kinds.ROUND_COUNT, "172.0", 172),
        (kinds.ANY_PORT, "0x000b", 11), (kinds.MEASURE, "-2.5", -2.5), (kinds.MEASURE, "inf", None),
        (cicids.MICROSECONDS, "9827", 0.009827), (cicids.MICROSECONDS, "-1", None),
        (cicids.PROTOCOL, "17", "udp"), (zeek.SERVICE, "DNS", "dns"), (zeek.HISTORY, "(empty)", ""),
        (zeek.STATE, "-", None),
    ],
)  # fmt: skip
def test_values_are_typed(kind: Kind, text: str, value: object) -> None:
    assert read(kind, [text])[0].as_py() == value  # type: ignore[index]


@pytest.mark.parametrize(
    ("kind", "text"), [(kinds.COUNT, "9007199254740993"), (kinds.SECONDS, "-0.5"), (kinds.PORT, "-")]
)
def test_values_out_of_range_are_refused_at_their_row(kind: Kind, text: str) -> None:
    with pytest.raises(BadCell) as caught:
        read(kind, ["1", "2", text])
    assert caught.value.row == 2
