"""The tool cache under load, damage, a full disk and kill -9."""

import asyncio
import fcntl
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sv_shared.errors import ToolError
from sv_shared.tool_cache import CacheKey, ToolCache, content_hash
from sv_shared.tools import ToolResult

from .cache_doubles import Caller, Opened, key, result, text


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    caches = Opened(tmp_path / "cache")
    yield caches
    caches.close()


async def test_second_lookup_is_a_hit_in_this_and_the_next_process(opened: Opened) -> None:
    first, caller = opened(), Caller(b"ok \xf0\x9f\x90\x8d")
    assert await first.result(key("a"), caller, text) == "ok 🐍"
    assert await first.result(key("a"), caller, text) == "ok 🐍"
    second = opened()
    seen: list[ToolResult] = []
    await second.result(key("a"), caller, lambda raw: seen.append(raw))
    assert seen == [result(b"ok \xf0\x9f\x90\x8d")]
    assert caller.calls == 1
    assert (first.stats.hits, first.stats.misses, first.stats.hit_rate) == (1, 1, 0.5)
    assert opened.warnings == []


async def test_every_part_of_the_key_matters(opened: Opened) -> None:
    cache, caller = opened(), Caller()
    base = CacheKey("opa", "1.0", "r", "i")
    for other in (
        base,
        CacheKey("opa2", "1.0", "r", "i"),
        CacheKey("opa", "1.1", "r", "i"),
        CacheKey("opa", "1.0", "r2", "i"),
        CacheKey("opa", "1.0", "r", "i2"),
        CacheKey("op", "a1.0", "r", "i"),
    ):
        await cache.result(other, caller, text)
    assert caller.calls == 6


@given(st.lists(st.text(max_size=4), max_size=4), st.lists(st.text(max_size=4), max_size=4))
def test_different_parts_have_different_hashes(one: list[str], other: list[str]) -> None:
    assert (content_hash(*one) == content_hash(*other)) == (one == other)


async def test_same_key_is_computed_once_at_a_time(opened: Opened) -> None:
    cache, caller = opened(), Caller(seconds=0.05)
    answers = await asyncio.gather(*(cache.result(key("a"), caller, text) for _ in range(20)))
    assert answers == ["ok"] * 20
    assert caller.calls == 1
    assert (cache.stats.misses, cache.stats.joined, cache.stats.hit_rate) == (1, 19, 0.95)


async def test_cancelling_one_caller_leaves_the_others_and_the_last_one_stops_the_call(
    opened: Opened,
) -> None:
    cache, caller = opened(), Caller(seconds=0.1)
    one, other = (asyncio.create_task(cache.result(key("a"), caller, text)) for _ in range(2))
    await asyncio.sleep(0.05)
    one.cancel()
    assert await other == "ok"
    stopped = asyncio.Event()

    async def endless() -> ToolResult:
        try:
            await asyncio.sleep(60)
        finally:
            stopped.set()
        raise AssertionError

    lone = asyncio.create_task(cache.result(key("b"), endless, text))
    await asyncio.sleep(0.05)
    lone.cancel()
    await asyncio.wait_for(stopped.wait(), 1)
    assert await cache.result(key("b"), caller, text) == "ok"


async def test_garbage_from_a_tool_that_exits_well_is_refused_and_not_kept(opened: Opened) -> None:
    cache, liar = opened(), Caller(b"<html>rate limited</html>")
    for _ in range(2):
        with pytest.raises(ToolError, match="something else"):
            await cache.result(key("a"), liar, text)
    assert (liar.calls, cache.stats.rejected) == (2, 0)
    assert await cache.result(key("a"), Caller(), text) == "ok"


async def test_stored_result_that_a_mended_parser_refuses_is_made_again(opened: Opened) -> None:
    cache = opened()
    await cache.result(key("a"), Caller(b"old"), lambda raw: raw.stdout)
    assert await cache.result(key("a"), Caller(), text) == "ok"
    assert cache.stats.rejected == 1
    assert await cache.result(key("a"), Caller(b"never called"), text) == "ok"


async def test_failed_calls_are_not_kept(opened: Opened) -> None:
    cache = opened()

    async def failing() -> ToolResult:
        raise ToolError("opa did not end within 1 s")

    with pytest.raises(ToolError, match="did not end"):
        await cache.result(key("a"), failing, text)
    assert await cache.result(key("a"), Caller(), text) == "ok"


