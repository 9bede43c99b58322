"""Flaws in Terraform blocks that at least one tool reports."""

from collections.abc import Iterator
from typing import Any

from sv_env_config_verification.synth.model import DROP, Edit, Flaw, Item, Path, Scene, read
from sv_env_config_verification.synth.names import Names

_FLAGS = ("block_public_acls", "block_public_policy", "ignore_public_acls", "restrict_public_buckets")
_RULE: Path = ("rule", 0, "apply_server_side_encryption_by_default", 0)
_ADDRESS: Path = ("settings", 0, "ip_configuration", 0)
_OPEN = "0.0.0.0/0"

_SETTINGS: dict[str, tuple[tuple[str, Path, tuple[Any, ...]], ...]] = {
    "aws_s3_bucket": (("public-bucket", ("acl",), ("public-read", "public-read-write")),),
    "aws_s3_bucket_public_access_block": tuple(
        ("no-public-access-block", (flag,), (False, DROP)) for flag in _FLAGS
    ),
    "aws_s3_bucket_versioning": (
        ("no-object-versioning", ("versioning_configuration", 0, "status"), ("Suspended",)),
    ),
    "aws_kms_key": (("no-key-rotation", ("enable_key_rotation",), (False, DROP)),),
    "aws_db_instance": (
        ("unencrypted-storage", ("storage_encrypted",), (False, DROP)),
        ("public-database", ("publicly_accessible",), (True,)),
    ),
    "aws_redshift_cluster": (
        ("unencrypted-storage", ("encrypted",), (False,)),
        ("public-database", ("publicly_accessible",), (True,)),
    ),
    "aws_elasticache_replication_group": (
        ("unencrypted-storage", ("at_rest_encryption_enabled",), (False,)),
    ),
    "aws_ebs_volume": (("unencrypted-storage", ("encrypted",), (False, DROP)),),
    "aws_efs_file_system": (("unencrypted-storage", ("encrypted",), (False, DROP)),),
    "aws_instance": (
        ("instance-metadata-v1", ("metadata_options", 0, "http_tokens"), ("optional", DROP)),
        ("unencrypted-storage", ("root_block_device", 0, "encrypted"), (False, DROP)),
    ),
    "aws_eks_cluster": (
        ("public-cluster-endpoint", ("vpc_config", 0, "public_access_cidrs"), ([_OPEN], DROP)),
    ),
    "aws_cloudtrail": (
        ("audit-trail-incomplete", ("is_multi_region_trail",), (False, DROP)),
        ("audit-trail-incomplete", ("enable_logging",), (False,)),
        ("audit-trail-unprotected", ("enable_log_file_validation",), (False, DROP)),
    ),
    "google_storage_bucket": (("mixed-bucket-acl", ("uniform_bucket_level_access",), (False, DROP)),),
    "google_storage_bucket_iam_member": (
        ("public-bucket", ("member",), ("allUsers", "allAuthenticatedUsers")),
    ),
    "google_kms_crypto_key": (("no-key-rotation", ("rotation_period",), ("31536000s", "15552000s", DROP)),),
    "google_container_cluster": (
        ("weak-cluster-authorization", ("enable_legacy_abac",), (True,)),
        (
            "password-login",
            ("master_auth", 0, "client_certificate_config", 0, "issue_client_certificate"),
            (True,),
        ),
        (
            "public-cluster-endpoint",
            ("master_authorized_networks_config", 0, "cidr_blocks", 0, "cidr_block"),
            (_OPEN,),
        ),
    ),
    "google_sql_database_instance": (
        ("public-database", (*_ADDRESS, "authorized_networks", 0, "value"), (_OPEN,)),
        ("cleartext-transport", (*_ADDRESS, "ssl_mode"), ("ALLOW_UNENCRYPTED_AND_ENCRYPTED",)),
    ),
    "google_project_iam_member": (("basic-role", ("role",), ("roles/editor", "roles/owner")),),
    "azurerm_storage_account": (
        ("cleartext-transport", ("https_traffic_only_enabled",), (False,)),
        ("old-tls", ("min_tls_version",), ("TLS1_0", "TLS1_1")),
        ("no-public-access-block", ("allow_nested_items_to_be_public",), (True, DROP)),
        ("open-storage-network", ("network_rules", 0, "default_action"), ("Allow",)),
    ),
    "azurerm_storage_container": (("public-bucket", ("container_access_type",), ("blob", "container")),),
    "azurerm_mssql_server": (
        ("old-tls", ("minimum_tls_version",), ("1.0", "1.1")),
        ("hard-coded-credential", ("administrator_login_password",), ("Orchard-Gate-7431",)),
    ),
    "azurerm_key_vault": (("no-purge-protection", ("purge_protection_enabled",), (False, DROP)),),
    "azurerm_linux_virtual_machine": (("password-login", ("disable_password_authentication",), (False,)),),
    "azurerm_linux_web_app": (("cleartext-transport", ("https_only",), (False, DROP)),),
}


