"""The data set card of public-mini, with every figure worked out from the rows that it describes."""

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from sv_env_config_verification.adapters.toolbox import TOOLS, ToolVersion
from sv_env_config_verification.public_mini import SCHEMA_VERSION, dumps
from sv_env_config_verification.rows import Format, RowKind
from sv_env_config_verification.synth.leaks import FRESH_ROWS, TRAINING_ROWS, VIEWS, leaks
from sv_env_config_verification.synth.model import Pair
from sv_env_config_verification.synth.recipe import LINES, RECIPE_VERSION, Draft
from sv_shared.findings import Severity
from sv_shared.splits import SEED_RANGES

COMMAND = "python -m sv_env_config_verification.synth.build"
KINDS: tuple[RowKind, ...] = ("clean", "tools-agree", "false-alarm", "intent", "unseen")
FORMATS: tuple[Format, ...] = ("kubernetes", "terraform")

_TEXT = """\
# public-mini / E2: configurations

{rows} rows in `e2.jsonl`, one JSON object a line (schema version {schema}), made by the recipe of
`sv_env_config_verification.synth`. Every figure on this page is written by the command that writes the data:

    {command}

## Provenance
- Recipe version {version}, test seed {seed}. Test seeds are {first} to {last}; generation of training data
  refuses them.
- Names, hosts and addresses are made up (RFC 2606, RFC 5737); no real system is in it.
- SHA-256 of `e2.jsonl`: `{digest}`
- Licence: Apache-2.0.

## How the truth is known
A secure configuration is drawn from templates, some of its settings are changed, and the patch is the way
back. Every row was then given to the tools: {tools}.
They report what the recipe says can be seen, and nothing else but declared false alarms; of the mended
files they report the false alarms only.{without}

## What is in it
{kinds}

`clean`: no tool says anything and nothing is wrong. `tools-agree`: the truth is what the tools say.
`false-alarm`: a tool reports a setting that the statement asks for. `intent`: the statement decides a
setting that tools report, to either side. `unseen`: something is wrong that no tool reports; the statement
tells, and `fixes` tells when it is mended.

{share} rows have a truth that is not the union of the tools' findings. {clean} are clean. A row has
{fewest} to {most} violations (mean {mean}), {shortest} to {longest} lines, and {tokens} words and signs in
the median (at most {most_tokens}). Sizes are {low} to {high} lines by construction.

Violations by severity: {severities}. Difficulty of rows: {difficulties}.

Rows that a tool alone labels exactly, were its findings the answer:

{exact}

Violations by weakness (those that no tool sees in brackets): {weaknesses}.

## Leaks
TF-IDF of words and pairs with logistic regression on "clean or not", trained on {training} training-seed
rows, measured on {fresh} fresh test-seed rows of the same mixture; area under the ROC curve, 0.5 is chance.
Only the first two views hold the settings that decide.

{leaks}

## Known limits
- Templates are our own: a score here says little about the habits of a real organisation.
- A statement decides every setting that is borderline; real intents are rarely as clear.
- Flaws that no tool sees are of {unseen} sorts. Whoever has read the recipe finds them by their form.
- Near-duplicates are kept apart between splits by the keys and switches of the text, not by meaning.
- On {rows} rows a share has a 95 % interval of up to +- {interval} points.
"""

_WITHOUT = """

KubeLinter was not installed: what only KubeLinter knows is as the recipe says, unconfirmed."""