async def test_flipped_bit_in_a_value_is_noticed(opened: Opened) -> None:
    cache = opened()
    await cache.result(key("a"), Caller(b"ok: 0 findings"), text)
    opened.close()
    path = opened.folder / "results-v1.sqlite"
    content = path.read_bytes()
    assert content.count(b"ok: 0 findings") == 1
    path.write_bytes(content.replace(b"ok: 0 findings", b"ok: 1 findings"))
    again, caller = opened(), Caller(b"ok: 0 findings")
    assert await again.result(key("a"), caller, text) == "ok: 0 findings"
    assert (caller.calls, again.stats.rejected) == (1, 1)
    assert "damaged entry" in opened.warnings[0]


@pytest.mark.parametrize("damage", ["not a database", "zeroed pages"])
async def test_damaged_file_is_left_aside_and_named(opened: Opened, damage: str) -> None:
    cache = opened()
    for number in range(200):
        await cache.result(key(str(number)), Caller(b"ok" * 200), text)
    opened.close()
    path = opened.folder / "results-v1.sqlite"
    content = path.read_bytes()
    if damage == "not a database":
        path.write_bytes(b"x" * len(content))
    else:
        path.write_bytes(content[:4096] + bytes(len(content) - 4096))
    again, caller = opened(), Caller()
    assert await again.result(key("0"), caller, text) == "ok"
    assert await again.result(key("0"), caller, text) == "ok"
    assert caller.calls == 1
    assert len(opened.warnings) == 1
    assert f"{path} is damaged" in opened.warnings[0]
    assert path.exists()
    third = opened()
    await third.result(key("0"), caller, text)
    assert caller.calls == 1  # a later process goes on with the new file
    await third.clear()
    assert not path.exists()
    assert len(opened.warnings) == 1


async def test_damage_under_an_open_cache(opened: Opened) -> None:
    one, other, caller = opened(), opened(), Caller()
    await one.result(key("a"), caller, text)
    one._store._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    (opened.folder / "results-v1.sqlite").write_bytes(b"x" * 40_960)
    for cache in (one, other):  # forget the good pages in memory
        cache._store._db.execute("PRAGMA shrink_memory").fetchall()
    for cache in (one, other, one, other):
        assert await cache.result(key("b"), caller, text) == "ok"
    assert caller.calls == 2
    assert one._store.path == other._store.path
    assert sum("is damaged" in warning for warning in opened.warnings) == 2


async def test_after_damage_a_process_joins_the_newest_file(opened: Opened) -> None:
    cache = opened()
    cache._store._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    (opened.folder / "results-v1.sqlite").write_bytes(b"x" * 40_960)
    (opened.folder / "results-v1.3.sqlite").touch()
    cache._store._db.execute("PRAGMA shrink_memory").fetchall()
    assert await cache.result(key("a"), Caller(), text) == "ok"
    assert cache._store.path.name == "results-v1.3.sqlite"


async def test_full_disk_costs_the_storing_and_not_the_result(opened: Opened) -> None:
    cache = opened()
    await cache._run(lambda: cache._store._db.execute("PRAGMA max_page_count = 8").fetchall())
    caller = Caller(b"ok" * 50_000)
    for number in range(3):
        assert (await cache.result(key(str(number)), caller, text)).startswith("ok")
    assert (cache.stats.errors, cache.stats.misses) == (3, 3)
    assert len(opened.warnings) == 1
    assert "full" in opened.warnings[0]
    assert await cache.result(key("small"), Caller(), text) == "ok"


def test_unwritable_folder_is_an_error_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ToolError, match="another folder"):
        ToolCache(tmp_path / "file" / "cache")


async def test_oldest_results_go_when_the_file_is_too_large(opened: Opened) -> None:
    now = iter(range(10**6))
    cache, caller = opened(max_bytes=400_000, clock=lambda: float(next(now))), Caller(b"ok" * 5_000)
    for number in range(128):  # 1.3 MB; pruning comes with each 64th
        await cache.result(key(str(number)), caller, text)
    assert cache._store.live_bytes() <= 400_000
    calls = caller.calls
    await cache.result(key("127"), caller, text)
    assert caller.calls == calls
    await cache.result(key("0"), caller, text)
    assert caller.calls == calls + 1


async def test_old_results_go(opened: Opened) -> None:
    time_ = [0.0]
    cache, caller = opened(max_age_s=100, clock=lambda: time_[0]), Caller()
    await cache.result(key("a"), caller, text)
    time_[0] = 50.0
    await cache.result(key("b"), caller, text)
    time_[0] = 120.0
    await cache.prune()
    await cache.result(key("b"), caller, text)
    assert caller.calls == 2
    await cache.result(key("a"), caller, text)
    assert caller.calls == 3


async def test_clear_removes_everything(opened: Opened) -> None:
    cache, caller = opened(), Caller()
    await cache.result(key("a"), caller, text)
    await cache.clear()
    await cache.result(key("a"), caller, text)
    assert caller.calls == 2


