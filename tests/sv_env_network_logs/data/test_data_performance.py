"""The loader's promise: a million Zeek rows in under 10 s and under 1.5 GB."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from sv_env_network_logs.data import open_dataset
from sv_env_network_logs.data.sample import write_zeek_log, zeek_sample

ROWS = 1_000_000
MEASURE = """
import json, resource, sys, time
from sv_env_network_logs.data import Windows, open_dataset
started = time.perf_counter()
table = open_dataset(sys.argv[1])
loaded = time.perf_counter()
Windows(table)
print(json.dumps({"rows": len(table), "seconds": loaded - started, "cpu": time.process_time(),
                  "windows": time.perf_counter() - loaded, "labels": table.counts(),
                  "mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))
"""


def test_the_sample_is_a_native_log_of_both_classes(tmp_path: Path) -> None:
    sample = zeek_sample()
    path = sample.write(tmp_path, 500)
    assert sample.load(path) == 500
    table = open_dataset(path)
    assert table.describe()["schema"] == "iot23-zeek"
    assert min(table.counts().values()) > 100
    assert len(set(table.rows["dst"].to_pylist())) > 490


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_million_rows_load_in_time_and_memory(tmp_path: Path) -> None:
    log = write_zeek_log(tmp_path, ROWS)
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, str(log)], capture_output=True, text=True, check=True, timeout=120
    )
    figures = json.loads(done.stdout)
    print(figures)
    assert figures["rows"] == ROWS
    with log.open() as file:
        assert figures["labels"]["Malicious"] == sum("Malicious" in line for line in file)
    assert figures["seconds"] < 10
    assert figures["mb"] < 1500
    assert figures["windows"] < 5
