"""Progress bars of runs: what has been done, how fast, with what reward, and how long it will take."""

import sys
import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from security_verifiers.evals.evaluate import Tally
from security_verifiers.evals.record import Record

REFRESH_S = 0.25


class RunProgress:
    """An observer of runs; a bar a run on a terminal, a line a run elsewhere. Writes to standard error."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._console = Console(stderr=True, quiet=quiet)
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}", style="dim"),
            TimeRemainingColumn(compact=True),
            console=self._console,
            refresh_per_second=4,
            disable=not self._console.is_terminal,
        )
        self._bar: TaskID | None = None
        self._label, self._begun, self._shown = "", 0.0, 0.0
        self._tally: Tally | None = None

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()

    def say(self, text: str) -> None:
        """A line above the bars."""
        self._bars.console.print(text, style="dim", highlight=False, soft_wrap=True)

    def start(self, label: str, planned: int, done: int) -> None:
        self._label, self._begun, self._shown, self._tally = label, time.monotonic(), 0.0, None
        self._bar = self._bars.add_task(label, total=planned, completed=done, note="")

    def advance(self, record: Record, tally: Tally) -> None:
        self._tally = tally
        assert self._bar is not None
        self._bars.advance(self._bar)
        if time.monotonic() - self._shown > REFRESH_S:
            self._shown = time.monotonic()
            self._bars.update(self._bar, note=self._note())

    def finish(self) -> None:
        assert self._bar is not None
        self._bars.update(self._bar, note=self._note())
        if not self._console.is_terminal and not self._console.quiet:
            print(f"{self._label}: {self._note()}", file=sys.stderr, flush=True)

    def _note(self) -> str:
        tally = self._tally
        if tally is None:
            return "nothing to do"
        seconds = max(time.monotonic() - self._begun, 1e-9)
        parts = [f"{tally.rollouts / seconds:.1f}/s" if tally.rollouts < 10_000 * seconds else "done"]
        if tally.mean_reward is not None:
            parts.append(f"reward {tally.mean_reward:+.3f}")
        tokens = sum((t.prompt or 0) + (t.completion or 0) for t in tally.tokens.values())
        if tokens:
            parts.append(f"{tokens:,} tokens")
        if tally.cost_usd:
            parts.append(f"${tally.cost_usd:.4f}")
        return "  ".join(parts)
