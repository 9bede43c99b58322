"""What error rates mean where positives are as rare as in the field, and what an imperfect judge counted."""

from math import inf, sqrt
from typing import NamedTuple

from scipy import stats

from security_verifiers.stats.estimates import Estimate, check_level


class Share(NamedTuple):
    """Trials that ended one way.

    Attributes:
        hits: how many did, 0 <= hits <= n.
        n: trials, above 0. Neither need be whole: for clustered trials take p * m and m, with p their
            proportion and m `proportions.effective_trials`.
    """

    hits: float
    n: float

    @property
    def value(self) -> float:
        """hits / n."""
        return self.hits / self.n


def shifted_precision(recall: Estimate, false_positive_rate: Estimate, base_rate: float) -> Estimate | None:
    """Precision where a share `base_rate` of all items is positive, whatever share the test set has.

        precision = b * recall / (b * recall + (1 - b) * fpr) = 1 / (1 + (1 - b) / b * fpr / recall)

    The interval is that of the ratio fpr / recall, made of the intervals of both rates by MOVER-R:

        ratio's lower = C / (f r + sqrt(f^2 r^2 - B C)),    B = r_u (2 r - r_u),  C = f_l (2 f - f_l)
        ratio's upper = (f r + sqrt(f^2 r^2 - B C)) / B,    B = r_l (2 r - r_l),  C = f_u (2 f - f_u)

    We take it over the delta method on the logit, which has no answer where a rate is 0 or 1 (good detectors
    have fpr = 0 in most test sets), and over sampling from beta distributions, because it takes intervals of
    any kind, those by cluster too, and needs no seed. The two rates must come from different items, as
    positives and negatives are; that their clusters may overlap is not counted.

    Source: Axelsson, ACM Trans. Information and System Security 3 (2000), for the base rate; Newcombe,
    Statistical Methods in Medical Research 25 (2016), for MOVER-R. Coverage of 95 % intervals from two Wilson
    intervals, simulated over recall 0.5 to 0.95, fpr 0.001 to 0.1, 50 to 1,000 items in each class: 0.92 to
    0.99, and down to 0.89 where half a false positive is expected, as Wilson's own does.

    Args:
        recall: share of the positive items that are called positive, with its interval inside [0, 1].
        false_positive_rate: share of the negative items that are called positive, alike.
        base_rate: share of positives in the field, in (0, 1).

    Returns: None where both rates are 0: nothing is ever called positive. Without an interval where one of
        them has none. fpr = 0 gives 1, with a lower end below it; recall = 0 gives 0. `n` counts the items
        of both.

    Raises:
        ValueError: base_rate outside (0, 1), or a rate or end outside [0, 1].
    """
    _check_rates(base_rate, recall, false_positive_rate)
    r, f, n = recall.value, false_positive_rate.value, recall.n + false_positive_rate.n
    if r == 0 and f == 0:
        return None
    odds = (1 - base_rate) / base_rate
    value = 1 / (1 + odds * f / r) if r else 0.0
    if recall.lower is None or recall.upper is None:
        return Estimate(value, None, None, n, None, recall.method)
    if false_positive_rate.lower is None or false_positive_rate.upper is None:
        return Estimate(value, None, None, n, None, false_positive_rate.method)
    low, high = _ratio_interval(
        (f, false_positive_rate.lower, false_positive_rate.upper), (r, recall.lower, recall.upper)
    )
    method = f"MOVER-R at base rate {base_rate:g}, from {recall.method}"
    return Estimate(value, 1 / (1 + odds * high), 1 / (1 + odds * low), n, None, method)


def cost_at(
    false_negative_rate: Estimate, false_positive_rate: Estimate, base_rate: float, k: float
) -> Estimate:
    """Expected cost per item where a share `base_rate` is positive, in units of one false positive.

        cost  = k b fnr + (1 - b) fpr
        lower = cost - sqrt((k b (fnr - fnr_l))^2 + ((1 - b) (fpr - fpr_l))^2), upper alike

    Source: Zou and Donner, Statistics in Medicine 27 (2008), for the interval (MOVER); simulated as in
    `shifted_precision`, 95 % intervals cover 0.92 to 0.98. Abstentions, which have a price of their own, are
    not in it.

    Args:
        false_negative_rate, false_positive_rate: with intervals inside [0, 1], from different items.
        base_rate: share of positives in the field, in (0, 1).
        k: cost of one false negative, at least 0.

    Returns: without an interval where one of the rates has none. `n` counts the items of both.

    Raises:
        ValueError: base_rate outside (0, 1), k below 0 or not finite, or a rate or end outside [0, 1].
    """
    _check_rates(base_rate, false_negative_rate, false_positive_rate)
    if not 0 <= k < inf:
        raise ValueError(f"k = {k}")
    cost, n, below, above = 0.0, 0, 0.0, 0.0
    without = [rate.method for rate in (false_negative_rate, false_positive_rate) if rate.lower is None]
    for rate, weight in ((false_negative_rate, k * base_rate), (false_positive_rate, 1 - base_rate)):
        cost, n = cost + weight * rate.value, n + rate.n
        if rate.lower is not None and rate.upper is not None:
            below += (weight * (rate.value - rate.lower)) ** 2
            above += (weight * (rate.upper - rate.value)) ** 2
    if without:
        return Estimate(cost, None, None, n, None, without[0])
    method = f"MOVER at base rate {base_rate:g}, from {false_negative_rate.method}"
    return Estimate(cost, cost - sqrt(below), cost + sqrt(above), n, None, method)


