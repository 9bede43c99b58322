"""public-mini: what is in the file, that it can be made again, and that a damaged one is refused."""

import hashlib
import json
from collections import Counter
from pathlib import Path

import pytest

from sv_env_config_verification.adapters.toolbox import ToolVersion
from sv_env_config_verification.public_mini import PATH, dumps, line, load, load_public_mini, loads, parse
from sv_env_config_verification.rows import Row
from sv_env_config_verification.synth import build, card
from sv_env_config_verification.synth.leaks import VIEWS
from sv_shared.errors import DataError


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return load_public_mini()


def test_what_is_in_it(rows: list[Row]) -> None:
    assert len(rows) == 200
    assert len({row.id for row in rows}) == 200
    assert Counter(row.format for row in rows) == {"kubernetes": 120, "terraform": 80}
    assert sum(row.is_clean for row in rows) == 70
    assert all((row.patch is None) == row.is_clean for row in rows)
    assert len({v.id for row in rows for v in row.violations}) >= 60


def test_the_recipe_gives_the_same_bytes() -> None:
    assert dumps(one.row for one in build.public_mini()) == PATH.read_text(encoding="utf-8")


def test_rows_survive_the_round_trip(rows: list[Row]) -> None:
    assert loads(dumps(rows), "x") == rows


def test_the_card_speaks_of_this_file() -> None:
    text = PATH.with_name("e2.card.md").read_text(encoding="utf-8")
    assert hashlib.sha256(PATH.read_bytes()).hexdigest() in text
    assert "100 of 200 rows have a truth that is not the union" in text


def test_the_card_says_when_kubelinter_was_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(card, "leaks", lambda: dict.fromkeys(VIEWS, 0.5))
    drafts = build.public_mini()[:20]
    found = [{"opa": one.seen | one.alarms} for one in drafts]
    text = card.card(drafts, found, [ToolVersion("opa", "opa", "1.0")])
    assert "KubeLinter was not installed" in text
    assert "10 of 20 rows have a truth that is not the union" in text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty"),
        ("{}", "cut off"),
        ("not json\n", "no JSON"),
        ("[]\n", "schema_version"),
        ('{"schema_version": 2}\n', "schema_version: 2"),
        ('{"schema_version": true}\n', "schema_version: True"),
        ('{"schema_version": 1}\n', "id: Field required"),
    ],
)
def test_damaged_text_is_refused(text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        loads(text, "set.jsonl")


def test_changed_rows_are_refused(rows: list[Row]) -> None:
    record = json.loads(line(next(row for row in rows if row.violations)))
    with pytest.raises(DataError, match="used twice") as caught:
        loads(dumps([rows[0], rows[0]]), "set.jsonl")
    assert caught.value.where == "set.jsonl:2"
    for change in (
        {"violations": [record["violations"][0]] * 2},
        {"patch": None},
        {"extra": 1},
        {"kind": "clean"},
    ):
        with pytest.raises(DataError):
            parse(json.dumps(record | change), "x")


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="can't read the data set"):
        load(tmp_path / "none.jsonl")
