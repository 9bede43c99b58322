"""Rows hold together, or are refused."""

from typing import Any

import pytest
from pydantic import ValidationError

from sv_env_config_verification.rows import Row
from tests.sv_env_config_verification.audit_rows import PRIVILEGED, bucket_row, clean_row, row


@pytest.mark.parametrize("item", [row(), clean_row(), bucket_row()], ids=["kubernetes", "clean", "terraform"])
def test_a_row_survives_json(item: Row) -> None:
    assert Row.model_validate_json(item.model_dump_json()) == item


def test_pairs_and_keys() -> None:
    item = row()
    assert item.pairs == {(v["id"], v["object"]) for v in PRIVILEGED}
    assert item.violations[0].key == "privileged-container Deployment/shop/web"
    assert not item.is_clean
    assert clean_row().is_clean


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"files": {"../x.yaml": "a: 1"}}, "bad-name"),
        ({"files": {}}, "at least 1"),
        ({"violations": [PRIVILEGED[0], PRIVILEGED[0]]}, "twice"),
        ({"violations": [PRIVILEGED[0] | {"id": "made-up"}]}, "catalogue"),
        ({"violations": [PRIVILEGED[0] | {"severity": "low"}]}, "catalogue"),
        ({"fixes": {"host-pid Pod/a/b": [{"kind": "object_exists", "object": "Pod/a/b"}]}}, "no violation"),
        ({"fixes": {"privileged-container Deployment/shop/web": []}}, "no predicate"),
        ({"patch": None}, "if and only if"),
        ({"violations": [], "kind": "intent"}, "if and only if"),
        ({"kind": "clean"}, "no violations"),
        ({"intent": [{"kind": "made-up"}]}, "made-up"),
        ({"intent": [{"kind": "field_present", "object": "x", "path": "a..b"}]}, "no path"),
        ({"intent": [{"kind": "port_open", "object": "x", "port": 0}]}, "greater than"),
        ({"colour": "red"}, "not permitted"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_does_not_fit_together_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        row(**changes)
