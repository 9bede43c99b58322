"""Perturbation: variants of real items, with swapped networks and bounded noise, that remain possible.

The label is kept, and so is the cluster: a variant belongs to its original's split. Its posterior is unknown.
"""

import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from sv_env_network_logs.flows import Example, Flow
from sv_env_network_logs.synth.laws import MSS
from sv_shared.errors import DataError, UsageError

LEAST_DURATION = 1e-6
"""Seconds: Zeek's resolution."""


def perturb(example: Example, seed: int, *, noise: float = 0.1) -> Example:
    """A variant of an item.

    Networks (/24, or /64 in IPv6) are swapped for others of the same kind, consistently within the item, and
    keep their hosts' last part; multicast, loopback and the like stay. Durations, payloads and the ages of
    earlier flows change by at most a factor of 1 +- `noise`. Packets, ports, states and order stay. Payloads
    stay positive, fit into their packets, and carry their IP-level counts along. A side whose IP-level count
    is below its payload (a capture with gaps) stays as it is, and so do the numbers of a flow with further
    features, which would no longer agree with them.

    Args:
        seed: determines the variant.
        noise: 0 <= noise < 1.

    Raises:
        UsageError: `noise` is out of range.
        DataError: an address that is none.
    """
    if not 0 <= noise < 1:
        raise UsageError(f"noise {noise} is out of range", hint="Use 0 <= noise < 1")
    rng = np.random.default_rng(seed)
    addresses = _swaps((*example.history, example.flow), rng)
    stretch = _factor(noise, rng)
    history = [_retimed(flow, example.flow, stretch) for flow in example.history]
    flows = [_varied(flow, addresses, noise, rng) for flow in (*history, example.flow)]
    return replace(
        example,
        flow=flows[-1],
        history=tuple(flows[:-1]),
        posterior=None,
        row=f"{example.row}~{seed}",
    )


def _varied(
    flow: Flow, addresses: Mapping[str | None, str | None], noise: float, rng: np.random.Generator
) -> Flow:
    swapped = replace(flow, src=addresses[flow.src], dst=addresses[flow.dst])
    if flow.extra:
        return swapped
    orig_bytes, orig_ip = _side(flow.orig_bytes, flow.orig_pkts, flow.orig_ip_bytes, _factor(noise, rng))
    resp_bytes, resp_ip = _side(flow.resp_bytes, flow.resp_pkts, flow.resp_ip_bytes, _factor(noise, rng))
    duration = flow.duration and max(flow.duration * _factor(noise, rng), LEAST_DURATION)
    return replace(
        swapped, duration=duration, orig_bytes=orig_bytes, orig_ip_bytes=orig_ip, resp_bytes=resp_bytes,
        resp_ip_bytes=resp_ip,
    )  # fmt: skip


def _side(
    payload: int | None, pkts: int | None, ip_bytes: int | None, factor: float
) -> tuple[int | None, int | None]:
    """One side's payload and IP-level bytes, changed together."""
    if not payload or (ip_bytes is not None and ip_bytes < payload):
        return payload, ip_bytes
    most = max(payload, MSS * pkts) if pkts is not None else round(payload * factor)
    changed = min(max(round(payload * factor), 1), max(most, 1))
    return changed, None if ip_bytes is None else ip_bytes + changed - payload


def _retimed(flow: Flow, judged: Flow, stretch: float) -> Flow:
    if flow.ts is None or judged.ts is None:
        return flow
    return replace(flow, ts=judged.ts - (judged.ts - flow.ts) * stretch)


def _factor(noise: float, rng: np.random.Generator) -> float:
    return float(rng.uniform(1 - noise, 1 + noise))


def _swaps(flows: Iterable[Flow], rng: np.random.Generator) -> dict[str | None, str | None]:
    """The new address of each address."""
    networks: dict[str, str] = {}
    swaps: dict[str | None, str | None] = {None: None}
    for address in dict.fromkeys(address for flow in flows for address in (flow.src, flow.dst) if address):
        swaps[address] = _swap(address, networks, rng)
    return swaps


def _swap(text: str, networks: dict[str, str], rng: np.random.Generator) -> str:
    """An address in the network that replaces this one's, which is drawn at first sight."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError as error:
        raise DataError(
            f"{text!r} is not an IP address", hint="Perturb sources with addresses only"
        ) from error
    special = address.is_multicast or address.is_loopback or address.is_link_local or address.is_unspecified
    if special or text == "255.255.255.255":
        return text
    width = 8 if address.version == 4 else 64
    old = str(ipaddress.ip_network((int(address) >> width << width, address.max_prefixlen - width)))
    while old not in networks:
        drawn = _drawn_network(address, rng)
        if drawn not in networks.values():
            networks[old] = drawn
    host = int(address) & ((1 << width) - 1)
    return str(ipaddress.ip_network(networks[old]).network_address + host)


def _drawn_network(address: ipaddress.IPv4Address | ipaddress.IPv6Address, rng: np.random.Generator) -> str:
    """A network of the same kind: private for private, else one that never is anybody's.

    Public IPv4 becomes 100.64.0.0/10 (RFC 6598), public IPv6 2001:db8::/32 (RFC 3849).
    """
    if address.version == 4:
        if address.is_private:
            return f"10.{rng.integers(256)}.{rng.integers(256)}.0/24"
        return f"100.{rng.integers(64, 128)}.{rng.integers(256)}.0/24"
    prefix = f"fd{rng.integers(256):02x}:{rng.integers(65536):x}" if address.is_private else "2001:db8"
    return str(ipaddress.ip_network(f"{prefix}:{rng.integers(65536):x}:{rng.integers(65536):x}::/64"))
