"""Builds public-mini: the 300 items, the spot-check sample, and the card with their figures.

    python -m sv_env_network_logs.synth.build [FOLDER]

Everything follows from the recipe's version and the seeds below. Sign-offs in an existing spot-check file are
kept where the item is still the same.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sv_env_network_logs.public_mini import PATH, Item, dump
from sv_env_network_logs.render import prompt
from sv_env_network_logs.rewards import WEIGHTS, payoffs
from sv_env_network_logs.synth.card import card
from sv_env_network_logs.synth.recipe import generate
from sv_env_network_logs.synth.tiers import DIFFICULTIES
from sv_shared.errors import DataError
from sv_shared.splits import SEED_RANGES

SEED = SEED_RANGES["test"][0]
FLOWS, WINDOWS = 80, 20
"""Items of each view in each tier."""

SPOT_FLOWS, SPOT_WINDOWS = 4, 1
"""Of these, how many of each tier go into the spot check: 15 of 300 items, 5 %."""

SIGN_OFF = ("verdict", "reviewer", "date")
"""What a reviewer fills in."""


def public_mini() -> list[Item]:
    """The items: tiers in turn, a window after every four flows, so that any prefix is a fair sample."""
    items = []
    for tier in DIFFICULTIES:
        flows = generate(FLOWS, seed=SEED, split="test", view="flow", difficulty=tier)
        windows = generate(WINDOWS, seed=SEED, split="test", view="window", difficulty=tier)
        share = FLOWS // WINDOWS
        items.append(
            [
                item
                for i, window in enumerate(windows)
                for item in (
                    *(Item("flow", flow) for flow in flows[share * i : share * (i + 1)]),
                    Item("window", window),
                )
            ]
        )
    return [item for group in zip(*items, strict=True) for item in group]


def spot_check(items: Sequence[Item]) -> list[dict[str, Any]]:
    """The records of the human spot check, nothing signed yet; the sample is drawn with the set's seed."""
    rng = np.random.default_rng(SEED)
    chosen: list[int] = []
    for tier in DIFFICULTIES:
        for view, count in (("flow", SPOT_FLOWS), ("window", SPOT_WINDOWS)):
            rows = [i for i, item in enumerate(items) if (item.example.difficulty, item.view) == (tier, view)]
            chosen += rng.choice(rows, count, replace=False).tolist()
    return [
        {
            "id": item.example.row,
            "prompt": prompt(item.example, item.view, payoffs(WEIGHTS)).user,
            "label": item.example.label,
            "posterior": item.example.posterior,
            **dict.fromkeys(SIGN_OFF),
        }
        for item in (items[i] for i in sorted(chosen))
    ]


def build(folder: Path) -> None:
    """Writes e1.jsonl, e1.spot-check.jsonl and e1.card.md into the folder.

    Raises:
        DataError: an existing spot-check file has sign-offs for other items.
    """
    items = public_mini()
    records = with_sign_offs(spot_check(items), folder / "e1.spot-check.jsonl")
    folder.mkdir(parents=True, exist_ok=True)
    dump(folder / "e1.jsonl", items)
    lines = [json.dumps(record, ensure_ascii=False) for record in records]
    (folder / "e1.spot-check.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    (folder / "e1.card.md").write_text(card(items, records), encoding="utf-8")


def with_sign_offs(records: Sequence[dict[str, Any]], path: Path) -> list[dict[str, Any]]:
    """The records with what reviewers have entered in the file so far.

    Raises:
        DataError: something is signed that is not in the sample as it is now.
    """
    if not path.exists():
        return list(records)
    written = [json.loads(text) for text in path.read_text(encoding="utf-8").splitlines()]
    entered = {_identity(record): record for record in written if record["verdict"] is not None}
    merged = []
    for record in records:
        source = entered.pop(_identity(record), record)
        merged.append(record | {name: source[name] for name in SIGN_OFF})
    if entered:
        raise DataError(
            f"{len(entered)} sign-offs are for items that have changed",
            where=str(path),
            hint="Move the file away, build, and have the new sample reviewed",
        )
    return merged


def _identity(record: dict[str, Any]) -> tuple[str, str, str]:
    return record["id"], record["prompt"], record["label"]


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="Build E1's public-mini set from its seeds.")
    parser.add_argument("folder", nargs="?", type=Path, default=PATH.parent)
    folder: Path = parser.parse_args().folder
    build(folder)
    print(f"wrote e1.jsonl, e1.spot-check.jsonl and e1.card.md to {folder}")


if __name__ == "__main__":
    main()
