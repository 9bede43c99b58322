"""Settings of Terraform blocks that tools report and that the operator decides either way."""

from collections.abc import Iterator
from typing import Any

from sv_env_config_verification.intent import FieldAbsent, FieldEquals, Predicate
from sv_env_config_verification.synth.model import DROP, Choice, Drop, Edit, Item, Path, Scene, dotted, read
from sv_env_config_verification.synth.names import Names
from sv_env_config_verification.synth.terraform_flaws import block_type

_SETTINGS: dict[str, tuple[tuple[str, Path, Any, str, str], ...]] = {
    "aws_s3_bucket_versioning": (
        (
            "no-object-versioning",
            ("versioning_configuration", 0, "status"),
            "Suspended",
            "The bucket {name} holds scratch files; old versions are not kept.",
            "Every file in the bucket {name} can be brought back after it was overwritten.",
        ),
    ),
    "aws_redshift_cluster": (
        (
            "public-database",
            ("publicly_accessible",),
            True,
            "Partners query the warehouse {name} over the internet; its address is public.",
            "The warehouse {name} is reached from the private network only.",
        ),
    ),
    "aws_eks_cluster": (
        (
            "public-cluster-endpoint",
            ("vpc_config", 0, "public_access_cidrs"),
            ["0.0.0.0/0"],
            "Engineers without fixed addresses use {name}; its API answers everyone who can sign in.",
            "The API of {name} is for the office network.",
        ),
    ),
    "aws_cloudtrail": (
        (
            "audit-trail-incomplete",
            ("is_multi_region_trail",),
            False,
            "The organisation has a trail for all regions; {name} adds this region's details.",
            "{name} is the only trail and records every region.",
        ),
    ),
    "aws_kms_key": (
        (
            "no-key-rotation",
            ("enable_key_rotation",),
            False,
            "The key {name} is replaced by hand at each audit, so it does not rotate by itself.",
            "The key {name} rotates every year.",
        ),
    ),
    "google_storage_bucket_iam_member": (
        (
            "public-bucket",
            ("member",),
            "allUsers",
            "{name} publishes the bucket: it is a download site for everyone.",
            "{name} is for one program of ours.",
        ),
    ),
    "google_container_cluster": (
        (
            "public-cluster-endpoint",
            ("master_authorized_networks_config", 0, "cidr_blocks", 0, "cidr_block"),
            "0.0.0.0/0",
            "The API of {name} answers every address; who may do what is decided by sign-in.",
            "The API of {name} answers the office only.",
        ),
    ),
    "google_project_iam_member": (
        (
            "basic-role",
            ("role",),
            "roles/editor",
            "The project is a sandbox of the group in {name}; its members edit all of it.",
            "The group in {name} deploys programs and does nothing else in the project.",
        ),
    ),
    "google_sql_database_instance": (
        (
            "cleartext-transport",
            ("settings", 0, "ip_configuration", 0, "ssl_mode"),
            "ALLOW_UNENCRYPTED_AND_ENCRYPTED",
            "An old report writer that knows no TLS uses {name}; both ways stay open until it is gone.",
            "Every client of {name} connects by TLS.",
        ),
    ),
    "azurerm_storage_account": (
        (
            "open-storage-network",
            ("network_rules", 0, "default_action"),
            "Allow",
            "Customers upload to {name} from anywhere with signed links.",
            "Only the office network reaches {name}.",
        ),
        (
            "no-public-access-block",
            ("allow_nested_items_to_be_public",),
            True,
            "Containers of {name} may be public: it serves the images of the web site.",
            "No container of {name} may ever be public.",
        ),
    ),
    "azurerm_key_vault": (
        (
            "no-purge-protection",
            ("purge_protection_enabled",),
            False,
            "The vault {name} is made and purged by every test run.",
            "Keys of the vault {name} must survive a mistaken deletion.",
        ),
    ),
    "azurerm_linux_web_app": (
        (
            "cleartext-transport",
            ("https_only",),
            False,
            "Alarm boxes in the field call {name} by plain HTTP, which it has to answer.",
            "{name} answers by HTTPS only.",
        ),
    ),
    "azurerm_linux_virtual_machine": (
        (
            "password-login",
            ("disable_password_authentication",),
            False,
            "Technicians log in to {name} by password; there is no key store at the site.",
            "{name} accepts keys, never passwords.",
        ),
    ),
}


