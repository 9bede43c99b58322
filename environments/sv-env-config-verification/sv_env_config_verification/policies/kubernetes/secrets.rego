# Where secrets lie.
package sv.kubernetes

import rego.v1

secret_name(name) if {
	is_string(name)
	regex.match(`(?i)(passw(or)?d|passphrase|secret|token|api[_.-]?key|access[_.-]?key|private[_.-]?key|credential)`, name)
	not regex.match(`(?i)[_.-]?(file|path|dir|name|ref|url|uri|endpoint|ttl|expiry|enabled|length|algorithm)$`, name)
}

# A path, a reference that the shell or Helm resolves, or a placeholder is no secret.
literal(value) if {
	is_string(value)
	trim_space(value) != ""
	not regex.match(`^\s*(/|\$\(|\$\{|\{\{|<.*>\s*$)`, value)
	not lower(trim_space(value)) in {"true", "false", "null", "none"}
}

findings contains container_finding("k8s.env-secret-literal", entry, sprintf("%s holds a secret in plain text", [variable.name])) if {
	some entry in containers
	some variable in list(entry.container.env)
	secret_name(variable.name)
	literal(variable.value)
}

findings contains container_finding("k8s.secret-env-ref", entry, sprintf("%s puts a Secret into the environment", [variable.name])) if {
	some entry in containers
	some variable in list(entry.container.env)
	_ = variable.valueFrom.secretKeyRef.name
}

findings contains container_finding("k8s.secret-env-ref", entry, sprintf("all of Secret %s is in the environment", [source.secretRef.name])) if {
	some entry in containers
	some source in list(entry.container.envFrom)
	_ = source.secretRef.name
}

findings contains finding("k8s.configmap-credentials", document, sprintf("key %s looks like a credential", [key])) if {
	some document in of_kind({"ConfigMap"})
	some key, value in map(document.object.data)
	secret_name(key)
	literal(value)
	not contains(value, "\n")
}

findings contains finding("k8s.configmap-credentials", document, sprintf("key %s holds a credential", [key])) if {
	some document in of_kind({"ConfigMap"})
	some key, value in map(document.object.data)
	is_string(value)
	some pattern in credential_patterns
	regex.match(pattern, value)
}

credential_patterns := {
	`-----BEGIN [A-Z ]*PRIVATE KEY-----`,
	`\bAKIA[0-9A-Z]{16}\b`,
	`(?im)^[\s"]*[\w.-]*(password|passwd|secret|api[_-]?key|access[_-]?key)"?\s*[=:]\s*"?[^\s"$<{/][^\s"]{3,}`,
	`://[^\s:/@]+:[^\s:/@$<{]{3,}@`,
}
