"""Checkov's fixtures: what they expect, and how agreement is counted."""

import json

import pytest
import pytest_asyncio

from sv_env_config_verification.adapters.toolbox import Toolbox
from sv_env_config_verification.data.checkov import (
    Check,
    Expectation,
    kubernetes_expectations,
    load_checks,
    terraform_expectations,
)
from sv_env_config_verification.data.conformance import Confusion, Judged, confusion, judge
from sv_env_config_verification.data.folders import load_manifests
from sv_env_config_verification.data.tool_labels import label_with_tools
from sv_env_config_verification.reading import Reader
from sv_shared.errors import DataError
from tests.sv_env_config_verification.doubles import need

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\nspec: {hostPID: %s, containers: []}\n"
CHECK = Check("C", ("host-pid",), "hostPID is off")


@pytest_asyncio.fixture
async def reader():
    own = Reader()
    yield own
    await own.close()


def fixtures(folder, rows, files):
    (folder / "d").mkdir()
    for name, text in files.items():
        (folder / "d" / name).write_text(text)
    (folder / "expected.json").write_text(json.dumps([{"check_id": "C", "dir": "d", **row} for row in rows]))
    return folder


FILES = {
    "a-PASSED.yaml": POD % ("a", "false") + "---\n" + POD % ("b", "false"),
    "c-FAILED.yaml": POD % ("c", "true"),
    "d-UNKNOWN.yaml": POD % ("d", "true"),
    "e-1PASSED-1FAILED.yaml": POD % ("e", "true"),
}


async def test_names_of_files_count_a_resource_each_where_the_numbers_fit(tmp_path, reader):
    told, silent = await kubernetes_expectations(
        fixtures(tmp_path, [{"passed": 2, "failed": 1}], FILES), reader
    )
    assert [(e.object, e.fails) for e in told] == [
        ("Pod/default/a", False),
        ("Pod/default/b", False),
        ("Pod/default/c", True),
    ]
    assert silent == ["C d/d-UNKNOWN.yaml", "C d/e-1PASSED-1FAILED.yaml"]


async def test_else_they_count_a_file_each_or_nothing(tmp_path, reader):
    rows = [{"passed": 5, "failed": 1}, {"passed": 5, "failed": 0}]
    told, silent = await kubernetes_expectations(fixtures(tmp_path, rows, FILES), reader)
    assert [(e.object, e.files, e.fails) for e in told] == [
        ("", ("d/a-PASSED.yaml",), False),
        ("", ("d/c-FAILED.yaml",), True),
    ]
    assert len(silent) == 2 + 4


async def test_resources_that_the_tests_name_count_by_name(tmp_path, reader):
    row = {"passing_resources": ["Pod.default.a"], "failing_resources": ["Pod.default.c", "Role.default.x"]}
    told, silent = await kubernetes_expectations(fixtures(tmp_path, [row], FILES), reader)
    assert [(e.object, e.files, e.fails) for e in told] == [
        ("Pod/default/a", ("d/a-PASSED.yaml",), False),
        ("Pod/default/c", ("d/c-FAILED.yaml",), True),
        ("Role/default/x", (), True),
    ]
    assert not silent


@pytest.mark.parametrize("text", ["{", "{}", "[1]", '[{"dir": "d"}]'])
def test_a_damaged_list_of_expectations_is_an_error(tmp_path, text):
    (tmp_path / "expected.json").write_text(text)
    with pytest.raises(DataError, match=r"expected\.json"):
        terraform_expectations(tmp_path)


@pytest.mark.parametrize(
    "text", ["[X", "[X]\ntests='t'", "[X]\nweaknesses=['no']\ntests='t'", "[X]\nweaknesses=['host-pid']"]
)
def test_a_damaged_mapping_is_an_error(tmp_path, text):
    (tmp_path / "m.toml").write_text(text)
    with pytest.raises(DataError):
        load_checks(tmp_path / "m.toml")


def test_every_reason_of_the_mapping_has_a_class():
    checks = load_checks()
    classes = {check.differs.split(":")[0] for check in checks.values() if check.differs}
    assert classes == {
        "checkov-broader",
        "checkov-narrower",
        "checkov-looser",
        "checkov-older",
        "invalid-fixture",
        "rule-sees-text-only",
    }
    assert all(check.tests for check in checks.values())


