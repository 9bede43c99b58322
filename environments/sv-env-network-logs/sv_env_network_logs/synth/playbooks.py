"""Attack playbooks: what a compromised host does.

Each playbook hides in a benign profile (its cover): a tier says how far it imitates the cover's usual values.
What a tool gets wrong is how the numbers hang together: replies that do not follow requests, transfers timed
by a schedule instead of the link, retries without back-off, source ports that do not fit the headers.
"""

from collections.abc import Mapping

from sv_env_network_logs.synth.laws import Laws, Multiple
from sv_env_network_logs.synth.scenarios import Pattern, PortRange, Scenario, Stream
from sv_env_network_logs.synth.shapes import (
    ABRUPT_ENDS,
    BOTNET_PORTS,
    GREETED,
    NOTHING,
    PROBED,
    REFUSED,
    TOOLS,
    UDP_ANSWERED,
    UDP_TOOLS,
    UDP_UNANSWERED,
    UNANSWERED,
    lasting,
    laws,
    packets,
    payload,
    ports,
)

_HASTE = laws(
    packets(2.2, 0.4, 2, 7),
    NOTHING,
    NOTHING,
    NOTHING,
    lasting(1.5, 0.9, 0.5, 120, orig_pkts=-0.6),
)
_REFUSAL = laws(
    packets(1.2, 0.5, 1, 5),
    Multiple("orig_pkts", 1.0),
    NOTHING,
    NOTHING,
    lasting(0.08, 1.3, 0.001, 10, orig_pkts=-0.6),
)
_TOUCH = laws(
    packets(3.5, 0.35, 3, 30),
    packets(3, 0.35, 2, 30, orig_pkts=-0.3),
    NOTHING,
    payload(20, 0.8, 1, 20000, resp_pkts=-0.3),
    lasting(0.15, 1.2, 0.001, 60, orig_pkts=-0.3, resp_bytes=-0.5),
)
_CHECK_IN = laws(
    packets(9, 0.5, 5, 3000),
    packets(8, 0.55, 4, 5000, orig_pkts=-0.1),
    payload(600, 0.6, 80, 2_000_000, orig_pkts=-0.1),
    payload(900, 0.9, 100, 5_000_000, resp_pkts=0.0, orig_bytes=-0.6),
    lasting(0.8, 1.0, 0.01, 3600, resp_bytes=-0.4, orig_pkts=-0.3),
)
_GUESSING = laws(
    packets(15, 0.4, 10, 9000),
    packets(14, 0.4, 9, 9000, orig_pkts=0.0),
    payload(1700, 0.4, 900, 5_000_000, orig_pkts=-0.1),
    payload(2100, 0.5, 900, 9_000_000, resp_pkts=-0.1, orig_bytes=-0.4),
    lasting(3, 0.9, 0.05, 30000, orig_pkts=-0.5),
)
_KEEP_ALIVE = laws(
    packets(10, 0.5, 5, 5000),
    packets(8, 0.5, 4, 5000, orig_pkts=0.0),
    payload(300, 0.6, 30, 500_000, orig_pkts=0.0),
    payload(120, 0.6, 4, 500_000, resp_pkts=0.0, orig_bytes=-0.5),
    lasting(60, 0.9, 0.1, 40000, orig_pkts=-0.4),
)
_THEFT = laws(
    packets(1500, 1.0, 8, 90000),
    packets(500, 1.0, 6, 90000, orig_pkts=0.3),
    payload(1_200_000, 1.1, 500, 90_000_000, orig_pkts=0.7),
    payload(3000, 0.8, 100, 5_000_000, resp_pkts=-0.2),
    lasting(250, 1.1, 0.01, 30000, orig_bytes=-0.3),
)
_TUNNEL = laws(
    packets(2, 0.5, 1, 8),
    Multiple("orig_pkts", 1.0),
    payload(220, 0.45, 18, 2000, orig_pkts=0.0),
    payload(320, 0.6, 30, 8000, orig_bytes=-0.5),
    lasting(0.1, 1.1, 0.001, 20, resp_bytes=-0.5, orig_bytes=0.3),
)
_STREAM_FLOOD = laws(
    packets(6000, 1.2, 10, 200_000),
    packets(300, 1.2, 10, 200_000, orig_pkts=0.1),
    payload(1_500_000, 1.2, 400, 30_000_000, orig_pkts=0.6),
    payload(40_000, 1.2, 400, 30_000_000, resp_pkts=0.6),
    lasting(6, 1.2, 0.1, 8000, orig_pkts=0.0),
)
_CLOCK_FLOOD = laws(
    packets(12, 0.7, 1, 60),
    packets(2, 0.6, 1, 60, orig_pkts=-0.2),
    Multiple("orig_pkts", 48.0),
    Multiple("resp_pkts", 48.0),
    lasting(0.05, 1.3, 0.001, 600, orig_pkts=-0.4),
)
_UNHEARD = laws(
    packets(4, 0.4, 2, 8),
    NOTHING,
    payload(250, 0.45, 18, 4000, orig_pkts=0.0),
    NOTHING,
    lasting(1.5, 0.7, 0.5, 60, orig_pkts=-0.4),
)


