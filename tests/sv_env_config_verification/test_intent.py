"""Predicates are decided on parsed objects, and never raise."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from sv_env_config_verification.fields import MISSING, look_up, same, steps
from sv_env_config_verification.intent import Predicate, holds
from sv_env_config_verification.manifests import read_manifests
from sv_env_config_verification.shapes import Document, Resource, Shapes
from tests.sv_env_config_verification.audit_rows import WEB

READ: TypeAdapter[Predicate] = TypeAdapter(Predicate)

ROLE = """\
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader, namespace: shop}
rules:
  - {apiGroups: [""], resources: [pods, "*/log"], verbs: [get, list]}
  - {apiGroups: [""], resources: [secrets], verbs: [get], resourceNames: [tls]}
"""

POLICY = """\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: web, namespace: shop}
spec:
  podSelector: {}
  ingress:
    - ports: [{port: 80}, {port: 9000, endPort: 9010}, {port: http}]
"""

SHAPES = Shapes(tuple(read_manifests("a.yaml", "---\n".join([WEB, ROLE, POLICY]))))


def block(kind: str, **values: Any) -> Resource:
    return Resource("main.tf", 1, 2, f"{kind}.x", kind, "x", values)


def truth(shapes: Shapes | None = SHAPES, **clause: Any) -> bool:
    return holds(READ.validate_python(clause), shapes)


CONTAINER = "spec.template.spec.containers[name=web]"
WEB_ID = "Deployment/shop/web"


@pytest.mark.parametrize(
    ("clause", "expected"),
    [
        ({"kind": "field_equals", "path": f"{CONTAINER}.securityContext.privileged", "value": True}, True),
        ({"kind": "field_equals", "path": f"{CONTAINER}.securityContext.privileged", "value": 1}, False),
        ({"kind": "field_equals", "path": "spec.replicas", "value": 2.0}, True),
        ({"kind": "field_equals", "path": "spec.nothing", "value": None}, False),
        ({"kind": "field_in", "path": "spec.replicas", "values": [1, 2]}, True),
        ({"kind": "field_in", "path": "spec.replicas", "values": [3]}, False),
        ({"kind": "field_present", "path": "spec.template.spec.containers[*].image"}, True),
        ({"kind": "field_present", "path": "spec.template.spec.containers[*].env"}, False),
        ({"kind": "field_absent", "path": "spec.template.spec.containers[*].env"}, True),
        ({"kind": "field_absent", "path": "spec.replicas"}, False),
        ({"kind": "field_absent", "path": "spec.x", "object": "Pod/a/gone"}, False),
        ({"kind": "not_field_equals", "path": "spec.replicas", "value": 1}, True),
        ({"kind": "not_field_equals", "path": "spec.replicas", "value": 2}, False),
        ({"kind": "not_field_equals", "path": "x", "value": 2, "object": "Pod/a/gone"}, False),
        ({"kind": "object_exists"}, True),
        ({"kind": "object_exists", "object": "Deployment/default/web"}, False),
        ({"kind": "image_is", "container": "web", "image": "registry.example/web:1.2.3"}, True),
        ({"kind": "image_is", "container": "web", "image": "registry.example/web"}, False),
        ({"kind": "image_is", "container": "other", "image": "registry.example/web:1.2.3"}, False),
        ({"kind": "port_open", "port": 8080}, True),
        ({"kind": "port_open", "port": 80}, False),
        ({"kind": "port_open", "port": 80, "object": "Service/shop/web"}, True),
        ({"kind": "port_open", "port": 8080, "object": "Service/shop/web"}, False),
        ({"kind": "port_open", "port": 9005, "object": "NetworkPolicy/shop/web"}, True),
        ({"kind": "port_open", "port": 9011, "object": "NetworkPolicy/shop/web"}, False),
    ],
    ids=str,
)
def test_clauses_about_one_object(clause: dict[str, Any], expected: bool) -> None:
    assert truth(**({"object": WEB_ID} | clause)) is expected


@pytest.mark.parametrize(
    ("clause", "expected"),
    [
        ({"verb": "get", "resource": "pods"}, True),
        ({"verb": "get", "resource": "pods", "group": ""}, True),
        ({"verb": "get", "resource": "pods", "group": "apps"}, False),
        ({"verb": "delete", "resource": "pods"}, False),
        ({"verb": "get", "resource": "pods/log"}, True),
        ({"verb": "get", "resource": "secrets"}, False),
        ({"verb": "get", "resource": "secrets", "name": "tls"}, True),
        ({"verb": "get", "resource": "secrets", "name": "other"}, False),
    ],
    ids=str,
)
def test_what_a_role_allows(clause: dict[str, Any], expected: bool) -> None:
    assert truth(kind="allows", role="Role/shop/reader", **clause) is expected


def test_a_service_selects_by_labels_in_its_namespace() -> None:
    clause = {"kind": "selects", "service": "Service/shop/web", "workload": WEB_ID}
    assert truth(**clause)
    assert not truth(**(clause | {"workload": "Deployment/shop/gone"}))
    assert not truth(**(clause | {"service": "Service/shop/gone"}))
    other = WEB.replace("    app: web\n  ports", "    app: other\n  ports")
    assert not truth(Shapes(tuple(read_manifests("a.yaml", other))), **clause)
    moved = WEB.replace("namespace: shop", "namespace: elsewhere", 1)
    assert not truth(
        Shapes(tuple(read_manifests("a.yaml", moved))),
        **(clause | {"workload": "Deployment/elsewhere/web"}),
    )
    none = WEB.replace("  selector:\n    app: web\n  ports", "  ports")
    assert not truth(Shapes(tuple(read_manifests("a.yaml", none))), **clause)


INBOUND = {"access": "Allow", "direction": "Inbound"}


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        (block("aws_security_group", ingress=[{"from_port": 20, "to_port": 30, "protocol": "tcp"}]), True),
        (block("aws_security_group", ingress=[{"from_port": 0, "to_port": 0, "protocol": "-1"}]), True),
        (block("aws_security_group", ingress=[{"from_port": 23, "to_port": 30, "protocol": "tcp"}]), False),
        (block("aws_security_group", egress=[{"from_port": 22, "to_port": 22}]), False),
        (block("aws_security_group_rule", type="ingress", from_port="22", to_port=22), True),
        (block("aws_security_group_rule", type="egress", from_port=22, to_port=22), False),
        (block("google_compute_firewall", allow=[{"ports": ["20-24"]}]), True),
        (block("google_compute_firewall", allow=[{"protocol": "all"}]), True),
        (block("google_compute_firewall", allow=[{"ports": ["80"]}]), False),
        (block("google_compute_firewall", allow=[{"ports": ["22"]}], direction="EGRESS"), False),
        (block("azurerm_network_security_rule", destination_port_range="22", **INBOUND), True),
        (block("azurerm_network_security_rule", destination_port_ranges=["*"], **INBOUND), True),
        (block("azurerm_network_security_rule", destination_port_range="22", access="Deny"), False),
        (
            block(
                "azurerm_network_security_group", security_rule=[{"destination_port_range": "22"} | INBOUND]
            ),
            True,
        ),
        (block("aws_lb_listener", port=22), True),
        (block("aws_lb_listener", port=True), False),
    ],
    ids=lambda value: value.type if isinstance(value, Resource) else "",
)
def test_ports_of_terraform_blocks(item: Resource, expected: bool) -> None:
    assert truth(Shapes(terraform=(item,)), kind="port_open", object=item.id, port=22) is expected


def test_a_clause_is_true_of_each_object_with_that_identity() -> None:
    two = Shapes(terraform=(block("aws_s3_bucket", acl="private"), block("aws_s3_bucket", acl="public")))
    assert not truth(two, kind="field_equals", object="aws_s3_bucket.x", path="acl", value="private")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 90) | st.sampled_from(["web", "*", "80", "-1"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "name",
                    "spec",
                    "ports",
                    "port",
                    "rules",
                    "selector",
                    "template",
                    "containers",
                    "verbs",
                    "allow",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=14,
)

CLAUSES = [
    {"kind": "selects", "service": "Service/a/x", "workload": "Pod/a/x"},
    {"kind": "allows", "role": "Pod/a/x", "verb": "get", "resource": "pods/log"},
    {"kind": "port_open", "object": "Pod/a/x", "port": 80},
    {"kind": "image_is", "object": "Pod/a/x", "container": "web", "image": "web"},
    {
        "kind": "field_equals",
        "object": "Pod/a/x",
        "path": "spec.containers[name=web].ports[0][*]",
        "value": 1,
    },
    {"kind": "field_absent", "object": "Pod/a/x", "path": 'spec["ports"].name'},
]


@given(JSON, st.sampled_from(["Pod", "Service", "Deployment", "NetworkPolicy", "Role"]), st.booleans())
def test_no_object_makes_a_clause_raise(body: Any, kind: str, terraform: bool) -> None:
    manifest = {"kind": kind, "metadata": body, "spec": body, "rules": body}
    documents = tuple(Document("a", i, 1, 1, f"{k}/a/x", manifest) for i, k in enumerate(["Pod", "Service"]))
    types = (
        "aws_security_group",
        "google_compute_firewall",
        "azurerm_network_security_group",
        "aws_lb_listener",
    )
    blocks = tuple(
        Resource(
            "a", 1, 1, "Pod/a/x", t, "x", dict.fromkeys(("ingress", "allow", "security_rule", "port"), body)
        )
        for t in types
    )
    shapes = Shapes(terraform=blocks) if terraform else Shapes(documents)
    for clause in CLAUSES:
        assert truth(shapes, **clause) in (True, False)
        assert not truth(None, **clause)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("a.b", [1]),
        ("l[*].n", ["x", "y"]),
        ("l[n=y].v", [2]),
        ("l[n=z].v", [MISSING]),
        ("l[1].v", [2]),
        ("l[7].v", [MISSING]),
        ('m["p.q/r"]', ["s"]),
        ("e[*].v", []),
        ("a[*]", [MISSING]),
        ("nil", [MISSING]),
    ],
)
def test_paths(path: str, expected: list[Any]) -> None:
    value = {
        "a": {"b": 1},
        "l": [{"n": "x", "v": 1}, {"n": "y", "v": 2}],
        "m": {"p.q/r": "s"},
        "e": [],
        "nil": None,
    }
    assert look_up(value, path) == expected


@pytest.mark.parametrize("path", ["a..b", ".a", "a.", "a[", "a[*]b", "a b", "a[*", "[x]"])
def test_what_is_no_path_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="no path"):
        list(steps(path))


@given(JSON, JSON)
def test_sameness_is_that_of_json(one: Any, other: Any) -> None:
    import json

    def text(value: Any) -> str:
        return json.dumps(value, sort_keys=True)

    assert same(one, other) is (text(one) == text(other))
