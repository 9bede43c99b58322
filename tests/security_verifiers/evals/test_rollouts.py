"""rollouts(): bounded, and gone without a trace when its consumer goes."""

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import verifiers.v1 as vf

from security_verifiers.evals.engine import Engine
from security_verifiers.evals.evaluate import RunLimits, evaluate
from security_verifiers.evals.plan import Plan, make_plan
from security_verifiers.evals.run import rollouts
from sv_shared.errors import ToolError, UsageError
from sv_shared.interception import LOCAL_SERVERS
from sv_shared.outcomes import Outcome
from sv_test_quick import QUICK, follower

from .conftest import Watching, seats_of
from .doubles import Double, follow


class Slow:
    """A model's double that counts the calls in flight and those cancelled."""

    def __init__(self, seconds: float) -> None:
        self.begun = self.cancelled = self.running = self.most = 0
        self._seconds = seconds

    async def __call__(self, messages: Any, sampling: Any) -> Any:
        self.begun += 1
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await asyncio.sleep(self._seconds)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.running -= 1
        return follow(messages, sampling)


@asynccontextmanager
async def playing(player: Any, rows: int = 40) -> AsyncIterator[tuple[Engine, Plan]]:
    """An engine with a player in its seat."""
    plan = make_plan(QUICK, {"rows": rows})
    async with Engine(QUICK, plan.env, seed=42, time_limit_s=30) as engine:
        engine.take_seats(seats_of(QUICK, player))
        yield engine, plan


def other_tasks() -> set[Any]:
    """Tasks of the running loop besides this one."""
    return asyncio.all_tasks() - {asyncio.current_task()}


async def test_consumer_that_stops_early_cancels_what_is_in_flight() -> None:
    slow = Slow(0.05)
    async with playing(Double(slow)) as (engine, plan):
        before = other_tasks()
        async with aclosing(rollouts(engine, plan.rollouts(set()), concurrency=4)) as records:
            async for _ in records:
                break
        assert slow.running == 0
        assert slow.begun <= 8
        assert other_tasks() == before
        assert engine._clients["agent"]._calls == {}


async def test_consumer_that_raises_cancels_what_is_in_flight() -> None:
    slow = Slow(0.05)
    async with playing(Double(slow)) as (engine, plan):
        before = other_tasks()

        async def consume() -> None:
            async with aclosing(rollouts(engine, plan.rollouts(set()), concurrency=4)) as records:
                async for _ in records:
                    raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await consume()
        assert slow.running == 0
        assert slow.cancelled > 0
        assert other_tasks() == before


async def test_a_run_whose_observer_raises_leaves_nothing_running(tmp_path: Path) -> None:
    """evaluate() is such a consumer: once it has raised, nothing plays on behind the closed folder."""

    def stop(count: int) -> None:
        raise ZeroDivisionError

    slow = Slow(0.05)
    async with playing(Double(slow)) as (engine, plan):
        before = other_tasks()
        with pytest.raises(ZeroDivisionError):
            await evaluate(
                engine,
                plan,
                seats_of(QUICK, Double(slow)),
                tmp_path,
                limits=RunLimits(4, 30),
                observer=Watching(stop),
            )
        assert slow.running == 0
        assert slow.begun <= 9
        assert other_tasks() == before


async def test_cancelled_from_outside_leaks_nothing() -> None:
    slow = Slow(30)
    async with playing(Double(slow)) as (engine, plan):
        before = other_tasks()

        async def consume() -> None:
            async with aclosing(rollouts(engine, plan.rollouts(set()), concurrency=4)) as records:
                async for _ in records:
                    pass

        task = asyncio.create_task(consume())
        await asyncio.sleep(0.3)
        assert slow.running == 4
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (slow.running, slow.cancelled) == (0, 4)
        assert other_tasks() == before


async def test_concurrency_is_what_was_asked_for() -> None:
    slow = Slow(0.01)
    async with playing(Double(slow)) as (engine, plan):
        records = [r async for r in rollouts(engine, plan.rollouts(set()), concurrency=5)]
    assert len(records) == 40
    assert slow.most == 5


