"""Flaws in Terraform blocks that no tool reports: what the operator said makes them wrong."""

from collections.abc import Iterator
from typing import Any

from sv_env_config_verification.intent import FieldAbsent, FieldEquals, Predicate
from sv_env_config_verification.synth.model import DROP, Blocks, Edit, Flaw, Item, Path, Scene, dotted, read
from sv_env_config_verification.synth.names import Names
from sv_env_config_verification.synth.terraform_flaws import block_type

_QUARTERS = ["0.0.0.0/2", "64.0.0.0/2", "128.0.0.0/2", "192.0.0.0/2"]
"""The whole internet in a form that no rule looks for."""

_ADMIN_PORTS = (2375, 5900, 6443, 10250)
"""Docker, VNC, the Kubernetes API, the kubelet."""
_DATABASE_PORTS = (5984, 7687, 8086, 26257)
"""CouchDB, Neo4j, InfluxDB, CockroachDB."""


def terraform_unseen(scene: Scene, names: Names) -> Iterator[Flaw]:
    """The flaws of this sort that a scene can be given."""
    for item in scene.items:
        if block_type(item) in _BY_TYPE:
            yield from _BY_TYPE[block_type(item)](item, names)


def _changed(
    weakness: str, item: Item, path: Path, value: Any, statement: str, fixed: Predicate | None = None
) -> Flaw:
    """A value that the statement gives and the flaw replaces."""
    where = dotted(item.body, path)
    fix = fixed or FieldEquals(object=item.id, path=where, value=read(item.body, path))
    return Flaw((weakness, item.id), (Edit(item.id, path, value),), frozenset(), True, (fix,), statement)


def _group(item: Item, names: Names) -> Iterator[Flaw]:
    rule = read(item.body, ("ingress", 0))
    port, cidr, name = rule["from_port"], rule["cidr_blocks"][0], item.body["name"]
    if cidr == "0.0.0.0/0":
        statement = f"The world reaches {name} by port {port} and by no other."
        for weakness, ports in (("open-admin-port", _ADMIN_PORTS), ("open-database-port", _DATABASE_PORTS)):
            other = names.pick(ports)
            more = {"description": "more", "protocol": "tcp", "from_port": other, "to_port": other}
            fix = FieldAbsent(object=item.id, path="ingress[1]")
            yield _changed(weakness, item, ("ingress", 1), more | {"cidr_blocks": [cidr]}, statement, fix)
    else:
        weakness = "open-admin-port" if port == 22 else "open-database-port"
        statement = f"{name} lets in callers from {cidr} only."
        yield _changed(weakness, item, ("ingress", 0, "cidr_blocks"), _QUARTERS, statement)


def _document(item: Item, names: Names) -> Iterator[Flaw]:
    statement_path = ("statement", 0)
    body = read(item.body, statement_path)
    name = item.id.rsplit(".", 1)[-1]
    principals = body.get("principals")
    if principals and principals[0]["type"] == "AWS":
        who = principals[0]["identifiers"][0]
        condition = {"test": "StringLike", "variable": "aws:PrincipalArn", "values": ["arn:aws:iam::*"]}
        wide = body | {
            "principals": Blocks([{"type": "AWS", "identifiers": ["*"]}]),
            "condition": Blocks([condition]),
        }
        path = dotted(item.body, ("statement", 0, "principals", 0, "identifiers"))
        fix = FieldEquals(object=item.id, path=path, value=[who])
        statement = f"{who} reads the bucket; no other principal does."
        yield _changed("open-resource-policy", item, statement_path, wide, statement, fix)
    elif not principals:
        resources = body["resources"]
        service = resources[0].split(":")[2]
        statement = f"{name} gives {', '.join(body['actions'])} on {resources[0]} and nothing more."
        every = f"arn:aws:{service}:*:*:*" if service != "s3" else "arn:aws:s3:::*"
        wide = body | {"actions": [f"{service}:*"], "resources": [every]}
        fixes: tuple[Predicate, ...] = tuple(
            FieldEquals(object=item.id, path=f"statement[0].{key}", value=body[key])
            for key in ("actions", "resources")
        )
        edit = Edit(item.id, statement_path, wide)
        yield Flaw(("iam-service-wildcard", item.id), (edit,), frozenset(), True, fixes, statement)
        rest = {key: value for key, value in body.items() if key != "actions"}
        inverse = rest | {"not_actions": ["organizations:*"], "resources": ["*"]}
        edit = Edit(item.id, statement_path, inverse)
        yield Flaw(("iam-admin-policy", item.id), (edit,), frozenset(), True, fixes, statement)


