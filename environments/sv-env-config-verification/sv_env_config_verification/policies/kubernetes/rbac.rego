# Rights that RBAC gives away.
package sv.kubernetes

import rego.v1

grants := [grant |
	some role in of_kind({"Role", "ClusterRole"})
	some rule in list(role.object.rules)
	grant := {"role": role, "rule": rule}
]

allows(rule, verbs) if {
	some verb in list(rule.verbs)
	verb in (verbs | {"*"})
}

# `pods/*` covers `pods/exec`, and `*/*` everything.
reaches(rule, resource) if {
	some pattern in list(rule.resources)
	pattern in ({resource, "*", "*/*"} | whole_of(resource))
}

whole_of(resource) := {concat("", [split(resource, "/")[0], "/*"])} if contains(resource, "/")

whole_of(resource) := set() if not contains(resource, "/")

in_group(rule, groups) if {
	some group in list(rule.apiGroups)
	group in (groups | {"*"})
}

rbac_groups := {"rbac.authorization.k8s.io"}

findings contains finding("k8s.rbac-wildcard", grant.role, sprintf("allows * as one of its %s", [field])) if {
	some grant in grants
	some field in ["verbs", "resources"]
	"*" in grant.rule[field]
}

findings contains finding("k8s.rbac-cluster-admin", binding, "binds cluster-admin") if {
	some binding in bindings
	binding.object.roleRef.kind == "ClusterRole"
	binding.object.roleRef.name == "cluster-admin"
}

findings contains finding("k8s.rbac-secret-access", grant.role, "reads Secrets") if {
	some grant in grants
	reads_secrets(grant.rule)
}

# Named Secrets are a bounded grant; `list` and `watch` cannot be bounded so and return contents.
reads_secrets(rule) if {
	in_group(rule, {""})
	reaches(rule, "secrets")
	allows(rule, {"list", "watch"})
}

reads_secrets(rule) if {
	in_group(rule, {""})
	reaches(rule, "secrets")
	allows(rule, {"get"})
	not names_objects(rule)
}

names_objects(rule) if count(list(rule.resourceNames)) > 0

findings contains finding("k8s.rbac-secret-access-granted", binding, sprintf("lets its subjects read Secrets (%s)", [role.id])) if {
	some binding in bindings
	some role in bound_roles(binding)
	some rule in list(role.object.rules)
	reads_secrets(rule)
}

findings contains finding("k8s.rbac-create-pods-granted", binding, sprintf("lets its subjects start pods (%s)", [role.id])) if {
	some binding in bindings
	some role in bound_roles(binding)
	some rule in list(role.object.rules)
	creates_pods(rule)
}

bound_roles(binding) := [role |
	some role in of_kind({"Role", "ClusterRole"})
	role.object.kind == binding.object.roleRef.kind
	role.object.metadata.name == binding.object.roleRef.name
	in_scope(role, binding)
]

in_scope(role, _) if role.object.kind == "ClusterRole"

in_scope(role, binding) if {
	role.object.kind == "Role"
	namespace_of(role) == namespace_of(binding)
}

pod_makers := {
	"": {"pods", "replicationcontrollers"},
	"apps": {"deployments", "statefulsets", "daemonsets", "replicasets"},
	"batch": {"jobs", "cronjobs"},
}

creates_pods(rule) if {
	some group, resources in pod_makers
	in_group(rule, {group})
	some resource in resources
	reaches(rule, resource)
	allows(rule, {"create"})
}

findings contains finding("k8s.rbac-escalation", grant.role, sprintf("may %s", [verb])) if {
	some grant in grants
	some verb in {"escalate", "bind"}
	allows(grant.rule, {verb})
	in_group(grant.rule, rbac_groups)
	some resource in ["roles", "clusterroles"]
	reaches(grant.rule, resource)
}

findings contains finding("k8s.rbac-impersonate", grant.role, "may impersonate anyone") if {
	some grant in grants
	allows(grant.rule, {"impersonate"})
	some resource in ["users", "groups", "serviceaccounts"]
	reaches(grant.rule, resource)
	not names_objects(grant.rule)
}

findings contains finding("k8s.rbac-pod-exec", grant.role, sprintf("may use %s", [resource])) if {
	some grant in grants
	in_group(grant.rule, {""})
	some resource in ["pods/exec", "pods/attach", "pods/ephemeralcontainers"]
	reaches(grant.rule, resource)
	allows(grant.rule, {"create", "get", "update", "patch"})
}

# Through the kubelet's API this is exec on every pod of the node, past admission and audit.
findings contains finding("k8s.rbac-node-proxy", grant.role, "may use nodes/proxy") if {
	some grant in grants
	in_group(grant.rule, {""})
	reaches(grant.rule, "nodes/proxy")
	allows(grant.rule, {"create", "get"})
}

findings contains finding("k8s.rbac-token-request", grant.role, "may request tokens of service accounts") if {
	some grant in grants
	in_group(grant.rule, {""})
	reaches(grant.rule, "serviceaccounts/token")
	allows(grant.rule, {"create"})
	not names_objects(grant.rule)
}

findings contains finding("k8s.rbac-anonymous-subject", binding, sprintf("gives rights to %s", [subject.name])) if {
	some binding in bindings
	some subject in list(binding.object.subjects)
	subject.name in {"system:anonymous", "system:unauthenticated", "system:authenticated"}
	subject.kind in {"User", "Group"}
}
