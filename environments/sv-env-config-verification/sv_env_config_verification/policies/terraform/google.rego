# Google Cloud.
package sv.terraform

import rego.v1

clusters := resources({"google_container_cluster"})

findings contains finding("tf.google-gke-legacy-abac", resource, "uses legacy ABAC beside RBAC") if {
	some resource in clusters
	is_on(resource.attributes, "enable_legacy_abac", false)
}

findings contains finding("tf.google-gke-basic-auth", resource, "accepts a static password or client certificate") if {
	some resource in clusters
	some auth in blocks(resource.attributes, "master_auth")
	has_static_credentials(auth)
}

has_static_credentials(auth) if {
	some name in ["username", "password"]
	value := setting(auth, name, "")
	value != ""
}

has_static_credentials(auth) if {
	some config in blocks(auth, "client_certificate_config")
	is_on(config, "issue_client_certificate", false)
}

findings contains finding("tf.google-gke-open-endpoint", resource, "its API answers every address") if {
	some resource in clusters
	lacks(resource.attributes, "master_authorized_networks_config")
	not has_private_endpoint(resource)
}

findings contains finding("tf.google-gke-open-endpoint", resource, "its API answers every address") if {
	some resource in clusters
	some config in blocks(resource.attributes, "master_authorized_networks_config")
	some network in blocks(config, "cidr_blocks")
	is_world(network.cidr_block)
	not has_private_endpoint(resource)
}

has_private_endpoint(resource) if hides(resource.attributes, "private_cluster_config")

has_private_endpoint(resource) if {
	some config in blocks(resource.attributes, "private_cluster_config")
	not is_off(config, "enable_private_endpoint", false)
}

everyone := {"allUsers", "allAuthenticatedUsers"}

findings contains finding("tf.google-storage-public", resource, sprintf("gives %s to %s", [resource.attributes.role, member])) if {
	some resource in resources({"google_storage_bucket_iam_member", "google_storage_bucket_iam_binding"})
	some member in members(resource)
	member in everyone
}

members(resource) := [resource.attributes.member] if {
	resource.type == "google_storage_bucket_iam_member"
}

members(resource) := as_list(resource.attributes.members) if {
	resource.type == "google_storage_bucket_iam_binding"
}

findings contains finding("tf.google-storage-public", resource, sprintf("gives %s to %s", [resource.attributes.role, entity])) if {
	some resource in resources({"google_storage_bucket_access_control", "google_storage_default_object_access_control"})
	entity := resource.attributes.entity
	entity in everyone
}

findings contains finding("tf.google-storage-no-uniform-access", resource, "mixes ACLs with IAM") if {
	some resource in resources({"google_storage_bucket"})
	is_off(resource.attributes, "uniform_bucket_level_access", false)
}

google_open_ports(resource, ports) := {port |
	setting(resource.attributes, "direction", "INGRESS") == "INGRESS"
	is_off(resource.attributes, "disabled", false)
	some cidr in as_list(resource.attributes.source_ranges)
	is_world(cidr)
	some allow in blocks(resource.attributes, "allow")
	some port in allowed_ports(allow, ports)
}

allowed_ports(allow, ports) := ports_between(ports, 0, 65535) if lower(sprintf("%v", [allow.protocol])) == "all"

allowed_ports(allow, ports) := ports_between(ports, 0, 65535) if {
	is_tcp(allow)
	lacks(allow, "ports")
}

allowed_ports(allow, ports) := open if {
	is_tcp(allow)
	not lacks(allow, "ports")
	open := union({found |
		some range in as_list(allow.ports)
		found := ports_within(range, ports)
	})
}

is_tcp(allow) if lower(sprintf("%v", [allow.protocol])) in {"tcp", "6"}

findings contains finding("tf.google-open-admin-port", resource, sprintf("the internet reaches %s", [concat(", ", open)])) if {
	some resource in resources({"google_compute_firewall"})
	open := google_open_ports(resource, admin_ports)
	count(open) > 0
}

findings contains finding("tf.google-open-database-port", resource, sprintf("the internet reaches %s", [concat(", ", open)])) if {
	some resource in resources({"google_compute_firewall"})
	open := google_open_ports(resource, database_ports)
	count(open) > 0
}

sql_addresses := [entry |
	some resource in resources({"google_sql_database_instance"})
	some settings in blocks(resource.attributes, "settings")
	some configuration in blocks(settings, "ip_configuration")
	entry := {"resource": resource, "configuration": configuration}
]

findings contains finding("tf.google-sql-open", entry.resource, "answers the whole internet") if {
	some entry in sql_addresses
	some network in blocks(entry.configuration, "authorized_networks")
	is_world(network.value)
}

findings contains finding("tf.google-sql-plain", entry.resource, "accepts connections without TLS") if {
	some entry in sql_addresses
	is_off(entry.configuration, "require_ssl", false)
	setting(entry.configuration, "ssl_mode", "ALLOW_UNENCRYPTED_AND_ENCRYPTED") == "ALLOW_UNENCRYPTED_AND_ENCRYPTED"
}

findings contains finding("tf.google-basic-role", resource, sprintf("grants the basic role %s", [role])) if {
	some resource in resources({"google_project_iam_member", "google_project_iam_binding"})
	role := resource.attributes.role
	role in {"roles/owner", "roles/editor"}
}

# 90 days, in seconds: the value that Google's own documentation recommends.
rotation_limit := 7776000

findings contains finding("tf.google-kms-no-rotation", resource, "does not rotate within 90 days") if {
	some resource in resources({"google_kms_crypto_key"})
	setting(resource.attributes, "purpose", "ENCRYPT_DECRYPT") == "ENCRYPT_DECRYPT"
	rotates_slowly(resource)
}

rotates_slowly(resource) if lacks(resource.attributes, "rotation_period")

rotates_slowly(resource) if number(trim_suffix(sprintf("%v", [resource.attributes.rotation_period]), "s")) > rotation_limit
