"""The data set card of public-mini, with every figure worked out from the items that it describes."""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sv_env_network_logs.flows import LABELS, Example
from sv_env_network_logs.public_mini import SCHEMA_VERSION, Item, dumps
from sv_env_network_logs.render import VIEWS, View
from sv_env_network_logs.rewards import POSITIVE
from sv_env_network_logs.shallow import (
    TRAINING_ROWS,
    ShallowModel,
    best_field,
    reference_shallow,
    texts,
    train_shallow,
)
from sv_env_network_logs.synth.bayes import ceiling, realised_reward
from sv_env_network_logs.synth.posterior import posteriors
from sv_env_network_logs.synth.recipe import BATCH, RECIPE_VERSION, generate
from sv_env_network_logs.synth.tiers import DIFFICULTIES
from sv_env_network_logs.synth.window import HISTORY
from sv_shared.splits import SEED_RANGES

COMMAND = "python -m sv_env_network_logs.synth.build"
FRESH_ROWS = {"flow": 4000, "window": 1000}
"""Items of each tier on which the second table's accuracies are measured."""

_TEXT = """\
# public-mini / E1: network flows

{rows} labelled items in `e1.jsonl`, one JSON object a line (schema version {schema}), made by the recipe of
`sv_env_network_logs.synth`. Every figure on this page is written by the command that writes the data:

    {command}

## Provenance
- Recipe version {version}, test seed {seed}. Test seeds are {first} to {last}; generation of training data
  refuses them.
- No real traffic, address, host or person is in it. Sites use private addresses, everybody else the blocks
  that RFC 5737 reserves for documentation.
- SHA-256 of `e1.jsonl`: `{digest}`
- Licence: Apache-2.0.

## What is in it
{counts}

Each row names its view: `flow` shows one connection, `window` also the host's {history} earlier ones. A
cluster is a batch of up to {batch} items of one made-up site; there are {clusters}. `posterior` is
P(Malicious | what the prompt shows) for a reader who knows the recipe and the row's difficulty. It is exact:
every displayed number is drawn from a discrete law of known mass. `detail` names the scenario and never
reaches a prompt.

Scenarios: {scenarios}.

## Ceilings and shallow lines
Of these rows. Bayes figures are expectations over the exact posteriors. "TF-IDF" is word counts with logistic
regression, trained on {training} training-seed rows of all tiers of the row's view.

{lines}

A reader who is not told the difficulty has at most {blind} (expected accuracy).

Per tier: a model trained on {training} training-seed rows of that tier, measured on fresh test-seed rows
({fresh_flow} flows, {fresh_window} windows). "Best field" is the majority rule on the one field that works
best, cross-fitted on the training rows.

{fresh}

## Human spot check
`e1.spot-check.jsonl` holds 5 % of the rows ({spot}). Signed off: {signed} of {spot}.
To sign, read each prompt, compare label and posterior with what you would say, and fill in `verdict`
("plausible" or "implausible: why"), `reviewer` and `date` (YYYY-MM-DD) of its line; then run the command
above, which keeps what is entered and brings the count here up to date.

## Known limits
- Values are magnitudes of our own choosing, not fitted to any capture: a score here says nothing about the
  base rates or the traffic of a real network. Half of the items are attacks on average.
- Every packet of a connection carries the same header size; no retransmission, content gap, IPv6 or ICMP.
- An item shows one host, and the attacker is always that host.
- Unrelated flows in a window have peers drawn afresh; real hosts return to theirs.
- In the hard tier an attack differs from its cover in little more than how its numbers hang together, and in
  every tier a few attacks do exactly what their cover does: nobody can tell those.
- On {rows} rows an accuracy has a 95 % interval of up to +- {interval} points.
"""


