# Flaws that only several objects together show.
package sv.kubernetes

import rego.v1

services := of_kind({"Service"})

findings contains finding("k8s.service-to-privileged-pod", service, sprintf("leads to the privileged %s", [workload.document.id])) if {
	some service in services
	some workload in workloads
	service_selects(service, workload)
	is_privileged(workload)
}

is_privileged(workload) if {
	some group in ["containers", "initContainers", "ephemeralContainers"]
	some container in list(workload.spec[group])
	is_true(container.securityContext.privileged)
}

is_exposed(service) if service.object.spec.type in {"LoadBalancer", "NodePort"}

is_exposed(service) if {
	some ingress in ingresses
	namespace_of(ingress) == namespace_of(service)
	service.object.metadata.name in backends(ingress)
}

backends(ingress) := {name |
	some rule in list(ingress.object.spec.rules)
	some path in list(rule.http.paths)
	name := path.backend.service.name
} | {name | name := ingress.object.spec.defaultBackend.service.name}

findings contains finding("k8s.exposed-token", workload.document, sprintf("holds an API token and is reached through %s", [service.id])) if {
	some workload in workloads
	token_is_mounted(workload)
	some service in services
	service_selects(service, workload)
	is_exposed(service)
}

findings contains finding("k8s.exposed-secret-mount", workload.document, sprintf("mounts Secret %s and is reached through %s", [secret, service.id])) if {
	some workload in workloads
	some secret in mounted_secrets(workload)
	not serves_tls_with(secret, workload)
	some service in services
	service_selects(service, workload)
	is_exposed(service)
}

mounted_secrets(workload) := {name |
	some volume in list(workload.spec.volumes)
	name := volume.secret.secretName
} | {name |
	some volume in list(workload.spec.volumes)
	some source in list(volume.projected.sources)
	name := source.secret.name
}

# A server's own certificate has to be there.
serves_tls_with(secret, workload) if {
	some document in of_kind({"Secret"})
	document.object.metadata.name == secret
	document.object.type == "kubernetes.io/tls"
	namespace_of(document) == workload.namespace
}

serves_tls_with(secret, _) if regex.match(`(?i)(^|[-.])(tls|cert|certs|certificate)$`, text(secret))
