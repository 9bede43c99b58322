# Microsoft Azure.
package sv.terraform

import rego.v1

accounts := resources({"azurerm_storage_account"})

# The attribute was renamed in version 4 of the provider; HTTPS is the default in both.
findings contains finding("tf.azure-storage-http", resource, "accepts plain HTTP") if {
	some resource in accounts
	some name in ["https_traffic_only_enabled", "enable_https_traffic_only"]
	is_off(resource.attributes, name, true)
}

findings contains finding("tf.azure-old-tls", resource, sprintf("accepts %v", [version])) if {
	some resource in resources({"azurerm_storage_account", "azurerm_mssql_server", "azurerm_redis_cache"})
	some name in ["min_tls_version", "minimum_tls_version"]
	version := resource.attributes[name]
	version in {"TLS1_0", "TLS1_1", "1.0", "1.1", "Disabled"}
}

# Anonymous reading is possible unless it is switched off.
findings contains finding("tf.azure-storage-anonymous", resource, "lets containers be made public") if {
	some resource in accounts
	some name in anonymous_switches(resource)
	is_on(resource.attributes, name, true)
}

anonymous_switches(resource) := {"allow_blob_public_access"} if not lacks(resource.attributes, "allow_blob_public_access")

anonymous_switches(resource) := {"allow_nested_items_to_be_public"} if lacks(resource.attributes, "allow_blob_public_access")

findings contains finding("tf.azure-container-public", resource, sprintf("anyone may read (%s)", [access])) if {
	some resource in resources({"azurerm_storage_container"})
	access := resource.attributes.container_access_type
	access in {"blob", "container"}
}

findings contains finding("tf.azure-storage-open-network", resource, "accepts every network") if {
	some resource in accounts
	some rules in blocks(resource.attributes, "network_rules")
	rules.default_action == "Allow"
}

findings contains finding("tf.azure-storage-open-network", resource, "accepts every network") if {
	some resource in resources({"azurerm_storage_account_network_rules"})
	resource.attributes.default_action == "Allow"
}

azure_rules contains {"resource": resource, "rule": rule} if {
	some resource in resources({"azurerm_network_security_group"})
	some rule in blocks(resource.attributes, "security_rule")
}

azure_rules contains {"resource": resource, "rule": resource.attributes} if {
	some resource in resources({"azurerm_network_security_rule"})
}

lets_the_world_in(rule) if {
	lowered(rule.direction) == "inbound"
	lowered(rule.access) == "allow"
	lowered(rule.protocol) in {"*", "tcp"}
	some source in values_of(rule, "source_address_prefix", "source_address_prefixes")
	is_azure_world(source)
}

values_of(rule, one, many) := array.concat([rule[one] | _ = rule[one]], as_list(object.get(rule, many, [])))

is_azure_world(source) if lowered(source) in {"*", "internet", "any"}

is_azure_world(source) if is_world(source)

azure_open_ports(rule, ports) := {port |
	lets_the_world_in(rule)
	some range in values_of(rule, "destination_port_range", "destination_port_ranges")
	some port in azure_ports(range, ports)
}

azure_ports(range, ports) := ports_between(ports, 0, 65535) if range == "*"

azure_ports(range, ports) := ports_within(range, ports) if range != "*"

findings contains finding("tf.azure-open-admin-port", entry.resource, sprintf("the internet reaches %s", [concat(", ", open)])) if {
	some entry in azure_rules
	open := azure_open_ports(entry.rule, admin_ports)
	count(open) > 0
}

findings contains finding("tf.azure-open-database-port", entry.resource, sprintf("the internet reaches %s", [concat(", ", open)])) if {
	some entry in azure_rules
	open := azure_open_ports(entry.rule, database_ports)
	count(open) > 0
}

findings contains finding("tf.azure-key-vault-no-purge-protection", resource, "deleted keys can be purged at once") if {
	some resource in resources({"azurerm_key_vault"})
	is_off(resource.attributes, "purge_protection_enabled", false)
}

findings contains finding("tf.azure-sql-open", resource, "the firewall lets the whole internet in") if {
	some resource in resources({"azurerm_mssql_firewall_rule", "azurerm_postgresql_flexible_server_firewall_rule", "azurerm_mysql_flexible_server_firewall_rule"})
	resource.attributes.start_ip_address == "0.0.0.0"
	resource.attributes.end_ip_address == "255.255.255.255"
}

findings contains finding("tf.azure-web-app-http", resource, "serves plain HTTP") if {
	some resource in resources({"azurerm_linux_web_app", "azurerm_windows_web_app", "azurerm_linux_function_app", "azurerm_windows_function_app"})
	is_off(resource.attributes, "https_only", false)
}

findings contains finding("tf.azure-vm-password", resource, "accepts a password for SSH") if {
	some resource in resources({"azurerm_linux_virtual_machine", "azurerm_linux_virtual_machine_scale_set"})
	is_off(resource.attributes, "disable_password_authentication", true)
}

findings contains finding("tf.azure-aks-no-rbac", resource, "has no role-based access control") if {
	some resource in resources({"azurerm_kubernetes_cluster"})
	is_off(resource.attributes, "role_based_access_control_enabled", true)
}
