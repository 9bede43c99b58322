"""Ports: which of them an object offers or lets in, whoever asks."""

from sv_env_config_verification.fields import MISSING, look_up, pod_template, same
from sv_env_config_verification.shapes import Document, Json, Resource


def opens(item: Document | Resource, port: int) -> bool:
    """Whether an object offers a port or lets it in.

    A Service by its own port, a workload by a container's, a NetworkPolicy by an ingress rule; a security
    group, firewall or network security rule by what it allows in; any other Terraform block by its `port`.
    What has another form than its kind's is no open port.
    """
    if isinstance(item, Resource):
        return _block_opens(item, port)
    manifest = item.object
    match manifest.get("kind"):
        case "Service":
            return port in look_up(manifest, "spec.ports[*].port")
        case "NetworkPolicy":
            rules = look_up(manifest, "spec.ingress[*]")
            return any(_rule_lets_in(rule, port) for rule in rules if rule is not MISSING)
        case _:
            pod = pod_template(manifest)
            return pod is not None and port in look_up(pod, "spec.containers[*].ports[*].containerPort")


def _rule_lets_in(rule: Json, port: int) -> bool:
    """Whether a NetworkPolicy's rule covers the port; a port that has a name only is not known to."""
    ports = rule.get("ports") if isinstance(rule, dict) else None
    if not ports:
        return isinstance(rule, dict)
    entries = [entry for entry in ports if isinstance(entry, dict)] if isinstance(ports, list) else []
    return any(
        "port" not in entry or _within(port, entry["port"], entry.get("endPort", entry["port"]))
        for entry in entries
    )


def _block_opens(block: Resource, port: int) -> bool:
    values = block.attributes
    match block.type:
        case "aws_security_group":
            return any(_range_covers(rule, port) for rule in look_up(values, "ingress[*]"))
        case "aws_security_group_rule":
            return values.get("type") == "ingress" and _range_covers(values, port)
        case "aws_vpc_security_group_ingress_rule":
            return _range_covers(values, port)
        case "google_compute_firewall":
            allowed = look_up(values, "allow[*]") if values.get("direction") != "EGRESS" else []
            return any(isinstance(a, dict) and _listed(a.get("ports") or ["*"], port) for a in allowed)
        case "azurerm_network_security_group":
            return any(_azure_lets_in(rule, port) for rule in look_up(values, "security_rule[*]"))
        case "azurerm_network_security_rule":
            return _azure_lets_in(values, port)
        case _:
            return same(_number(values.get("port")), port)


def _azure_lets_in(rule: Json, port: int) -> bool:
    if not isinstance(rule, dict) or (rule.get("access"), rule.get("direction")) != ("Allow", "Inbound"):
        return False
    ranges = rule.get("destination_port_ranges")
    single = rule.get("destination_port_range")
    return _listed(
        [*(ranges if isinstance(ranges, list) else []), *([] if single is None else [single])], port
    )


def _range_covers(rule: Json, port: int) -> bool:
    if not isinstance(rule, dict):
        return False
    every = any(str(rule.get(key)) == "-1" for key in ("protocol", "ip_protocol"))
    return every or _within(port, rule.get("from_port"), rule.get("to_port"))


def _listed(ranges: Json, port: int) -> bool:
    """Whether a list such as ["22", "8000-8080", "*"] names the port."""
    texts = [str(entry) for entry in ranges] if isinstance(ranges, list) else []
    bounds = (text.partition("-") for text in texts)
    return "*" in texts or any(_within(port, first, last or first) for first, _, last in bounds)


def _within(port: int, first: Json, last: Json) -> bool:
    low, high = _number(first), _number(last)
    return low is not None and high is not None and low <= port <= high


def _number(value: Json) -> int | None:
    """The port number that a value states, which Terraform also takes as text."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 7:
        return int(value)
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