def rogan_gladen(
    apparent: Share, sensitivity: Share, specificity: Share, level: float = 0.95
) -> Estimate | None:
    """True share of positives behind what an imperfect judge called positive.

        theta = (p + Sp - 1) / (Se + Sp - 1), cut to [0, 1]

    The interval counts the noise of all three. Let p', Se', Sp' be the shares after adding z^2 / 2 hits in
    z^2 trials (p) or 1 hit in 2 trials (Se, Sp), v(q) = q (1 - q) / trials of such a share, theta' made of
    them. The ends, cut to [0, 1], are c - h and c + h with

        c = theta' + 2 z^2 (theta' v(Se') - (1 - theta') v(Sp'))
        h = z sqrt(v(p') + theta'^2 v(Se') + (1 - theta')^2 v(Sp')) / (Se' + Sp' - 1)

    Source: Rogan and Gladen, American J. Epidemiology 107 (1978); Lang and Reiczigel, Preventive Veterinary
    Medicine 113 (2014). Coverage of 95 % intervals, simulated over theta 0.02 to 0.9, Se and Sp 0.7 and 0.95,
    50 to 1,000 trials: 0.94 to 0.98.

    Args:
        apparent: items called positive, out of those judged.
        sensitivity: truly positive items that the judge called positive, out of the truly positive ones.
        specificity: truly negative items that the judge called negative, out of the truly negative ones.
        level: two-sided confidence level in (0, 1).

    Returns: None where Se + Sp <= 1: such a judge tells nothing, or the opposite. `method` keeps the value
        before it was cut. The interval never leaves the value out; it is [0, 1] where Se' + Sp' <= 1. `n` is
        `apparent.n`, rounded.

    Raises:
        ValueError: a share without trials, hits outside [0, n], or level outside (0, 1).
    """
    check_level(level)
    for share in (apparent, sensitivity, specificity):
        if not (0 < share.n < inf and 0 <= share.hits <= share.n):
            raise ValueError(f"{share.hits} hits in {share.n} trials")
    discrimination = sensitivity.value + specificity.value - 1
    if discrimination <= 0:
        return None
    raw = (apparent.value + specificity.value - 1) / discrimination
    value = min(1.0, max(0.0, raw))
    z = float(stats.norm.ppf((1 + level) / 2))
    lower, upper = _lang_reiczigel(
        Share(apparent.hits + z * z / 2, apparent.n + z * z),
        Share(sensitivity.hits + 1, sensitivity.n + 2),
        Share(specificity.hits + 1, specificity.n + 2),
        z,
    )
    method = f"{level:.0%} Lang-Reiczigel" + (f"; {raw:.4g} before it was cut" if raw != value else "")
    return Estimate(value, min(value, lower), max(value, upper), round(apparent.n), None, method)


def _lang_reiczigel(p: Share, se: Share, sp: Share, z: float) -> tuple[float, float]:
    """The interval of `rogan_gladen` from the shares after adding."""
    discrimination = se.value + sp.value - 1
    if discrimination <= 0:
        return 0.0, 1.0
    theta = (p.value + sp.value - 1) / discrimination
    noise_p, noise_se, noise_sp = (share.value * (1 - share.value) / share.n for share in (p, se, sp))
    centre = theta + 2 * z * z * (theta * noise_se - (1 - theta) * noise_sp)
    half = z * sqrt(noise_p + theta**2 * noise_se + (1 - theta) ** 2 * noise_sp) / discrimination
    return min(1.0, max(0.0, centre - half)), max(0.0, min(1.0, centre + half))


def _ratio_interval(
    above: tuple[float, float, float], below: tuple[float, float, float]
) -> tuple[float, float]:
    """Interval of a ratio from (value, lower, upper) of both parts, by MOVER-R; its upper end may be inf."""
    (f, f_lower, f_upper), (r, r_lower, r_upper) = above, below
    least, most = f_lower * (2 * f - f_lower), f_upper * (2 * f - f_upper)
    root = sqrt(max(0.0, (f * r) ** 2 - r_upper * (2 * r - r_upper) * least))
    low = least / (f * r + root) if least else 0.0
    divisor = r_lower * (2 * r - r_lower)
    root = sqrt(max(0.0, (f * r) ** 2 - divisor * most))
    return low, (f * r + root) / divisor if divisor else inf


def _check_rates(base_rate: float, *rates: Estimate) -> None:
    if not 0 < base_rate < 1:
        raise ValueError(f"a base rate must lie in (0, 1), not {base_rate}")
    for rate in rates:
        ends = [end for end in (rate.lower, rate.value, rate.upper) if end is not None]
        if ends != sorted(ends) or not (ends[0] >= 0 and ends[-1] <= 1):
            raise ValueError(f"not a rate with its interval in [0, 1]: {ends}")