def terraform_flaws(scene: Scene, names: Names) -> Iterator[Flaw]:
    """All the ways to break a scene in sight of a tool, with drawn values; in the order of its blocks."""
    for item in scene.items:
        kind = block_type(item)
        for weakness, path, values in _SETTINGS.get(kind, ()):
            yield flaw(weakness, item, path, names.pick(values))
        if kind in _BY_TYPE:
            yield from _BY_TYPE[kind](item, names)


def block_type(item: Item) -> str:
    """The type of a resource or data source; another block's keyword."""
    return item.labels[1] if item.labels[0] in ("resource", "data") else item.labels[0]


def flaw(weakness: str, item: Item, path: Path, value: Any) -> Flaw:
    """One value at one place."""
    return Flaw((weakness, item.id), (Edit(item.id, path, value),))


def _group(item: Item, names: Names) -> Iterator[Flaw]:
    """The internet is let in to a port that is not for it."""
    rule = read(item.body, ("ingress", 0))
    weakness = {22: "open-admin-port", 3306: "open-database-port", 5432: "open-database-port"}.get(
        rule["from_port"]
    )
    if weakness:
        yield flaw(
            weakness, item, ("ingress", 0, "cidr_blocks"), names.pick(([_OPEN], [_OPEN, names.cidr()]))
        )
    else:
        more = {"description": "maintenance", "protocol": "tcp", "cidr_blocks": [_OPEN]}
        admin = names.pick((22, 3389))
        yield flaw("open-admin-port", item, ("ingress", 1), more | {"from_port": admin, "to_port": admin})
        store = names.pick((5432, 6379, 9200, 27017))
        yield flaw("open-database-port", item, ("ingress", 1), more | {"from_port": store, "to_port": store})


def _document(item: Item, names: Names) -> Iterator[Flaw]:
    principals = read(item.body, ("statement", 0, "principals"))
    if principals and principals[0]["type"] == "AWS":
        yield flaw("open-resource-policy", item, ("statement", 0, "principals", 0, "identifiers"), ["*"])
    elif not principals:
        service = names.pick(("s3", "dynamodb", "ec2", "lambda", "secretsmanager"))
        everything = {"sid": "More", "effect": "Allow", "actions": [f"{service}:*"], "resources": ["*"]}
        yield flaw("iam-service-wildcard", item, ("statement", 1), everything)
        yield flaw("iam-admin-policy", item, ("statement", 1), everything | {"actions": ["*"]})


def _encryption(item: Item, names: Names) -> Iterator[Flaw]:
    edits = (
        Edit(item.id, (*_RULE, "sse_algorithm"), "AES256"),
        Edit(item.id, (*_RULE, "kms_master_key_id"), DROP),
    )
    yield Flaw(("no-customer-managed-key", item.id), edits)


def _listener(item: Item, names: Names) -> Iterator[Flaw]:
    if item.body["port"] == 80:
        yield flaw("cleartext-transport", item, ("default_action", 0, "redirect", 0, "protocol"), "HTTP")


def _database(item: Item, names: Names) -> Iterator[Flaw]:
    word = f"{names.word(5)}-{names.word(8)}"
    edits = (Edit(item.id, ("manage_master_user_password",), DROP), Edit(item.id, ("password",), word))
    yield Flaw(("hard-coded-credential", item.id), edits)


def _server(item: Item, names: Names) -> Iterator[Flaw]:
    script = item.body["user_data"]
    base = f"https://get.{names.word(5)}.example.net"
    yield flaw("unverified-download", item, ("user_data",), f"{script}curl -fsSL {base}/setup.sh | sh\n")
    yield flaw("world-writable-files", item, ("user_data",), f"{script}chmod -R 777 /srv/{names.word(4)}\n")
    yield flaw("tls-verification-off", item, ("user_data",), f"{script}curl -k -o /opt/agent {base}/agent\n")


def _firewall(item: Item, names: Names) -> Iterator[Flaw]:
    if read(item.body, ("allow", 0, "ports")) == ["22"]:
        yield flaw("open-admin-port", item, ("source_ranges",), [_OPEN])
    else:
        port = names.pick(("5432", "3306", "6379", "9000-9300"))
        yield flaw("open-database-port", item, ("allow", 1), {"protocol": "tcp", "ports": [port]})


def _azure_group(item: Item, names: Names) -> Iterator[Flaw]:
    source = names.pick(("*", "Internet", _OPEN))
    yield flaw("open-admin-port", item, ("security_rule", 1, "source_address_prefix"), source)
    port = names.pick(("1433", "5432", "6379"))
    yield flaw("open-database-port", item, ("security_rule", 0, "destination_port_range"), port)


def _azure_sql(item: Item, names: Names) -> Iterator[Flaw]:
    edits = (
        Edit(item.id, ("start_ip_address",), "0.0.0.0"),
        Edit(item.id, ("end_ip_address",), "255.255.255.255"),
    )
    yield Flaw(("public-database", item.id), edits)


_BY_TYPE = {
    "aws_security_group": _group,
    "aws_iam_policy_document": _document,
    "aws_s3_bucket_server_side_encryption_configuration": _encryption,
    "aws_lb_listener": _listener,
    "aws_db_instance": _database,
    "aws_instance": _server,
    "google_compute_firewall": _firewall,
    "azurerm_network_security_group": _azure_group,
    "azurerm_mssql_firewall_rule": _azure_sql,
}
