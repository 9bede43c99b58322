"""Collects the blocks of a Terraform configuration."""

from typing import Any

from sv_env_config_verification.intent import FieldEquals, Predicate
from sv_env_config_verification.synth.model import Blocks, Expression, Item
from sv_env_config_verification.synth.names import Names


class Builder:
    """What one configuration is made of.

    Attributes:
        items: blocks so far.
        intent: what must keep working.
        facts: sentences that decide nothing.
        group: the template at work; its blocks go to one file.
    """

    def __init__(self, names: Names) -> None:
        self.names = names
        self.items: list[Item] = []
        self.intent: list[Predicate] = []
        self.facts: list[str] = []
        self.group = "main"

    def label(self) -> str:
        """A fresh block name."""
        return self.names.service().replace("-", "_")

    def tags(self) -> dict[str, Any]:
        """Tags."""
        return {
            "Team": self.names.team,
            "System": self.names.system,
            "CostCenter": f"CC-{self.names.rng.randint(100, 999)}",
        }

    def resource(self, type_: str, label: str, /, **body: Any) -> str:
        """Adds a resource; its address."""
        address = f"{type_}.{label}"
        self.items.append(Item(address, body, ("resource", type_, label), self.group))
        return address

    def document(self, name: str, sid: str, actions: list[str], resources: list[str], **more: Any) -> str:
        """Adds an IAM policy document of one statement; its address."""
        statement: dict[str, Any] = {
            "sid": "".join(part.title() for part in sid.split("_")),
            "effect": "Allow",
        }
        statement |= {"actions": actions} | ({"resources": resources} if resources else {}) | more
        address = f"data.aws_iam_policy_document.{name}"
        labels = ("data", "aws_iam_policy_document", name)
        self.items.append(Item(address, {"statement": Blocks([statement])}, labels, self.group))
        return address

    def security_group(self, name: str, port: int, cidr: str, vpc: str | None = None) -> str:
        """Adds a security group that lets one network in to one port; its address."""
        rule = {
            "from_port": port,
            "to_port": port,
            "protocol": "tcp",
            "cidr_blocks": [cidr],
            "description": "callers",
        }
        body: dict[str, Any] = {"name": name.replace("_", "-"), "description": f"Callers of {name}"}
        body["vpc_id"] = Expression(f"{vpc}.id") if vpc else f"vpc-{self.names.word(8)}"
        return self.resource("aws_security_group", name, **body, ingress=Blocks([rule]))

    def keep(self, address: str, attribute: str, value: Any) -> None:
        """A value that must stay."""
        self.intent.append(FieldEquals(object=address, path=attribute, value=value))
