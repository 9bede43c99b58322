"""What a patch may change is decided on parsed objects, by the list of fields."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sv_env_config_verification.blocks import MAX_CHARS, other_blocks, outside
from sv_env_config_verification.catalogue import load_catalogue
from sv_env_config_verification.fields import same
from sv_env_config_verification.manifests import read_manifests
from sv_env_config_verification.preservation import (
    Loss,
    differences,
    load_rules,
    losses,
    suppressions,
)
from sv_env_config_verification.shapes import Resource, Shapes
from sv_shared.errors import DataError
from tests.sv_env_config_verification.audit_rows import BUCKET, MENDED, WEB

CRON = """\
apiVersion: batch/v1
kind: CronJob
metadata: {name: tidy, namespace: shop}
spec:
  schedule: "0 3 * * *"
  jobTemplate:
    spec:
      template:
        spec:
          containers:
            - {name: tidy, image: "registry.example:5000/tidy:1", args: ["--password=x", "-v"]}
            - {name: log, image: "log:2"}
"""

ROLE = """\
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader, namespace: shop}
rules:
  - {apiGroups: [""], resources: [pods], verbs: ["*"]}
  - {apiGroups: [""], resources: [services], verbs: [get]}
"""


def shapes(*texts: str) -> Shapes:
    return Shapes(tuple(read_manifests("a.yaml", "\n---\n".join(texts))))


def lost(before: str, after: str, *weaknesses: str) -> list[tuple[Loss, str]]:
    old = shapes(before)
    pairs = [(weakness, item.id) for weakness in weaknesses for item in old.kubernetes]
    return [(one.loss, one.path) for one in losses(old, shapes(after), pairs)]


def edited(text: str, old: str, new: str) -> str:
    assert old in text
    return text.replace(old, new, 1)


def test_what_is_the_same_to_the_cluster_is_no_change() -> None:
    restyled = edited(WEB, "kind: Deployment", 'kind: "Deployment"  # a comment')
    restyled = edited(restyled, "  name: web\n  namespace: shop", "  namespace: shop\n  name: web")
    assert restyled != WEB
    assert lost(WEB, restyled) == []


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        (WEB, "privileged: true", "privileged: false\n            runAsNonRoot: true"),
        (WEB, "      containers:", "      automountServiceAccountToken: false\n      containers:"),
        (WEB, "web:1.2.3", "web:1.2.4"),
        (WEB, "web:1.2.3", f"web@sha256:{'0' * 64}"),
        (WEB, "  ports:\n    - port: 80", "  type: ClusterIP\n  ports:\n    - port: 80"),
        (CRON, "tidy:1", "tidy:2"),
        (CRON, "log:2", "log"),
        (ROLE, '["*"]', "[get]"),
        (ROLE, '  - {apiGroups: [""], resources: [pods], verbs: ["*"]}\n', ""),
    ],
    ids=lambda text: text[:24].strip().split("\n")[0],
)
def test_hardening_keeps_everything(text: str, old: str, new: str) -> None:
    assert lost(text, edited(text, old, new)) == []


@pytest.mark.parametrize(
    ("text", "old", "new", "expected"),
    [
        (WEB, "name: web\n  namespace", "name: wob\n  namespace", {Loss.OBJECT_GONE, Loss.OBJECT_ADDED}),
        (WEB, "namespace: shop", "namespace: shed", {Loss.OBJECT_GONE, Loss.OBJECT_ADDED}),
        (WEB, "kind: Deployment", "kind: DaemonSet", {Loss.OBJECT_GONE, Loss.OBJECT_ADDED}),
        (WEB, WEB[WEB.index("---") :], "", {Loss.OBJECT_GONE}),
        (WEB, "---\n", "---\napiVersion: v1\nkind: Pod\nmetadata: {name: x}\n---\n", {Loss.OBJECT_ADDED}),
        (WEB, "replicas: 2", "replicas: 0", {Loss.OTHER_FIELD}),
        (WEB, "        app: web\n    spec", "        app: web\n        x: y\n    spec", {Loss.OTHER_FIELD}),
        (WEB, "- name: web", "- name: wob", {Loss.OTHER_FIELD, Loss.OTHER_IMAGE}),
        (WEB, "registry.example/web", "elsewhere.example/web", {Loss.OTHER_IMAGE}),
        (WEB, "containerPort: 8080", "containerPort: 8081", {Loss.OTHER_FIELD}),
        (WEB, "  selector:\n    app: web\n  ports", "  selector:\n    app: wob\n  ports", {Loss.OTHER_FIELD}),
        (WEB, "  name: web\n", "  name: web\n  annotations: {a: b}\n", {Loss.OTHER_FIELD}),
        (CRON, '            - {name: log, image: "log:2"}\n', "", {Loss.OTHER_FIELD, Loss.OTHER_IMAGE}),
        (CRON, '"-v"', '"-q"', {Loss.OTHER_FIELD}),
        (CRON, "registry.example:5000/tidy:1", "registry.example:5001/tidy:1", {Loss.OTHER_IMAGE}),
        (ROLE, ROLE[ROLE.index("rules:") :], "rules: []\n", {Loss.EMPTIED}),
    ],
)
def test_what_no_repair_needs_is_a_loss(text: str, old: str, new: str, expected: set[Loss]) -> None:
    assert {loss for loss, _ in lost(text, edited(text, old, new))} == expected


def test_some_fields_are_open_to_who_mends_a_certain_weakness() -> None:
    mended = edited(CRON, '"--password=x", ', "")
    assert lost(CRON, mended) == [
        (Loss.OTHER_FIELD, "spec.jobTemplate.spec.template.spec.containers[*].args[*]")
    ]
    assert lost(CRON, mended, "host-pid") != []
    assert lost(CRON, mended, "secret-in-command-line") == []
    emptied = edited(CRON, 'args: ["--password=x", "-v"]', "args: []")
    assert (Loss.EMPTIED, "spec.jobTemplate.spec.template.spec.containers[*].args") in lost(
        CRON, emptied, "secret-in-command-line"
    )


VARIABLE = edited(WEB, "          ports:", "          env: [{name: DB_PASSWORD, value: x}]\n          ports:")


def test_a_required_field_may_change_and_not_go() -> None:
    moved = edited(VARIABLE, "value: x", "valueFrom: {secretKeyRef: {name: db, key: password}}")
    assert lost(VARIABLE, moved) == []
    path = "spec.template.spec.containers[*].env[*]"
    assert lost(VARIABLE, edited(VARIABLE, ", value: x", "")) == [(Loss.EMPTIED, f"{path}.value|valueFrom")]
    assert lost(VARIABLE, edited(VARIABLE, "value: x", 'value: ""')) == [
        (Loss.EMPTIED, f"{path}.value|valueFrom")
    ]
    gone = edited(VARIABLE, "          env: [{name: DB_PASSWORD, value: x}]\n", "")
    assert Loss.OTHER_FIELD in {loss for loss, _ in lost(VARIABLE, gone, "host-pid")}
    assert lost(VARIABLE, gone, "env-secret-literal") == []
    member = Resource(
        "a.tf", 1, 2, "m", "google_storage_bucket_iam_member", "m", {"role": "r", "member": "allUsers"}
    )
    narrowed, dropped = (
        Shapes(terraform=(replace(member, attributes=a),))
        for a in ({"role": "r", "member": "x"}, {"role": "r"})
    )
    assert losses(Shapes(terraform=(member,)), narrowed) == []
    assert [one.path for one in losses(Shapes(terraform=(member,)), dropped)] == ["member|members|entity"]


def test_the_same_object_in_another_file_is_another_object() -> None:
    documents = read_manifests("a.yaml", MENDED)
    moved = read_manifests("b.yaml", MENDED)
    found = losses(Shapes(tuple(documents)), Shapes((*documents[:1], *moved[1:])))
    assert {one.loss for one in found} == {Loss.OBJECT_GONE, Loss.OBJECT_ADDED}


@pytest.mark.parametrize(
    "marker",
    [
        "ignore-check.kube-linter.io/privileged-container: why",
        "kube-linter.io/ignore-all: yes",
        "checkov.io/skip1: CKV_K8S_16=why",
        "#checkov:skip=CKV_AWS_20:why",
        "# nosec",
        "# nosemgrep: rule",
        "#tfsec:ignore:aws-s3",
        "# trivy:ignore:AVD-1",
        "# kics-scan ignore-line",
        "polaris.fairwinds.com/exempt: true",
        "datree.skip/RULE: why",
        "#ts:skip=AC_AWS_1",
    ],
)
def test_what_silences_a_tool_is_seen_wherever_it_stands(marker: str) -> None:
    before = {"a.yaml": WEB}
    assert [one.loss for one in suppressions(before, {"a.yaml": f"{WEB}{marker}\n"})] == [Loss.SUPPRESSION]
    assert suppressions({"a.yaml": f"{WEB}{marker}\n"}, {"a.yaml": f"{MENDED}{marker}\n"}) == []
    assert suppressions({"a.yaml": f"{WEB}{marker}\n"}, before) == []


JSON = st.recursive(
    st.booleans() | st.integers(0, 3) | st.sampled_from(["a", "b"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["name", "x", "y"]), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(JSON, JSON)
def test_there_is_a_difference_exactly_where_values_differ(one: Any, other: Any) -> None:
    assert (not list(differences(one, other))) is same(one, other)
    assert not list(differences(one, one))


def test_every_rule_names_what_the_catalogue_knows() -> None:
    rules = load_rules()
    for rule in (*rules.kubernetes, *rules.terraform):
        assert rule.weaknesses <= set(load_catalogue().weaknesses)
        assert all(rule.paths)
        assert all(any(keep[: len(path)] == path for path in rule.paths) for keep in rule.keep)


@pytest.mark.parametrize(
    "text", [None, "x = ", "[suppression]\npatterns = ['(']\n[[kubernetes]]\n[[terraform]]"]
)
def test_a_damaged_list_is_an_error(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "fields.toml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(DataError, match="list of fields"):
        load_rules(path)


def terraform(text: str) -> Shapes:
    """BUCKET's one resource, where a text has it."""
    lines = text.split("\n")
    first = next(i for i, line in enumerate(lines, 1) if line.startswith("resource"))
    last = next(i for i, line in enumerate(lines, 1) if i > first and line == "}")
    return Shapes(
        terraform=(Resource("main.tf", first, last, "aws_s3_bucket.logs", "aws_s3_bucket", "logs", {}),)
    )


