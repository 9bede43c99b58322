"""A custom sweep over E1, to copy and change: every tier of fresh synthetic flows, one table a tier.

.venv/bin/python scripts/eval_network_logs.py --model policy:boosted --model smollm2-135m --rows 200
"""

import argparse
import asyncio
from pathlib import Path

from security_verifiers.cli.progress import RunProgress
from security_verifiers.evals.launch import EvalRequest, run_models
from security_verifiers.reports.terminal import print_sheets

TIERS = ("easy", "medium", "hard")


def main() -> None:
    """Evaluate each model on each tier and print the sheets."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", action="append", default=None, help="repeatable; default policy:boosted")
    parser.add_argument("--rows", type=int, default=200, help="items a tier")
    parser.add_argument("--view", choices=("flow", "window"), default="flow")
    parser.add_argument("--output-dir", type=Path, default=Path("outputs"))
    given = parser.parse_args()
    runs = []
    with RunProgress() as progress:
        for tier in TIERS:
            config = {"dataset": "synth", "synth_rows": given.rows, "difficulty": tier, "view": given.view}
            request = EvalRequest(
                environment="e1",
                models=tuple(given.model or ["policy:boosted"]),
                config=config,
                output_dir=given.output_dir,
            )
            runs += asyncio.run(run_models(request, progress))
    print_sheets(runs)


if __name__ == "__main__":
    main()