def _listener(item: Item, names: Names) -> Iterator[Flaw]:
    if item.body["port"] == 443:
        good = item.body["ssl_policy"]
        old = names.pick(("ELBSecurityPolicy-2016-08", "ELBSecurityPolicy-TLS-1-0-2015-04"))
        statement = f"All listeners use the policy {good}, without TLS 1.0 and 1.1."
        yield _changed("old-tls", item, ("ssl_policy",), old, statement)


def _cluster(item: Item, names: Names) -> Iterator[Flaw]:
    path = ("vpc_config", 0, "public_access_cidrs")
    statement = f"The API of {item.body['name']} answers {read(item.body, path)[0]} only."
    yield _changed("public-cluster-endpoint", item, path, _QUARTERS, statement)


def _encrypted(key: str, what: str) -> Any:
    """The setting is left out, which means off, where rules look for an explicit `false` only."""

    def flaws(item: Item, names: Names) -> Iterator[Flaw]:
        statement = f"{what} {item.labels[2]} is encrypted at rest, like everything that keeps data."
        yield _changed("unencrypted-storage", item, (key,), DROP, statement)

    return flaws


def _role(item: Item, names: Names) -> Iterator[Flaw]:
    statement = f"{item.body['member']} gets {item.body['role']} and no basic role."
    yield _changed("basic-role", item, ("role",), "roles/viewer", statement)


def _firewall(item: Item, names: Names) -> Iterator[Flaw]:
    sources = item.body["source_ranges"]
    name = item.body["name"]
    if sources == ["0.0.0.0/0"]:
        statement = f"The rule {name} opens port 443 to the world, and only that."
        path = ("allow", 0, "ports")
        yield _changed("open-admin-port", item, path, ["443", str(names.pick(_ADMIN_PORTS))], statement)
        yield _changed("open-database-port", item, path, ["443", str(names.pick(_DATABASE_PORTS))], statement)
    else:
        statement = f"SSH is open to {sources[0]} only."
        yield _changed("open-admin-port", item, ("source_ranges",), _QUARTERS, statement)


def _sql_address(item: Item, names: Names) -> Iterator[Flaw]:
    path = ("start_ip_address",)
    statement = f"The database's firewall lets {item.body['start_ip_address']} in, one address."
    edits = (Edit(item.id, path, "1.0.0.0"), Edit(item.id, ("end_ip_address",), "255.255.255.254"))
    fixes: tuple[Predicate, ...] = tuple(
        FieldEquals(object=item.id, path=key, value=item.body[key])
        for key in ("start_ip_address", "end_ip_address")
    )
    yield Flaw(("public-database", item.id), edits, frozenset(), True, fixes, statement)


def _azure_group(item: Item, names: Names) -> Iterator[Flaw]:
    statement = "From the internet, port 443 is reachable and no other."
    path = ("security_rule", 0, "destination_port_range")
    yield _changed("open-admin-port", item, path, str(names.pick(_ADMIN_PORTS)), statement)
    yield _changed("open-database-port", item, path, str(names.pick(_DATABASE_PORTS)), statement)


def _web_app(item: Item, names: Names) -> Iterator[Flaw]:
    statement = f"{item.body['name']} speaks TLS 1.2 and newer."
    path = ("site_config", 0, "minimum_tls_version")
    yield _changed("old-tls", item, path, names.pick(("1.0", "1.1")), statement)


_BY_TYPE = {
    "aws_security_group": _group,
    "aws_iam_policy_document": _document,
    "aws_lb_listener": _listener,
    "aws_eks_cluster": _cluster,
    "aws_redshift_cluster": _encrypted("encrypted", "The warehouse"),
    "aws_elasticache_replication_group": _encrypted("at_rest_encryption_enabled", "The cache"),
    "google_project_iam_member": _role,
    "google_compute_firewall": _firewall,
    "azurerm_mssql_firewall_rule": _sql_address,
    "azurerm_network_security_group": _azure_group,
    "azurerm_linux_web_app": _web_app,
}
