"""Non-inferiority: is the candidate's fall on every metric within its margin? The decision of `sv gate`."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from security_verifiers.stats.arrays import (
    Bools,
    ClusterSums,
    Floats,
    cluster_sums,
    finite_vector,
    same_length,
)
from security_verifiers.stats.estimates import check_level
from security_verifiers.stats.multiple import holm
from security_verifiers.stats.power import minimum_detectable, needed, repetitions

DRAWS = 2_000
"""Default number of simulated run pairs behind the printed power: a standard error of at most 1.1 points."""

_SEARCH_STEPS = 7
"""Halvings of the growth factor's logarithm: the further pairs are right to some 2 % of a tenfold growth."""


class Verdict(StrEnum):
    """What the data say of a fall by the margin."""

    PASS = "pass"
    """A fall of the margin or more is ruled out."""
    FAIL = "fail"
    """It fell by more than the margin, and not by chance."""
    INCONCLUSIVE = "inconclusive"
    """Neither is shown."""


@dataclass(frozen=True, slots=True)
class MetricDecision:
    """One metric of the gate. Higher is better; what a single cluster leaves undefined is None.

    Attributes:
        name: the metric's.
        delta: mean of candidate minus base.
        margin: the fall that is no longer accepted.
        verdict: what follows.
        reason: the verdict in words.
        pairs, clusters: their numbers.
        lower, upper: ends of the delta's two-sided interval, before Holm.
        se, df: its standard error and degrees of freedom (clusters - 1).
        p_pass, p_fail: one-sided p-values of "fell by the margin or more" and of "did not fall".
        p_pass_holm, p_fail_holm: the same, adjusted over all metrics.
        detectable: smallest true difference that a two-sided test finds with the power aimed at.
        further: pairs lacking until this metric alone passes with the power aimed at, if nothing changed; 0
            where there are enough.
    """

    name: str
    delta: float
    margin: float
    verdict: Verdict
    reason: str
    pairs: int
    clusters: int
    lower: float | None = None
    upper: float | None = None
    se: float | None = None
    df: int | None = None
    p_pass: float | None = None
    p_fail: float | None = None
    p_pass_holm: float | None = None
    p_fail_holm: float | None = None
    detectable: float | None = None
    further: int | None = None

    @property
    def significantly_worse(self) -> bool:
        """Whether it passes although the fall is real: the margin allows it, but it is to be told."""
        return self.verdict is Verdict.PASS and self.upper is not None and self.upper < 0


@dataclass(frozen=True, slots=True)
class GateDecision:
    """The gate's whole answer.

    Attributes:
        verdict: pass if every metric passes, fail if any fails, else inconclusive.
        metrics: one by one, in the order given.
        pass_if_unchanged: chance of an overall pass with this many pairs where no metric truly changed.
        fail_if_dropped: chance of an overall fail where every metric truly fell by twice its margin.
        further: pairs lacking until `pass_if_unchanged` reaches the power aimed at, to some 2 %; 0 where
            there are enough.

    The last three are None with one or two clusters, which leave nothing to judge a repetition by.
    """

    verdict: Verdict
    metrics: tuple[MetricDecision, ...]
    pass_if_unchanged: float | None
    fail_if_dropped: float | None
    further: int | None


class _Design(NamedTuple):
    """What the rule needs to know besides the deltas: margins float64[m], df, and alpha, one-sided."""

    margins: Floats
    df: int
    alpha: float


class _Errors(NamedTuple):
    """How the deltas err.

    Attributes:
        covariance: float64[m, m], between metrics (CR3).
        skews: float64[m], skewness of each delta.
        floors: float64[m], what is added to each variance.
    """

    covariance: Floats
    skews: Floats
    floors: Floats

    @property
    def ses(self) -> Floats:
        """float64[m]: the standard errors that the intervals use."""
        return np.sqrt(np.diag(self.covariance) + self.floors)


