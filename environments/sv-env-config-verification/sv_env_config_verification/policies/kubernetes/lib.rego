# What the Kubernetes rules share.
#
# Input: {"kubernetes": [{"file", "index", "line", "id", "object"}]}, lists flattened.
# A field that is absent or null is unset and has the API server's default. A field that has the wrong type
# is never read as safe: only the value that switches a risk off does so.
#
# A trap: `not f(a.b)` does not hold where a.b is undefined (a.b is taken out of the negation and fails alone), so
# what may be absent is negated through a helper of its own.
package sv.kubernetes

import rego.v1

documents := [document |
	some document in input.kubernetes
	is_object(document.object)
]

finding(rule, document, message) := {
	"rule": rule,
	"id": document.id,
	"file": document.file,
	"line": document.line,
	"message": message,
}

of_kind(kinds) := [document |
	some document in documents
	document.object.kind in kinds
]

# A quoted "true" is refused by the API server, but templates and loose parsers let it through.
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

# What may be absent, null or of another type is walked through these.
list(value) := value if is_array(value)

map(value) := value if is_object(value)

text(value) := value if is_string(value)

default namespace_of(_) := "default"

namespace_of(document) := document.object.metadata.namespace if {
	is_string(document.object.metadata.namespace)
	document.object.metadata.namespace != ""
}

# -- Workloads: everything that holds a pod template, whatever its kind.

template_kinds := {
	"Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "ReplicationController", "Job", "DeploymentConfig",
}

pod_template(document) := document.object if document.object.kind == "Pod"

pod_template(document) := document.object.spec.template if document.object.kind in template_kinds

pod_template(document) := document.object.spec.jobTemplate.spec.template if document.object.kind == "CronJob"

workloads := [workload |
	some document in documents
	template := pod_template(document)
	is_object(template.spec)
	workload := {
		"document": document,
		"spec": template.spec,
		"annotations": object_at(template, ["metadata", "annotations"]),
		"labels": object_at(template, ["metadata", "labels"]),
		"namespace": namespace_of(document),
		"account": account_name(template.spec),
	}
]

object_at(value, path) := found if {
	found := object.get(value, path, {})
	is_object(found)
} else := {}

account_name(spec) := spec.serviceAccountName if {
	is_string(spec.serviceAccountName)
	spec.serviceAccountName != ""
} else := spec.serviceAccount if {
	is_string(spec.serviceAccount)
	spec.serviceAccount != ""
} else := "default"

is_windows(workload) if lower(text(workload.spec.os.name)) == "windows"

# -- Containers: main, init and ephemeral ones.

containers := [entry |
	some workload in workloads
	some group in ["containers", "initContainers", "ephemeralContainers"]
	some container in list(workload.spec[group])
	is_object(container)
	entry := {"workload": workload, "container": container, "name": container_name(container)}
]

# Windows has no Linux capabilities, no user ids and no seccomp.
linux_containers := [entry |
	some entry in containers
	not is_windows(entry.workload)
]

container_name(container) := container.name if {
	is_string(container.name)
} else := "without a name"

# The container's own security context wins over the pod's; null is unset.
security(entry, field) := value if {
	value := entry.container.securityContext[field]
	value != null
} else := value if {
	value := entry.workload.spec.securityContext[field]
	value != null
}

container_finding(rule, entry, text) := finding(
	rule,
	entry.workload.document,
	sprintf("container %s: %s", [entry.name, text]),
)

# -- Label selectors.

matches(selector, labels) if {
	every key, value in object_at(selector, ["matchLabels"]) {
		labels[key] == value
	}
	every expression in list(object.get(selector, "matchExpressions", [])) {
		expression_holds(expression, labels)
	}
}

expression_holds(expression, labels) if {
	expression.operator == "In"
	labels[expression.key] in expression.values
}

expression_holds(expression, labels) if {
	expression.operator == "NotIn"
	not label_in(labels, expression)
}

label_in(labels, expression) if labels[expression.key] in expression.values

expression_holds(expression, labels) if {
	expression.operator == "Exists"
	_ = labels[expression.key]
}

expression_holds(expression, labels) if {
	expression.operator == "DoesNotExist"
	not has_key(labels, expression.key)
}

has_key(value, key) if _ = value[key]

# A Service's selector is a plain map; an empty one selects nothing.
service_selects(service, workload) if {
	selector := map(service.object.spec.selector)
	count(selector) > 0
	namespace_of(service) == workload.namespace
	every key, value in selector {
		workload.labels[key] == value
	}
}
