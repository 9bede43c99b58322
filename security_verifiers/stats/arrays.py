"""The checks that every estimator makes of its arrays, and sums by cluster."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Codes = NDArray[np.intp]


def finite_vector(values: ArrayLike, name: str) -> Floats:
    """`values` as float64[n]; n may be 0.

    Raises:
        ValueError: not one-dimensional, or an element is NaN or infinite (its index is named).
    """
    vector = np.asarray(values, dtype=np.float64)
    if vector.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, not of shape {vector.shape}")
    finite = np.isfinite(vector)
    if not finite.all():
        raise ValueError(f"{name}[{int(np.argmin(finite))}] is not finite")
    return vector


def unit_vector(values: ArrayLike, name: str) -> Floats:
    """`values` as float64[n] with every element in [0, 1].

    Raises:
        ValueError: as `finite_vector`, or an element lies outside [0, 1].
    """
    vector = finite_vector(values, name)
    outside = (vector < 0) | (vector > 1)
    if outside.any():
        at = int(np.argmax(outside))
        raise ValueError(f"{name}[{at}] = {vector[at]} is outside [0, 1]")
    return vector


def truth_vector(values: ArrayLike, name: str) -> Bools:
    """`values` as bool[n]; 0 and 1 are taken for False and True.

    Raises:
        ValueError: not one-dimensional, or an element is neither 0 nor 1.
    """
    vector = finite_vector(values, name)
    if not np.isin(vector, (0.0, 1.0)).all():
        raise ValueError(f"{name} must hold only True and False")
    return vector.astype(np.bool_)


def stated_vector(values: ArrayLike, name: str) -> Floats:
    """`values` as float64[n] with every element in [0, 1], or NaN where nothing was stated.

    Raises:
        ValueError: as `unit_vector`, but for NaN.
    """
    vector = np.asarray(values, dtype=np.float64)
    unit_vector(np.where(np.isnan(vector), 0.0, vector), name)
    return vector


def lost_mask(lost: ArrayLike | None, stated: Floats) -> Bools:
    """bool[n]: items without a usable answer, which count the worst; None: there are none.

    Raises:
        ValueError: not a mask of that length, or a lost item states a value all the same.
    """
    mask = np.zeros(len(stated), dtype=np.bool_) if lost is None else truth_vector(lost, "lost")
    same_length(lost=mask, stated=stated)
    if not np.isnan(stated[mask]).all():
        raise ValueError("an item that is lost states nothing: it must be NaN")
    return mask


def missing_count(missing: int) -> int:
    """`missing` itself.

    Raises:
        ValueError: it is negative.
    """
    if missing < 0:
        raise ValueError(f"{missing} missing items")
    return missing


def over(above: Floats, below: Floats) -> Floats:
    """above / below, element by element; NaN where below is 0: what a weighted sample does not define."""
    quotient = np.full_like(above, np.nan)
    np.divide(above, below, out=quotient, where=below > 0)
    return quotient


def same_length(**arrays: NDArray[Any]) -> int:
    """The common length of the named arrays.

    Raises:
        ValueError: the lengths differ.
    """
    lengths = {name: len(array) for name, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"lengths differ: {lengths}")
    return next(iter(lengths.values()))


class ClusterSums(NamedTuple):
    """Sums by cluster, in the sorted order of the labels.

    Attributes:
        totals: float64[G], the sum of the values in each cluster.
        sizes: float64[G], the number of values in each cluster, at least 1.
    """

    totals: Floats
    sizes: Floats

    @property
    def mean(self) -> float:
        """The mean over all values (not over clusters)."""
        return float(self.totals.sum() / self.sizes.sum())

    @property
    def residuals(self) -> Floats:
        """float64[G]: each cluster's summed deviation from the overall mean; they add up to 0."""
        return self.totals - self.sizes * self.mean


def cluster_codes(clusters: ArrayLike, n: int) -> Codes:
    """The labels `clusters` (strings or integers, [n]) as codes 0 .. G - 1 in their sorted order.

    Raises:
        ValueError: not n labels, or labels that are neither all strings nor all integers.
    """
    labels = np.asarray(clusters)
    if labels.size == 0 and n == 0:
        return np.zeros(0, dtype=np.intp)
    if labels.ndim != 1 or labels.dtype.kind not in "iuUST":
        raise ValueError("clusters must be a one-dimensional array of strings or of integers")
    if len(labels) != n:
        raise ValueError(f"lengths differ: {n} values, {len(labels)} clusters")
    return np.unique(labels, return_inverse=True)[1].astype(np.intp)


def cluster_sums(values: Floats, clusters: ArrayLike) -> ClusterSums:
    """Sums of `values` (float64[n]) by the labels `clusters` (strings or integers, [n]).

    Raises:
        ValueError: the lengths differ, or the labels are neither all strings nor all integers.
    """
    codes = cluster_codes(clusters, len(values))
    totals = np.bincount(codes, values).astype(np.float64)
    return ClusterSums(totals, np.bincount(codes).astype(np.float64))