async def test_unread_records_are_bounded() -> None:
    """A consumer that reads nothing more stops the play: 2 x concurrency rollouts at most are ahead of it."""
    slow = Slow(0)
    async with (
        playing(Double(slow), rows=200) as (engine, plan),
        aclosing(rollouts(engine, plan.rollouts(set()), concurrency=3)) as records,
    ):
        await anext(records)
        await asyncio.sleep(0.3)
        assert slow.begun == 6
        await anext(records)
        await asyncio.sleep(0.1)
        assert slow.begun == 7


async def test_the_plan_is_read_as_it_is_played() -> None:
    taken = 0

    def counted(planned: Any) -> Any:
        nonlocal taken
        for item in planned:
            taken += 1
            yield item

    async with (
        playing(follower(), rows=100) as (engine, plan),
        aclosing(rollouts(engine, counted(plan.rollouts(set())), concurrency=2)) as records,
    ):
        await anext(records)
        await asyncio.sleep(0.1)
        assert taken <= 6


async def test_a_defect_of_the_engine_ends_the_iteration(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not one bad rollout but a bug: it reaches the consumer as itself, after the records before it."""
    play = Engine.play
    played = 0

    async def broken(self: Engine, task: Any, sample: int) -> Any:
        nonlocal played
        played += 1
        if played > 10:
            raise LookupError("a bug")
        return await play(self, task, sample)

    monkeypatch.setattr(Engine, "play", broken)
    got = []
    async with playing(follower()) as (engine, plan):
        before = other_tasks()

        async def consume() -> None:
            async for record in rollouts(engine, plan.rollouts(set()), concurrency=1):
                got.append(record)

        with pytest.raises(LookupError, match="a bug"):
            await consume()
        assert other_tasks() == before
    assert len(got) == 10


async def test_an_empty_plan_yields_nothing() -> None:
    async with playing(follower()) as (engine, _):
        assert [r async for r in rollouts(engine, [], concurrency=4)] == []


async def test_other_players_take_the_seats() -> None:
    async with playing(follower()) as (engine, plan):
        first = [r async for r in rollouts(engine, plan.rollouts(set()), concurrency=4)]
        engine.take_seats(seats_of(QUICK, QUICK.policies("agent")["always-abstain"]))
        second = [r async for r in rollouts(engine, plan.rollouts(set()), concurrency=4)]
        with pytest.raises(UsageError, match="quick has the seats agent; the run fills keeper"):
            engine.take_seats({"keeper": seats_of(QUICK, follower())["agent"]})
    assert {r.seats["agent"].model for r in first} == {"policy:follow"}
    assert {r.outcome for r in second} == {Outcome.ABSTAINED}


async def test_engines_leave_no_server_behind() -> None:
    async with playing(follower()):
        assert len(LOCAL_SERVERS) == 1
    assert LOCAL_SERVERS == {}


async def test_an_engine_that_fails_to_start_takes_down_what_it_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from sv_shared.solo import SoloEnv

    async def broken(self: SoloEnv) -> None:
        raise ToolError("no")

    monkeypatch.setattr(SoloEnv, "start", broken)
    with pytest.raises(ToolError):
        async with playing(follower()):
            pass
    assert LOCAL_SERVERS == {}


def traces_alive() -> int:
    """The number of traces that something still holds."""
    gc.collect()
    return sum(isinstance(thing, vf.Trace) for thing in gc.get_objects())


async def test_rollouts_leave_no_garbage_behind() -> None:
    """Nothing of a finished rollout is held: no trace, no session, no notes of its calls."""
    before = traces_alive()
    async with playing(Double(follow), rows=60) as (engine, plan):
        async for _ in rollouts(engine, plan.rollouts(set()), concurrency=4):
            pass
        assert traces_alive() <= before
        (server,) = LOCAL_SERVERS.values()
        assert (server.sessions, server.state_sessions, server.state_routes) == ({}, {}, {})
