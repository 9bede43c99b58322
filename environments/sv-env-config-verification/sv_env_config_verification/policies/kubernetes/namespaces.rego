# Namespaces.
package sv.kubernetes

import rego.v1

enforce_label := "pod-security.kubernetes.io/enforce"

findings contains finding("k8s.namespace-without-pod-security", document, "enforces no Pod Security Standard") if {
	some document in of_kind({"Namespace"})
	not enforces_standard(document)
}

enforces_standard(document) if document.object.metadata.labels[enforce_label] in {"baseline", "restricted"}

# What names no namespace lands where the user of kubectl happens to be, which is this one unless told otherwise.
findings contains finding("k8s.default-namespace", document, "lives in the default namespace") if {
	some document in of_kind(template_kinds | {"Pod", "CronJob", "Service"})
	namespace_of(document) == "default"
}