async def test_hits_are_quick_and_do_not_hold_up_the_loop(opened: Opened) -> None:
    cache, caller = opened(), Caller(b"ok" * 2_000)
    await cache.result(key("a"), caller, text)
    started = time.perf_counter()
    for _ in range(200):
        await cache.result(key("a"), caller, text)
    assert (time.perf_counter() - started) / 200 < 0.01  # 0.2 ms where it was measured


async def test_locked_file_does_not_hold_up_the_loop(opened: Opened) -> None:
    cache = opened()
    other = sqlite3.connect(opened.folder / "results-v1.sqlite", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    store = asyncio.create_task(cache.result(key("a"), Caller(), text))
    beats = 0
    while beats < 20:
        await asyncio.sleep(0.01)
        beats += 1
    assert not store.done()
    other.execute("COMMIT")
    other.close()
    assert await asyncio.wait_for(store, 10) == "ok"
    assert cache.stats.errors == 0


WRITER = textwrap.dedent("""
    import asyncio, sys
    from pathlib import Path
    from sv_shared.tool_cache import CacheKey, ToolCache
    from sv_shared.tools import Ending, ToolResult

    folder, me, keys, rounds = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])

    async def main():
        cache = ToolCache(folder, warn=lambda line: sys.exit(f"warned: {line}"))
        for number in range(rounds):
            name = f"{(number * 7 + me) % keys}"

            async def call():
                return ToolResult(0, name.encode() * 3000, b"", 0.1, Ending.EXITED, "t", "1")

            got = await cache.result(CacheKey("t", "1", "r", name), call, lambda raw: raw.stdout)
            assert got == name.encode() * 3000, name
            print(name, flush=True)
        assert cache.stats.errors == 0, cache.stats
        cache.close()

    asyncio.run(main())
""")


def start_writer(folder: Path, me: int, keys: int, rounds: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(folder), str(me), str(keys), str(rounds)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_files_are_opened_one_process_at_a_time(tmp_path: Path) -> None:
    """Without it about one in a hundred simultaneous first openings fails with "database is locked"."""
    with (tmp_path / "opening.lock").open("w") as held, ThreadPoolExecutor(1) as pool:
        fcntl.flock(held, fcntl.LOCK_EX)
        opening = pool.submit(ToolCache, tmp_path)
        time.sleep(0.2)
        assert not opening.done()
        fcntl.flock(held, fcntl.LOCK_UN)
        opening.result(timeout=10).close()


def test_eight_processes_share_a_cache(tmp_path: Path) -> None:
    writers = [start_writer(tmp_path / "cache", me, 40, 120) for me in range(8)]
    for writer in writers:
        out, err = writer.communicate(timeout=60)
        assert (writer.returncode, err) == (0, "")
        assert len(out.splitlines()) == 120
    database = sqlite3.connect(tmp_path / "cache" / "results-v1.sqlite")
    assert database.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert database.execute("SELECT count(*) FROM results").fetchone() == (40,)
    assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    database.close()


async def test_killed_writer_loses_nothing_that_it_stored(opened: Opened) -> None:
    writer = start_writer(opened.folder, 0, 10**6, 10**6)
    assert writer.stdout is not None
    stored = [writer.stdout.readline().strip() for _ in range(50)]
    os.kill(writer.pid, signal.SIGKILL)
    writer.communicate(timeout=10)
    cache, caller = opened(), Caller()
    for name in stored:
        got = await cache.result(CacheKey("t", "1", "r", name), caller, lambda raw: raw.stdout)
        assert got == name.encode() * 3000
    assert (caller.calls, opened.warnings) == (0, [])
    assert cache._store._db.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_file_size_limit_is_reported_and_costs_no_result(tmp_path: Path) -> None:
    code = textwrap.dedent("""
        import asyncio, resource, sys
        from pathlib import Path
        from sv_shared.tool_cache import CacheKey, ToolCache
        from sv_shared.tools import Ending, ToolResult

        async def main():
            warned = []
            cache = ToolCache(Path(sys.argv[1]), warn=warned.append)
            resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))

            async def call():
                return ToolResult(0, b"x" * 30_000, b"", 0.1, Ending.EXITED, "t", "1")

            for n in range(20):
                key = CacheKey("t", "1", "r", str(n))
                assert len(await cache.result(key, call, lambda raw: raw.stdout)) == 30_000
            assert cache.stats.misses == 20 and cache.stats.errors > 0, cache.stats
            assert len(warned) == 1 and "out of use" in warned[0], warned
            cache.close()

        asyncio.run(main())
    """)
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "cache")], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
