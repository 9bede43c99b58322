# What a pod takes from its node.
package sv.kubernetes

import rego.v1

findings contains finding("k8s.host-network", workload.document, "shares the node's network namespace") if {
	some workload in workloads
	on_host_network(workload)
}

on_host_network(workload) if is_true(workload.spec.hostNetwork)

findings contains finding("k8s.host-pid", workload.document, "sees the node's processes (hostPID)") if {
	some workload in workloads
	is_true(workload.spec.hostPID)
}

findings contains finding("k8s.host-ipc", workload.document, "shares the node's IPC namespace") if {
	some workload in workloads
	is_true(workload.spec.hostIPC)
}

findings contains finding("k8s.host-path-mount", workload.document, sprintf("mounts the node's %s", [path])) if {
	some workload in workloads
	some path in host_paths(workload)
	not is_runtime_socket(path)
}

host_paths(workload) := {path |
	some volume in list(workload.spec.volumes)
	path := volume.hostPath.path
	is_string(path)
}

findings contains finding("k8s.host-path-mount", document, sprintf("is the node's %s", [path])) if {
	some document in of_kind({"PersistentVolume"})
	path := document.object.spec.hostPath.path
}

findings contains finding("k8s.container-runtime-socket", workload.document, sprintf("mounts %s", [path])) if {
	some workload in workloads
	some path in host_paths(workload)
	is_runtime_socket(path)
}

# Whoever talks to the runtime's socket starts privileged containers; the folder of the socket is enough.
is_runtime_socket(path) if {
	trim_suffix(path, "/") in {
		"/var/run", "/run", "/var/run/docker", "/run/docker", "/run/containerd", "/var/run/containerd",
		"/run/crio", "/var/run/crio",
	}
}

is_runtime_socket(path) if regex.match(`/(docker|containerd|crio|podman|cri-dockerd)\.sock$`, path)

# With hostNetwork every port is the node's anyway; that is its own finding.
findings contains container_finding("k8s.host-port", entry, sprintf("takes port %v of the node", [port.hostPort])) if {
	some entry in containers
	not on_host_network(entry.workload)
	some port in list(entry.container.ports)
	port.hostPort > 0
}

# The kubelet's own allow-list of namespaced sysctls that do not reach other pods.
safe_sysctls := {
	"kernel.shm_rmid_forced",
	"net.ipv4.ip_local_port_range",
	"net.ipv4.ip_local_reserved_ports",
	"net.ipv4.ip_unprivileged_port_start",
	"net.ipv4.ping_group_range",
	"net.ipv4.tcp_fin_timeout",
	"net.ipv4.tcp_keepalive_intvl",
	"net.ipv4.tcp_keepalive_probes",
	"net.ipv4.tcp_keepalive_time",
	"net.ipv4.tcp_rmem",
	"net.ipv4.tcp_syncookies",
	"net.ipv4.tcp_wmem",
}

findings contains finding("k8s.unsafe-sysctl", workload.document, sprintf("sets the sysctl %s", [sysctl.name])) if {
	some workload in workloads
	some sysctl in list(workload.spec.securityContext.sysctls)
	not sysctl.name in safe_sysctls
}

findings contains finding("k8s.windows-host-process", entry.workload.document, "runs as a Windows host process") if {
	some entry in containers
	is_true(security(entry, "windowsOptions").hostProcess)
}
