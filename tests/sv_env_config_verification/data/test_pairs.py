"""Pairs of manifests and labels: hand-made files in the format, and all that can be wrong with a record."""

import csv
import io
import json

import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import strategies as st

from sv_env_config_verification.data.pairs import load_pairs
from sv_env_config_verification.data.samples import Sample, violations_of
from sv_env_config_verification.reading import Reader
from sv_shared.errors import DataError

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  hostPID: true\n"
TWO = POD + "---\n" + POD.replace("web", "db")
FIXED = POD.replace("true", "false")


@pytest_asyncio.fixture
async def reader():
    own = Reader()
    yield own
    await own.close()


def as_json(folder, records):
    path = folder / "pairs.json"
    path.write_text(json.dumps(records))
    return path


async def test_labels_are_weaknesses_or_rules_and_may_name_their_object(tmp_path, reader):
    records = [
        {"id": "one", "manifest": POD, "labels": ["host-pid", "kubelinter:host-pid"], "fixed": FIXED},
        {"manifest": TWO, "labels": ["host-pid Pod/default/db"], "remediation": "none of ours"},
        {"manifest": FIXED, "labels": []},
    ]
    got = await load_pairs(as_json(tmp_path, records), reader)
    assert not got.refused
    assert [(s.id, [v.pair for v in s.violations], s.labels) for s in got.samples] == [
        ("one", [("host-pid", "Pod/default/web")], "source"),
        ("pairs.json#2", [("host-pid", "Pod/default/db")], "source"),
        ("pairs.json#3", [], "source"),
    ]
    one, two, clean = got.samples
    row = one.to_row()
    assert (row.kind, row.is_clean, clean.to_row().kind) == ("tools-agree", False, "clean")
    assert "-  hostPID: true\n+  hostPID: false\n" in row.patch
    with pytest.raises(ValueError, match="no mended files"):
        two.to_row()


async def test_all_three_kinds_of_file_say_the_same(tmp_path, reader):
    records = [{"id": "a", "manifest": TWO, "labels": "host-pid Pod/default/web; host-pid Pod/default/db"}]
    table = io.StringIO()
    writer = csv.DictWriter(table, ["id", "manifest", "labels"])
    writer.writeheader()
    writer.writerows(records)
    (tmp_path / "p.csv").write_text(table.getvalue())
    (tmp_path / "p.jsonl").write_text(json.dumps(records[0]) + "\n\n")
    paths = [as_json(tmp_path, records), tmp_path / "p.csv", tmp_path / "p.jsonl"]
    samples = [(await load_pairs(path, reader)).samples for path in paths]
    assert len(samples[0][0].violations) == 2
    assert samples[0] == samples[1] == samples[2]


BAD = {
    "no mapping": ([], "bad-record"),
    "no manifest": ({"labels": []}, "bad-record"),
    "no labels": ({"manifest": POD}, "bad-record"),
    "labels that are no texts": ({"manifest": POD, "labels": [1]}, "bad-record"),
    "no yaml": ({"manifest": "a: [", "labels": []}, "invalid-yaml"),
    "a template": ({"manifest": "a: {{ .Values.a }}", "labels": []}, "helm-template"),
    "an unknown weakness": ({"manifest": POD, "labels": ["nope"]}, "bad-label"),
    "an unknown rule": ({"manifest": POD, "labels": ["opa:nope"]}, "bad-label"),
    "a rule of style": ({"manifest": POD, "labels": ["kubelinter:sorted-keys"]}, "bad-label"),
    "another object": ({"manifest": POD, "labels": ["host-pid Pod/default/x"]}, "bad-label"),
    "an open object": ({"manifest": TWO, "labels": ["host-pid"]}, "bad-label"),
    "a bad fix": ({"manifest": POD, "labels": ["host-pid"], "fixed": "a: ["}, "bad-fix"),
    "a fix that is no text": ({"manifest": POD, "labels": ["host-pid"], "fixed": 3}, "bad-fix"),
    "an id given twice": ({"id": "ok", "manifest": POD, "labels": []}, "duplicate-id"),
}


@pytest.mark.parametrize("name", list(BAD))
async def test_a_bad_record_is_refused_and_the_others_are_read(tmp_path, reader, name):
    record, reason = BAD[name]
    good = {"id": "ok", "manifest": POD, "labels": ["host-pid"]}
    got = await load_pairs(as_json(tmp_path, [good, record]), reader)
    assert [sample.id for sample in got.samples] == ["ok"]
    assert [(refusal.path, refusal.reason) for refusal in got.refused] == [("pairs.json#2", reason)]


@pytest.mark.parametrize(
    ("name", "text"),
    [("p.json", "{}"), ("p.json", "["), ("p.csv", "a,b\n1,2\n"), ("p.jsonl", "{"), ("p.txt", "")],
)
async def test_a_file_of_another_kind_is_an_error(tmp_path, reader, name, text):
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=name):
        await load_pairs(tmp_path / name, reader)
    with pytest.raises(DataError, match="gone"):
        await load_pairs(tmp_path / f"gone{name}", reader)


@given(st.text("ab\n ", max_size=30), st.text("ab\n ", max_size=30))
def test_a_patch_leads_from_the_files_to_the_mended_ones(old, new):
    from sv_env_config_verification.patches import apply_patch

    patch = Sample("x", "kubernetes", {"a.yaml": old}, (), "source", {"a.yaml": new}).patch()
    assert (patch is None) is (old == new)
    if patch is not None and old and new:
        assert apply_patch({"a.yaml": old}, patch) == {"a.yaml": new}


def test_samples_without_labels_make_no_rows_and_what_tools_say_is_for_tests():
    bare = Sample("x", "kubernetes", {"a.yaml": POD})
    with pytest.raises(ValueError, match="no labels"):
        bare.to_row()
    assert [Sample("x", "kubernetes", {}, (), by).is_test_only for by in ("source", "tools", "none")] == [
        False,
        True,
        True,
    ]
    with pytest.raises(ValueError, match="no weakness 'nope'"):
        violations_of([("nope", "Pod/default/x")])