_RESOURCE_FLOOD = laws(
    packets(6, 0.5, 5, 3000),
    packets(5, 0.55, 4, 5000, orig_pkts=0.0),
    payload(350, 0.6, 80, 2_000_000, orig_pkts=-0.1),
    payload(2500, 0.9, 100, 5_000_000, resp_pkts=0.0, orig_bytes=-0.5),
    lasting(0.3, 1.0, 0.01, 3600, resp_bytes=-0.5),
)
_SPREADING = laws(
    packets(60, 0.7, 10, 9000),
    packets(45, 0.7, 9, 9000, orig_pkts=0.2),
    payload(20_000, 0.8, 900, 5_000_000, orig_pkts=0.3),
    payload(6000, 0.8, 900, 9_000_000, resp_pkts=0.1, orig_bytes=-0.5),
    lasting(5, 1.2, 0.05, 30000, orig_pkts=-0.4),
)

_PROBES = {
    "retried": Pattern(0.6, None, {UNANSWERED: 1.0}, _HASTE, opening_only=True),
    "refused": Pattern(0.3, None, {REFUSED: 1.0}, _REFUSAL, opening_only=True),
    "open": Pattern(0.1, None, {PROBED: 0.7, GREETED: 0.3}, _TOUCH),
}


def _tcp(
    name: str, cover: str, service: str, port: int, lan: float, missed: float, numbers: Laws, stream: Stream,
    odd_ports: tuple[int, ...] = (),
) -> Scenario:  # fmt: skip
    """A playbook that speaks one TCP service; a share `missed` of its connections gets no answer."""
    patterns = {
        "whole": Pattern(1 - missed, service, ABRUPT_ENDS, numbers),
        "retried": Pattern(missed, None, {UNANSWERED: 1.0}, _HASTE, opening_only=True),
    }
    targets = ports(port, *odd_ports)
    return Scenario(name, "Malicious", 1.0, "tcp", targets, lan, TOOLS, patterns, stream, cover)


def _udp(
    name: str, cover: str, service: str | None, low: int, high: int, lan: float, numbers: Laws, stream: Stream
) -> Scenario:
    """A playbook over UDP to ports `low` to `high`; a third of it gets no answer."""
    patterns = {
        "whole": Pattern(0.7, service, {UDP_ANSWERED: 1.0}, numbers),
        "retried": Pattern(0.3, service, {UDP_UNANSWERED: 1.0}, _UNHEARD),
    }
    targets = {PortRange(low, high): 1.0}
    return Scenario(name, "Malicious", 1.0, "udp", targets, lan, UDP_TOOLS, patterns, stream, cover)


def _scan(name: str, cover: str, lan: float, targets: Mapping[PortRange, float], stream: Stream) -> Scenario:
    """A search for open ports."""
    return Scenario(name, "Malicious", 1.0, "tcp", targets, lan, TOOLS, _PROBES, stream, cover)


_SWEEP = Stream(0.05, 5, 0.5, one_target=False)
_CREEP = Stream(300, 3600, 0.7, one_target=False)
_LADDER = Stream(0.02, 1, 0.5, one_port=False)
_LOW_PORTS = {PortRange(1, 1024): 1.0}

PLAYBOOKS: tuple[Scenario, ...] = (
    _scan("horizontal_scan", "monitoring", 0.3, ports(*BOTNET_PORTS), _SWEEP),
    _scan("slow_scan", "monitoring", 0.5, ports(*BOTNET_PORTS), _CREEP),
    _scan("vertical_scan", "inventory", 0.5, _LOW_PORTS, _LADDER),
    _tcp("ssh_brute_force", "ssh", "ssh", 22, 0.3, 0.1, _GUESSING, Stream(1, 20, 0.3)),
    _tcp("rdp_brute_force", "rdp", "rdp", 3389, 0.4, 0.1, _GUESSING, Stream(2, 30, 0.3)),
    _tcp(
        "lateral_movement",
        "file_share",
        "smb",
        445,
        1.0,
        0.2,
        _SPREADING,
        Stream(1, 60, 0.5, one_target=False),
    ),
    _tcp("c2_beacon", "https", "ssl", 443, 0.02, 0.15, _CHECK_IN, Stream(30, 900, 0.15), (4443, 8443)),
    _tcp("iot_beacon", "mqtt", "mqtt", 1883, 0.02, 0.15, _KEEP_ALIVE, Stream(30, 900, 0.4), (1888, 2883)),
    _tcp("exfiltration", "backup", "ssl", 443, 0.05, 0.03, _THEFT, Stream(60, 1800, 0.6), (9443,)),
    _tcp("http_flood", "http", "http", 80, 0.05, 0.2, _RESOURCE_FLOOD, Stream(0.02, 2, 0.3)),
    _udp("udp_flood", "voip", None, 10000, 20000, 0.05, _STREAM_FLOOD, Stream(0.5, 30, 0.3, one_port=False)),
    _udp("ntp_flood", "ntp", "ntp", 123, 123, 0.1, _CLOCK_FLOOD, Stream(0.1, 10, 0.3)),
    _udp("dns_tunnel", "dns", "dns", 53, 53, 0.4, _TUNNEL, Stream(0.2, 20, 0.4)),
)
"""Scans (fast, slow, by host, by port), password guessing, spreading, beacons, theft, floods, a tunnel."""
