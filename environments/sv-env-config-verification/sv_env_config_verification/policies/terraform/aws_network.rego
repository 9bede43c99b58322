# AWS: security groups, instances, clusters, listeners, trails.
package sv.terraform

import rego.v1

# Every way to write an ingress rule, as {resource, first, last, protocol, cidrs}.
aws_ingress contains entry if {
	some resource in resources({"aws_security_group", "aws_default_security_group"})
	some block in blocks(resource.attributes, "ingress")
	entry := ingress_entry(resource, block)
}

aws_ingress contains entry if {
	some resource in resources({"aws_security_group_rule"})
	resource.attributes.type == "ingress"
	entry := ingress_entry(resource, resource.attributes)
}

aws_ingress contains entry if {
	some resource in resources({"aws_vpc_security_group_ingress_rule"})
	attributes := resource.attributes
	protocol := sprintf("%v", [attributes.ip_protocol])
	entry := {
		"resource": resource,
		"first": object.get(attributes, "from_port", -1),
		"last": object.get(attributes, "to_port", -1),
		"protocol": protocol,
		"cidrs": [cidr |
			some name in ["cidr_ipv4", "cidr_ipv6"]
			cidr := attributes[name]
		],
	}
}

ingress_entry(resource, block) := {
	"resource": resource,
	"first": object.get(block, "from_port", -1),
	"last": object.get(block, "to_port", -1),
	"protocol": sprintf("%v", [block.protocol]),
	"cidrs": [cidr |
		some name in ["cidr_blocks", "ipv6_cidr_blocks"]
		some cidr in as_list(block[name])
	],
}

is_open_entry(entry) if {
	some cidr in entry.cidrs
	is_world(cidr)
}

# Protocol -1 is all traffic, whatever the ports say.
reached(entry, ports) := ports_between(ports, 0, 65535) if entry.protocol in {"-1", "all"}

reached(entry, ports) := ports_between(ports, number(entry.first), number(entry.last)) if {
	entry.protocol in {"tcp", "6"}
}

findings contains finding("tf.aws-open-admin-port", entry.resource, sprintf("the internet reaches %s", [concat(", ", open)])) if {
	some entry in aws_ingress
	is_open_entry(entry)
	open := reached(entry, admin_ports)
	count(open) > 0
}

findings contains finding("tf.aws-open-database-port", entry.resource, sprintf("the internet reaches %s", [concat(", ", open)])) if {
	some entry in aws_ingress
	is_open_entry(entry)
	open := reached(entry, database_ports)
	count(open) > 0
}

# Instance metadata version 1 hands role credentials to whoever can make the server fetch a URL.
findings contains finding("tf.aws-imdsv1", resource, "answers instance metadata version 1") if {
	some resource in resources({"aws_instance", "aws_launch_template"})
	not demands_token(resource)
}

demands_token(resource) if hides(resource.attributes, "metadata_options")

demands_token(resource) if {
	some options in blocks(resource.attributes, "metadata_options")
	not permits_version_1(options)
}

permits_version_1(options) if {
	setting(options, "http_tokens", "optional") == "optional"
	setting(options, "http_endpoint", "enabled") == "enabled"
}

findings contains finding("tf.aws-eks-public-endpoint", resource, "its API answers the whole internet") if {
	some resource in resources({"aws_eks_cluster"})
	some config in blocks(resource.attributes, "vpc_config")
	is_on(config, "endpoint_public_access", true)
	some cidr in api_networks(config)
	is_world(cidr)
}

# None given, or an empty list, is everyone.
api_networks(config) := ["0.0.0.0/0"] if lacks(config, "public_access_cidrs")

api_networks(config) := list(config.public_access_cidrs) if not lacks(config, "public_access_cidrs")

findings contains finding("tf.aws-plain-listener", resource, "serves plain HTTP") if {
	some resource in resources({"aws_lb_listener", "aws_alb_listener"})
	setting(resource.attributes, "protocol", "HTTP") == "HTTP"
	count(blocks(resource.attributes, "default_action")) > 0
	not redirects(resource)
}

redirects(resource) if {
	some action in blocks(resource.attributes, "default_action")
	leads_to_https(action)
}

leads_to_https(action) if hides(action, "redirect")

leads_to_https(action) if {
	some target in blocks(action, "redirect")
	may_be(target, "protocol", "#{protocol}", "HTTPS")
}

findings contains finding("tf.aws-cloudtrail-single-region", resource, "does not cover every region") if {
	some resource in resources({"aws_cloudtrail"})
	is_off(resource.attributes, "is_multi_region_trail", false)
}

findings contains finding("tf.aws-cloudtrail-no-validation", resource, "its logs can be altered unnoticed") if {
	some resource in resources({"aws_cloudtrail"})
	is_off(resource.attributes, "enable_log_file_validation", false)
}

findings contains finding("tf.aws-cloudtrail-off", resource, "is switched off") if {
	some resource in resources({"aws_cloudtrail"})
	is_off(resource.attributes, "enable_logging", true)
}
