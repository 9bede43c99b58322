"""Building blocks that profiles and playbooks share: stacks, endings, port tables, laws in one line."""

from collections.abc import Mapping

from sv_env_network_logs.synth.laws import CHAIN, MSS, Amount, Field, Fixed, Law, Laws
from sv_env_network_logs.synth.scenarios import Ending, PortRange, Stack

LINUX = Stack(32768, 60999, header=52, syn_header=60)
WINDOWS = Stack(49152, 65535, header=40, syn_header=52)
RAW = Stack(1024, 65535, header=40, syn_header=40)
LINUX_RAW = Stack(32768, 60999, header=40, syn_header=52)
WINDOWS_RAW = Stack(49152, 65535, header=52, syn_header=60)

UDP_LINUX = Stack(32768, 60999, header=28, syn_header=28)
UDP_WINDOWS = Stack(49152, 65535, header=28, syn_header=28)
UDP_RAW = Stack(1024, 65535, header=28, syn_header=28)

DESKTOPS: Mapping[Stack, float] = {LINUX: 0.5, WINDOWS: 0.5}
UDP_DESKTOPS: Mapping[Stack, float] = {UDP_LINUX: 0.5, UDP_WINDOWS: 0.5}
TOOLS: Mapping[Stack, float] = {RAW: 0.3, LINUX: 0.1, LINUX_RAW: 0.3, WINDOWS_RAW: 0.3}
"""Attack tools bring their own packets, so that source ports and headers do not belong together."""
UDP_TOOLS: Mapping[Stack, float] = {UDP_RAW: 0.7, UDP_LINUX: 0.3}

CLOSED = Ending("SF", "ShADadFf")
CLOSED_BY_SERVER = Ending("SF", "ShADadfF")
LEFT_OPEN = Ending("S1", "ShADad")
RESET_BY_CLIENT = Ending("RSTO", "ShADadR")
RESET_BY_SERVER = Ending("RSTR", "ShADadr")
PROBED = Ending("RSTO", "ShAR")
GREETED = Ending("SF", "ShAdFf")
REFUSED = Ending("REJ", "Sr")
UNANSWERED = Ending("S0", "S")
UDP_ANSWERED = Ending("SF", "Dd")
UDP_UNANSWERED = Ending("S0", "D")

USUAL_ENDS: Mapping[Ending, float] = {
    CLOSED: 0.5,
    CLOSED_BY_SERVER: 0.25,
    RESET_BY_CLIENT: 0.1,
    RESET_BY_SERVER: 0.05,
    LEFT_OPEN: 0.1,
}
ABRUPT_ENDS: Mapping[Ending, float] = {
    CLOSED: 0.1,
    CLOSED_BY_SERVER: 0.1,
    RESET_BY_CLIENT: 0.3,
    RESET_BY_SERVER: 0.3,
    LEFT_OPEN: 0.2,
}

ADMIN_PORTS = (22, 80, 443, 445, 3389, 8080)
BOTNET_PORTS = (22, 23, 80, 445, 2323, 5555)


def ports(*numbers: int) -> Mapping[PortRange, float]:
    """Single destination ports, all equally frequent."""
    return {PortRange(number, number): 1.0 for number in numbers}


def packets(median: float, spread: float, low: int, high: int, **pulls: float) -> Amount:
    """A packet count."""
    return _amount(median, spread, low, high, pulls)


def payload(median: float, spread: float, low: int, high: int, **pulls: float) -> Amount:
    """A payload that fits into its side's packets, in bytes."""
    return _amount(median, spread, low, high, pulls, per_packet=MSS)


def lasting(median: float, spread: float, low: float, high: float, **pulls: float) -> Amount:
    """A duration in seconds; the ends of the range have at most three significant digits."""
    return _amount(median, spread, low, high, pulls)


def laws(orig_pkts: Law, resp_pkts: Law, orig_bytes: Law, resp_bytes: Law, duration: Law) -> Laws:
    """The five laws of a pattern, in the order in which they are drawn."""
    return {
        "orig_pkts": orig_pkts,
        "resp_pkts": resp_pkts,
        "orig_bytes": orig_bytes,
        "resp_bytes": resp_bytes,
        "duration": duration,
    }


NOTHING = Fixed(0.0)


def _amount(
    median: float,
    spread: float,
    low: float,
    high: float,
    pulls: Mapping[str, float],
    per_packet: float | None = None,
) -> Amount:
    parents: dict[str, Field] = {str(field): field for field in CHAIN}
    return Amount(
        median, spread, {parents[name]: pull for name, pull in pulls.items()}, low, high, per_packet
    )
