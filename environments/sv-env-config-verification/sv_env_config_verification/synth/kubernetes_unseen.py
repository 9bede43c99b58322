"""Flaws in Kubernetes objects that no tool reports: what the operator said makes them wrong."""

from collections.abc import Iterator
from typing import Any

from sv_env_config_verification.intent import FieldAbsent, FieldEquals, Predicate
from sv_env_config_verification.synth.kubernetes_flaws import POD_PATHS
from sv_env_config_verification.synth.model import Edit, Flaw, Item, Path, Scene, dotted, read
from sv_env_config_verification.synth.names import Names

_QUARTERS = ("0.0.0.0/2", "64.0.0.0/2", "128.0.0.0/2", "192.0.0.0/2")
"""The whole internet in a form that no rule looks for."""


def kubernetes_unseen(scene: Scene, names: Names) -> Iterator[Flaw]:
    """The flaws of this sort that a scene can be given."""
    for item in scene.items:
        kind = item.body["kind"]
        if kind in POD_PATHS:
            yield from _pod(item, POD_PATHS[kind], names)
        elif kind in _BY_KIND:
            yield from _BY_KIND[kind](item, names)


def _changed(weakness: str, item: Item, path: Path, value: Any, statement: str) -> Flaw:
    """A value that the statement gives and the flaw replaces."""
    good = read(item.body, path)
    fix: Predicate = FieldEquals(object=item.id, path=dotted(item.body, path), value=good)
    return Flaw((weakness, item.id), (Edit(item.id, path, value),), frozenset(), True, (fix,), statement)


def _added(weakness: str, item: Item, path: Path, value: Any, fixed: str, statement: str) -> Flaw:
    """Something that must not be there; `fixed` is the path that is then absent."""
    fix: Predicate = FieldAbsent(object=item.id, path=fixed)
    return Flaw((weakness, item.id), (Edit(item.id, path, value),), frozenset(), True, (fix,), statement)


def _binding(item: Item, names: Names) -> Iterator[Flaw]:
    subjects = read(item.body, ("subjects",))
    account = subjects[0]["name"]
    group = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:serviceaccounts"}
    statement = f"The service account {account} and nobody else gets the rights of {item.id.split('/')[2]}."
    # Without its account the binding would no longer excuse the token that a controller mounts.
    if account != item.id.split("/")[2]:
        yield _changed("rbac-anonymous-subject", item, ("subjects",), [group], statement)
    wide = [*subjects, group]
    yield _changed("rbac-anonymous-subject", item, ("subjects",), wide, statement)


def _role(item: Item, names: Names) -> Iterator[Flaw]:
    rules = read(item.body, ("rules",))
    wanted = names.service()
    token = {
        "apiGroups": [""],
        "resourceNames": [wanted],
        "resources": ["serviceaccounts/token"],
        "verbs": ["create"],
    }
    statement = f"Nobody makes service account tokens through {item.id.split('/')[2]}."
    yield _changed("rbac-token-request", item, ("rules",), [*rules, token], statement)


def _policy(item: Item, names: Names) -> Iterator[Flaw]:
    peers = read(item.body, ("spec", "ingress", 0, "from"))
    if peers:
        source = read(peers, (0, "namespaceSelector", "matchLabels", "kubernetes.io/metadata.name"))
        statement = f"Only pods of the namespace {source} may talk to {item.group}."
        path = ("spec", "ingress", 0, "from")
        anyone = {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "Exists"}]}
        yield _changed("allow-all-ingress", item, path, [{"namespaceSelector": anyone}], statement)
        halves = [{"ipBlock": {"cidr": cidr}} for cidr in _QUARTERS]
        yield _changed("allow-all-ingress", item, path, [*peers, *halves], statement)
    target = read(item.body, ("spec", "egress", 1, "to", 0, "ipBlock", "cidr"))
    statement = f"Besides name resolution, {item.group} connects to {target} only, by port 5432."
    halves = [{"ipBlock": {"cidr": cidr}} for cidr in _QUARTERS]
    yield _changed("allow-all-egress", item, ("spec", "egress", 1), {"to": halves}, statement)


def _ingress(item: Item, names: Names) -> Iterator[Flaw]:
    host = read(item.body, ("spec", "rules", 0, "host"))
    key = f"{names.pick(('appgw.', 'haproxy.', 'traefik.'))}ingress.kubernetes.io/ssl-redirect"
    statement = f"Browsers reach {host} by HTTPS only; plain HTTP is not served."
    path = ("metadata", "annotations", key)
    yield _added("ingress-without-tls", item, path, "false", f'metadata.annotations["{key}"]', statement)


def _pod(item: Item, pod: Path, names: Names) -> Iterator[Flaw]:
    place = ".".join(str(step) for step in pod)
    group = (*pod, "spec", "securityContext", "runAsGroup")
    statement = (
        f"{item.group} runs as a user of its own and the group {read(item.body, group)}; neither is root's."
    )
    yield _changed("root-user", item, group, 0, statement)
    containers = read(item.body, (*pod, "spec", "containers"))
    if len(containers) == 1:
        path = (*pod, "spec", "containers", 0, "securityContext", "capabilities", "add")
        added = [names.pick(("AUDIT_CONTROL", "CHECKPOINT_RESTORE", "DAC_OVERRIDE"))]
        statement = f"{item.group} holds no Linux capability."
        yield _added("dangerous-capability", item, path, added, dotted(item.body, path), statement)
    environment = read(item.body, (*pod, "spec", "containers", 0, "env"))
    container = read(item.body, (*pod, "spec", "containers", 0, "name"))
    key = names.pick(("MYSQL_PWD", "DB_PWD", "REDISCLI_AUTH"))
    path = (*pod, "spec", "containers", 0, "env", len(environment))
    value = {"name": key, "value": f"{names.word(5)}-{names.word(8)}"}
    statement = f"{item.group} reads its credentials from files at run time; none stands in the manifests."
    fixed = f"{place}.spec.containers[name={container}].env[name={key}].value"
    yield _added("env-secret-literal", item, path, value, fixed, statement)


def _namespace(item: Item, names: Names) -> Iterator[Flaw]:
    key = "pod-security.kubernetes.io/enforce-version"
    statement = "The namespace enforces the newest Pod Security Standard; no old version is pinned."
    path = ("metadata", "labels", key)
    fixed = f'metadata.labels["{key}"]'
    yield _added("namespace-without-pod-security", item, path, "v1.0", fixed, statement)


_BY_KIND = {
    "Role": _role,
    "RoleBinding": _binding,
    "NetworkPolicy": _policy,
    "Ingress": _ingress,
    "Namespace": _namespace,
}
