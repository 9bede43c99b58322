"""A long run takes no more memory than a short one, but for an index of its keys."""

import os
import time
from pathlib import Path

import psutil
import pytest

from sv_test_quick import QUICK, follower

from .conftest import Play, Watching


class Weighing(Watching):
    """An observer that keeps no record but the size of the process, every so often."""

    def __init__(self, every: int) -> None:
        super().__init__()
        self._every, self._process, self.count = every, psutil.Process(os.getpid()), 0
        self.sizes: list[int] = []

    def advance(self, record: object, tally: object) -> None:
        if self.count % self._every == 0:
            self.sizes.append(self._process.memory_info().rss)
        self.count += 1


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_hundred_thousand_rollouts(play: Play, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    weighing = Weighing(1000)
    begun = time.perf_counter()
    run = play(
        QUICK, follower(), tmp_path, config={"rows": 1000}, samples=100, watching=weighing, concurrency=16
    )
    seconds = time.perf_counter() - begun
    growth = max(weighing.sizes) - weighing.sizes[1]
    end = psutil.Process(os.getpid()).memory_info().rss - weighing.sizes[1]
    with capsys.disabled():
        print(
            f"\n100,000 rollouts in {seconds:.0f} s ({100_000 / seconds:.0f}/s with files and summary), "
            f"memory +{growth / 1e6:.0f} MB while playing, +{end / 1e6:.0f} MB with the summary"
        )
    assert sum(run.summary["counts"].values()) == 100_000
    assert growth < 400e6
    assert end < 400e6