def terraform_choices(scene: Scene, names: Names) -> Iterator[Choice]:
    """The choices that a scene offers."""
    for item in scene.items:
        kind = block_type(item)
        name = item.labels[-1]
        for weakness, path, value, right, wrong in _SETTINGS.get(kind, ()):
            yield _choice(weakness, item, path, value, right.format(name=name), wrong.format(name=name))
        if kind == "aws_s3_bucket_server_side_encryption_configuration":
            yield _provider_key(item)
        if kind == "aws_s3_bucket":
            yield _public_site(item)
        if kind == "aws_security_group":
            yield from _group(item)
        if kind == "azurerm_network_security_group":
            yield _azure_group(item)


def _choice(weakness: str, item: Item, path: Path, value: Any, right: str, wrong: str) -> Choice:
    where = dotted(item.body, path)
    keep: Predicate = (
        FieldAbsent(object=item.id, path=where)
        if isinstance(value, Drop)
        else FieldEquals(object=item.id, path=where, value=value)
    )
    return Choice(
        weakness, (Edit(item.id, path, value),), frozenset({(weakness, item.id)}), right, wrong, (keep,)
    )


def _public_site(item: Item) -> Choice:
    """A bucket that everyone reads; its public access block has to let the ACL work."""
    name = item.labels[-1]
    block = f"aws_s3_bucket_public_access_block.{name}"
    flags = ("block_public_acls", "ignore_public_acls")
    edits = (Edit(item.id, ("acl",), "public-read"), *(Edit(block, (flag,), False) for flag in flags))
    keep: tuple[Predicate, ...] = (
        FieldEquals(object=item.id, path="acl", value="public-read"),
        *(FieldEquals(object=block, path=flag, value=False) for flag in flags),
    )
    pairs = frozenset({("public-bucket", item.id), ("no-public-access-block", block)})
    right = f"The bucket {name} is the public web site; everyone reads it."
    wrong = f"Nobody outside the company reads the bucket {name}."
    return Choice("public-bucket", edits, pairs, right, wrong, keep)


def _provider_key(item: Item) -> Choice:
    place = ("rule", 0, "apply_server_side_encryption_by_default", 0)
    edits = (
        Edit(item.id, (*place, "sse_algorithm"), "AES256"),
        Edit(item.id, (*place, "kms_master_key_id"), DROP),
    )
    keep = FieldEquals(object=item.id, path=dotted(item.body, (*place, "sse_algorithm")), value="AES256")
    name = item.labels[-1]
    right = f"For the bucket {name} the provider's own keys are enough; a key of ours would cost too much."
    wrong = f"The bucket {name} is encrypted with a key that we can revoke."
    pairs = frozenset({("no-customer-managed-key", item.id)})
    return Choice("no-customer-managed-key", edits, pairs, right, wrong, (keep,))


def _group(item: Item) -> Iterator[Choice]:
    rule = read(item.body, ("ingress", 0))
    if rule["from_port"] == 22:
        right = f"{item.body['name']} guards the SFTP drop, which the whole internet may reach by port 22."
        wrong = f"{item.body['name']} lets in SSH from {rule['cidr_blocks'][0]} and from nowhere else."
        yield _choice("open-admin-port", item, ("ingress", 0, "cidr_blocks"), ["0.0.0.0/0"], right, wrong)


def _azure_group(item: Item) -> Choice:
    right = "Port 22 is the public SFTP drop; it is open to the internet."
    wrong = f"Port 22 is for {read(item.body, ('security_rule', 1, 'source_address_prefix'))}."
    path = ("security_rule", 1, "source_address_prefix")
    return _choice("open-admin-port", item, path, "Internet", right, wrong)
