"""Secure Kubernetes templates: what a careful team writes, in the sizes in which it writes it."""

from typing import Any

from sv_env_config_verification.intent import ImageIs, ObjectExists, PortOpen, Predicate, Selects
from sv_env_config_verification.shapes import identity
from sv_env_config_verification.synth.model import Item, Scene
from sv_env_config_verification.synth.names import Names

FAMILIES = ("web", "stateful", "batch", "agent", "controller", "access", "edge")

_API = {
    "Deployment": "apps/v1",
    "StatefulSet": "apps/v1",
    "DaemonSet": "apps/v1",
    "CronJob": "batch/v1",
    "NetworkPolicy": "networking.k8s.io/v1",
    "Ingress": "networking.k8s.io/v1",
    "Role": "rbac.authorization.k8s.io/v1",
    "RoleBinding": "rbac.authorization.k8s.io/v1",
    "PodDisruptionBudget": "policy/v1",
}
_SYSTEM = "app.kubernetes.io/name"
_PROGRAMS = ("server", "worker", "api", "app", "main")
_SIDECARS = ("log-shipper", "proxy", "metrics-exporter", "config-reloader", "cache-warmer")
_SETTINGS = (
    ("LOG_LEVEL", ("info", "warn", "error")),
    ("WORKERS", ("2", "4", "8")),
    ("TIMEOUT_SECONDS", ("5", "15", "30")),
    ("REGION", ("eu-west", "us-east", "ap-south")),
    ("CACHE_SIZE_MB", ("64", "128", "256")),
    ("FEATURE_EXPORTS", ("enabled", "disabled")),
    ("QUEUE_NAME", ("high", "bulk", "default-queue")),
)


