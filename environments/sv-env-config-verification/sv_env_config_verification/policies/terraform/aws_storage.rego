# AWS: S3, RDS, EBS, EFS and their keys.
package sv.terraform

import rego.v1

buckets := resources({"aws_s3_bucket"})

public_acls := {"public-read", "public-read-write", "authenticated-read"}

findings contains finding("tf.aws-s3-public-acl", resource, sprintf("the ACL is %s", [acl])) if {
	some resource in resources({"aws_s3_bucket", "aws_s3_bucket_acl"})
	acl := resource.attributes.acl
	acl in public_acls
}

findings contains finding("tf.aws-s3-no-public-access-block", bucket, "has no public access block") if {
	some bucket in buckets
	not has_companion(bucket, {"aws_s3_bucket_public_access_block"}, "bucket")
}

access_flags := ["block_public_acls", "block_public_policy", "ignore_public_acls", "restrict_public_buckets"]

findings contains finding("tf.aws-s3-weak-public-access-block", resource, sprintf("%s is off", [flag])) if {
	some resource in resources({"aws_s3_bucket_public_access_block"})
	some flag in access_flags
	is_off(resource.attributes, flag, false)
}

findings contains finding("tf.aws-s3-no-versioning", bucket, "keeps no old versions") if {
	some bucket in buckets
	not has_companion(bucket, {"aws_s3_bucket_versioning"}, "bucket")
	not has_inline_versioning(bucket)
}

findings contains finding("tf.aws-s3-no-versioning", resource, sprintf("versioning is %s", [status])) if {
	some resource in resources({"aws_s3_bucket_versioning"})
	some block in blocks(resource.attributes, "versioning_configuration")
	status := block.status
	status in {"Suspended", "Disabled"}
}

has_inline_versioning(bucket) if hides(bucket.attributes, "versioning")

has_inline_versioning(bucket) if {
	some block in blocks(bucket.attributes, "versioning")
	not is_off(block, "enabled", false)
}

# S3 encrypts every new object with its own keys since January 2023; what is missing is a key of the owner's.
findings contains finding("tf.aws-s3-no-kms", bucket, "is not encrypted with a KMS key") if {
	some bucket in buckets
	not has_companion(bucket, {"aws_s3_bucket_server_side_encryption_configuration"}, "bucket")
	lacks(bucket.attributes, "server_side_encryption_configuration")
}

findings contains finding("tf.aws-s3-no-kms", resource, "uses AES256 where a KMS key could stand") if {
	some resource in resources({"aws_s3_bucket_server_side_encryption_configuration"})
	some rule in blocks(resource.attributes, "rule")
	some encryption in blocks(rule, "apply_server_side_encryption_by_default")
	encryption.sse_algorithm == "AES256"
}

databases := resources({"aws_db_instance", "aws_rds_cluster", "aws_rds_cluster_instance", "aws_redshift_cluster"})

# Redshift clusters were public by default until provider 6.
findings contains finding("tf.aws-database-public", resource, "is publicly accessible") if {
	some resource in databases
	is_on(resource.attributes, "publicly_accessible", false)
}

findings contains finding("tf.aws-rds-unencrypted", resource, "its storage is not encrypted") if {
	some resource in resources({"aws_db_instance", "aws_rds_cluster"})
	is_off(resource.attributes, "storage_encrypted", false)
	not inherits_encryption(resource)
}

# A copy has its source's encryption, and a serverless v1 cluster is always encrypted.
inherits_encryption(resource) if {
	some name in ["replicate_source_db", "snapshot_identifier", "replication_source_identifier"]
	not lacks(resource.attributes, name)
}

inherits_encryption(resource) if may_be(resource.attributes, "engine_mode", "provisioned", "serverless")

findings contains finding("tf.aws-ebs-unencrypted", resource, "is not encrypted") if {
	some resource in resources({"aws_ebs_volume"})
	is_off(resource.attributes, "encrypted", false)
	lacks(resource.attributes, "snapshot_id")
	not account_encrypts_volumes
}

findings contains finding("tf.aws-ebs-unencrypted", resource, sprintf("%s is not encrypted", [name])) if {
	some resource in resources({"aws_instance"})
	some name in ["root_block_device", "ebs_block_device"]
	some device in blocks(resource.attributes, name)
	is_off(device, "encrypted", false)
	lacks(device, "snapshot_id")
	not account_encrypts_volumes
}

account_encrypts_volumes if {
	some resource in resources({"aws_ebs_encryption_by_default"})
	not is_off(resource.attributes, "enabled", true)
}

findings contains finding("tf.aws-efs-unencrypted", resource, "is not encrypted") if {
	some resource in resources({"aws_efs_file_system"})
	is_off(resource.attributes, "encrypted", false)
}

# Only symmetric keys made by KMS itself can rotate.
findings contains finding("tf.aws-kms-no-rotation", resource, "does not rotate") if {
	some resource in resources({"aws_kms_key"})
	is_off(resource.attributes, "enable_key_rotation", false)
	setting(resource.attributes, "customer_master_key_spec", "SYMMETRIC_DEFAULT") == "SYMMETRIC_DEFAULT"
	setting(resource.attributes, "key_usage", "ENCRYPT_DECRYPT") == "ENCRYPT_DECRYPT"
}
