"""The direct call into the interception server does what the same call over HTTP does."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
import verifiers.v1 as vf

from security_verifiers.evals import engine as engine_module
from security_verifiers.evals.engine import Engine
from security_verifiers.evals.plan import make_plan
from security_verifiers.evals.seats import Seat
from sv_shared.interception import LOCAL_SERVERS, LocalInterception
from sv_test_quick import QUICK
from tests.security_verifiers.evals.doubles import Double, call_failed, said


class OverHttp(LocalInterception):
    """The same server with its socket open and no direct way to it."""

    served = 0

    def __init__(self, clients: Any, *, with_tools: bool, **rest: Any) -> None:
        super().__init__(clients, with_tools=True, **rest)

    async def start(self) -> None:
        await super().start()
        LOCAL_SERVERS.clear()

    async def handle_request(self, request: Any, dialect: Any) -> Any:
        assert request.transport is not None
        OverHttp.served += 1
        return await super().handle_request(request, dialect)


def loop_for_ever(messages: Any, sampling: Any) -> Any:
    """Calls a tool that does not exist, each time."""
    function = {"name": "shovel", "arguments": "{}"}
    call = {"id": f"call-{len(messages)}", "type": "function", "function": function}
    return said(None, finish_reason="tool_calls", tool_calls=[call])


def fail(error: Exception) -> Callable[[Any, Any], Any]:
    """A model that raises in its second turn."""

    def answer(messages: Any, sampling: Any) -> Any:
        if len(messages) > 2:
            raise error
        return loop_for_ever(messages, sampling)

    return answer


GOOD = '{"label": "Risky", "confidence": 0.75, "rationale": "é \U0001f600 \\u2028 \\n"}'

CASES: dict[str, tuple[Callable[[Any, Any], Any], dict[str, int]]] = {
    "answer": (lambda m, s: said(GOOD), {}),
    "empty": (lambda m, s: said(""), {}),
    "no content": (lambda m, s: said(None), {}),
    "reasoning": (lambda m, s: said(GOOD, reasoning_content="let me think"), {}),
    "refusal": (lambda m, s: said(None, refusal="I would rather not."), {}),
    "content filter": (lambda m, s: said("", finish_reason="content_filter"), {}),
    "cut off": (lambda m, s: said('{"label": "Ri', finish_reason="length"), {}),
    "large": (lambda m, s: said("x" * 3_000_000), {}),
    "surrogate": (lambda m, s: said("half \ud83d pair"), {}),
    "tool loop": (loop_for_ever, {}),
    "turn limit": (loop_for_ever, {"max_turns": 3}),
    "token limit": (loop_for_ever, {"max_output_tokens": 12}),
    "stop": (loop_for_ever, {}),
    "429": (fail(call_failed(429)), {}),
    "500": (fail(call_failed(500)), {}),
    "400": (fail(call_failed(400)), {}),
    "no connection": (fail(call_failed(None)), {}),
    "crash": (fail(RuntimeError("oh\nno")), {}),
}

EXPECTED: dict[str, Mapping[str, Any]] = {
    "answer": {"outcome": "scored", "turns": 1, "stop": "agent_completed"},
    "refusal": {"outcome": "refused", "turns": 1, "stop": "agent_completed"},
    "content filter": {"outcome": "refused", "turns": 1, "stop": "agent_completed"},
    "cut off": {"outcome": "parse_fail", "turns": 1, "stop": "agent_completed"},
    "tool loop": {"outcome": "parse_fail", "turns": 16, "stop": "agent_completed"},
    "turn limit": {"outcome": "parse_fail", "turns": 3, "stop": "max_turns"},
    "token limit": {"outcome": "parse_fail", "turns": 3, "stop": "max_output_tokens"},
    "stop": {"outcome": "parse_fail", "turns": 2, "stop": "enough"},
    "429": {"outcome": "infra_error", "turns": 1, "stop": "provider_error", "error": "provider"},
    "no connection": {"outcome": "infra_error", "turns": 1, "stop": "provider_error", "error": "provider"},
    "crash": {"outcome": "infra_error", "turns": 1, "stop": "player_error", "error": "player"},
}


def shape(trace: vf.Trace) -> dict[str, Any]:
    """A trace without what differs between two equal rollouts: identifiers and times."""
    return {
        "nodes": [node.message.model_dump() for node in trace.nodes],
        "calls": [
            (
                call.node,
                call.model,
                call.finish_reason,
                call.usage,
                call.endpoint,
                call.error and (call.error.type, call.error.message, call.error.status_code),
            )
            for call in trace.calls
        ],
        "errors": [(error.type, error.message, error.status_code) for error in trace.errors],
        "stop": trace.stop_condition,
        "rewards": dict(trace.rewards),
        "metrics": dict(trace.metrics),
        "ok": trace.ok,
        "turns": trace.num_turns,
    }


async def play_all() -> dict[str, tuple[dict[str, Any], dict[str, Any]]]:
    """(trace, record) of each case, without times."""
    plan = make_plan(QUICK, {"scripts": ["stop"], "rows": 1})
    (task,) = plan.tasks
    outcomes = {}
    async with Engine(QUICK, plan.env, seed=42, time_limit_s=30) as engine:
        for name, (answer, budget) in CASES.items():
            played = task.with_data(script="stop" if name == "stop" else "right")
            engine.take_seats({"agent": Seat("agent", "double", Double(answer), **budget)})  # type: ignore[arg-type]
            episode = await engine.episode(played, 1)
            record = replace(await engine.play(played, 0), seconds={})
            outcomes[name] = shape(episode.traces["agent"]), record.to_json()
    return outcomes


Played = dict[str, tuple[dict[str, Any], dict[str, Any]]]


@pytest.fixture(scope="module")
def both() -> tuple[Played, Played]:
    """The cases played directly and over HTTP."""
    direct = asyncio.run(play_all())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine_module, "LocalInterception", OverHttp)
        over_http = asyncio.run(play_all())
    assert OverHttp.served > 2 * len(CASES)
    return direct, over_http


@pytest.mark.parametrize("case", CASES)
def test_direct_and_http_leave_the_same(both: tuple[Played, Played], case: str) -> None:
    direct, over_http = (played[case] for played in both)
    assert direct[0] == over_http[0]
    assert direct[1] == over_http[1]


@pytest.mark.parametrize("case", EXPECTED)
def test_limits_stops_and_errors(both: tuple[Played, Played], case: str) -> None:
    trace, record = both[0][case]
    expected = EXPECTED[case]
    assert record["outcome"] == expected["outcome"]
    assert (trace["turns"], trace["stop"]) == (expected["turns"], expected["stop"])
    assert (record["error"] or {}).get("where") == expected.get("error")


async def test_a_secret_opens_one_session_only() -> None:
    """Who does not hold a rollout's secret gets nothing from the server, in process too."""
    server = LocalInterception({}, with_tools=False)
    async with server:
        status, body = await server.complete("not a secret", {"messages": []})
    assert status == 401
    assert b"unauthorized" in body
