"""McNemar's test: did two runs get the same items right?"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from security_verifiers.stats.arrays import same_length, truth_vector


@dataclass(frozen=True, slots=True)
class McNemar:
    """The items that two runs decide differently, and whether chance explains which way they went.

    Attributes:
        gained: items that only the candidate got right.
        lost: items that only the base got right.
        n: items that both runs answered.
        p_value: exact, two-sided, of "a changed item is as likely gained as lost".
        mid_p: the same with half the probability of the very table that was seen; less conservative.
        method: how the p-value was made; fit to stand under a table.
    """

    gained: int
    lost: int
    n: int
    p_value: float
    mid_p: float
    method: str


def mcnemar(base: ArrayLike, candidate: ArrayLike) -> McNemar:
    """Exact McNemar test for pairs that are independent of each other.

        p     = min(1, 2 P(X <= min(gained, lost)))    X ~ Binomial(gained + lost, 1/2)
        mid_p = 2 P(X <= min(gained, lost)) - P(X = min(gained, lost))

    Only changed items tell anything. Pairs of one cluster change together, which makes both p-values too
    small; `paired_difference` is the test that knows of clusters, and is to be printed beside this one.

    Source: McNemar, Psychometrika 12 (1947); mid-p after Fagerland, Lydersen, Laake, BMC Medical Research
    Methodology 13:91 (2013), who find the exact test too cautious and mid-p rarely above its level.

    Args:
        base, candidate: bool[n], whether each run got item i right.

    Edge cases: no changed item, and as many gained as lost, give 1 for both; so does a single unchanged item.
    A single changed item gives p = 1 and mid_p = 0.5.

    Raises:
        ValueError: no pairs, different lengths, or elements that are not boolean.
    """
    before, after = truth_vector(base, "base"), truth_vector(candidate, "candidate")
    n = same_length(base=before, candidate=after)
    if n == 0:
        raise ValueError("there is nothing to test in no pairs")
    gained = int(np.count_nonzero(after & ~before))
    lost = int(np.count_nonzero(before & ~after))
    fewer, changed = min(gained, lost), gained + lost
    tail = 2 * float(stats.binom.cdf(fewer, changed, 0.5))
    mid_p = min(1.0, tail - float(stats.binom.pmf(fewer, changed, 0.5)))
    return McNemar(gained, lost, n, min(1.0, tail), mid_p, "exact McNemar, pairs taken as independent")
