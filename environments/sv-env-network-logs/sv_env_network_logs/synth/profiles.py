"""Benign profiles: what ordinary hosts do.

Medians and spreads are magnitudes of our own choosing, not estimates from any capture. The pulls tell how a
profile's numbers hang together: replies follow requests, and a transfer takes as long as its link needs.
"""

from collections.abc import Mapping

from sv_env_network_logs.synth.laws import Laws, Multiple
from sv_env_network_logs.synth.scenarios import Pattern, PortRange, Scenario, Stream
from sv_env_network_logs.synth.shapes import (
    ADMIN_PORTS,
    DESKTOPS,
    GREETED,
    NOTHING,
    PROBED,
    REFUSED,
    UDP_ANSWERED,
    UDP_DESKTOPS,
    UDP_UNANSWERED,
    UNANSWERED,
    USUAL_ENDS,
    lasting,
    laws,
    packets,
    payload,
    ports,
)

_RETRY = laws(
    packets(3, 0.4, 2, 7),
    NOTHING,
    NOTHING,
    NOTHING,
    lasting(5, 0.9, 0.5, 120, orig_pkts=0.95),
)
_REFUSAL = laws(
    packets(1.6, 0.5, 1, 5),
    Multiple("orig_pkts", 1.0),
    NOTHING,
    NOTHING,
    lasting(0.02, 1.3, 0.001, 10, orig_pkts=0.9),
)
_CHECK = laws(
    packets(5, 0.35, 3, 30),
    packets(4, 0.35, 2, 30, orig_pkts=0.9),
    NOTHING,
    payload(60, 0.8, 1, 20000, resp_pkts=0.8),
    lasting(0.06, 1.2, 0.001, 60, orig_pkts=0.5, resp_bytes=0.4),
)
_BROWSE = laws(
    packets(16, 0.6, 5, 3000),
    packets(20, 0.65, 4, 5000, orig_pkts=0.85),
    payload(2000, 0.7, 80, 2_000_000, orig_pkts=0.75),
    payload(8000, 1.0, 100, 5_000_000, resp_pkts=0.75),
    lasting(5, 1.1, 0.01, 3600, resp_bytes=0.6, orig_pkts=0.4),
)
_DOWNLOAD = laws(
    packets(120, 1.0, 6, 50000),
    packets(240, 1.0, 6, 90000, orig_pkts=0.95),
    payload(3000, 0.7, 80, 2_000_000, orig_pkts=0.6),
    payload(200_000, 1.2, 500, 90_000_000, resp_pkts=0.95),
    lasting(8, 1.0, 0.01, 3600, resp_bytes=0.85),
)
_TELEMETRY = laws(
    packets(20, 0.7, 5, 5000),
    packets(16, 0.7, 4, 5000, orig_pkts=0.9),
    payload(900, 0.7, 30, 500_000, orig_pkts=0.9),
    payload(400, 0.7, 4, 500_000, resp_pkts=0.9),
    lasting(300, 1.0, 0.1, 40000, orig_pkts=0.85),
)
_SHELL = laws(
    packets(30, 0.7, 10, 9000),
    packets(28, 0.7, 9, 9000, orig_pkts=0.92),
    payload(3500, 0.7, 900, 5_000_000, orig_pkts=0.85),
    payload(4500, 0.8, 900, 9_000_000, resp_pkts=0.85),
    lasting(12, 1.3, 0.05, 30000, orig_pkts=0.5, resp_bytes=0.3),
)
_UPLOAD = laws(
    packets(500, 1.1, 8, 90000),
    packets(250, 1.1, 6, 90000, orig_pkts=0.95),
    payload(400_000, 1.2, 500, 90_000_000, orig_pkts=0.95),
    payload(7000, 0.8, 100, 5_000_000, resp_pkts=0.8),
    lasting(20, 1.2, 0.01, 30000, orig_bytes=0.9),
)
_CALL = laws(
    packets(1500, 1.2, 10, 200_000),
    packets(1500, 1.2, 10, 200_000, orig_pkts=0.85),
    payload(240_000, 1.2, 400, 30_000_000, orig_pkts=0.9),
    payload(240_000, 1.2, 400, 30_000_000, resp_pkts=0.9),
    lasting(30, 1.2, 0.1, 8000, orig_pkts=0.85),
)
_LOOKUP = laws(
    packets(1.5, 0.5, 1, 8),
    Multiple("orig_pkts", 1.0),
    payload(60, 0.45, 18, 2000, orig_pkts=0.5),
    payload(180, 0.6, 30, 8000, orig_bytes=0.8),
    lasting(0.03, 1.1, 0.001, 20, resp_bytes=0.7),
)
_CLOCK = laws(
    packets(2.5, 0.6, 1, 60),
    packets(2.5, 0.6, 1, 60, orig_pkts=0.93),
    Multiple("orig_pkts", 48.0),
    Multiple("resp_pkts", 48.0),
    lasting(0.5, 1.4, 0.001, 600, orig_pkts=0.7, resp_pkts=0.3),
)
_UNHEARD = laws(
    packets(2.5, 0.4, 2, 8),
    NOTHING,
    payload(100, 0.45, 18, 4000, orig_pkts=0.8),
    NOTHING,
    lasting(5, 0.7, 0.5, 60, orig_pkts=0.9),
)