def decide(
    names: Sequence[str],
    differences: ArrayLike,
    clusters: ArrayLike,
    margins: ArrayLike,
    *,
    spans: ArrayLike,
    deterministic: bool,
    level: float = 0.95,
    power_target: float | None = 0.8,
    draws: int = DRAWS,
    seed: int = 0,
) -> GateDecision:
    """Decide for every metric, and for all, whether the candidate is worse than the base by its margin.

        interval  delta -+ t(G - 1, (1 + level) / 2) * se      se^2 = CR3 jackknife over clusters + floor
        p_pass    P(T > (delta + margin) / se)                 H0: delta <= -margin
        p_fail    P(T > -delta / se)                           H0: delta >= 0
        pass      Holm's p_pass <= alpha                       alpha = (1 - level) / 2
        fail      delta < -margin and Holm's p_fail <= alpha
        else      inconclusive

    Holm runs over the p_pass of all metrics and over their p_fail, apart. floor = (span / n)^2 between
    sampled runs: half a pair that moved by the whole span each way (for accuracy the half counts of Agresti
    and Min, Statistics in Medicine 24, 2005), so that "no pair differed" proves nothing among few. Runs of
    deterministic players differ on these tasks by exactly what is seen, and have no floor.

    The printed power counts how often this very rule passes and fails in `power.repetitions`, with the
    estimated covariance between metrics. A fall by more than the present mean |difference| takes more pairs
    that differ; there the variances grow in proportion (from none: pairs that fall by the whole span).

    Source: Piaggio et al., CONSORT extension for non-inferiority trials, JAMA 308 (2012); `jackknife_se` for
    CR3; Holm as in `multiple.holm`.

    Args:
        names: of m metrics, at least one, all different.
        differences: float[m, n], finite; candidate minus base of each pair, higher is better, such that the
            mean over pairs is the metric's change (see `estimates.linearised`).
        clusters: labels [n], strings or integers.
        margins: float[m], above 0.
        spans: float[m], above 0; the most by which one pair can move: the width of the metric's range (1 for
            accuracy), divided by the share of pairs that count where not all do (a false negative rate).
        deterministic: whether playing again would give the same answers in both runs.
        level: two-sided confidence level in (0, 1).
        power_target: the power aimed at by `detectable` and `further`; None leaves them out, to be quick.
        draws: simulated run pairs behind the printed power, at least 100.
        seed: seeds them.

    Edge cases: a standard error of 0 compares exactly; one cluster passes only where deterministic runs do
    not differ in any pair, and is inconclusive else.

    Raises:
        ValueError: arrays of other shapes, no pairs, values that are not finite, a margin that is not above
            0, or a number out of range.
    """
    check_level(level)
    rows, limits, widths = _checked(names, differences, margins, spans)
    if draws < 100 or not (power_target is None or 0 < power_target < 1):
        raise ValueError(f"{draws} draws and a power of {power_target} make no simulation")
    sums = [cluster_sums(row, clusters) for row in rows]
    n, groups = rows.shape[1], len(sums[0].sizes)
    if groups == 1:
        exact = [deterministic and not row.any() for row in rows]
        metrics = tuple(map(_without_interval, names, rows, limits, exact))
        return GateDecision(_overall(metrics), metrics, None, None, None)
    errors = _errors(sums, np.zeros(len(rows)) if deterministic else np.square(widths / n))
    design = _Design(limits, groups - 1, (1 - level) / 2)
    metrics = _with_intervals(names, np.array([s.mean for s in sums]), errors, design, n, power_target)
    if groups == 2:
        return GateDecision(_overall(metrics), metrics, None, None, None)
    unchanged, further = _pass_if_unchanged(errors, design, draws, seed), None
    if power_target is not None:
        enough = unchanged >= power_target
        further = 0 if enough else _further(errors, design, n, power_target, draws, seed)
    return GateDecision(
        _overall(metrics),
        metrics,
        unchanged,
        _fail_if_dropped(_fallen(errors, rows, widths, 2 * limits), design, draws, seed),
        further,
    )


def _checked(
    names: Sequence[str], differences: ArrayLike, margins: ArrayLike, spans: ArrayLike
) -> tuple[Floats, Floats, Floats]:
    """(differences [m, n], margins [m], spans [m])."""
    rows = np.asarray(differences, dtype=np.float64)
    limits, widths = finite_vector(margins, "margins"), finite_vector(spans, "spans")
    if rows.ndim != 2 or 0 in rows.shape or not len(rows) == len(set(names)) == len(names):
        raise ValueError(f"differences of shape {rows.shape} for metrics {list(names)}")
    same_length(differences=rows, margins=limits, spans=widths)
    for name, row, limit, width in zip(names, rows, limits, widths, strict=True):
        finite_vector(row, f"differences of {name}")
        if limit <= 0 or width <= 0:
            raise ValueError(f"{name} has a margin of {limit} and a span of {width}; both must be above 0")
    return rows, limits, widths


