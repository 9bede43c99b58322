"""Scenario: who talks to whom and how the connections go; the vocabulary of the profiles and playbooks."""

from collections.abc import Mapping
from dataclasses import dataclass

from sv_env_network_logs.flows import Label
from sv_env_network_logs.synth.laws import Laws


@dataclass(frozen=True, slots=True)
class Stack:
    """A network stack: where its source ports lie and how many header bytes its packets carry.

    Attributes:
        low, high: the range of source ports, both ends included, all equally likely.
        header: IP and transport header of a packet of an answered connection, in bytes.
        syn_header: the same for a connection of which only the opening packets were seen.
    """

    low: int
    high: int
    header: int
    syn_header: int


@dataclass(frozen=True, slots=True)
class PortRange:
    """Destination ports `low` to `high`, both included, all equally likely."""

    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Ending:
    """How Zeek sums a connection up: its state and its history."""

    state: str
    history: str


@dataclass(frozen=True, slots=True)
class Pattern:
    """One way in which a scenario's connections go.

    Attributes:
        weight: relative frequency within the scenario.
        service: the detected application protocol, or None.
        endings: how they end, with relative frequencies.
        laws: the law of each number, in the order of `laws.CHAIN`.
        opening_only: nothing but opening packets was seen, so the stack's `syn_header` counts.
    """

    weight: float
    service: str | None
    endings: Mapping[Ending, float]
    laws: Laws
    opening_only: bool = False


@dataclass(frozen=True, slots=True)
class Stream:
    """How a scenario's connections follow each other in time.

    Attributes:
        shortest, longest: the range of the typical gap between two connections, in seconds; one typical gap
            is drawn per host, from a grid that is even on the log scale.
        jitter: standard deviation of the logarithm of the gaps around it.
        one_target: all connections of a host go to one address; else each to a fresh one.
        one_port: all connections of a host go to one port; else each to a fresh one.
    """

    shortest: float
    longest: float
    jitter: float
    one_target: bool = True
    one_port: bool = True


@dataclass(frozen=True, slots=True)
class Scenario:
    """A benign profile or an attack playbook.

    Attributes:
        name: the tag that becomes an item's `detail`.
        label: the truth of its connections.
        weight: relative frequency among the scenarios of the same label.
        proto: transport protocol.
        ports: destination ports with relative frequencies.
        lan: probability that the destination is on the host's own network.
        stacks: network stacks with relative frequencies.
        patterns: by a name that an attack shares with its cover where it imitates it.
        stream: its behaviour in time.
        cover: the benign profile that an attack hides in ("" for a benign profile).
    """

    name: str
    label: Label
    weight: float
    proto: str
    ports: Mapping[PortRange, float]
    lan: float
    stacks: Mapping[Stack, float]
    patterns: Mapping[str, Pattern]
    stream: Stream
    cover: str = ""
