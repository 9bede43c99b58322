"""Secure Google Cloud and Azure templates."""

from sv_env_config_verification.synth.blocks import Builder
from sv_env_config_verification.synth.model import Blocks, Expression


def google_storage(b: Builder) -> None:
    """A bucket with uniform access, and a key that rotates."""
    name = b.label()
    bucket = f"{b.names.system}-{b.names.word()}"
    made = b.resource(
        "google_storage_bucket",
        name,
        name=bucket,
        location=b.names.pick(("EU", "US", "EUROPE-WEST1")),
        uniform_bucket_level_access=True,
        public_access_prevention="enforced",
        versioning=Blocks([{"enabled": True}]),
    )
    reader = f"serviceAccount:{b.names.team}@{b.names.system}.iam.gserviceaccount.com"
    b.resource(
        "google_storage_bucket_iam_member",
        f"{name}_reader",
        bucket=Expression(f"{made}.name"),
        member=reader,
        role="roles/storage.objectViewer",
    )
    ring = f"projects/{b.names.system}/locations/europe/keyRings/{name}"
    b.resource("google_kms_crypto_key", name, key_ring=ring, name=name, rotation_period="7776000s")
    b.keep(made, "name", bucket)
    b.facts.append(f"The bucket {name} holds files of {b.names.system}.")


def google_cluster(b: Builder) -> None:
    """A cluster whose API answers one network."""
    name = b.label()
    allowed = {"cidr_block": b.names.public_cidr(), "display_name": "office"}
    made = b.resource(
        "google_container_cluster",
        name,
        name=name.replace("_", "-"),
        location="europe-west1",
        enable_legacy_abac=False,
        enable_shielded_nodes=True,
        initial_node_count=b.names.rng.randint(1, 5),
        master_authorized_networks_config=Blocks([{"cidr_blocks": Blocks([allowed])}]),
        private_cluster_config=Blocks([{"enable_private_nodes": True, "enable_private_endpoint": False}]),
        master_auth=Blocks([{"client_certificate_config": Blocks([{"issue_client_certificate": False}])}]),
    )
    b.keep(made, "name", name.replace("_", "-"))
    b.facts.append(f"{name} runs the programs of {b.names.system}.")


def google_database(b: Builder) -> None:
    """A database that one network reaches by TLS."""
    name = b.label()
    allowed = {"name": "office", "value": b.names.public_cidr()}
    address = {"ipv4_enabled": True, "ssl_mode": "ENCRYPTED_ONLY", "authorized_networks": Blocks([allowed])}
    settings = {"tier": f"db-custom-{b.names.pick((1, 2, 4))}-7680", "ip_configuration": Blocks([address])}
    made = b.resource(
        "google_sql_database_instance",
        name,
        name=name.replace("_", "-"),
        database_version="POSTGRES_16",
        region="europe-west1",
        deletion_protection=True,
        settings=Blocks([settings]),
    )
    b.keep(made, "database_version", "POSTGRES_16")
    b.facts.append(f"{name} is the database of {b.names.system}.")


def google_network(b: Builder) -> None:
    """Firewall rules and rights in the project."""
    name = b.label()
    web = b.resource(
        "google_compute_firewall",
        f"{name}_web",
        name=f"{name.replace('_', '-')}-web",
        network="main",
        direction="INGRESS",
        source_ranges=["0.0.0.0/0"],
        allow=Blocks([{"protocol": "tcp", "ports": ["443"]}]),
    )
    b.resource(
        "google_compute_firewall",
        f"{name}_ops",
        name=f"{name.replace('_', '-')}-ops",
        network="main",
        direction="INGRESS",
        source_ranges=[b.names.cidr()],
        allow=Blocks([{"protocol": "tcp", "ports": ["22"]}]),
    )
    b.resource(
        "google_compute_ssl_policy",
        name,
        name=name.replace("_", "-"),
        min_tls_version="TLS_1_2",
        profile="MODERN",
    )
    b.resource(
        "google_project_iam_member",
        f"{name}_deploy",
        project=b.names.system,
        role="roles/run.developer",
        member=f"group:{b.names.team}@example.com",
    )
    b.keep(web, "name", f"{name.replace('_', '-')}-web")
    b.facts.append(f"{name} is the entry of {b.names.system}.")


