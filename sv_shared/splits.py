"""Splits of synthetic data: which seeds and which near-duplicates belong to train, dev and test."""

from typing import Literal, get_args

from sv_shared.errors import UsageError

Split = Literal["train", "dev", "test"]
SPLITS: tuple[Split, ...] = get_args(Split)

SEED_RANGES: dict[Split, range] = {
    "train": range(1_000_000),
    "dev": range(1_000_000, 1_500_000),
    "test": range(2_000_000, 2_500_000),
}
"""The seeds of each split; `SEED_RANGES["test"][42]` is the test split's seed 42."""

QUARTERS: dict[Split, tuple[int, ...]] = {"train": (0, 1), "dev": (2,), "test": (3,)}
"""Which quarters of the cells of a recipe's near-duplicate key a split owns."""


def require_seed(seed: int, split: str) -> Split:
    """The split, if the seed is one of its own.

    Raises:
        UsageError: an unknown split, or a seed of another split.
    """
    if split not in SPLITS:
        raise UsageError(f"unknown split {split!r}", hint=f"Use one of: {', '.join(SPLITS)}")
    allowed = SEED_RANGES[split]
    if seed not in allowed:
        owner = next((name for name, seeds in SEED_RANGES.items() if seed in seeds), None)
        whose = f"belongs to the {owner} split" if owner else "belongs to no split"
        raise UsageError(
            f"seed {seed} {whose} and cannot be used for {split} data",
            hint=f"Use a seed from {allowed.start} to {allowed.stop - 1}",
        )
    return split
