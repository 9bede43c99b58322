"""Flaws in Kubernetes objects that at least one tool reports."""

from collections.abc import Iterator
from typing import Any

from sv_env_config_verification.synth.model import DROP, Edit, Flaw, Item, Pair, Path, Scene, read
from sv_env_config_verification.synth.names import Names

POD_PATHS: dict[str, Path] = {
    "Deployment": ("spec", "template"),
    "StatefulSet": ("spec", "template"),
    "DaemonSet": ("spec", "template"),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
}
"""Where the pod template lies, by kind."""

_CONTAINER: tuple[tuple[str, Path, tuple[Any, ...]], ...] = (
    ("privilege-escalation", ("securityContext", "allowPrivilegeEscalation"), (True, DROP)),
    ("root-user", ("securityContext", "runAsUser"), (0,)),
    (
        "dangerous-capability",
        ("securityContext", "capabilities", "add"),
        (["SYS_MODULE"], ["NET_ADMIN"], ["SYS_PTRACE"]),
    ),
    ("capabilities-not-dropped", ("securityContext", "capabilities", "drop"), (["MKNOD"], DROP)),
    ("writable-root-filesystem", ("securityContext", "readOnlyRootFilesystem"), (False, DROP)),
    ("unmasked-proc-mount", ("securityContext", "procMount"), ("Unmasked",)),
    ("seccomp-unconfined", ("securityContext", "seccompProfile"), ({"type": "Unconfined"},)),
    ("no-memory-limit", ("resources", "limits"), (DROP,)),
    ("no-cpu-request", ("resources", "requests", "cpu"), (DROP,)),
)
_POD: tuple[tuple[str, Path, tuple[Any, ...]], ...] = (
    ("host-network", ("spec", "hostNetwork"), (True,)),
    ("host-pid", ("spec", "hostPID"), (True,)),
    ("host-ipc", ("spec", "hostIPC"), (True,)),
    ("seccomp-unset", ("spec", "securityContext", "seccompProfile"), (DROP,)),
    ("service-account-token", ("spec", "automountServiceAccountToken"), (True,)),
    (
        "unsafe-sysctl",
        ("spec", "securityContext", "sysctls"),
        ([{"name": "kernel.msgmax", "value": "65536"}],),
    ),
)
_RULES: tuple[tuple[str, dict[str, list[str]], str | None], ...] = (
    ("rbac-wildcard", {"apiGroups": ["example.com"], "resources": ["widgets"], "verbs": ["*"]}, None),
    (
        "rbac-secret-access",
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list"]},
        "rbac-secret-access-granted",
    ),
    ("rbac-pod-exec", {"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["create"]}, None),
    (
        "rbac-escalation",
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"], "verbs": ["bind", "get"]},
        None,
    ),
    (
        "rbac-impersonate",
        {"apiGroups": [""], "resources": ["serviceaccounts"], "verbs": ["impersonate"]},
        None,
    ),
    (
        "rbac-token-request",
        {"apiGroups": [""], "resources": ["serviceaccounts/token"], "verbs": ["create"]},
        None,
    ),
)


def kubernetes_flaws(scene: Scene, names: Names) -> Iterator[Flaw]:
    """All the ways to break a scene in sight of a tool, with drawn values; in the order of its objects."""
    for item in scene.items:
        kind = item.body["kind"]
        if kind in POD_PATHS:
            yield from _pod_flaws(scene, item, POD_PATHS[kind], names)
        elif kind in _BY_KIND:
            yield from _BY_KIND[kind](scene, item, names)


def pod_name(item: Item) -> str:
    """The label that Services and policies select a workload's pods by."""
    return str(
        read(item.body, (*POD_PATHS[item.body["kind"]], "metadata", "labels", "app.kubernetes.io/name"))
    )


def leading_services(scene: Scene, item: Item) -> list[str]:
    """Identities of the Services that lead to a workload."""
    wanted = {"app.kubernetes.io/name": pod_name(item)}
    return [
        other.id
        for other in scene.items
        if other.body["kind"] == "Service" and read(other.body, ("spec", "selector")) == wanted
    ]


SHARED: dict[str, str] = {
    "host-network": "network",
    "host-port": "network",
    "dangling-network-policy": "network",
    "seccomp-unset": "seccomp",
    "seccomp-unconfined": "seccomp",
    "service-account-token": "exposure",
    "default-service-account": "exposure",
}
"""Weaknesses of a workload of which one can hide or bring another, by what they have in common."""


def claim(weakness: str, workload: str) -> frozenset[tuple[str, Path]]:
    """What a weakness of a workload claims, so that nothing else that bears on it happens."""
    return frozenset({(workload, ("shared", SHARED[weakness]))} if weakness in SHARED else ())


def _flaw(weakness: str, item: Item, path: Path, value: Any, also: frozenset[Pair] = frozenset()) -> Flaw:
    return Flaw((weakness, item.id), (Edit(item.id, path, value),), also, claims=claim(weakness, item.id))


def _exposed_token(scene: Scene, item: Item) -> frozenset[Pair]:
    """What a token brings where an Ingress leads to its pods."""
    services = {identity.split("/")[2] for identity in leading_services(scene, item)}
    backend = ("spec", "rules", 0, "http", "paths", 0, "backend", "service", "name")
    led = any(
        other.body["kind"] == "Ingress" and read(other.body, backend) in services for other in scene.items
    )
    return frozenset({("exposed-token", item.id)} if led else ())


def _pod_flaws(scene: Scene, item: Item, pod: Path, names: Names) -> Iterator[Flaw]:
    is_bound = item.id in bound_workloads(scene)
    exposed = _exposed_token(scene, item)
    for weakness, path, values in _POD:
        if not (weakness == "service-account-token" and is_bound):
            also = exposed if weakness == "service-account-token" else frozenset()
            yield _flaw(weakness, item, (*pod, *path), names.pick(values), also)
    yield _volume(item, pod, "host-path-mount", names.pick(("/etc", "/var/log", "/home", "/usr/lib")), names)
    yield _volume(
        item,
        pod,
        "container-runtime-socket",
        names.pick(("/var/run/docker.sock", "/run/containerd/containerd.sock")),
        names,
    )
    yield _default_account(item, pod, exposed)
    containers = read(item.body, (*pod, "spec", "containers"))
    number = names.rng.randrange(len(containers))
    place = (*pod, "spec", "containers", number)
    behind = frozenset(("service-to-privileged-pod", service) for service in leading_services(scene, item))
    escalates = Edit(item.id, (*place, "securityContext", "allowPrivilegeEscalation"), DROP)
    privileged = Edit(item.id, (*place, "securityContext", "privileged"), True)
    # The API server refuses a privileged container that forbids escalation.
    yield Flaw(
        ("privileged-container", item.id),
        (privileged, escalates),
        behind | {("privilege-escalation", item.id)},
    )
    for weakness, path, values in _CONTAINER:
        yield _flaw(weakness, item, (*place, *path), names.pick(values))
    yield from _image_flaws(item, place, containers[number]["image"], names)
    yield from _port_flaws(item, place, containers[number])
    yield from _environment_flaws(item, place, containers[number], names)


def _image_flaws(item: Item, place: Path, image: str, names: Names) -> Iterator[Flaw]:
    tagged = image.split("@")[0]
    untagged = tagged.rsplit(":", 1)[0]
    yield _flaw("image-not-pinned", item, (*place, "image"), tagged)
    yield _flaw("image-latest-tag", item, (*place, "image"), names.pick((untagged, f"{untagged}:latest")))


def _port_flaws(item: Item, place: Path, container: dict[str, Any]) -> Iterator[Flaw]:
    if "ports" not in container:
        return
    host = container["ports"][0]["containerPort"]
    yield _flaw("host-port", item, (*place, "ports", 0, "hostPort"), host)
    yield _flaw(
        "ssh-in-container",
        item,
        (*place, "ports", 1),
        {"name": "maint", "containerPort": 22},
        frozenset({("privileged-port", item.id)}),
    )


def _environment_flaws(item: Item, place: Path, container: dict[str, Any], names: Names) -> Iterator[Flaw]:
    end = (*place, "env", len(container["env"]))
    key = names.pick(("DB_PASSWORD", "API_SECRET", "SMTP_PASSWORD", "SIGNING_SECRET"))
    yield _flaw("env-secret-literal", item, end, {"name": key, "value": f"{names.word(5)}-{names.word(8)}"})
    login = f"{names.pick(('app', 'svc', 'reader'))}:{names.word(12)}@"
    for number, variable in enumerate(container["env"]):
        path = (*place, "env", number, "value")
        if variable["name"] == "DATABASE_URL":
            yield _flaw("credential-in-url", item, path, variable["value"].replace("://", f"://{login}"))
        elif variable["name"] == "UPSTREAM_URL":
            yield _flaw("plain-http-endpoint", item, path, variable["value"].replace("https:", "http:"))
        elif variable["name"] == "NODE_TLS_REJECT_UNAUTHORIZED":
            yield _flaw("tls-verification-off", item, path, "0")


def bound_workloads(scene: Scene) -> frozenset[str]:
    """Identities of the workloads to whose account a binding gives rights."""
    accounts = {subject["name"] for other in scene.items for subject in other.body.get("subjects", ())}
    workloads = [item for item in scene.items if item.body["kind"] in POD_PATHS]
    return frozenset(item.id for item in workloads if pod_name(item) in accounts)


def exposure_claims(scene: Scene, service: Item) -> frozenset[tuple[str, Path]]:
    """What a Service that is opened to the outside claims of the workloads behind it."""
    workloads = [item for item in scene.items if item.body["kind"] in POD_PATHS]
    behind = [item for item in workloads if service.id in leading_services(scene, item)]
    return frozenset(place for item in behind for place in claim("service-account-token", item.id))


def _volume(item: Item, pod: Path, weakness: str, path: str, names: Names) -> Flaw:
    label = f"host-{names.word(3)}"
    volumes = read(item.body, (*pod, "spec", "volumes"))
    mounts = read(item.body, (*pod, "spec", "containers", 0, "volumeMounts"))
    edits = (
        Edit(item.id, (*pod, "spec", "volumes", len(volumes)), {"name": label, "hostPath": {"path": path}}),
        Edit(
            item.id,
            (*pod, "spec", "containers", 0, "volumeMounts", len(mounts)),
            {"name": label, "mountPath": f"/host{path}", "readOnly": True},
        ),
    )
    return Flaw((weakness, item.id), edits)


def _default_account(item: Item, pod: Path, exposed: frozenset[Pair]) -> Flaw:
    """The token of the account that everything else in the namespace shares."""
    edits = (
        Edit(item.id, (*pod, "spec", "serviceAccountName"), DROP),
        Edit(item.id, (*pod, "spec", "automountServiceAccountToken"), DROP),
    )
    weakness = "default-service-account"
    return Flaw((weakness, item.id), edits, exposed, claims=claim(weakness, item.id))


def _role(scene: Scene, item: Item, names: Names) -> Iterator[Flaw]:
    place = ("rules", len(item.body["rules"]))
    binding = item.id.replace("Role/", "RoleBinding/", 1)
    for weakness, rule, granted in _RULES:
        also = frozenset({(granted, binding)} if granted else ())
        edit = Edit(item.id, place, rule)
        yield Flaw((weakness, item.id), (edit,), also, claims=frozenset({(binding, ("roleRef",))}))


def _binding(scene: Scene, item: Item, names: Names) -> Iterator[Flaw]:
    group = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:authenticated"}
    yield _flaw("rbac-anonymous-subject", item, ("subjects", 1), group)
    default = {
        "kind": "ServiceAccount",
        "name": "default",
        "namespace": read(item.body, ("metadata", "namespace")),
    }
    yield _flaw("default-account-binding", item, ("subjects", 1), default)
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    yield _flaw("rbac-cluster-admin", item, ("roleRef",), reference)


def _policy(scene: Scene, item: Item, names: Names) -> Iterator[Flaw]:
    egress = len(read(item.body, ("spec", "egress")))
    anywhere = names.pick(({}, {"to": [{"ipBlock": {"cidr": "0.0.0.0/0"}}]}))
    yield _flaw("allow-all-egress", item, ("spec", "egress", egress), anywhere)
    rules = read(item.body, ("spec", "ingress"))
    if rules:
        everyone = names.pick((DROP, [{"namespaceSelector": {}}]))
        yield _flaw("allow-all-ingress", item, ("spec", "ingress", 0, "from"), everyone)
    label = read(item.body, ("spec", "podSelector", "matchLabels", "app.kubernetes.io/name"))
    followers = [o for o in scene.items if o.body["kind"] in POD_PATHS and pod_name(o) == label]
    alone = frozenset(("no-network-policy", other.id) for other in followers)
    path = ("spec", "podSelector", "matchLabels", "app.kubernetes.io/name")
    weakness, edit = (
        "dangling-network-policy",
        Edit(item.id, path, f"{label}-{names.pick(('old', 'v2', 'web'))}"),
    )
    claims = frozenset(place for other in followers for place in claim(weakness, other.id))
    yield Flaw((weakness, item.id), (edit,), alone, claims=claims)


def _service(scene: Scene, item: Item, names: Names) -> Iterator[Flaw]:
    yield _flaw("external-ips", item, ("spec", "externalIPs"), [names.public_cidr().replace("/28", "")])


def _ingress(scene: Scene, item: Item, names: Names) -> Iterator[Flaw]:
    notes = ("metadata", "annotations")
    snippet = 'more_set_headers "X-Frame-Options: DENY";'
    yield _flaw(
        "ingress-snippet", item, (*notes, "nginx.ingress.kubernetes.io/configuration-snippet"), snippet
    )
    other = f"old-{read(item.body, ('spec', 'rules', 0, 'host'))}"
    yield _flaw("ingress-without-tls", item, ("spec", "tls", 0, "hosts", 0), other)


def _settings(scene: Scene, item: Item, names: Names) -> Iterator[Flaw]:
    yield _flaw("configmap-credentials", item, ("data", "smtp.password"), f"{names.word(5)}-{names.word(8)}")


def _namespace(scene: Scene, item: Item, names: Names) -> Iterator[Flaw]:
    path = ("metadata", "labels", "pod-security.kubernetes.io/enforce")
    yield _flaw("namespace-without-pod-security", item, path, names.pick(("privileged", DROP)))


_BY_KIND = {
    "Role": _role,
    "RoleBinding": _binding,
    "NetworkPolicy": _policy,
    "Service": _service,
    "Ingress": _ingress,
    "ConfigMap": _settings,
    "Namespace": _namespace,
}
