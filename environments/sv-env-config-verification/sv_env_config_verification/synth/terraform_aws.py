"""Secure AWS templates."""

from typing import Any

from sv_env_config_verification.synth.blocks import Builder
from sv_env_config_verification.synth.model import Blocks, Expression

_ENGINES = (("postgres", "16.4", 5432), ("mysql", "8.0.39", 3306))


def storage(b: Builder) -> None:
    """A bucket with all that it takes to be private."""
    name = b.label()
    bucket = f"{b.names.system}-{name.replace('_', '-')}-{b.names.word()}"
    made = b.resource("aws_s3_bucket", name, bucket=bucket, tags=b.tags())
    target = Expression(f"{made}.id")
    key = kms_key(b, f"{name}_key")
    flags = ("block_public_acls", "block_public_policy", "ignore_public_acls", "restrict_public_buckets")
    b.resource("aws_s3_bucket_public_access_block", name, bucket=target, **dict.fromkeys(flags, True))
    b.resource(
        "aws_s3_bucket_versioning",
        name,
        bucket=target,
        versioning_configuration=Blocks([{"status": "Enabled"}]),
    )
    default = {"sse_algorithm": "aws:kms", "kms_master_key_id": Expression(f"{key}.arn")}
    rule = {"apply_server_side_encryption_by_default": Blocks([default]), "bucket_key_enabled": True}
    b.resource("aws_s3_bucket_server_side_encryption_configuration", name, bucket=target, rule=Blocks([rule]))
    if b.names.some(0.6):
        reader = {"type": "AWS", "identifiers": [f"arn:aws:iam::{b.names.account()}:role/{name}-reader"]}
        b.document(
            f"{name}_access",
            name,
            ["s3:GetObject"],
            [f"arn:aws:s3:::{bucket}/*"],
            principals=Blocks([reader]),
        )
        document = Expression(f"data.aws_iam_policy_document.{name}_access.json")
        b.resource("aws_s3_bucket_policy", name, bucket=target, policy=document)
    b.keep(made, "bucket", bucket)
    b.facts.append(f"The bucket {name} holds files of {b.names.system}.")


def kms_key(b: Builder, name: str) -> str:
    """A key that rotates; its address."""
    return b.resource(
        "aws_kms_key",
        name,
        description=f"Data of {b.names.system}",
        deletion_window_in_days=b.names.rng.randint(7, 30),
        enable_key_rotation=True,
    )


def network(b: Builder) -> None:
    """A load balancer that serves TLS behind a security group."""
    name = b.label()
    vpc = b.resource(
        "aws_vpc",
        name,
        cidr_block=b.names.cidr().replace("/24", "/16"),
        enable_dns_support=True,
        tags=b.tags(),
    )
    subnet = b.resource(
        "aws_subnet",
        name,
        vpc_id=Expression(f"{vpc}.id"),
        cidr_block=b.names.cidr(),
        map_public_ip_on_launch=False,
    )
    group = b.security_group(f"{name}_front", 443, "0.0.0.0/0", vpc)
    balancer = b.resource(
        "aws_lb",
        name,
        internal=False,
        load_balancer_type="application",
        drop_invalid_header_fields=True,
        security_groups=[Expression(f"{group}.id")],
        subnets=[Expression(f"{subnet}.id")],
    )
    certificate = f"arn:aws:acm:eu-west-1:{b.names.account()}:certificate/{b.names.word(12)}"
    forward = {"type": "forward", "target_group_arn": Expression(f"aws_lb_target_group.{name}.arn")}
    b.resource(
        "aws_lb_target_group", name, port=b.names.port(), protocol="HTTPS", vpc_id=Expression(f"{vpc}.id")
    )
    balanced = Expression(f"{balancer}.arn")
    policy = "ELBSecurityPolicy-TLS13-1-2-2021-06"
    made = b.resource(
        "aws_lb_listener",
        f"{name}_tls",
        load_balancer_arn=balanced,
        port=443,
        protocol="HTTPS",
        ssl_policy=policy,
        certificate_arn=certificate,
        default_action=Blocks([forward]),
    )
    b.keep(made, "port", 443)
    if b.names.some(0.6):
        redirect = {"port": "443", "protocol": "HTTPS", "status_code": "HTTP_301"}
        action = {"type": "redirect", "redirect": Blocks([redirect])}
        b.resource(
            "aws_lb_listener",
            f"{name}_plain",
            load_balancer_arn=balanced,
            port=80,
            protocol="HTTP",
            default_action=Blocks([action]),
        )
    b.facts.append(f"{name} is the entry of {b.names.system}.")


