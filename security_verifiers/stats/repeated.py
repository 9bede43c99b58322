"""Several attempts at one task: does any succeed, do all?"""

from collections.abc import Callable
from functools import cache
from math import comb

from numpy.typing import ArrayLike

from security_verifiers.stats.arrays import finite_vector, same_length
from security_verifiers.stats.estimates import Estimate, cluster_mean


def pass_at_k(n: int, c: int, k: int) -> float:
    """Chance that at least one of k attempts succeeds, without bias, from n attempts of which c succeeded.

        1 - C(n - c, k) / C(n, k)

    the share of all draws of k attempts out of the n that hold a success. (1 - (1 - c / n)^k would be too
    small on average.) For attack: a hole need be found only once.

    Source: Chen et al., "Evaluating large language models trained on code" (arXiv:2107.03374).

    Args:
        n: attempts, at least k.
        c: successful ones, 0 <= c <= n.
        k: attempts that count, at least 1.

    Edge cases: k = n gives 1 if anything succeeded, else 0; k = 1 gives c / n.

    Raises:
        ValueError: k below 1 or above n, or c outside [0, n].
    """
    _check(n, c, k)
    # Whole numbers up to the one division, so that nothing cancels however small c / n is.
    return (comb(n, k) - comb(n - c, k)) / comb(n, k)


def pass_hat_k(n: int, c: int, k: int) -> float:
    """Chance that all of k attempts succeed ("pass^k"), without bias, from n attempts of which c succeeded.

        C(c, k) / C(n, k)

    For defence: what holds most of the time does not hold.

    Source: Yao et al., "tau-bench" (arXiv:2406.12045).

    Args:
        n: attempts, at least k.
        c: successful ones, 0 <= c <= n.
        k: attempts that count, at least 1.

    Edge cases: k = n gives 1 if everything succeeded, else 0; k = 1 gives c / n; c < k gives 0.

    Raises:
        ValueError: k below 1 or above n, or c outside [0, n].
    """
    _check(n, c, k)
    return comb(c, k) / comb(n, k)


def mean_pass_at_k(n: ArrayLike, c: ArrayLike, k: int, clusters: ArrayLike, level: float = 0.95) -> Estimate:
    """`pass_at_k` averaged over tasks, each counting once, with the interval of `cluster_mean`.

    Args:
        n, c: int[T], attempts and successes of each task; tasks may have different numbers of attempts.
        k: attempts that count.
        clusters: labels [T], strings or integers; attempts at one task are inside its one value already.
        level: two-sided confidence level in (0, 1).

    Edge cases: one cluster gives no interval; tasks that all have the same value one of zero width. The
    interval is not cut to [0, 1].

    Raises:
        ValueError: no tasks, different lengths, counts that are not whole, or a task that `pass_at_k` refuses
            (the caller leaves out tasks with fewer than k attempts, and says so).
    """
    return _mean(pass_at_k, n, c, k, clusters, level)


def mean_pass_hat_k(n: ArrayLike, c: ArrayLike, k: int, clusters: ArrayLike, level: float = 0.95) -> Estimate:
    """`pass_hat_k` averaged over tasks; arguments, edge cases and errors as in `mean_pass_at_k`."""
    return _mean(pass_hat_k, n, c, k, clusters, level)


def _mean(
    of_task: Callable[[int, int, int], float],
    n: ArrayLike,
    c: ArrayLike,
    k: int,
    clusters: ArrayLike,
    level: float,
) -> Estimate:
    attempts, successes = finite_vector(n, "n"), finite_vector(c, "c")
    same_length(n=attempts, c=successes)
    if (attempts % 1).any() or (successes % 1).any():
        raise ValueError("attempts and successes are counts, so whole numbers")
    of_counts = cache(of_task)  # tasks share few different counts, and big binomials are slow
    values = [of_counts(int(a), int(b), k) for a, b in zip(attempts, successes, strict=True)]
    return cluster_mean(values, clusters, level)


def _check(n: int, c: int, k: int) -> None:
    if not 1 <= k <= n:
        raise ValueError(f"k = {k} of {n} attempts")
    if not 0 <= c <= n:
        raise ValueError(f"{c} successes in {n} attempts")
