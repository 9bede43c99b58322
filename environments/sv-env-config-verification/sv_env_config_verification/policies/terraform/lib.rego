# What the Terraform rules share.
#
# Input: {"terraform": [{"file", "line", "id", "type", "name", "attributes", "references"?}]}, variables and
# locals resolved, a nested block an object or a list of objects. "references" (optional): ids of the resources
# named anywhere in the block.
#
# A value is absent (then the provider's default holds), known, or unknown until apply: null, an object with
# "__attribute__", or text that still holds "${". Rules stay silent on unknown values: a finding has to be
# true of the text at hand. A reader of findings therefore must not take silence for a proof of safety.
package sv.terraform

import rego.v1

finding(rule, resource, message) := {
	"rule": rule,
	"id": resource.id,
	"file": resource.file,
	"line": resource.line,
	"message": message,
}

# Managed resources; a data source only reads what others made.
resources(types) := [resource |
	some resource in input.terraform
	resource.type in types
	not is_data(resource)
]

data_sources(type) := [resource |
	some resource in input.terraform
	resource.type in {type, concat(".", ["data", type])}
	is_data(resource)
]

is_data(resource) if startswith(resource.id, "data.")

is_data(resource) if contains(resource.id, ".data.")

is_true(value) if value == true

is_true(value) if {
	is_string(value)
	lower(value) == "true"
}

is_false(value) if value == false

is_false(value) if {
	is_string(value)
	lower(value) == "false"
}

is_unknown(value) if is_null(value)

is_unknown(value) if _ = value.__attribute__

is_unknown(value) if {
	is_string(value)
	contains(value, "${")
}

# The value of an attribute, or the provider's default; undefined where the value is unknown.
setting(block, name, default_value) := value if {
	value := object.get(block, name, default_value)
	not is_unknown(value)
}

# Negate these, never `setting` itself: `not f(undefined)` does not hold.
is_on(block, name, default_value) if is_true(setting(block, name, default_value))

is_off(block, name, default_value) if is_false(setting(block, name, default_value))

# Whether an attribute or block is there and can't be known.
hides(block, name) if is_unknown(block[name])

hides(block, name) if {
	some item in list(block[name])
	is_unknown(item)
}

# Whether a setting is `wanted`, as far as one can know. What excuses a resource asks this.
may_be(block, name, default_value, wanted) if object.get(block, name, default_value) == wanted

may_be(block, name, _, _) if hides(block, name)

list(value) := value if is_array(value)

# A nested block that occurs once may come as an object or as a list of one.
blocks(block, name) := objects if {
	value := block[name]
	is_array(value)
	objects := [item |
		some item in value
		is_object(item)
		not is_unknown(item)
	]
} else := [value] if {
	value := block[name]
	is_object(value)
	not is_unknown(value)
} else := []

# Only a block or attribute that is not there at all; one that is unknown may hold anything.
lacks(block, name) if not name in object.keys(block)

lacks(block, name) if block[name] == []

as_list(value) := value if is_array(value)

as_list(value) := [value] if {
	not is_array(value)
	not is_unknown(value)
}

text(value) := value if is_string(value)

lowered(value) := lower(value) if is_string(value)

number(value) := value if is_number(value)

number(value) := to_number(value) if {
	is_string(value)
	regex.match(`^-?[0-9]+$`, value)
}

# -- Links between resources.

refers_to(resource, _, target) if target.id in object.get(resource, "references", [])

refers_to(resource, attribute, target) if names(resource.attributes[attribute], target)

names(value, target) if value == target.id

names(value, target) if startswith(text(value.__attribute__), concat("", [target.id, "."]))

names(value, target) if startswith(text(value), concat("", [target.id, "."]))

names(value, target) if {
	is_string(value)
	not is_unknown(value)
	value == target.attributes[["bucket", "name", "id"][_]]
}

# A companion whose target is unknown could belong to any resource, and one that no resource is known to match
# could belong to a resource whose name is unknown; both count.
has_companion(target, types, attribute) if {
	some companion in resources(types)
	refers_to(companion, attribute, target)
}

has_companion(target, types, attribute) if {
	some companion in resources(types)
	not refers_to_any(companion, attribute, target.type)
	is_open_question(companion.attributes[attribute], target)
}

is_open_question(value, _) if is_unknown(value)

is_open_question(_, target) if hides(target.attributes, "bucket")

refers_to_any(companion, attribute, type) if {
	some other in resources({type})
	refers_to(companion, attribute, other)
}

# -- Networks.

# Two halves of the internet are as open as the whole.
is_world(cidr) if {
	is_string(cidr)
	regex.match(`^[0-9a-fA-F.:]+/[01]$`, cidr)
}

admin_ports := {22: "SSH", 23: "Telnet", 3389: "RDP", 5985: "WinRM", 5986: "WinRM"}

database_ports := {
	1433: "SQL Server", 1521: "Oracle", 3306: "MySQL", 5432: "PostgreSQL", 6379: "Redis", 9042: "Cassandra",
	9200: "Elasticsearch", 11211: "Memcached", 27017: "MongoDB",
}

ports_between(ports, first, last) := {sprintf("%v (%s)", [port, service]) |
	some port, service in ports
	port >= first
	port <= last
}

# Of a single port or a range, as 22, "22" or "20-25".
ports_within(range, ports) := ports_between(ports, number(ends[0]), number(ends[count(ends) - 1])) if {
	ends := split(sprintf("%v", [range]), "-")
}
