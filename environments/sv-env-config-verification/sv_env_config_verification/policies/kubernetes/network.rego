# Who can talk to whom.
package sv.kubernetes

import rego.v1

network_policies := of_kind({"NetworkPolicy"})

# Pods on the node's network are beyond the reach of a NetworkPolicy; that is its own finding.
findings contains finding("k8s.no-network-policy", workload.document, "no NetworkPolicy selects its pods") if {
	some workload in workloads
	not on_host_network(workload)
	not is_isolated(workload)
}

is_isolated(workload) if {
	some policy in network_policies
	namespace_of(policy) == workload.namespace
	matches(object_at(policy.object, ["spec", "podSelector"]), workload.labels)
}

findings contains finding("k8s.network-policy-allow-all-ingress", policy, "lets everyone in") if {
	some policy in network_policies
	some rule in list(policy.object.spec.ingress)
	open_to_all(rule, "from")
}

findings contains finding("k8s.network-policy-allow-all-egress", policy, "lets its pods out to anywhere") if {
	some policy in network_policies
	some rule in list(policy.object.spec.egress)
	open_to_all(rule, "to")
	not has_ports(rule)
}

has_ports(rule) if count(list(rule.ports)) > 0

# A missing or empty list of peers is everyone.
open_to_all(rule, peers) if count(peers_of(rule, peers)) == 0

open_to_all(rule, peers) if {
	some peer in peers_of(rule, peers)
	is_whole_internet(peer.ipBlock.cidr)
}

open_to_all(rule, peers) if {
	some peer in peers_of(rule, peers)
	peer.namespaceSelector == {}
	object_at(peer, ["podSelector"]) == {}
}

peers_of(rule, peers) := list if {
	list := rule[peers]
	is_array(list)
} else := []

# Two halves of the internet are as open as the whole.
is_whole_internet(cidr) if regex.match(`^[0-9a-fA-F.:]+/[01]$`, text(cidr))

findings contains finding("k8s.load-balancer-open", service, "is a load balancer open to every address") if {
	some service in of_kind({"Service"})
	service.object.spec.type == "LoadBalancer"
	not is_internal(service)
	accepts_everyone(service)
}

accepts_everyone(service) if count(source_ranges(service)) == 0

accepts_everyone(service) if {
	some cidr in source_ranges(service)
	is_whole_internet(cidr)
}

source_ranges(service) := ranges if {
	ranges := service.object.spec.loadBalancerSourceRanges
	is_array(ranges)
} else := []

internal_markers := {
	"service.beta.kubernetes.io/aws-load-balancer-internal": {"true", "0.0.0.0/0"},
	"service.beta.kubernetes.io/aws-load-balancer-scheme": {"internal"},
	"service.beta.kubernetes.io/azure-load-balancer-internal": {"true"},
	"networking.gke.io/load-balancer-type": {"Internal"},
	"cloud.google.com/load-balancer-type": {"Internal"},
}

is_internal(service) if {
	some key, values in internal_markers
	service.object.metadata.annotations[key] in values
}

findings contains finding("k8s.node-port", service, "opens a port on every node") if {
	some service in of_kind({"Service"})
	service.object.spec.type == "NodePort"
}

# CVE-2020-8554: whoever sets them takes over traffic to those addresses.
findings contains finding("k8s.external-ips", service, "claims external addresses") if {
	some service in of_kind({"Service"})
	count(list(service.object.spec.externalIPs)) > 0
}

ingresses := of_kind({"Ingress"})

findings contains finding("k8s.ingress-without-tls", ingress, sprintf("serves %s without TLS", [host])) if {
	some ingress in ingresses
	some host in plain_hosts(ingress)
}

plain_hosts(ingress) := {host |
	some rule in list(ingress.object.spec.rules)
	host := object.get(map(rule), "host", "every host")
	not has_certificate(ingress, host)
}

# An entry without hosts is the wildcard of the controller's default certificate.
has_certificate(ingress, _) if {
	some entry in list(ingress.object.spec.tls)
	not has_hosts(entry)
}

has_hosts(entry) if count(list(entry.hosts)) > 0

has_certificate(ingress, host) if {
	some entry in list(ingress.object.spec.tls)
	some name in list(entry.hosts)
	covers(name, host)
}

covers(name, host) if name == host

covers(name, host) if {
	startswith(text(name), "*.")
	endswith(text(host), trim_prefix(name, "*"))
	not contains(trim_suffix(host, trim_prefix(name, "*")), ".")
}

findings contains finding("k8s.ingress-http-allowed", ingress, sprintf("switches %s off", [key])) if {
	some ingress in ingresses
	some key in [
		"nginx.ingress.kubernetes.io/ssl-redirect",
		"nginx.ingress.kubernetes.io/force-ssl-redirect",
		"ingress.kubernetes.io/ssl-redirect",
	]
	is_false(ingress.object.metadata.annotations[key])
}

# CVE-2021-25742: a snippet runs inside the controller, which reads every Secret.
findings contains finding("k8s.ingress-snippet", ingress, sprintf("injects configuration by %s", [key])) if {
	some ingress in ingresses
	some key, _ in map(ingress.object.metadata.annotations)
	regex.match(`^nginx\.ingress\.kubernetes\.io/(server|configuration|auth|stream)-snippet$`, key)
}