def blocks_lost(after: str) -> list[str]:
    sides = [other_blocks({"main.tf": text}, terraform(text)) for text in (BUCKET, after)]
    assert sides[0] is not None
    assert sides[1] is not None
    before, now = (Shapes(terraform=tuple(side)) for side in sides if side is not None)
    return [str(one) for one in losses(before, now)]


def test_other_blocks_are_compared_too() -> None:
    found = other_blocks({"main.tf": BUCKET}, terraform(BUCKET))
    assert found is not None
    assert [(one.id, one.type) for one in found] == [
        ("variable.log_name", "variable"),
        ("output.name", "output"),
    ]
    assert blocks_lost(BUCKET + 'variable "more" {}\nlocals {\n  a = 1\n}\n') == []
    assert blocks_lost(edited(BUCKET, "acme-logs", "other")) == []
    assert blocks_lost(edited(BUCKET, "logs.id\n", "logs.id\n  sensitive = true\n")) == []
    assert blocks_lost(edited(BUCKET, "logs.id\n", "logs.arn\n")) == [
        "field-not-open-to-repair output.name value"
    ]
    assert blocks_lost(BUCKET[: BUCKET.index("output")]) == ["object-gone output.name"]
    assert blocks_lost(BUCKET + 'provider "aws" {}\n') == ["object-added provider.aws"]


def test_text_outside_resources_has_bounds() -> None:
    assert other_blocks({"main.tf": "x = " + "[" * 30}, Shapes()) is None
    assert other_blocks({"main.tf": "a = 1\n" * MAX_CHARS}, Shapes()) is None
    assert outside("main.tf", "# a\n\n  // b\nx = 1\n", Shapes()) == "x = 1"