# The rule -------------------------------------------------------------------------------------------------


def _rule(deltas: Floats, ses: Floats, design: _Design) -> tuple[Bools, Bools]:
    """(passes, fails) bool[b, m] of b run pairs with deltas and standard errors float64[b, m]."""
    passes = _holm_rejects(_t(deltas + design.margins, ses), design)
    falls = _holm_rejects(_t(-deltas, ses), design)
    return passes, falls & (deltas < -design.margins)


def _t(distance: Floats, se: Floats) -> Floats:
    """distance / se; an error of 0 makes a positive distance certain, and any other impossible."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(se > 0, distance / se, np.where(distance > 0, np.inf, -np.inf))


def _holm_rejects(t: Floats, design: _Design) -> Bools:
    """Which of m one-sided tests Holm rejects, bool[b, m]: `multiple.holm` <= alpha, on the scale of t."""
    m = t.shape[1]
    critical = special.stdtrit(design.df, 1 - design.alpha / np.arange(m, 0, -1))
    order = np.argsort(-t, axis=1, kind="stable")
    rejected = np.logical_and.accumulate(np.take_along_axis(t, order, axis=1) >= critical, axis=1)
    out = np.empty_like(rejected)
    np.put_along_axis(out, order, rejected, axis=1)
    return out


def _overall(metrics: Sequence[MetricDecision]) -> Verdict:
    verdicts = {metric.verdict for metric in metrics}
    if verdicts == {Verdict.PASS}:
        return Verdict.PASS
    return Verdict.FAIL if Verdict.FAIL in verdicts else Verdict.INCONCLUSIVE


# Metric by metric -----------------------------------------------------------------------------------------


def _errors(sums: Sequence[ClusterSums], floors: Floats) -> _Errors:
    """Covariance of the means, whose diagonal is `jackknife_se` squared, and their skewness."""
    sizes = sums[0].sizes
    shifts = np.array([s.residuals for s in sums]) / (sizes.sum() - sizes)
    squares = np.square(shifts).sum(axis=1)
    skews = (shifts**3).sum(axis=1) / np.where(squares > 0, squares, 1.0) ** 1.5
    return _Errors((len(sizes) - 1) / len(sizes) * (shifts @ shifts.T), skews, floors)


def _with_intervals(
    names: Sequence[str], deltas: Floats, errors: _Errors, design: _Design, n: int, power: float | None
) -> tuple[MetricDecision, ...]:
    ses, df = errors.ses, design.df
    passes, fails = (flags[0] for flags in _rule(deltas[None], ses[None], design))
    p_pass, p_fail = special.stdtr(df, -np.array([_t(deltas + design.margins, ses), _t(-deltas, ses)]))
    holm_pass, holm_fail = holm(p_pass), holm(p_fail)
    level = 1 - 2 * design.alpha
    half = special.stdtrit(df, 1 - design.alpha) * ses
    metrics = []
    for j, name in enumerate(names):
        verdict = Verdict.PASS if passes[j] else Verdict.FAIL if fails[j] else Verdict.INCONCLUSIVE
        delta, se, margin = float(deltas[j]), float(ses[j]), float(design.margins[j])
        lower, upper = delta - float(half[j]), delta + float(half[j])
        detectable = further = None
        if power is not None:
            detectable = minimum_detectable(se, df, power=power, level=level)
            further = max(0, needed(n, se, df, margin, power=power, level=level) - n)
        metrics.append(
            MetricDecision(
                name=name,
                delta=delta,
                lower=lower,
                upper=upper,
                se=se,
                df=df,
                margin=margin,
                p_pass=float(p_pass[j]),
                p_fail=float(p_fail[j]),
                p_pass_holm=holm_pass[j],
                p_fail_holm=holm_fail[j],
                verdict=verdict,
                detectable=detectable,
                pairs=n,
                clusters=df + 1,
                further=further,
                reason=_reason(verdict, delta, lower, upper, margin),
            )
        )
    return tuple(metrics)


def _without_interval(name: str, row: Floats, margin: float, exact: bool) -> MetricDecision:
    """A metric of a single cluster."""
    return MetricDecision(
        name=name,
        delta=float(row.mean()),
        margin=float(margin),
        verdict=Verdict.PASS if exact else Verdict.INCONCLUSIVE,
        reason="deterministic runs that differ in no pair" if exact else "no interval: a single cluster",
        pairs=len(row),
        clusters=1,
    )


def _reason(verdict: Verdict, delta: float, lower: float, upper: float, margin: float) -> str:
    limit, fall = f"the margin of {margin:.4g}", f"{-delta:.4g} ({-upper:.4g} to {-lower:.4g})"
    if verdict is Verdict.PASS:
        return f"significantly worse, by {fall}, but within {limit}" if upper < 0 else f"no fall by {limit}"
    if verdict is Verdict.FAIL:
        return f"worse by {fall}, more than {limit}, and not by chance"
    if lower > -margin:
        return f"a fall by {limit} is ruled out here, but not after Holm over all metrics"
    if delta < -margin:
        chance = "though not after Holm over all metrics" if upper < 0 else "but chance may have done it"
        return f"worse by {fall}, more than {limit}, {chance}"
    if upper < 0:
        return f"significantly worse, by {fall}; whether by more than {limit} is open"
    return f"a fall by {limit} is neither shown nor ruled out"


# The printed power ----------------------------------------------------------------------------------------


def _repeated(errors: _Errors, design: _Design, draws: int, seed: int) -> tuple[Floats, Floats, _Design]:
    """(errors of the deltas, standard errors) float64[draws, m], and the design that judges them."""
    rng = np.random.default_rng(seed)
    noise, variances = repetitions(errors.covariance, errors.skews, design.df, draws, rng)
    return noise, np.sqrt(variances + errors.floors), design._replace(df=design.df - 1)


def _pass_if_unchanged(errors: _Errors, design: _Design, draws: int, seed: int) -> float:
    """Chance that every metric passes where the true deltas are 0."""
    noise, ses, judge = _repeated(errors, design, draws, seed)
    return float(_rule(noise, ses, judge)[0].all(axis=1).mean())


def _fail_if_dropped(errors: _Errors, design: _Design, draws: int, seed: int) -> float:
    """Chance that any metric fails where each true delta is -2 margins."""
    noise, ses, judge = _repeated(errors, design, draws, seed)
    return float(_rule(noise - 2 * design.margins, ses, judge)[1].any(axis=1).mean())


def _fallen(errors: _Errors, rows: Floats, spans: Floats, falls: Floats) -> _Errors:
    """The errors with as many differing pairs as mean falls of `falls` take at least."""
    present = np.abs(rows).mean(axis=1)
    apart = present > 0
    stretch = np.sqrt(np.maximum(1.0, falls / np.where(apart, present, falls)))
    covariance = errors.covariance * np.outer(stretch, stretch)
    covariance += np.diag(np.where(apart, 0.0, np.maximum(0.0, falls * (spans - falls)) / rows.shape[1]))
    return errors._replace(covariance=covariance, skews=errors.skews / stretch)


def _further(errors: _Errors, design: _Design, n: int, power: float, draws: int, seed: int) -> int:
    """Pairs lacking until an overall pass has the power where nothing changed."""
    # Enough by Bonferroni's inequality, both of the tests and of their chances to miss.
    m, groups = len(errors.floors), design.df + 1
    level, each = 1 - 2 * design.alpha / m, 1 - (1 - power) / m
    most = max(
        needed(n, float(se), design.df, float(margin), power=each, level=level)
        for se, margin in zip(errors.ses, design.margins, strict=True)
    )
    low, high = 1.0, max(1.0, most / n)
    for _ in range(_SEARCH_STEPS):
        growth = float(np.sqrt(low * high))
        grown = _Errors(errors.covariance / growth, errors.skews / np.sqrt(growth), errors.floors / growth)
        more = design._replace(df=round(groups * growth) - 1)
        reached = _pass_if_unchanged(grown, more, draws, seed) >= power
        low, high = (low, growth) if reached else (growth, high)
    return int(np.ceil((high - 1) * n))
