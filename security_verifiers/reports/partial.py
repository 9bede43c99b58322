"""What is said of runs that are not whole."""

from collections.abc import Iterator, Sequence

from security_verifiers.evals.evaluate import Run

TOLD = 3
"""Problems of a partial run that its line names."""


def partial_lines(runs: Sequence[Run]) -> Iterator[str]:
    """One line for each run that is not whole: how much is left out of it, and the first reasons."""
    for run in runs:
        partial = run.summary.get("partial")
        if partial is None:
            continue
        left_out, problems = partial["lines_left_out"], partial["problems"]
        lines = run.summary["planned"] - run.summary["missing"] + left_out
        told = "; ".join(problems[:TOLD])
        more = max(left_out, len(problems)) - TOLD
        told += f"; and {more} more" if more > 0 else ""
        yield f"partial: {left_out} of {lines} lines left out: {told} ({run.folder})"