class Builder:
    """Collects the objects of one namespace."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.items: list[Item] = []
        self.intent: list[Predicate] = []
        self.facts: list[str] = []

    def add(self, kind: str, name: str, group: str, **body: Any) -> str:
        """Adds an object and gives its identity."""
        metadata: dict[str, Any] = {"name": name}
        if kind != "Namespace":
            metadata["namespace"] = self.names.namespace
        metadata["labels"] = {_SYSTEM: group, "team": self.names.team} | body.pop("labels", {})
        if annotations := body.pop("annotations", {}):
            metadata["annotations"] = annotations
        manifest = {"apiVersion": _API.get(kind, "v1"), "kind": kind, "metadata": metadata, **body}
        self.items.append(Item(identity(manifest), manifest, group=group))
        return self.items[-1].id

    def namespace(self) -> None:
        """The namespace itself, under the restricted Pod Security Standard."""
        label = {"pod-security.kubernetes.io/enforce": "restricted"}
        self.add("Namespace", self.names.namespace, self.names.system, labels=label)

    def account(self, name: str) -> None:
        """A service account of its own, its token kept back."""
        self.add("ServiceAccount", name, name, automountServiceAccountToken=False)

    def container(self, name: str, port: int | None) -> dict[str, Any]:
        """A container that the restricted standard accepts."""
        names = self.names
        megabytes = names.pick((64, 96, 128, 192, 256, 384, 512))
        made: dict[str, Any] = {
            "name": name,
            "image": names.image(name),
            "env": self.environment(),
            "resources": {
                "requests": {"cpu": f"{names.pick((25, 50, 100, 200, 250))}m", "memory": f"{megabytes}Mi"},
                "limits": {"memory": f"{megabytes * 2}Mi"},
            },
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "runAsNonRoot": True,
                "runAsUser": names.rng.randint(1000, 60000),
                "capabilities": {"drop": ["ALL"]},
            },
            "volumeMounts": [{"name": "scratch", "mountPath": "/tmp"}],
        }
        if names.some(0.5):
            made["args"] = [
                f"--config=/etc/{name}/config.yaml",
                f"--shutdown-after={names.rng.randint(5, 60)}s",
            ]
        if port is not None:
            made["ports"] = [{"name": "http", "containerPort": port}]
            probe = {"httpGet": {"path": names.pick(("/healthz", "/ready", "/live")), "port": "http"}}
            made["readinessProbe"] = probe | {"periodSeconds": names.rng.randint(5, 30)}
        return made

    def environment(self) -> list[dict[str, str]]:
        """Variables, some of them addresses."""
        names = self.names
        urls = (
            ("UPSTREAM_URL", (f"https://{names.host('upstream')}/v{names.rng.randint(1, 3)}",)),
            ("DATABASE_URL", (f"postgresql://db.{names.host(names.word(4))}:5432/main",)),
            ("NODE_TLS_REJECT_UNAUTHORIZED", ("1",)),
        )
        chosen = names.rng.sample((*_SETTINGS, *urls), names.rng.randint(1, 5))
        return [{"name": key, "value": names.pick(values)} for key, values in chosen]

    def pod(self, name: str, port: int | None) -> dict[str, Any]:
        """A pod template."""
        containers = [self.container(self.names.pick(_PROGRAMS), port)]
        if self.names.some(0.3):
            containers.append(self.container(self.names.pick(_SIDECARS), None))
        spec = {
            "serviceAccountName": name,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsGroup": self.names.rng.randint(1000, 60000),
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": containers,
            "volumes": [
                {"name": "scratch", "emptyDir": {"sizeLimit": f"{self.names.pick((64, 128, 256))}Mi"}}
            ],
        }
        return {"metadata": {"labels": {_SYSTEM: name, "team": self.names.team}}, "spec": spec}

    def workload(self, kind: str, name: str, port: int | None, has_token: bool = False, **spec: Any) -> str:
        """A workload; its image is part of the intent."""
        template = self.pod(name, port)
        template["spec"]["automountServiceAccountToken"] = has_token
        if kind == "CronJob":
            job = {"backoffLimit": self.names.rng.randint(1, 6), "template": template}
            template["spec"]["restartPolicy"] = "OnFailure"
            made = self.add(kind, name, name, spec={"jobTemplate": {"spec": job}, **spec})
        else:
            selector = {"matchLabels": {_SYSTEM: name}}
            made = self.add(kind, name, name, spec={"selector": selector, "template": template, **spec})
        main = template["spec"]["containers"][0]
        self.intent.append(ImageIs(object=made, container=main["name"], image=main["image"]))
        return made

    def service(self, name: str, port: int, workload: str, **spec: Any) -> None:
        """A Service inside the cluster that leads to the workload."""
        outer = self.names.pick((80, 443, 8080, port))
        ports = [{"name": "http", "port": outer, "targetPort": "http", "protocol": "TCP"}]
        made = self.add("Service", name, name, spec={"selector": {_SYSTEM: name}, "ports": ports, **spec})
        self.intent += [Selects(service=made, workload=workload), PortOpen(object=made, port=outer)]

    def policy(self, name: str, port: int | None) -> None:
        """A NetworkPolicy: in from one namespace and to one port, out to name resolution and one network."""
        ingress = []
        if port is not None:
            caller = f"{self.names.pick(('gateway', 'ingress', 'mesh'))}-{self.names.word(4)}"
            source = {
                "matchLabels": {
                    "kubernetes.io/metadata.name": caller,
                }
            }
            ingress = [
                {"from": [{"namespaceSelector": source}], "ports": [{"port": port, "protocol": "TCP"}]}
            ]
        resolver = {
            "ports": [{"port": 53, "protocol": "UDP"}],
            "to": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}}],
        }
        backend = {
            "ports": [{"port": 5432, "protocol": "TCP"}],
            "to": [{"ipBlock": {"cidr": self.names.cidr()}}],
        }
        spec = {
            "podSelector": {"matchLabels": {_SYSTEM: name}},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": ingress,
            "egress": [resolver, backend],
        }
        made = self.add("NetworkPolicy", name, name, spec=spec)
        if port is not None:
            self.intent.append(PortOpen(object=made, port=port))

    def ingress(self, name: str, service: str, port: int) -> None:
        """An Ingress that serves one host by TLS."""
        host = self.names.host(name)
        backend = {"service": {"name": service, "port": {"number": port}}}
        spec = {
            "ingressClassName": self.names.pick(("nginx", "internal", "public")),
            "tls": [{"hosts": [host], "secretName": f"{name}-tls"}],
            "rules": [
                {"host": host, "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": backend}]}}
            ],
        }
        window = str(self.names.rng.randint(1, 64))
        made = self.add(
            "Ingress",
            name,
            name,
            spec=spec,
            annotations={"nginx.ingress.kubernetes.io/proxy-body-size": f"{window}m"},
        )
        self.intent.append(ObjectExists(object=made))

    def role(self, name: str, account: str) -> None:
        """A Role that reads what a program needs, bound to its account."""
        resources = self.names.rng.sample(("configmaps", "endpoints", "services", "pods", "events"), 2)
        rules = [{"apiGroups": [""], "resources": sorted(resources), "verbs": ["get", "list", "watch"]}]
        if self.names.some(0.5):
            rules.append(
                {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "update"]}
            )
        self.add("Role", name, account, rules=rules)
        subject = {"kind": "ServiceAccount", "name": account, "namespace": self.names.namespace}
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
        made = self.add("RoleBinding", name, account, roleRef=reference, subjects=[subject])
        self.intent.append(ObjectExists(object=made))

    def settings(self, name: str) -> None:
        """A ConfigMap without credentials."""
        data = {
            key.lower().replace("_", "."): self.names.pick(values)
            for key, values in self.names.rng.sample(_SETTINGS, 4)
        }
        self.add("ConfigMap", f"{name}-settings", name, data=data)


def _web(b: Builder) -> None:
    name, port = b.names.service(), b.names.port()
    b.account(name)
    made = b.workload("Deployment", name, port, replicas=b.names.rng.randint(2, 6))
    b.service(name, port, made)
    b.policy(name, port)
    if b.names.some(0.6):
        b.ingress(name, name, 80)
    if b.names.some(0.4):
        b.settings(name)
    b.facts.append(f"{name} is the web front of {b.names.system}.")


def _stateful(b: Builder) -> None:
    name, port = b.names.service(), b.names.port()
    b.account(name)
    claim = {
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": f"{b.names.rng.randint(1, 50)}Gi"}},
        },
    }
    made = b.workload(
        "StatefulSet",
        name,
        port,
        serviceName=name,
        replicas=b.names.rng.randint(1, 5),
        volumeClaimTemplates=[claim],
    )
    b.service(name, port, made)
    b.policy(name, port)
    b.facts.append(f"{name} keeps the data of {b.names.system} on claimed volumes.")


def _batch(b: Builder) -> None:
    name = b.names.service()
    b.account(name)
    schedule = f"{b.names.rng.randint(0, 59)} {b.names.rng.randint(0, 23)} * * *"
    b.workload("CronJob", name, None, schedule=schedule, concurrencyPolicy="Forbid")
    b.policy(name, None)
    b.facts.append(f"{name} runs once a day.")


def _agent(b: Builder) -> None:
    name, port = b.names.service(), b.names.port()
    b.account(name)
    b.workload("DaemonSet", name, port, updateStrategy={"type": "RollingUpdate"})
    b.policy(name, port)
    if b.names.some(0.5):
        b.settings(name)
    b.facts.append(f"{name} runs on every node.")


def _controller(b: Builder) -> None:
    name, port = b.names.service(), b.names.port()
    b.account(name)
    b.workload("Deployment", name, port, has_token=True, replicas=b.names.rng.randint(1, 2))
    b.role(name, name)
    b.policy(name, port)
    b.facts.append(f"{name} watches the namespace through its own role.")


def _access(b: Builder) -> None:
    for _ in range(b.names.rng.randint(1, 3)):
        name = b.names.service()
        b.account(name)
        b.role(f"{name}-{b.names.pick(('reader', 'operator', 'deployer'))}", name)
    b.facts.append(f"The {b.names.team} team owns the roles of this namespace.")


def _edge(b: Builder) -> None:
    name, port = b.names.service(), b.names.port()
    b.ingress(name, name, 80)
    selector = {_SYSTEM: name}
    b.add(
        "Service",
        name,
        name,
        spec={"selector": selector, "ports": [{"name": "http", "port": 80, "targetPort": port}]},
    )
    b.facts.append(f"The pods behind {name} are deployed from another repository.")


_BUILD = {
    "web": _web,
    "stateful": _stateful,
    "batch": _batch,
    "agent": _agent,
    "controller": _controller,
    "access": _access,
    "edge": _edge,
}


def kubernetes_scene(names: Names, families: tuple[str, ...]) -> Scene:
    """A secure namespace made of templates.

    Args:
        names: draws what it is made of.
        families: from FAMILIES; one may come twice.
    """
    builder = Builder(names)
    if names.some(0.4):
        builder.namespace()
    for family in families:
        _BUILD[family](builder)
    return Scene("kubernetes", families, tuple(builder.items), tuple(builder.intent), tuple(builder.facts))