def judged(fails, found, why="", check=CHECK):
    return Judged(Expectation("C", "kubernetes", ("f",), "o", fails), check, found, why)


def test_what_can_not_be_told_is_in_no_agreement_and_against_the_strict_one():
    rows = [
        judged(True, True),
        judged(True, True),
        judged(True, False),
        judged(False, True),
        judged(False, False),
        judged(True, None, "not-found"),
    ]
    counts = confusion(rows)
    assert counts == Confusion(both=2, missed=1, extra=1, neither=1, untold=1)
    assert (counts.agreement, counts.strict) == (3 / 5, 3 / 6)
    assert [row.agrees for row in rows] == [True, True, False, False, True, False]
    assert (Confusion().agreement, Confusion().strict, Confusion(untold=2).agreement) == (None, None, None)


def test_reasons_say_what_is_known_first():
    gap = Check("C", ("host-pid",), "t", gap="none", differs="checkov-narrower: x")
    assert judged(True, False, check=gap).reason == "no-rule: none"
    assert judged(False, True, check=gap).reason == "checkov-narrower: x"
    assert judged(True, None, "not-found", gap).reason == "not-found"
    assert judged(True, False).reason == "unexplained"


async def test_real_findings_are_compared_by_resource_and_become_labels(tmp_path, reader):
    need("opa", "opa")
    rows = [{"passed": 2, "failed": 1}]
    folder = fixtures(tmp_path, rows, {**FILES, "f.yaml": "a: ["})
    told, _ = await kubernetes_expectations(folder, reader)
    lost = Expectation("C", "kubernetes", (), "Pod/default/z", True)
    other = Expectation("unmapped", "kubernetes", ("d/c-FAILED.yaml",), "", True)
    broken = Expectation("C", "kubernetes", ("d/f.yaml",), "", True)
    (folder / "d" / "mixed.yaml").write_text(POD % ("good", "false") + "---\n" + POD % ("bad", "true"))
    whole, good, bad = (
        Expectation("C", "kubernetes", ("d/mixed.yaml",), name, True)
        for name in ("", "Pod/default/good", "Pod/default/bad")
    )
    asked = [*told, lost, other, broken, whole, good, bad]
    async with await Toolbox.open(["opa"]) as toolbox:
        got = await judge({"kubernetes": folder}, asked, {"C": CHECK}, toolbox, reader)
        labelled = await label_with_tools(await load_manifests(folder / "d", reader), toolbox)
    assert [(one.found, one.why) for one in got] == [
        (False, ""),
        (False, ""),
        (True, ""),
        (None, "not-found"),
        (None, "refused: invalid-yaml"),
        (True, ""),
        (False, ""),
        (True, ""),
    ]
    by_id = {sample.id: sample for sample in labelled.samples}
    assert {sample.labels for sample in labelled.samples} == {"tools"}
    assert all(sample.is_test_only for sample in labelled.samples)
    assert ("host-pid", "Pod/default/c") in {v.pair for v in by_id["c-FAILED.yaml"].violations}
    assert "host-pid" not in {v.id for v in by_id["a-PASSED.yaml"].violations}
    assert [refusal.path for refusal in labelled.refused] == ["f.yaml"]


@pytest.mark.real_data
@pytest.mark.slow
async def test_four_in_five_agree_where_a_rule_of_ours_looks(shared_data, reader):
    for name in ("opa", "kube-linter", "semgrep"):
        need(name, name)
    folders = {
        "kubernetes": shared_data / "E2" / "checkov_kubernetes",
        "terraform": shared_data / "E2" / "checkov_terraform_aws_gcp",
    }
    told, _ = await kubernetes_expectations(folders["kubernetes"], reader)
    told += terraform_expectations(folders["terraform"])
    async with await Toolbox.open() as toolbox:
        rows = await judge(folders, told, load_checks(), toolbox, reader)
    ruled = confusion(row for row in rows if not row.check.gap)
    assert ruled.total > 200
    assert ruled.agreement >= 0.8
    assert not [row for row in rows if not row.agrees and row.reason == "unexplained"]
