"""Builds public-mini: the 200 rows, confirmed by the tools, and the card with their figures.

    python -m sv_env_config_verification.synth.build [FOLDER]

Everything follows from the recipe's version and the seed; the tools only confirm it. OPA and Semgrep have
to be there; without KubeLinter the card says that it has not been asked.
"""

import argparse
import asyncio
from pathlib import Path

from sv_env_config_verification.adapters.toolbox import Toolbox, ToolVersion
from sv_env_config_verification.public_mini import PATH, dumps
from sv_env_config_verification.synth.card import card
from sv_env_config_verification.synth.confirm import confirm
from sv_env_config_verification.synth.model import Pair
from sv_env_config_verification.synth.recipe import Draft, draft
from sv_shared.splits import SEED_RANGES

SEED = SEED_RANGES["test"][0]
ROWS = 200
OPTIONAL = "kubelinter"


def public_mini() -> list[Draft]:
    """The drafts of the rows."""
    return draft(ROWS, seed=SEED, split="test")


async def confirmed(drafts: list[Draft]) -> tuple[list[dict[str, frozenset[Pair]]], tuple[ToolVersion, ...]]:
    """What each tool says of each draft, and which tools that were.

    Raises:
        ToolMissing: OPA or Semgrep is not installed.
        DataError: a tool does not say what a draft claims.
    """
    async with await Toolbox.open(allow_missing=True) as toolbox:
        for name, error in toolbox.missing.items():
            if name != OPTIONAL:
                raise error
        return await confirm(drafts, toolbox), toolbox.versions


def build(folder: Path) -> None:
    """Writes e2.jsonl and e2.card.md into the folder.

    Raises:
        ToolMissing, DataError: as `confirmed`; nothing is written then.
    """
    drafts = public_mini()
    found, versions = asyncio.run(confirmed(drafts))
    page = card(drafts, found, versions)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "e2.jsonl").write_text(dumps(one.row for one in drafts), encoding="utf-8")
    (folder / "e2.card.md").write_text(page, encoding="utf-8")


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="Build E2's public-mini set from its seed.")
    parser.add_argument("folder", nargs="?", type=Path, default=PATH.parent)
    folder: Path = parser.parse_args().folder
    build(folder)
    print(f"wrote e2.jsonl and e2.card.md to {folder}")


if __name__ == "__main__":
    main()
