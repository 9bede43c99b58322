"""The event stream and its JSON lines: kill -9, full disks, torn tails, failing mirrors."""

import json
import math
import os
import resource
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sv_shared.errors import ArtifactError
from sv_shared.rollout_logging import Event, JsonlSink, MemorySink, RolloutLogger, read_jsonl, repair_tail
from sv_shared.storage import Storage, fingerprint

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)
SURROGATES = st.text(alphabet=st.characters(categories=["Cs", "L", "Zl", "Zp", "Cc"]), max_size=20)


@given(st.lists(st.dictionaries(st.text(), JSON | SURROGATES, max_size=4), max_size=5))
def test_what_is_written_is_read_back(tmp_path_factory: pytest.TempPathFactory, events: list[Event]) -> None:
    path = tmp_path_factory.mktemp("lines") / "results.jsonl"
    sink = JsonlSink(path)
    for event in events:
        sink.write(event)
    sink.close()
    assert read_jsonl(path) == (events, None)


def test_each_line_is_on_file_when_write_returns(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    sink = JsonlSink(path)
    for number in range(3):
        sink.write({"n": number, "text": "line\u2028\nbreak"})
        assert len(path.read_bytes().splitlines()) == number + 1
    again = JsonlSink(path)
    again.write({"n": 3})
    assert [record["n"] for record in read_jsonl(path).records] == [0, 1, 2, 3]
    sink.close()
    again.close()
    again.close()


def test_kinds_choose_the_events_of_a_file(tmp_path: Path) -> None:
    memory, results = MemorySink(), JsonlSink(tmp_path / "results.jsonl", kinds={"rollout"})
    logger = RolloutLogger([results, memory])
    logger.event("run_started", {"n": 1}, Storage.FULL)
    logger.rollout({"reward": 1.0}, Storage.FULL)
    logger.close()
    assert [event["type"] for event in memory.events] == ["run_started", "rollout"]
    assert read_jsonl(tmp_path / "results.jsonl").records == [{"type": "rollout", "reward": 1.0}]


def test_storage_is_applied_before_any_sink(tmp_path: Path) -> None:
    memory = MemorySink()
    logger = RolloutLogger([JsonlSink(tmp_path / "r.jsonl"), memory], redactor=lambda text: "[gone]")
    logger.rollout({"truth": "a secret", "reward": 0.5}, Storage.HASH_ONLY)
    logger.rollout({"truth": "a secret"}, Storage.REDACTED)
    logger.close()
    assert "secret" not in (tmp_path / "r.jsonl").read_text()
    assert memory.events == [
        {"type": "rollout", "truth": fingerprint("a secret"), "reward": 0.5},
        {"type": "rollout", "truth": "[gone]"},
    ]


class FailingSink(MemorySink):
    """A tracker whose service is down."""

    def write(self, event: Event) -> None:
        raise ConnectionError("service down")


def test_failing_mirror_is_told_once_and_loses_no_line(tmp_path: Path) -> None:
    warnings: list[str] = []
    last = MemorySink()
    logger = RolloutLogger([JsonlSink(tmp_path / "r.jsonl"), FailingSink(), last], warn=warnings.append)
    for number in range(5):
        logger.rollout({"n": number}, Storage.FULL)
    assert len(warnings) == 1
    assert "FailingSink failed (ConnectionError: service down)" in warnings[0]
    logger.close()
    assert len(read_jsonl(tmp_path / "r.jsonl").records) == len(last.events) == 5
    assert logger.failures == {"FailingSink": 5}
    assert "FailingSink: 5 calls failed" in warnings[-1]


def test_failing_sink_of_record_is_an_error() -> None:
    mirror = MemorySink()
    logger = RolloutLogger([FailingSink(), mirror])
    with pytest.raises(ConnectionError):
        logger.rollout({"n": 1}, Storage.FULL)
    assert mirror.events == []


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_numbers_that_json_lacks_are_refused_by_key(tmp_path: Path, number: float) -> None:
    sink = JsonlSink(tmp_path / "r.jsonl")
    with pytest.raises(ArtifactError, match=rf"^metrics\.1\.brier is {number}, which JSON can't hold"):
        sink.write({"secret": "text", "metrics": [{"a": 1.0}, {"brier": number}]})
    sink.close()
    assert (tmp_path / "r.jsonl").read_bytes() == b""


def test_other_things_that_json_lacks_are_refused_by_key(tmp_path: Path) -> None:
    sink = JsonlSink(tmp_path / "r.jsonl")
    with pytest.raises(ArtifactError, match=r"parsed\.when is a set"):
        sink.write({"parsed": {"when": {1}}})
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(ArtifactError, match="nested too deeply"):
        sink.write({"parsed": deep})
    sink.close()


def test_full_disk_names_the_file_and_what_to_do() -> None:
    sink = JsonlSink(Path("/dev/full"))
    with pytest.raises(ArtifactError, match=r"No space left on device \(/dev/full\)\. Free space"):
        sink.write({"n": 1})


@contextmanager
def file_size_limit(limit: int) -> Iterator[None]:
    """Files can't grow beyond `limit` bytes; Python ignores SIGXFSZ, so a write fails with EFBIG."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_line_that_does_not_fit_is_taken_back_and_writing_can_go_on(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    sink = JsonlSink(path)
    sink.write({"n": 0})
    with file_size_limit(500), pytest.raises(ArtifactError, match=r"File too large .*results\.jsonl.*ulimit"):
        sink.write({"n": 1, "text": "x" * 1_000})
    assert read_jsonl(path) == ([{"n": 0}], None)
    sink.write({"n": 1})
    sink.close()
    assert read_jsonl(path) == ([{"n": 0}, {"n": 1}], None)


def test_line_that_can_not_be_taken_back_stops_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "results.jsonl"
    sink = JsonlSink(path)
    sink.write({"n": 0})

    def failing(fd: int, length: int) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patched, file_size_limit(500):
        patched.setattr(os, "ftruncate", failing)
        with pytest.raises(ArtifactError, match="File too large"):
            sink.write({"n": 1, "text": "x" * 1_000})
    with pytest.raises(ArtifactError, match="torn"):
        sink.write({"n": 2})
    sink.close()
    records, torn = read_jsonl(path)
    assert records == [{"n": 0}]
    assert torn is not None
    assert torn.startswith(b'{"n":1')


def test_unwritable_places_are_errors(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="Make the folder first"):
        JsonlSink(tmp_path / "nowhere" / "r.jsonl")
    (tmp_path / "file").write_text("")
    with pytest.raises(ArtifactError, match="Not a directory"):
        JsonlSink(tmp_path / "file" / "r.jsonl")
    with pytest.raises(ArtifactError, match="directory"):
        JsonlSink(tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_folder_without_rights_is_an_error(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(ArtifactError, match="rights"):
        JsonlSink(tmp_path / "r.jsonl")


def test_torn_tail_is_told_apart_kept_out_and_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    tail = b'{"n":2,"text":"' + b"x" * 200_000
    path.write_bytes(b'{"n":0}\n{"n":1}\n' + tail)
    assert read_jsonl(path) == ([{"n": 0}, {"n": 1}], tail)
    with pytest.raises(ArtifactError, match=rf"torn \({len(tail)} bytes"):
        JsonlSink(path)
    assert repair_tail(path) == len(tail)
    assert repair_tail(path) == 0
    assert path.read_bytes() == b'{"n":0}\n{"n":1}\n'
    path.write_bytes(b'{"n":0}')  # whole, but its end is missing: the rollout is played again
    assert read_jsonl(path) == ([], b'{"n":0}')
    assert repair_tail(path) == 7
    assert read_jsonl(path) == ([], None)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b'{"n":\n', "not a line of JSON"),
        (b"\n", "not a line of JSON"),
        (b'{"n":NaN}\n', "NaN is not JSON"),
        (b'{"n":"\xff"}\n', "utf-8"),
        (b"[1]\n", "a JSON list where an object belongs"),
        (b"[" * 100_000 + b"\n", "recursion"),
    ],
)
def test_broken_line_is_named_by_file_and_number(tmp_path: Path, line: bytes, why: str) -> None:
    path = tmp_path / "r.jsonl"
    path.write_bytes(b'{"n":0}\n' + line + b'{"n":2}\n')
    with pytest.raises(ArtifactError, match=why) as caught:
        read_jsonl(path)
    assert caught.value.where == f"{path}:2"


def test_missing_file_is_an_error(tmp_path: Path) -> None:
    for read in (read_jsonl, repair_tail):
        with pytest.raises(ArtifactError, match=r"none\.jsonl"):
            read(tmp_path / "none.jsonl")


def test_reader_keeps_only_what_it_is_asked_to(tmp_path: Path) -> None:
    (tmp_path / "r.jsonl").write_text('{"key":1,"text":"long"}\n')
    got = read_jsonl(tmp_path / "r.jsonl", keep=lambda record: {"key": record["key"]})
    assert got.records == [{"key": 1}]


def test_file_is_forced_to_disk_by_lines_and_by_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forced: list[int] = []
    monkeypatch.setattr(os, "fsync", forced.append)
    by_lines = JsonlSink(tmp_path / "a.jsonl", sync_lines=3)
    for number in range(7):
        by_lines.write({"n": number})
    assert len(forced) == 2
    by_lines.close()
    assert len(forced) == 3
    now = [0.0]
    by_time = JsonlSink(tmp_path / "b.jsonl", sync_seconds=10, clock=lambda: now[0])
    for now[0] in (1.0, 9.0, 10.0, 11.0, 19.0, 21.0):
        by_time.write({"n": now[0]})
    assert len(forced) == 5
    by_time.close()


def test_disk_fault_on_forcing_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = JsonlSink(tmp_path / "r.jsonl")

    def failing(fd: int) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", failing)
        with pytest.raises(ArtifactError, match="another disk"):
            sink.flush()
    sink.close()


def test_killed_writer_tears_at_most_its_last_line(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    code = textwrap.dedent("""
        import sys
        from pathlib import Path
        from sv_shared.rollout_logging import JsonlSink

        sink, n = JsonlSink(Path(sys.argv[1])), 0
        while True:
            sink.write({"n": n, "text": "x" * 5000})
            print(n, flush=True)
            n += 1
    """)
    writer = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    for _ in range(100):
        writer.stdout.readline()
    os.kill(writer.pid, signal.SIGKILL)
    told = [int(line) for line in writer.communicate(timeout=10)[0].split()]
    read_jsonl(path)
    repair_tail(path)
    numbers = [record["n"] for record in read_jsonl(path).records]
    assert numbers == list(range(len(numbers)))
    assert len(numbers) >= max(told, default=99) + 1
    assert json.loads(path.read_bytes().splitlines()[-1])["n"] == numbers[-1]