def card(
    drafts: Sequence[Draft], found: Sequence[Mapping[str, frozenset[Pair]]], versions: Sequence[ToolVersion]
) -> str:
    """The card of the rows, as Markdown.

    Args:
        drafts: the rows.
        found: what each tool reports of each row.
        versions: which programs that were.
    """
    rows = [one.row for one in drafts]
    violations = [violation for row in rows for violation in row.violations]
    hidden = Counter(key.split(" ")[0] for row in rows for key in row.fixes)
    weaknesses = Counter(violation.id for violation in violations)
    severities = Counter(violation.severity for violation in violations)
    difficulties = Counter(row.difficulty for row in rows)
    lengths = [sum(text.count("\n") for text in row.files.values()) for row in rows]
    words = [len(tokens(" ".join((*row.files.values(), row.statement)))) for row in rows]
    counts = [len(row.violations) for row in rows]
    differs = sum(row.pairs != union(one) for row, one in zip(rows, found, strict=True))
    seeds = SEED_RANGES["test"]
    return _TEXT.format(
        rows=len(rows),
        schema=SCHEMA_VERSION,
        command=COMMAND,
        version=RECIPE_VERSION,
        seed=rows[0].id.split(":")[1],
        first=seeds.start,
        last=seeds.stop - 1,
        digest=hashlib.sha256(dumps(rows).encode()).hexdigest(),
        tools=", ".join(f"{v.tool} {v.version}" for v in versions),
        without="" if {v.tool for v in versions} >= set(TOOLS) else _WITHOUT,
        kinds=_kinds(drafts),
        share=f"{differs} of {len(rows)}",
        clean=sum(row.is_clean for row in rows),
        fewest=min(counts),
        most=max(counts),
        mean=f"{np.mean(counts):.2f}",
        shortest=min(lengths),
        longest=max(lengths),
        tokens=int(np.median(words)),
        most_tokens=max(words),
        low=LINES.start,
        high=LINES.stop - 1,
        severities=", ".join(f"{s.value} {severities[s]}" for s in Severity),
        difficulties=", ".join(f"{name} {difficulties[name]}" for name in ("easy", "medium", "hard")),
        exact=_exact(drafts, found),
        weaknesses=", ".join(
            f"{name} {number}" + (f" ({hidden[name]})" if hidden[name] else "")
            for name, number in sorted(weaknesses.items(), key=lambda pair: (-pair[1], pair[0]))
        ),
        training=TRAINING_ROWS,
        fresh=FRESH_ROWS,
        leaks=_leaks(),
        unseen=len(hidden),
        interval=round(196 * (0.25 / len(rows)) ** 0.5, 1),
    )


def union(found: Mapping[str, frozenset[Pair]]) -> frozenset[Pair]:
    """What the tools say together."""
    return frozenset(pair for pairs in found.values() for pair in pairs)


def tokens(text: str) -> list[str]:
    """Words and single signs: a stand-in for a model's tokens, of which it has more."""
    import re

    return re.findall(r"\w+|[^\w\s]", text)


def _kinds(drafts: Sequence[Draft]) -> str:
    tally = Counter((one.row.kind, one.row.format) for one in drafts)
    clean = Counter(one.row.kind for one in drafts if one.row.is_clean)
    rows = [[kind, *(tally[kind, name] for name in FORMATS), clean[kind]] for kind in KINDS]
    totals = [sum(tally[kind, name] for kind in KINDS) for name in FORMATS]
    return _table(["kind", *FORMATS, "of these clean"], [*rows, ["all", *totals, sum(clean.values())]])


def _exact(drafts: Sequence[Draft], found: Sequence[Mapping[str, frozenset[Pair]]]) -> str:
    def row(name: str, says: Callable[[Mapping[str, frozenset[Pair]]], frozenset[Pair]]) -> list[object]:
        right = [one.row for one, pairs in zip(drafts, found, strict=True) if one.row.pairs == says(pairs)]
        return [
            name,
            *(sum(r.format == f for r in right) for f in FORMATS),
            len(right),
            sum(not r.is_clean for r in right),
        ]

    tools = sorted(found[0])
    lines = [row(tool, lambda pairs, tool=tool: pairs[tool]) for tool in tools]  # type: ignore[misc]
    lines += [row("all together", union), row("nothing", lambda pairs: frozenset())]
    return _table(["answer", *FORMATS, "all rows", "of these with violations"], lines)


def _leaks() -> str:
    measured = leaks()
    return _table(["what is shown", "AUC"], [[name, f"{measured[name]:.3f}"] for name in VIEWS])


def _table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(str, cells))} |" for cells in lines)
