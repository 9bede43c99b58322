"""The gate on simulated runs: false alarms stay rare, and the printed power is the power."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

SCRIPT = Path(__file__).parents[3] / "scripts" / "gate_simulation.py"
ALARMS = 0.05
"""At most this share of A/A pairs may fail the gate."""
GAP = 0.05
"""The printed power may differ from the measured one by this much."""


@pytest.fixture(scope="module")
def simulation() -> ModuleType:
    spec = importlib.util.spec_from_file_location("gate_simulation", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["gate_simulation"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("fall", [0.0, 1.0, 2.0])
@pytest.mark.parametrize("size", [1, 10])
@pytest.mark.parametrize("scene", ["ACCURACY", "CLASSIFIER"])
def test_what_is_planted_is_what_falls(simulation: ModuleType, scene: str, size: int, fall: float) -> None:
    scene = getattr(simulation, scene)
    rng, n = np.random.default_rng(1), 100_000
    pairs = scene.play(rng, np.arange(n) // size, fall)
    change = pairs.candidate - pairs.base
    # Clustered pairs are summed by cluster for their error.
    se = change.reshape(len(change), -1, size).mean(axis=2).std(axis=1) / np.sqrt(n / size)
    assert (np.abs(change.mean(axis=1) + fall * np.array(scene.margins)) < 4 * se).all()
    assert (np.abs(change) <= np.array(scene.spans)[:, None]).all()


@pytest.mark.parametrize(
    ("scene", "n", "size"),
    [("ACCURACY", 32, 1), ("ACCURACY", 1000, 10), ("CLASSIFIER", 100, 1), ("CLASSIFIER", 300, 10)],
)
def test_alarms_and_power_in_some_cells(simulation: ModuleType, scene: str, n: int, size: int) -> None:
    runs = 200
    row = simulation.simulate(getattr(simulation, scene), n, size, runs, seed=1)

    def noise(share: float) -> float:
        """Three binomial standard errors of a share."""
        return 3 * float(np.sqrt(max(share * (1 - share), 0.01) / runs))

    assert row.false_alarm <= ALARMS + noise(ALARMS)
    assert row.missed <= 0.025 + noise(0.025)
    assert abs(row.passed - row.passed_printed) <= GAP + noise(row.passed_printed)
    assert abs(row.failed - row.failed_printed) <= GAP + noise(row.failed_printed)


def test_a_cell_of_one_cluster_decides_nothing(simulation: ModuleType) -> None:
    row = simulation.simulate(simulation.ACCURACY, 10, 10, 20)
    assert (row.clusters, row.false_alarm, row.passed, row.failed, row.passed_printed) == (1, 0, 0, 0, None)
    assert simulation.line(row).startswith("| accuracy | 10 | 1 | ")
    assert simulation.line(row).count("|") == simulation.HEADER.splitlines()[1].count("|")


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_every_cell_keeps_the_bars(simulation: ModuleType) -> None:
    broken = []
    for scene in simulation.SCENES:
        for size in (1, simulation.CLUSTER):
            for n in simulation.SIZES:
                row = simulation.simulate(scene, n, size, 2_000)
                gaps = [
                    abs(measured - printed)
                    for measured, printed in (
                        (row.passed, row.passed_printed),
                        (row.failed, row.failed_printed),
                    )
                    if printed is not None
                ]
                if row.false_alarm > ALARMS or row.missed > ALARMS or max(gaps, default=0.0) > GAP:
                    broken.append(simulation.line(row))
    assert not broken, "\n".join([simulation.HEADER, *broken])
