"""Schemas decide offline what the Kubernetes API would refuse."""

import pytest

from sv_env_config_verification.manifests import read_manifests
from sv_env_config_verification.schemas import check, schema_problems
from sv_env_config_verification.shapes import Document
from tests.sv_env_config_verification.audit_rows import MENDED, WEB

CUSTOM = "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w}\nspec: {size: 1}\n"


def read(text: str) -> list[Document]:
    return read_manifests("a.yaml", text)


def test_good_manifests_have_no_problem() -> None:
    assert [check(document.object) for document in read(WEB)] == [[], []]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("privileged: true", "privilegd: true", "privilegd"),
        ("privileged: true", 'privileged: "true"', "boolean"),
        ("privileged: true", "privileged: 1", "boolean"),
        ("replicas: 2", "replicas: two", "integer"),
        ("  selector:\n    matchLabels:\n      app: web\n", "", "selector"),
        ("          image: registry.example/web:1.2.3\n", "          imagen: x\n", "imagen"),
    ],
)
def test_what_the_api_refuses_is_a_problem(old: str, new: str, said: str) -> None:
    assert old in WEB
    problems = schema_problems(read(WEB), read(WEB.replace(old, new, 1)))
    assert problems
    assert all(line.startswith("Deployment/shop/web: $") for line in problems)
    assert said in " ".join(problems)


def test_a_kind_without_a_schema_passes_where_it_was_there_before() -> None:
    changed = CUSTOM.replace("1}", "2}")
    assert schema_problems(read(CUSTOM), read(changed)) == []
    assert schema_problems(read(WEB), read(changed)) == ["Widget/default/w: no schema for Widget"]
    assert check(read(CUSTOM)[0].object) is None


def test_an_object_that_never_fitted_is_not_held_against_the_patch() -> None:
    odd = WEB.replace("  replicas: 2", "  replicas: 2\n  colour: red")
    odd_mended = odd.replace("privileged: true", "privileged: false")
    assert schema_problems(read(odd), read(odd)) == []
    broken = read(WEB.replace("replicas: 2", "replicas: two"))
    assert schema_problems(broken, broken) == []
    assert schema_problems(read(odd), read(odd_mended)) == []
    assert schema_problems(read(odd), read(odd_mended.replace("replicas: 2", "replicas: x"))) != []
    assert schema_problems(read(MENDED), read(odd_mended)) != []


@pytest.mark.parametrize(
    ("kind", "version"),
    [
        ("../_definitions", "v1"),
        ("Pod", "../v1"),
        ("pod-v1.json\0", "v1"),
        ("Pod/../Pod", "v1"),
        ("P" * 999, "v1"),
    ],
)
def test_no_name_leads_to_another_file(kind: str, version: str) -> None:
    assert check({"kind": kind, "apiVersion": version}) is None