def card(items: Sequence[Item], spot_check: Sequence[Mapping[str, Any]]) -> str:
    """The card of the items, as Markdown."""
    examples = [item.example for item in items]
    seeds = SEED_RANGES["test"]
    names = {name for example in examples for name in example.detail.split(" beside ")}
    return _TEXT.format(
        rows=len(items),
        schema=SCHEMA_VERSION,
        command=COMMAND,
        version=RECIPE_VERSION,
        seed=examples[0].row.split(":")[1],
        first=seeds.start,
        last=seeds.stop - 1,
        digest=hashlib.sha256(dumps(items).encode()).hexdigest(),
        counts=_counts(items),
        history=HISTORY,
        batch=BATCH,
        clusters=len({example.cluster for example in examples}),
        scenarios=", ".join(sorted(names)),
        training=TRAINING_ROWS,
        lines=_lines(items),
        blind=f"{_blind_accuracy(items):.3f}",
        fresh_flow=FRESH_ROWS["flow"],
        fresh_window=FRESH_ROWS["window"],
        fresh=_fresh_lines(),
        spot=len(spot_check),
        signed=sum(record["verdict"] is not None for record in spot_check),
        interval=round(196 * (0.25 / len(items)) ** 0.5, 1),
    )


def accuracy(model: ShallowModel, examples: Sequence[Example], view: View) -> float:
    """The share of items whose label the model finds more probable than not."""
    return _share_right(model.predict_proba(texts(examples, view)), examples)


def _share_right(beliefs: Any, examples: Sequence[Example]) -> float:
    truths = np.array([example.label == POSITIVE for example in examples])
    return float(((np.asarray(beliefs) > 0.5) == truths).mean())


def _counts(items: Sequence[Item]) -> str:
    tally = Counter((item.example.difficulty, item.view, item.example.label) for item in items)
    rows = [
        [tier, view, *(tally[tier, view, label] for label in LABELS)]
        for tier in DIFFICULTIES
        for view in VIEWS
    ]
    totals = [sum(tally[tier, view, label] for tier in DIFFICULTIES for view in VIEWS) for label in LABELS]
    return _table(["difficulty", "view", "benign", "malicious"], [*rows, ["all", "both", *totals]])


def _lines(items: Sequence[Item]) -> str:
    beliefs = np.empty(len(items))
    for view in VIEWS:
        rows = [row for row, item in enumerate(items) if item.view == view]
        beliefs[rows] = reference_shallow(view).predict_proba(
            texts([items[row].example for row in rows], view)
        )
    table = []
    for tier in (*DIFFICULTIES, "all"):
        rows = [row for row, item in enumerate(items) if tier in ("all", item.example.difficulty)]
        some = [items[row].example for row in rows]
        top = ceiling(some)
        table.append(
            [
                tier, len(rows), f"{top.accuracy:.3f}", f"{top.reward:.3f}",
                f"{_share_right(beliefs[rows], some):.3f}", f"{realised_reward(beliefs[rows], some):.3f}",
            ]
        )  # fmt: skip
    head = ["difficulty", "rows", "Bayes accuracy", "Bayes reward", "TF-IDF accuracy", "TF-IDF reward"]
    return _table(head, table)


def _blind_accuracy(items: Sequence[Item]) -> float:
    beliefs = [
        posteriors([item.example for item in items if item.view == view], view, tiers=DIFFICULTIES)
        for view in VIEWS
    ]
    joined = np.concatenate(beliefs)
    return float(np.maximum(joined, 1 - joined).mean())


def _fresh_lines() -> str:
    table = []
    for view in VIEWS:
        for tier in DIFFICULTIES:
            train = generate(
                TRAINING_ROWS, seed=SEED_RANGES["train"][0], split="train", view=view, difficulty=tier
            )
            test = generate(
                FRESH_ROWS[view], seed=SEED_RANGES["test"][1], split="test", view=view, difficulty=tier
            )
            model = train_shallow(texts(train, view), [example.label for example in train])
            best, shallow = ceiling(test).accuracy, accuracy(model, test, view)
            field, rule = best_field(train)
            table.append(
                [
                    view,
                    tier,
                    f"{best:.3f}",
                    f"{shallow:.3f}",
                    f"{100 * (best - shallow):.1f}",
                    f"{field} {rule:.3f}",
                ]
            )
    head = ["view", "difficulty", "Bayes accuracy", "TF-IDF accuracy", "gap in points", "best field"]
    return _table(head, table)


def _table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(str, cells))} |" for cells in lines)