_CHECKS = {
    "retried": Pattern(0.25, None, {UNANSWERED: 1.0}, _RETRY, opening_only=True),
    "refused": Pattern(0.25, None, {REFUSED: 1.0}, _REFUSAL, opening_only=True),
    "open": Pattern(0.5, None, {PROBED: 0.4, GREETED: 0.6}, _CHECK),
}


def _tcp(
    name: str, weight: float, service: str, port: int, lan: float, numbers: Laws, stream: Stream
) -> Scenario:
    """A client of one TCP service, now and then left without an answer."""
    patterns = {
        "whole": Pattern(0.94, service, USUAL_ENDS, numbers),
        "retried": Pattern(0.06, None, {UNANSWERED: 1.0}, _RETRY, opening_only=True),
    }
    return Scenario(name, "Benign", weight, "tcp", ports(port), lan, DESKTOPS, patterns, stream)


def _udp(
    name: str,
    weight: float,
    service: str | None,
    low: int,
    high: int,
    lan: float,
    numbers: Laws,
    stream: Stream,
) -> Scenario:
    """A UDP exchange with ports `low` to `high`, now and then left without an answer."""
    patterns = {
        "whole": Pattern(0.92, service, {UDP_ANSWERED: 1.0}, numbers),
        "retried": Pattern(0.08, service, {UDP_UNANSWERED: 1.0}, _UNHEARD),
    }
    return Scenario(
        name, "Benign", weight, "udp", {PortRange(low, high): 1.0}, lan, UDP_DESKTOPS, patterns, stream
    )


def _checks(name: str, weight: float, targets: Mapping[PortRange, float], stream: Stream) -> Scenario:
    """A host that tries whether others answer."""
    return Scenario(name, "Benign", weight, "tcp", targets, 0.8, DESKTOPS, _CHECKS, stream)


_HEALTH_CHECKS = Stream(0.5, 300, 0.3, one_target=False)
_AUDIT = Stream(0.1, 10, 0.4, one_port=False)
_ANY_PORT = {PortRange(1, 1024): 0.6, PortRange(8000, 8999): 0.4}

PROFILES: tuple[Scenario, ...] = (
    _udp("dns", 1.2, "dns", 53, 53, 0.7, _LOOKUP, Stream(0.5, 60, 1.2)),
    _udp("ntp", 0.6, "ntp", 123, 123, 0.4, _CLOCK, Stream(32, 1024, 0.1)),
    _udp("voip", 0.8, None, 10000, 20000, 0.3, _CALL, Stream(20, 900, 1.0, one_port=False)),
    _tcp("http", 0.8, "http", 80, 0.2, _BROWSE, Stream(1, 120, 1.2)),
    _tcp("https", 1.4, "ssl", 443, 0.2, _BROWSE, Stream(1, 300, 1.1)),
    _tcp("update", 0.4, "http", 80, 0.2, _DOWNLOAD, Stream(300, 3600, 0.5)),
    _tcp("mqtt", 0.9, "mqtt", 1883, 0.5, _TELEMETRY, Stream(20, 600, 0.15)),
    _tcp("ssh", 0.9, "ssh", 22, 0.7, _SHELL, Stream(5, 600, 0.9)),
    _tcp("rdp", 0.7, "rdp", 3389, 0.8, _SHELL, Stream(30, 900, 0.9)),
    _tcp("file_share", 0.7, "smb", 445, 0.95, _SHELL, Stream(2, 300, 1.0, one_target=False)),
    _tcp("backup", 1.0, "ssl", 443, 0.5, _UPLOAD, Stream(300, 3600, 0.2)),
    _checks("monitoring", 1.0, ports(*ADMIN_PORTS), _HEALTH_CHECKS),
    _checks("inventory", 0.6, _ANY_PORT, _AUDIT),
)
"""Name lookups, clocks, calls, web, updates, telemetry, remote work, file shares, backups, checks, audits."""
