"""Discrete laws with exact masses: what the recipe draws from, and what its posterior is computed with.

Every displayed number is a rounded one, so its mass is the probability of the interval that rounds to it.
All functions take and return float arrays of one shape (n,); NaN stands for an absent value. Masses are
accurate while a valid range comes within 35 standard deviations of its law's centre; no scenario leaves that.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri

from sv_env_network_logs.render import round_seconds

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

MSS = 1460
"""Largest payload of one packet over Ethernet with plain IPv4 and TCP headers, in bytes."""

Field = Literal["orig_pkts", "resp_pkts", "orig_bytes", "resp_bytes", "duration"]
CHAIN: tuple[Field, ...] = ("orig_pkts", "resp_pkts", "orig_bytes", "resp_bytes", "duration")
"""The order in which a flow's numbers are drawn: each may depend on those before it."""

Numbers = Mapping[Field, Floats]
"""The numeric fields drawn so far."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """Always the same value; None means absent."""

    value: float | None


@dataclass(frozen=True, slots=True)
class Multiple:
    """A fixed factor times an earlier number, such as 48 bytes per NTP packet."""

    of: Field
    factor: float


@dataclass(frozen=True, slots=True)
class Amount:
    """A log-normal amount, rounded to what is displayed and cut to a valid range.

    Attributes:
        median: the median before cutting.
        spread: the standard deviation of the logarithm.
        pulls: by earlier number, how many of its standard deviations carry over to this one; with independent
            parents these are correlations on the log scale, and the spread stays as given.
        low, high: the valid range, both ends included; low >= 1 for counts, and 3-digit ends for durations.
        per_packet: further upper bound, as a multiple of the same side's packets (payload that fits in them).
    """

    median: float
    spread: float
    pulls: Mapping[Field, float]
    low: float
    high: float
    per_packet: float | None = None

    @property
    def noise(self) -> float:
        """The standard deviation of the logarithm given the parents."""
        return self.spread * float(np.sqrt(max(0.05, 1.0 - sum(pull * pull for pull in self.pulls.values()))))


Law = Fixed | Multiple | Amount
Laws = Mapping[Field, Law]


def draw(field: Field, laws: Laws, numbers: Numbers, n: int, rng: np.random.Generator) -> Floats:
    """`n` values of `field`, given the numbers drawn before it."""
    law = laws[field]
    if isinstance(law, Fixed):
        return np.full(n, np.nan if law.value is None else law.value)
    if isinstance(law, Multiple):
        return np.asarray(numbers[law.of] * law.factor)
    centre, (low, high) = _centre(law, laws, numbers, n), _range(field, law, numbers, n)
    if field != "duration":
        return draw_count(centre, law.noise, low, high, rng)
    exact = _lognormal_between(centre, law.noise, low, high, rng)
    return np.array([round_seconds(value) for value in exact.tolist()], dtype=np.float64)


def mass(field: Field, laws: Laws, numbers: Numbers) -> Floats:
    """The probability of each displayed value of `field` given the numbers before it; 0 outside the range."""
    law, values = laws[field], numbers[field]
    if isinstance(law, Fixed):
        return np.asarray(np.isnan(values) if law.value is None else values == law.value, dtype=np.float64)
    if isinstance(law, Multiple):
        return np.asarray(values == numbers[law.of] * law.factor, dtype=np.float64)
    centre, (low, high) = _centre(law, laws, numbers, len(values)), _range(field, law, numbers, len(values))
    if field != "duration":
        return count_mass(values, centre, law.noise, low, high)
    return _interval_share(*_displayed_as(values), centre, law.noise, low, high)


def draw_count(
    centre: Floats, noise: Floats | float, low: Floats, high: Floats, rng: np.random.Generator
) -> Floats:
    """Whole numbers from `low` (>= 1) to `high`: a log-normal with ln-mean `centre`, cut, then rounded."""
    values: Floats = np.clip(
        np.rint(_lognormal_between(centre, noise, low - 0.5, high + 0.5, rng)), low, high
    )
    return values


def count_mass(values: Floats, centre: Floats, noise: Floats | float, low: Floats, high: Floats) -> Floats:
    """The probability of each of `draw_count`'s values; arguments broadcast."""
    return _interval_share(values - 0.5, values + 0.5, centre, noise, low - 0.5, high + 0.5)


def _interval_share(
    start: Floats, end: Floats, centre: Floats, noise: Floats | float, low: Floats, high: Floats
) -> Floats:
    """P(start < X <= end | low < X <= high) for ln X ~ N(centre, noise^2); 0 where that is undefined."""
    inside = _lognormal_interval(np.clip(start, low, high), np.clip(end, low, high), centre, noise)
    shares: Floats = np.nan_to_num(inside / _lognormal_interval(low, high, centre, noise), nan=0.0)
    return shares


def _lognormal_interval(low: Floats, high: Floats, centre: Floats, noise: Floats | float) -> Floats:
    """P(low < X <= high) for ln X ~ N(centre, noise^2), accurate in both tails."""
    a, b = (np.log(low) - centre) / noise, (np.log(high) - centre) / noise
    flipped = a > 0
    masses: Floats = ndtr(np.where(flipped, -a, b)) - ndtr(np.where(flipped, -b, a))
    return masses


def _lognormal_between(
    centre: Floats, noise: Floats | float, low: Floats, high: Floats, rng: np.random.Generator
) -> Floats:
    """Draws of X given low < X <= high, ln X ~ N(centre, noise^2), accurate in both tails."""
    a, b = (np.log(low) - centre) / noise, (np.log(high) - centre) / noise
    flipped = a > 0
    floor, ceiling = ndtr(np.where(flipped, -b, a)), ndtr(np.where(flipped, -a, b))
    z = ndtri(floor + rng.random(len(centre)) * (ceiling - floor))
    draws: Floats = np.clip(np.exp(centre + noise * np.where(flipped, -z, z)), low, high)
    return draws


def _centre(law: Amount, laws: Laws, numbers: Numbers, n: int) -> Floats:
    """The mean of the logarithm given the parents; a parent that is not an Amount carries nothing over."""
    shift = np.zeros(n)
    for parent, pull in law.pulls.items():
        source = laws[parent]
        if isinstance(source, Amount):
            shift += pull * (np.log(numbers[parent]) - np.log(source.median)) / source.spread
    return np.asarray(np.log(law.median) + law.spread * shift)


def _range(field: Field, law: Amount, numbers: Numbers, n: int) -> tuple[Floats, Floats]:
    """The valid range of each row, both ends included."""
    high = np.full(n, law.high)
    if law.per_packet is not None:
        high = np.minimum(
            high, law.per_packet * numbers["orig_pkts" if field == "orig_bytes" else "resp_pkts"]
        )
    return np.full(n, law.low), np.maximum(high, law.low)


def _displayed_as(values: Floats) -> tuple[Floats, Floats]:
    """The interval of exact durations that are displayed as `values`."""
    exponent = np.floor(np.log10(values) + 1e-9)
    half_step = 0.5 * 10.0 ** (exponent - 2)
    at_power_of_ten = np.isclose(values, 10.0**exponent, rtol=1e-9)
    return values - np.where(at_power_of_ten, half_step / 10, half_step), values + half_step
