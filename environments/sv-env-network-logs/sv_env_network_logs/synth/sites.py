"""Site: the made-up network that a batch of items lives in. Nothing about it depends on any label.

Hosts have private addresses (RFC 1918); the outside world consists of the blocks that RFC 5737 reserves for
documentation, so that no real party is ever called an attacker.
"""

from dataclasses import dataclass

import numpy as np

from sv_env_network_logs.synth.laws import Bools, Ints

LAN_HOSTS = 253
"""Addresses .1 to .254 of the site's /24, less the host's own."""
WAN_BLOCKS = ("192.0.2", "198.51.100", "203.0.113")
WAN_HOSTS = len(WAN_BLOCKS) * 254

_FIRST_START, _LAST_START = 1_704_067_200, 1_767_225_600
"""Items start between 2024-01-01 and 2026-01-01 (UTC), in seconds since the epoch."""


@dataclass(frozen=True, slots=True)
class Site:
    """A /24 out of 10.0.0.0/8."""

    prefix: str

    def host(self, number: int) -> str:
        """The address of the host `number`, 0 to LAN_HOSTS."""
        return f"{self.prefix}.{number + 1}"

    def peer(self, host: int, number: int) -> str:
        """Destination `number` as seen from `host`: below LAN_HOSTS on the site, then outside."""
        if number < LAN_HOSTS:
            return self.host(number if number < host else number + 1)
        block, last = divmod(number - LAN_HOSTS, 254)
        return f"{WAN_BLOCKS[block]}.{last + 1}"


def draw_site(rng: np.random.Generator) -> Site:
    """A site, all equally likely."""
    return Site(f"10.{rng.integers(256)}.{rng.integers(256)}")


def draw_peers(lan: Bools, rng: np.random.Generator) -> Ints:
    """Destination numbers, uniform on the site where `lan` is true and outside elsewhere; any shape."""
    inside, outside = (
        rng.integers(0, LAN_HOSTS, lan.shape),
        rng.integers(LAN_HOSTS, LAN_HOSTS + WAN_HOSTS, lan.shape),
    )
    return np.where(lan, inside, outside)


def draw_starts(n: int, rng: np.random.Generator) -> Ints:
    """Times of the items, whole seconds since the epoch."""
    return rng.integers(_FIRST_START, _LAST_START, n)


def is_lan(address: str) -> bool:
    """True for an address of a site."""
    return address.startswith("10.")
