"""Power: what a number of pairs can show, and how many pairs it takes."""

import math

import numpy as np
from scipy import special

from security_verifiers.stats.arrays import Floats
from security_verifiers.stats.estimates import check_level

_FAR = 30.0
"""From this centre on the non-central t is integrated here."""


def minimum_detectable(se: float, df: float, *, power: float = 0.8, level: float = 0.95) -> float:
    """The true shift that a two-sided test at 1 - level finds with the given power (in its own direction).

        (t(df, (1 + level) / 2) + t(df, power)) * se

    Source: Bloom, "Minimum detectable effects", Evaluation Review 19 (1995). At a power of 0.8 the exact
    figure (the shift at which `power_of` is 0.8) is within 1 % of it from 5 df on, and 2.3 % larger at 3 df.

    Args:
        se: standard error of the mean difference, finite and at least 0.
        df: its degrees of freedom, above 0 (clusters - 1).
        power: chance to find it, in (0, 1).
        level: two-sided confidence level in (0, 1).

    Edge cases: se = 0 gives 0; a power below (1 - level) / 2 asks for less than chance gives, and the result
    may be negative.

    Raises:
        ValueError: an argument out of range.
    """
    _check(se, df, level)
    _check_power(power)
    return float(special.stdtrit(df, (1 + level) / 2) + special.stdtrit(df, power)) * se


def power_of(se: float, df: float, distance: float, *, level: float = 0.95) -> float:
    """Chance that a one-sided t test at (1 - level) / 2 rejects, where the truth lies `distance` beyond H0.

        P(T > t(df, (1 + level) / 2))    T non-central t with df degrees of freedom, centre distance / se

    This is the chance that one end of the two-sided interval of that level lies beyond H0.

    Args:
        se: standard error, finite and at least 0.
        df: its degrees of freedom, above 0.
        distance: how far the true mean lies inside the alternative; negative: inside H0.
        level: two-sided confidence level in (0, 1).

    Edge cases: se = 0 gives 1 for a positive distance, else 0.

    Raises:
        ValueError: an argument out of range.
    """
    _check(se, df, level)
    if not math.isfinite(distance):
        raise ValueError(f"distance must be finite, not {distance}")
    centre = distance / se if se > 0 else math.inf
    if not math.isfinite(centre):
        return 1.0 if distance > 0 else 0.0
    critical = special.stdtrit(df, (1 + level) / 2)
    if centre < _FAR:
        return float(1.0 - special.nctdtr(df, centre, critical))
    # scipy's non-central t is NaN out here; instead the normal part is averaged over chi-square's tail.
    nodes, weights = np.polynomial.hermite_e.hermegauss(20)
    inside = special.chdtr(df, df * np.square(np.minimum((centre + nodes) / critical, 1e100)))
    return float(weights @ inside / weights.sum())


def needed(n: int, se: float, df: float, distance: float, *, power: float = 0.8, level: float = 0.95) -> int:
    """How many pairs in all give the test of `power_of` the power, if more of them are like the n at hand.

    The standard error falls with sqrt(n), and the clusters (df + 1) grow with n: the further pairs come in
    further clusters of the same size. A search over whole numbers, exact to the last one.

    Args:
        n: pairs at hand, at least 1.
        se, df: standard error and degrees of freedom at n pairs.
        distance: the true shift beyond H0, above 0.
        power: in (0, 1).
        level: two-sided confidence level in (0, 1).

    Returns: may be smaller than n. At least the number of pairs that fills two clusters, which is the result
        at se = 0.

    Raises:
        ValueError: an argument out of range.
    """
    _check(se, df, level)
    _check_power(power)
    if n < 1 or not distance > 0:
        raise ValueError(f"{n} pairs and a distance of {distance} define no number of pairs")

    def enough(pairs: int) -> bool:
        growth = pairs / n
        return power_of(se / math.sqrt(growth), (df + 1) * growth - 1, distance, level=level) >= power

    low = high = math.ceil(2 * n / (df + 1))
    while not enough(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def repetitions(
    covariance: Floats, skews: Floats, df: int, draws: int, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Errors of m means, and their estimated variances, as repetitions of an experiment would have them.

    Not drawn from a normal distribution with the estimated covariance: that overstates what few clusters can
    show, because power bends upwards in the noise of the estimate (30 % printed where it is 19 %, at 4
    clusters). Instead the residuals are rotated, which undoes that noise:

        error_j    = sqrt(S_jj) (u_j + g_j (u_j^2 - 1) / 6)       sqrt(S_jj) u_j = sqrt(df) (L v)_j
        variance_j = S_jj (df - u_j^2) / (df - 1) * exp(g_j u_j - g_j^2 / 2)

    S = L L', v the first coordinates of a point drawn on the unit sphere in df dimensions, g the skewness of
    the mean. Without skewness, and for normal data, the share of draws in which a t test with df - 1 degrees
    of freedom rejects has exactly that test's power as its expectation. The terms in g are the first ones of
    Cornish and Fisher's expansion and of the regression of a sample's variance on its mean.

    Source: Langsrud, "Rotation tests", Statistics and Computing 15 (2005); Lehmann and Casella, "Theory of
    point estimation" (1998), 2.2, for the unbiased estimate; Johnson, JASA 73 (1978), for the skewness.

    Args:
        covariance: float64[m, m], estimated with df degrees of freedom.
        skews: float64[m], the skewness of each mean.
        df: at least 2.
        draws: number of repetitions.
        rng: their source.

    Returns: (errors, variances), each float64[draws, m]; where S_jj = 0 both are 0.

    Raises:
        ValueError: df below 2.
    """
    if df < 2:
        raise ValueError(f"{df} degrees of freedom leave none for the variance of a repetition")
    values, vectors = np.linalg.eigh(covariance)
    rank = min(len(values), df)
    root = (vectors * np.sqrt(np.maximum(values, 0.0)))[:, -rank:]
    spread = np.sqrt(np.diag(covariance))
    point = rng.standard_normal((draws, rank))
    rest = rng.chisquare(df - rank, draws) if df > rank else np.zeros(draws)
    radius = np.sqrt(np.square(point).sum(axis=1) + rest)
    u = np.sqrt(df) * (point / radius[:, None]) @ root.T / np.where(spread > 0, spread, 1.0)
    errors = spread * (u + skews * (np.square(u) - 1) / 6)
    variances = np.maximum(0.0, df - np.square(u)) / (df - 1) * np.exp(skews * u - np.square(skews) / 2)
    return errors, np.square(spread) * variances


def _check(se: float, df: float, level: float) -> None:
    check_level(level)
    if not (0 <= se < np.inf and 0 < df < np.inf):
        raise ValueError(f"a standard error of {se} with {df} degrees of freedom")


def _check_power(power: float) -> None:
    if not 0 < power < 1:
        raise ValueError(f"power must lie in (0, 1), not {power}")
