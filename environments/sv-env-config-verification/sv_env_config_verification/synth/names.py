"""Names and numbers for made-up configurations. Nothing here depends on whether a row is clean."""

import random
from collections.abc import Sequence
from typing import Any

_FIRST = (
    "amber", "atlas", "birch", "cedar", "cobalt", "coral", "delta", "ember", "falcon", "fjord",
    "garnet", "harbor", "indigo", "juniper", "kestrel", "lark", "lumen", "maple", "meridian",
    "north", "onyx", "opal", "orchid", "pine", "quartz", "raven", "river", "sable", "sierra",
    "summit", "tundra", "umber", "willow", "zephyr",
)  # fmt: skip
_SECOND = (
    "accounts", "alerts", "basket", "billing", "booking", "catalog", "checkout", "claims",
    "content", "courier", "directory", "events", "feeds", "fleet", "forms", "identity", "insights",
    "inventory", "ledger", "loyalty", "mail", "media", "menu", "metrics", "notes", "offers",
    "orders", "payments", "photos", "pricing", "profile", "quotes", "ratings", "reports", "returns",
    "routing", "search", "shipping", "signals", "stock", "survey", "tickets", "usage",
)  # fmt: skip
_TEAMS = ("platform", "growth", "core", "data", "edge", "retail", "logistics", "finance", "mobile", "insight")
_REGISTRIES = ("registry.example.com", "ghcr.io", "quay.io", "europe-docker.pkg.dev", "images.example.net")
_TIERS = ("prod", "staging", "live", "eu1", "us2", "blue", "green")
_COMMENTS = (
    "reviewed together with the {team} team",
    "see ticket {code}",
    "do not change without telling {team}",
    "kept for compatibility",
    "hardened after the last audit",
    "temporary, remove once {code} is done",
    "copied from the old cluster",
    "security: approved in {code}",
    "TODO tighten this",
    "required by the {team} pipeline",
    "checked on every release",
    "defaults are fine here",
    "unusual but intended",
    "owner: {team}",
)


class Names:
    """Draws, all from one generator; the same generator state gives the same names."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.system = f"{rng.choice(_FIRST)}-{rng.choice(_SECOND)}"
        self.team = rng.choice(_TEAMS)
        self.namespace = (
            f"{rng.choice((self.system, self.team, self.system.split('-')[1]))}-{rng.choice(_TIERS)}"
        )
        self._used: set[str] = set()

    def pick(self, options: Sequence[Any]) -> Any:
        """One of the options."""
        return self.rng.choice(options)

    def some(self, chance: float) -> bool:
        """True with this probability."""
        return self.rng.random() < chance

    def service(self) -> str:
        """A name that this configuration does not have yet."""
        while True:
            name = f"{self.rng.choice(_FIRST)}-{self.rng.choice(_SECOND)}"
            if name not in self._used:
                self._used.add(name)
                return name

    def image(self, name: str) -> str:
        """An image by tag and digest."""
        tag = f"{self.rng.randint(0, 9)}.{self.rng.randint(0, 30)}.{self.rng.randint(0, 20)}"
        digest = "".join(self.rng.choices("0123456789abcdef", k=64))
        return f"{self.rng.choice(_REGISTRIES)}/{self.team}/{name}:{tag}@sha256:{digest}"

    def port(self) -> int:
        """A port that takes no privileges."""
        return int(
            self.rng.choice((3000, 4000, 5000, 7070, 8000, 8080, 8081, 8443, 9000, 9090))
            + self.rng.randint(0, 9)
        )

    def cidr(self) -> str:
        """A private network of 256 addresses."""
        return f"10.{self.rng.randint(0, 250)}.{self.rng.randint(0, 250)}.0/24"

    def public_cidr(self) -> str:
        """A block of documentation addresses (RFC 5737)."""
        net = self.rng.choice(("192.0.2", "198.51.100", "203.0.113"))
        return f"{net}.{self.rng.randint(0, 15) * 16}/28"

    def host(self, name: str) -> str:
        """A host name under a reserved domain (RFC 2606)."""
        return f"{name}.{self.team}.{self.rng.choice(('example.com', 'example.net', 'example.org'))}"

    def account(self) -> str:
        """An AWS account number."""
        return "".join(self.rng.choices("0123456789", k=12))

    def word(self, length: int = 6) -> str:
        """Letters and digits, as generated names end in."""
        return "".join(self.rng.choices("abcdefghijkmnpqrstuvwxyz23456789", k=length))

    def comment(self) -> str:
        """A comment that tells nothing."""
        code = f"{self.rng.choice(('OPS', 'SEC', 'INFRA', 'PLAT'))}-{self.rng.randint(100, 9999)}"
        return str(self.rng.choice(_COMMENTS)).format(team=self.rng.choice(_TEAMS), code=code)