def database(b: Builder) -> None:
    """A database instance in a private network, or one of its relatives."""
    name = b.label()
    engine, version, port = b.names.pick(_ENGINES)
    group = b.security_group(f"{name}_db", port, b.names.cidr())
    key = kms_key(b, f"{name}_key")
    made = b.resource(
        "aws_db_instance",
        name,
        identifier=f"{b.names.system}-{name.replace('_', '-')}",
        engine=engine,
        engine_version=version,
        instance_class=f"db.t4g.{b.names.pick(('small', 'medium', 'large'))}",
        allocated_storage=b.names.rng.randint(20, 400),
        storage_encrypted=True,
        kms_key_id=Expression(f"{key}.arn"),
        publicly_accessible=False,
        manage_master_user_password=True,
        username="dbowner",
        backup_retention_period=b.names.rng.randint(7, 35),
        port=port,
        deletion_protection=True,
        vpc_security_group_ids=[Expression(f"{group}.id")],
        tags=b.tags(),
    )
    b.keep(made, "engine", engine)
    if b.names.some(0.4):
        b.resource(
            "aws_redshift_cluster",
            f"{name}_history",
            cluster_identifier=f"{name.replace('_', '-')}-history",
            node_type="ra3.large",
            number_of_nodes=2,
            encrypted=True,
            publicly_accessible=False,
            manage_master_password=True,
            master_username="dbowner",
        )
    if b.names.some(0.4):
        b.resource(
            "aws_elasticache_replication_group",
            f"{name}_cache",
            description="Sessions",
            engine="redis",
            replication_group_id=f"{name.replace('_', '-')}-cache",
            node_type="cache.t4g.small",
            at_rest_encryption_enabled=True,
            transit_encryption_enabled=True,
            num_cache_clusters=2,
        )
    b.facts.append(f"{name} is the database of {b.names.system}.")


def compute(b: Builder) -> None:
    """A server with an encrypted disk and the second version of instance metadata."""
    name = b.label()
    group = b.security_group(f"{name}_hosts", 22, b.names.cidr())
    image = f"ami-{''.join(b.names.rng.choices('0123456789abcdef', k=17))}"
    options = {"http_endpoint": "enabled", "http_tokens": "required", "http_put_response_hop_limit": 1}
    disk = {"encrypted": True, "volume_size": b.names.rng.randint(10, 200), "volume_type": "gp3"}
    script = f"#!/bin/sh\nset -eu\nsystemctl enable --now {name.replace('_', '-')}\n"
    made = b.resource(
        "aws_instance",
        name,
        ami=image,
        instance_type=f"m7g.{b.names.pick(('medium', 'large', 'xlarge'))}",
        metadata_options=Blocks([options]),
        root_block_device=Blocks([disk]),
        user_data=script,
        vpc_security_group_ids=[Expression(f"{group}.id")],
        tags=b.tags(),
    )
    b.keep(made, "ami", image)
    if b.names.some(0.6):
        b.resource(
            "aws_ebs_volume",
            f"{name}_data",
            availability_zone="eu-west-1a",
            encrypted=True,
            size=b.names.rng.randint(20, 900),
            type="gp3",
        )
    if b.names.some(0.4):
        b.resource(
            "aws_efs_file_system",
            f"{name}_share",
            creation_token=f"{name}-{b.names.word()}",
            encrypted=True,
        )
    b.facts.append(f"{name} runs jobs of the {b.names.team} team.")


def identity(b: Builder) -> None:
    """A role that may do a few things with one table and one bucket."""
    name = b.label()
    where = f"arn:aws:s3:::{b.names.system}-{b.names.word()}/*"
    b.document(name, name, ["s3:GetObject", "s3:PutObject"], [where])
    table = f"arn:aws:dynamodb:eu-west-1:{b.names.account()}:table/{b.names.service()}"
    b.document(f"{name}_table", name, ["dynamodb:GetItem", "dynamodb:Query"], [table])
    trusted = {
        "type": "Service",
        "identifiers": [f"{b.names.pick(('ec2', 'lambda', 'ecs-tasks'))}.amazonaws.com"],
    }
    b.document(f"{name}_trust", name, ["sts:AssumeRole"], [], principals=Blocks([trusted]))
    trust = Expression(f"data.aws_iam_policy_document.{name}_trust.json")
    made = b.resource(
        "aws_iam_role", name, name=name.replace("_", "-"), assume_role_policy=trust, tags=b.tags()
    )
    for suffix in ("", "_table"):
        rights = Expression(f"data.aws_iam_policy_document.{name}{suffix}.json")
        b.resource(
            "aws_iam_policy", f"{name}{suffix}", name=f"{name}{suffix}".replace("_", "-"), policy=rights
        )
    b.keep(made, "name", name.replace("_", "-"))
    b.facts.append(f"{name} is the role of one program.")


def cluster(b: Builder) -> None:
    """A Kubernetes cluster with a private endpoint, and an audit trail."""
    name = b.label()
    config: dict[str, Any] = {
        "endpoint_private_access": True,
        "endpoint_public_access": True,
        "public_access_cidrs": [b.names.public_cidr()],
        "subnet_ids": [f"subnet-{b.names.word(8)}", f"subnet-{b.names.word(8)}"],
    }
    role = f"arn:aws:iam::{b.names.account()}:role/{name}"
    made = b.resource(
        "aws_eks_cluster",
        name,
        name=name.replace("_", "-"),
        role_arn=role,
        version="1.31",
        vpc_config=Blocks([config]),
        enabled_cluster_log_types=["api", "audit"],
    )
    b.resource(
        "aws_cloudtrail",
        f"{name}_trail",
        name=f"{name.replace('_', '-')}-trail",
        enable_log_file_validation=True,
        is_multi_region_trail=True,
        enable_logging=True,
        s3_bucket_name=f"{b.names.system}-trail-{b.names.word()}",
    )
    b.keep(made, "name", name.replace("_", "-"))
    b.facts.append(f"{name} runs the programs of {b.names.system}.")


FAMILIES = {
    "aws-storage": storage,
    "aws-network": network,
    "aws-database": database,
    "aws-compute": compute,
    "aws-identity": identity,
    "aws-cluster": cluster,
}
