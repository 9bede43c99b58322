# Service accounts of workloads.
package sv.kubernetes

import rego.v1

bindings := of_kind({"RoleBinding", "ClusterRoleBinding"})

# The token is mounted unless the pod says no, or says nothing while its account says no.
token_is_mounted(workload) if is_true(workload.spec.automountServiceAccountToken)

token_is_mounted(workload) if {
	not has_value(workload.spec, "automountServiceAccountToken")
	not account_keeps_token_back(workload)
}

has_value(value, key) if value[key] != null

account_keeps_token_back(workload) if {
	some account in of_kind({"ServiceAccount"})
	account.object.metadata.name == workload.account
	namespace_of(account) == workload.namespace
	is_false(account.object.automountServiceAccountToken)
}

# A binding in the same files shows that the workload is meant to call the API.
calls_the_api(workload) if {
	some binding in bindings
	binds_account(binding, workload)
}

binds_account(binding, workload) if {
	some subject in list(binding.object.subjects)
	subject.kind == "ServiceAccount"
	subject.name == workload.account
	subject_namespace(subject, binding) == workload.namespace
}

subject_namespace(subject, binding) := object.get(subject, "namespace", namespace_of(binding))

findings contains finding("k8s.service-account-token", workload.document, "mounts an API token that no binding needs") if {
	some workload in workloads
	workload.account != "default"
	token_is_mounted(workload)
	not calls_the_api(workload)
}

findings contains finding("k8s.default-service-account", workload.document, "uses the token of the default service account") if {
	some workload in workloads
	workload.account == "default"
	token_is_mounted(workload)
}

findings contains finding("k8s.default-account-binding", binding, "gives rights to a default service account") if {
	some binding in bindings
	some subject in list(binding.object.subjects)
	subject.kind == "ServiceAccount"
	subject.name == "default"
}

findings contains finding("k8s.workload-cluster-admin", workload.document, sprintf("is cluster-admin through %s", [binding.id])) if {
	some workload in workloads
	some binding in bindings
	binding.object.kind == "ClusterRoleBinding"
	binding.object.roleRef.name == "cluster-admin"
	binds_account(binding, workload)
}
