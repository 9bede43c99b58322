"""The bench: both sides do their work, and the figures are those of that work."""

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from security_verifiers.bench import throughput
from security_verifiers.bench.bare import BARE
from security_verifiers.bench.loader import measure_loader
from security_verifiers.bench.throughput import measure, peak_memory_mb
from security_verifiers.cli.bench import command
from security_verifiers.evals.plan import make_plan
from sv_env_network_logs.data import open_dataset
from sv_env_network_logs.data.sample import write_zeek_log
from sv_env_network_logs.environment import NETWORK_LOGS
from sv_shared.environment import LoaderSample
from sv_shared.errors import CheckFailed, ModelError

CONFIG = {"dataset": "synth", "synth_rows": 20}


def test_both_sides_are_measured_and_every_rollout_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: dict[str, list[int]] = {"ours": [], "bare": []}
    lines: list[int] = []
    ours, bare = throughput._lap, throughput._bare_lap

    async def watched(plan, spec, count, path):  # type: ignore[no-untyped-def]
        lap = await ours(plan, spec, count, path)
        sizes["ours"].append(count)
        lines.append(len(path.read_text().splitlines()))
        return lap

    async def watched_bare(plan, spec, count):  # type: ignore[no-untyped-def]
        sizes["bare"].append(count)
        return await bare(plan, spec, count)

    monkeypatch.setattr(throughput, "_lap", watched)
    monkeypatch.setattr(throughput, "_bare_lap", watched_bare)
    result = asyncio.run(measure(NETWORK_LOGS, CONFIG, "reference", count=70, rounds=2))
    assert sizes == {"ours": [64, 70, 70], "bare": [64, 70, 70]}
    assert lines == [64, 134, 204]
    assert (result.rollouts, result.rounds) == (70, 2)
    assert result.per_second > 0
    assert 0 < result.ratio < 10
    assert result.cpu_ms > 0
    assert result.bare_cpu_ms > 0
    assert 500 < result.line_bytes < 20_000
    assert json.loads(json.dumps(result.to_json()))["ratio"] == result.ratio


def test_a_policy_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ModelError, match=r"no policy 'luck'. It has always-abstain"):
        asyncio.run(measure(NETWORK_LOGS, CONFIG, "luck", count=64, rounds=1))


def test_the_bare_engine_plays_and_is_not_registered() -> None:
    from sv_shared.environment import installed

    plan = make_plan(BARE, {})
    assert plan.bounds == (0.0, 1.0)
    assert len({task.hash for task in plan.tasks}) == len(plan.tasks)
    assert "bare" not in installed()


def test_peak_memory_is_in_megabytes() -> None:
    assert 20 < peak_memory_mb() < 100_000


@pytest.mark.parametrize("rows", [1, 2500])
def test_the_loader_counts_its_rows(rows: int, tmp_path: Path) -> None:
    speed = measure_loader(NETWORK_LOGS, rows)
    assert speed is not None
    assert speed.rows == rows
    assert speed.per_second == rows / speed.seconds > 0
    assert speed.to_json()["per_second"] == speed.per_second
    table = open_dataset(write_zeek_log(tmp_path, rows))
    assert len(table) == rows


def test_the_sample_has_both_classes_and_is_the_same_each_time(tmp_path: Path) -> None:
    (tmp_path / "again").mkdir()
    path = write_zeek_log(tmp_path, 500)
    counts = open_dataset(path).counts()
    assert min(counts.values()) > 150
    assert write_zeek_log(tmp_path / "again", 500).read_bytes() == path.read_bytes()


def test_a_loader_that_loses_a_row_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    losing = LoaderSample("lossy", lambda folder, rows: folder, lambda path: 9)
    monkeypatch.setattr(type(NETWORK_LOGS), "loader_sample", lambda self: losing)
    with pytest.raises(CheckFailed, match=r"10 rows were written and 9 loaded \(lossy\)"):
        measure_loader(NETWORK_LOGS, 10)
    assert measure_loader(BARE, 10) is None


@pytest.mark.parametrize("as_json", [True, False])
def test_the_command_prints_what_was_measured(as_json: bool) -> None:
    arguments = ["e1", "--dataset", "synth", "--set", "synth_rows=20", "--count", "64", "--rounds", "1"]
    ran = CliRunner().invoke(command, [*arguments, "--loader-rows", "100", *(["--json"] if as_json else [])])
    assert ran.exit_code == 0
    if not as_json:
        for figure in ("rollouts", "bare engine", "ratio", "CPU", "peak memory", "loader", "result line"):
            assert f"  {figure} " in ran.output
        return
    report = json.loads(ran.output)
    assert report["environment"] == "sv-env-network-logs"
    assert report["rollouts"] == 64
    assert report["ratio"] > 0
    assert report["loader"]["rows"] == 100