def azure_storage(b: Builder) -> None:
    """A storage account that one network reaches, and its container."""
    name = b.label()
    account = f"{b.names.team}{b.names.word(8)}"
    made = b.resource(
        "azurerm_storage_account",
        name,
        name=account,
        resource_group_name=b.names.system,
        location="westeurope",
        account_tier="Standard",
        account_replication_type=b.names.pick(("LRS", "ZRS", "GRS")),
        https_traffic_only_enabled=True,
        min_tls_version="TLS1_2",
        allow_nested_items_to_be_public=False,
        network_rules=Blocks([{"default_action": "Deny", "ip_rules": [b.names.public_cidr()]}]),
    )
    b.resource(
        "azurerm_storage_container",
        f"{name}_files",
        name="files",
        container_access_type="private",
        storage_account_id=Expression(f"{made}.id"),
    )
    b.keep(made, "name", account)
    b.facts.append(f"The account {name} holds files of {b.names.system}.")


def azure_database(b: Builder) -> None:
    """A SQL server with a narrow firewall, and a vault for its key."""
    name = b.label()
    made = b.resource(
        "azurerm_mssql_server",
        name,
        name=f"{b.names.system}-sql-{b.names.word(4)}",
        version="12.0",
        resource_group_name=b.names.system,
        location="westeurope",
        minimum_tls_version="1.2",
        azuread_administrator=Blocks(
            [
                {
                    "login_username": "dba",
                    "object_id": f"{b.names.word(8)}-dba",
                    "azuread_authentication_only": True,
                }
            ]
        ),
    )
    first = b.names.public_cidr().replace("/28", "")
    b.resource(
        "azurerm_mssql_firewall_rule",
        f"{name}_office",
        name="office",
        server_id=Expression(f"{made}.id"),
        start_ip_address=first,
        end_ip_address=first,
    )
    b.resource(
        "azurerm_key_vault",
        f"{name}_keys",
        name=f"{b.names.team}-{b.names.word()}",
        location="westeurope",
        resource_group_name=b.names.system,
        sku_name="standard",
        purge_protection_enabled=True,
        soft_delete_retention_days=b.names.rng.randint(7, 90),
        tenant_id=f"{b.names.word(8)}-tenant",
    )
    b.keep(made, "version", "12.0")
    b.facts.append(f"{name} is the database of {b.names.system}.")


def azure_network(b: Builder) -> None:
    """A network security group, a server with keys only, and a web program."""
    name = b.label()
    web = {
        "name": "web",
        "priority": 100,
        "direction": "Inbound",
        "access": "Allow",
        "protocol": "Tcp",
        "source_port_range": "*",
        "destination_port_range": "443",
        "source_address_prefix": "Internet",
        "destination_address_prefix": "*",
    }
    ops = web | {
        "name": "ops",
        "priority": 110,
        "destination_port_range": "22",
        "source_address_prefix": b.names.cidr(),
    }
    made = b.resource(
        "azurerm_network_security_group",
        name,
        name=name.replace("_", "-"),
        location="westeurope",
        resource_group_name=b.names.system,
        security_rule=Blocks([web, ops]),
    )
    b.resource(
        "azurerm_linux_virtual_machine",
        f"{name}_host",
        name=f"{name.replace('_', '-')}-host",
        size="Standard_B2s",
        location="westeurope",
        resource_group_name=b.names.system,
        admin_username="ops",
        disable_password_authentication=True,
    )
    b.resource(
        "azurerm_linux_web_app",
        f"{name}_site",
        name=f"{b.names.system}-{b.names.word(4)}",
        https_only=True,
        location="westeurope",
        resource_group_name=b.names.system,
        service_plan_id=f"plan-{b.names.word()}",
        site_config=Blocks([{"minimum_tls_version": "1.2", "always_on": True}]),
    )
    b.keep(made, "name", name.replace("_", "-"))
    b.facts.append(f"{name} is the entry of {b.names.system}.")


FAMILIES = {
    "google-storage": google_storage,
    "google-cluster": google_cluster,
    "google-database": google_database,
    "google-network": google_network,
    "azure-storage": azure_storage,
    "azure-database": azure_database,
    "azure-network": azure_network,
}
