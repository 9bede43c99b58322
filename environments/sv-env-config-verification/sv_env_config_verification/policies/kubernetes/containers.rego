# What a container may do.
#
# Pod Security Standards "baseline" and "restricted", as far as they speak of one container.
package sv.kubernetes

import rego.v1

findings contains container_finding("k8s.privileged-container", entry, "runs privileged") if {
	some entry in containers
	is_true(entry.container.securityContext.privileged)
}

# Unset means allowed.
findings contains container_finding("k8s.privilege-escalation", entry, "may gain more privileges than its parent") if {
	some entry in linux_containers
	not escalation_is_off(entry)
}

escalation_is_off(entry) if is_false(entry.container.securityContext.allowPrivilegeEscalation)

# runAsUser decides where it is set; without it only runAsNonRoot keeps the image's user from being root.
findings contains container_finding("k8s.run-as-root", entry, "runs as user 0") if {
	some entry in linux_containers
	security(entry, "runAsUser") == 0
}

findings contains container_finding("k8s.run-as-root", entry, "may run as root: no runAsNonRoot, no runAsUser") if {
	some entry in linux_containers
	not has_user(entry)
	not must_be_non_root(entry)
}

has_user(entry) if is_number(security(entry, "runAsUser"))

must_be_non_root(entry) if is_true(security(entry, "runAsNonRoot"))

# Capabilities beyond the runtime's default set that lead to the node or to other pods.
dangerous_capabilities := {
	"ALL", "BPF", "DAC_READ_SEARCH", "IPC_LOCK", "LINUX_IMMUTABLE", "MAC_ADMIN", "MAC_OVERRIDE", "NET_ADMIN",
	"NET_BROADCAST", "PERFMON", "SYSLOG", "SYS_ADMIN", "SYS_BOOT", "SYS_MODULE", "SYS_NICE", "SYS_PACCT",
	"SYS_PTRACE", "SYS_RAWIO", "SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "WAKE_ALARM",
}

capability(name) := trim_prefix(upper(text(name)), "CAP_")

findings contains container_finding("k8s.dangerous-capability", entry, sprintf("adds %s", [added])) if {
	some entry in linux_containers
	some name in list(entry.container.securityContext.capabilities.add)
	added := capability(name)
	added in dangerous_capabilities
}

findings contains container_finding("k8s.capabilities-not-dropped", entry, "does not drop ALL capabilities") if {
	some entry in linux_containers
	not drops_all(entry)
}

drops_all(entry) if {
	some name in list(entry.container.securityContext.capabilities.drop)
	capability(name) == "ALL"
}

findings contains container_finding("k8s.writable-root-filesystem", entry, "can write its root file system") if {
	some entry in linux_containers
	not root_is_read_only(entry)
}

root_is_read_only(entry) if is_true(entry.container.securityContext.readOnlyRootFilesystem)

findings contains container_finding("k8s.unmasked-proc-mount", entry, "sees an unmasked /proc") if {
	some entry in containers
	entry.container.securityContext.procMount == "Unmasked"
}

findings contains container_finding("k8s.seccomp-unconfined", entry, "has its seccomp profile switched off") if {
	some entry in linux_containers
	security(entry, "seccompProfile").type == "Unconfined"
}

# The kubelet's SeccompDefault would change this default; a manifest cannot know it.
findings contains container_finding("k8s.seccomp-unset", entry, "has no seccomp profile") if {
	some entry in linux_containers
	not has_seccomp(entry)
}

has_seccomp(entry) if is_string(security(entry, "seccompProfile").type)

findings contains container_finding("k8s.apparmor-unconfined", entry, "has AppArmor switched off") if {
	some entry in linux_containers
	security(entry, "appArmorProfile").type == "Unconfined"
}

# Before Kubernetes 1.30 the profile was an annotation of the pod.
findings contains container_finding("k8s.apparmor-unconfined", entry, "has AppArmor switched off by annotation") if {
	some entry in linux_containers
	key := concat("/", ["container.apparmor.security.beta.kubernetes.io", entry.name])
	entry.workload.annotations[key] == "unconfined"
}

findings contains container_finding("k8s.no-memory-limit", entry, "has no memory limit") if {
	some entry in bounded_containers
	not has_amount(entry, "limits", "memory")
}

# A request reserves, a limit throttles: what starves the neighbours is a missing request.
findings contains container_finding("k8s.no-cpu-request", entry, "reserves no CPU") if {
	some entry in bounded_containers
	not has_amount(entry, "requests", "cpu")
	not has_amount(entry, "limits", "cpu")
}

# Ephemeral containers cannot have resources.
bounded_containers := [entry |
	some entry in containers
	not entry.container in object.get(entry.workload.spec, "ephemeralContainers", [])
]

has_amount(entry, side, resource) if {
	amount := entry.container.resources[side][resource]
	not amount in {null, "", "0", 0}
}

findings contains container_finding("k8s.ssh-port", entry, "listens for SSH on port 22") if {
	some entry in containers
	some port in list(entry.container.ports)
	port.containerPort == 22
	object.get(map(port), "protocol", "TCP") == "TCP"
}
