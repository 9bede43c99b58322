"""Settings of Kubernetes objects that tools report and that the operator decides either way."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from sv_env_config_verification.intent import Allows, FieldAbsent, FieldEquals, Predicate
from sv_env_config_verification.synth.kubernetes_flaws import (
    POD_PATHS,
    claim,
    exposure_claims,
    leading_services,
)
from sv_env_config_verification.synth.model import DROP, Choice, Drop, Edit, Item, Path, Scene, dotted, read
from sv_env_config_verification.synth.names import Names

_POD: tuple[tuple[str, Path, Any, str, str], ...] = (
    (
        "host-network",
        ("spec", "hostNetwork"),
        True,
        "{name} programs the node's routes and has to share the node's network.",
        "{name} has no business in the node's network.",
    ),
    (
        "host-pid",
        ("spec", "hostPID"),
        True,
        "{name} profiles the node's processes, so it has to see them.",
        "{name} must not see processes other than its own.",
    ),
    (
        "unsafe-sysctl",
        ("spec", "securityContext", "sysctls"),
        [{"name": "net.core.somaxconn", "value": "4096"}],
        "{name} needs the longer accept queue; the kubelets allow net.core.somaxconn.",
        "{name} runs with the kernel settings of the node as they are.",
    ),
)
_CONTAINER: tuple[tuple[str, Path, Any, str, str], ...] = (
    (
        "dangerous-capability",
        ("securityContext", "capabilities", "add"),
        ["NET_ADMIN"],
        "{name} sets up tunnel interfaces and holds NET_ADMIN for it.",
        "{name} needs no Linux capability at all.",
    ),
    (
        "writable-root-filesystem",
        ("securityContext", "readOnlyRootFilesystem"),
        False,
        "{name} is an old program that writes beside its binaries; its file system stays writable.",
        "{name} writes to its scratch volume only; its file system is immutable.",
    ),
    (
        "root-user",
        ("securityContext", "runAsUser"),
        0,
        "{name} has to start as user 0 to read the node's certificates; the exception is accepted.",
        "{name} has no reason to be root.",
    ),
    (
        "no-memory-limit",
        ("resources", "limits"),
        DROP,
        "{name} has its node pool to itself and runs without a memory limit on purpose.",
        "{name} shares its nodes with others, so its memory is bounded.",
    ),
)


def kubernetes_choices(scene: Scene, names: Names) -> Iterator[Choice]:
    """The choices that a scene offers."""
    # The restricted standard would turn away pods that such a choice loosens.
    is_restricted = any(item.body["kind"] == "Namespace" for item in scene.items)
    for item in scene.items:
        kind = item.body["kind"]
        if kind == "Service":
            yield from _service(item, exposure_claims(scene, item))
        elif kind in POD_PATHS:
            if is_restricted:
                continue
            yield from _pod_choices(item, POD_PATHS[kind])
            if kind == "DaemonSet":
                yield _node_folder(item, POD_PATHS[kind], names)
            if not leading_services(scene, item):
                yield _privileged(item, POD_PATHS[kind])
        elif kind in _BY_KIND:
            yield from _BY_KIND[kind](item, names)


def _choice(weakness: str, item: Item, path: Path, value: Any, right: str, wrong: str) -> Choice:
    where = dotted(item.body, path)
    keep: Predicate = (
        FieldAbsent(object=item.id, path=where)
        if isinstance(value, Drop)
        else FieldEquals(object=item.id, path=where, value=value)
    )
    pairs = frozenset({(weakness, item.id)})
    claims = claim(weakness, item.id) if item.body["kind"] in POD_PATHS else frozenset()
    return Choice(weakness, (Edit(item.id, path, value),), pairs, right, wrong, (keep,), claims)


def _pod_choices(item: Item, pod: Path) -> Iterator[Choice]:
    for weakness, path, value, right, wrong in _POD:
        yield _choice(
            weakness, item, (*pod, *path), value, right.format(name=item.group), wrong.format(name=item.group)
        )
    containers = read(item.body, (*pod, "spec", "containers"))
    for weakness, path, value, right, wrong in _CONTAINER:
        # One sentence is about the whole workload, so it must be about its only container.
        if len(containers) == 1:
            place = (*pod, "spec", "containers", 0, *path)
            yield _choice(
                weakness, item, place, value, right.format(name=item.group), wrong.format(name=item.group)
            )


def _node_folder(item: Item, pod: Path, names: Names) -> Choice:
    """A folder of the node, as log collectors and network plug-ins mount it."""
    folder = names.pick(("/var/log", "/etc/cni/net.d", "/var/lib/kubelet/device-plugins"))
    number = len(read(item.body, (*pod, "spec", "volumes")))
    mounts = len(read(item.body, (*pod, "spec", "containers", 0, "volumeMounts")))
    edits = (
        Edit(item.id, (*pod, "spec", "volumes", number), {"name": "node", "hostPath": {"path": folder}}),
        Edit(
            item.id,
            (*pod, "spec", "containers", 0, "volumeMounts", mounts),
            {"name": "node", "mountPath": "/node", "readOnly": True},
        ),
    )
    place = ".".join(str(step) for step in pod)
    keep = FieldEquals(object=item.id, path=f"{place}.spec.volumes[name=node].hostPath.path", value=folder)
    right = f"{item.group} reads {folder} of every node; that is what it is for."
    wrong = f"{item.group} works without any folder of the node."
    return Choice("host-path-mount", edits, frozenset({("host-path-mount", item.id)}), right, wrong, (keep,))


def _privileged(item: Item, pod: Path) -> Choice:
    """Privileged mode, and with it escalation, which the API server demands."""
    place = (*pod, "spec", "containers", 0, "securityContext")
    edits = (
        Edit(item.id, (*place, "privileged"), True),
        Edit(item.id, (*place, "allowPrivilegeEscalation"), DROP),
    )
    keep = FieldEquals(object=item.id, path=dotted(item.body, (*place, "privileged")), value=True)
    pairs = frozenset({("privileged-container", item.id), ("privilege-escalation", item.id)})
    right = f"{item.group} loads kernel modules; it is the one program that runs privileged."
    wrong = f"{item.group} is an ordinary program and must not run privileged."
    return Choice("privileged-container", edits, pairs, right, wrong, (keep,))


def _service(item: Item, claims: frozenset[tuple[str, Path]]) -> Iterator[Choice]:
    name = item.id.split("/")[2]
    right = f"An appliance outside the cluster balances over the nodes, so {name} opens a node port."
    wrong = f"{name} is called from inside the cluster only."
    yield replace(_choice("exposed-service", item, ("spec", "type"), "NodePort", right, wrong), claims=claims)
    right = f"{name} is public: the cloud's load balancer gives it to everyone."
    yield replace(
        _choice("exposed-service", item, ("spec", "type"), "LoadBalancer", right, wrong), claims=claims
    )


def _ingress(item: Item, names: Names) -> Iterator[Choice]:
    host = read(item.body, ("spec", "rules", 0, "host"))
    key = "nginx.ingress.kubernetes.io/ssl-redirect"
    right = f"Old meters call {host} by plain HTTP; it answers without a redirect."
    wrong = f"Whoever comes to {host} by plain HTTP is sent to HTTPS."
    yield _choice("ingress-without-tls", item, ("metadata", "annotations", key), "false", right, wrong)


def _policy(item: Item, names: Names) -> Iterator[Choice]:
    egress = read(item.body, ("spec", "egress"))
    right = f"{item.group} fetches pages from all over the web, so it may connect to anywhere."
    wrong = f"{item.group} talks to its database and to name resolution, nothing else."
    yield _choice(
        "allow-all-egress",
        item,
        ("spec", "egress", len(egress)),
        {"to": [{"ipBlock": {"cidr": "0.0.0.0/0"}}]},
        right,
        wrong,
    )
    if read(item.body, ("spec", "ingress")):
        port = read(item.body, ("spec", "ingress", 0, "ports", 0, "port"))
        right = f"Port {port} of {item.group} is open to the pods of every namespace."
        source = read(
            item.body,
            (
                "spec",
                "ingress",
                0,
                "from",
                0,
                "namespaceSelector",
                "matchLabels",
                "kubernetes.io/metadata.name",
            ),
        )
        wrong = f"{item.group} answers the namespace {source} and no other."
        path = ("spec", "ingress", 0, "from")
        yield _choice("allow-all-ingress", item, path, [{"namespaceSelector": {}}], right, wrong)


def _role(item: Item, names: Names) -> Iterator[Choice]:
    name = item.id.split("/")[2]
    rules = read(item.body, ("rules",))
    rule = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list", "watch"]}
    binding = item.id.replace("Role/", "RoleBinding/", 1)
    pairs = frozenset({("rbac-secret-access", item.id), ("rbac-secret-access-granted", binding)})
    right = f"Whoever holds {name} renews certificates and reads the Secrets of the namespace."
    wrong = f"Nobody who holds {name} has to see a Secret."
    keep = tuple(Allows(role=item.id, verb=verb, resource="secrets", group="") for verb in rule["verbs"])
    edit, claims = (
        Edit(item.id, ("rules", len(rules)), rule),
        frozenset[tuple[str, Path]]({(binding, ("roleRef",))}),
    )
    yield Choice("rbac-secret-access", (edit,), pairs, right, wrong, keep, claims)


_BY_KIND = {"Ingress": _ingress, "NetworkPolicy": _policy, "Role": _role}
