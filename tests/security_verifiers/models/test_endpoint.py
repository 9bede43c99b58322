"""OpenAI-compatible endpoints, against a provider that lies, hangs, limits and breaks."""

import asyncio
from datetime import timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from security_verifiers.models.base import Sampling
from security_verifiers.models.retries import RetryPolicy
from sv_shared.errors import ModelError

from .conftest import Connect
from .fake_provider import (
    KEY,
    FakeProvider,
    FakeTime,
    answer,
    ask,
    chat,
    cut_off,
    endless,
    failing,
    failure,
    hang,
    hang_up,
    slow,
)

TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}


async def test_a_call_carries_key_messages_tools_and_only_the_sampling_that_is_set(
    provider: FakeProvider, connected: Connect
) -> None:
    model = connected(provider.entry(extra_body={"logprobs": True}))
    await model.start()
    done = await model.complete(
        [{"role": "user", "content": "héllo"}], [TOOL], Sampling(temperature=0.0, max_tokens=7, seed=42)
    )
    await model.close()
    assert provider.paths == ["/v1/chat/completions"]
    assert provider.headers[0]["Authorization"] == f"Bearer {KEY}"
    assert provider.bodies[0] == {
        "model": "fake-1",
        "messages": [{"role": "user", "content": "héllo"}],
        "tools": [TOOL],
        "temperature": 0.0,
        "max_tokens": 7,
        "seed": 42,
        "logprobs": True,
    }
    assert done.message == {"role": "assistant", "content": "ok"}
    assert (done.finish_reason, done.model, done.attempts) == ("stop", "fake-1", 1)
    assert done.usage is not None
    assert (done.usage.prompt_tokens, done.usage.completion_tokens, done.usage.estimated) == (12, 3, False)


async def test_no_key_means_no_header_where_none_is_required(
    provider: FakeProvider, connected: Connect
) -> None:
    await ask(connected(provider.entry(key_required=False), key=""))
    assert "Authorization" not in provider.headers[0]


async def test_the_length_goes_into_the_field_that_the_model_knows(
    provider: FakeProvider, connected: Connect
) -> None:
    entry = provider.entry(max_tokens_field="max_completion_tokens")
    await ask(connected(entry), sampling=Sampling(max_tokens=9))
    assert provider.bodies[0]["max_completion_tokens"] == 9
    assert "max_tokens" not in provider.bodies[0]


@pytest.mark.parametrize("forced", [True, False])
async def test_a_form_is_forced_only_where_the_entry_says_so(
    forced: bool, provider: FakeProvider, connected: Connect
) -> None:
    schema = {"type": "object", "properties": {"label": {"type": "string"}}}
    await ask(connected(provider.entry(forced_form=forced)), sampling=Sampling(answer_schema=schema))
    sent = provider.bodies[0].get("response_format")
    form = {"name": "answer", "strict": True, "schema": schema}
    assert sent == ({"type": "json_schema", "json_schema": form} if forced else None)


async def test_usage_that_is_not_told_is_estimated_and_says_so(
    provider: FakeProvider, connected: Connect
) -> None:
    provider.default = answer({name: value for name, value in chat().items() if name != "usage"})
    done = await ask(connected(provider.entry()), text="word " * 400)
    assert done.usage is not None
    assert done.usage.estimated
    assert 400 < done.usage.prompt_tokens < 600


MALFORMED = {
    "HTML": answer("<html><body>Gateway</body></html>"),
    "truncated JSON": answer('{"choices": [{"message": {"con'),
    "empty": answer(""),
    "a list": answer([chat()]),
    "no choices": answer({"model": "fake-1"}),
    "empty choices": answer({"choices": []}),
    "null choice": answer({"choices": [None]}),
    "null content": answer(chat(None)),
    "no finish reason": answer(chat(finish_reason=None)),
    "content a number": answer(chat(message={"content": 7})),
    "error in a success": answer({"error": {"message": "upstream"}}),
    "tool call without a name": answer(chat(message={"tool_calls": [{"id": "1", "function": {}}]})),
    "tool arguments an object": answer(
        chat(message={"tool_calls": [{"id": "1", "function": {"name": "f", "arguments": {}}}]})
    ),
    "fewer ids than log-probabilities": answer(
        chat(token_ids=[1], logprobs={"content": [{"logprob": -1.0}, {"logprob": -2.0}]})
    ),
    "log-probabilities with gaps": answer(chat(logprobs={"content": [{"logprob": -1.0}, {"token": "x"}]})),
    "deep nesting": answer("[" * 100_000),
}


@pytest.mark.parametrize("name", MALFORMED)
async def test_a_malformed_response_is_tried_again_and_then_named(
    name: str, provider: FakeProvider, connected: Connect
) -> None:
    provider.default = MALFORMED[name]
    error = await failing(connected(provider.entry(), policy=RetryPolicy(attempts=2)))
    assert (error.kind, error.attempts, provider.requests) == ("malformed", 2, 2)
    provider.script, provider.default = [MALFORMED[name]], answer(chat("well"))
    assert (await ask(connected(provider.entry()))).message["content"] == "well"


@pytest.mark.parametrize("status", [500, 502, 503, 529, 408, 409])
async def test_a_passing_fault_is_survived(status: int, provider: FakeProvider, connected: Connect) -> None:
    provider.script = [failure(status), failure(status)]
    done = await ask(connected(provider.entry()))
    assert (done.attempts, provider.requests) == (3, 3)


async def test_a_fault_that_stays_ends_after_the_allowed_attempts(
    provider: FakeProvider, connected: Connect, fake_time: FakeTime
) -> None:
    provider.default = failure(500)
    error = await failing(connected(provider.entry(), policy=RetryPolicy(attempts=4, first_wait_s=1.0)))
    assert (error.kind, error.status, error.attempts, provider.requests) == ("server", 500, 4, 4)
    assert fake_time.slept == [0.5, 1.0, 2.0]


async def test_the_total_time_bounds_the_attempts(
    provider: FakeProvider, connected: Connect, fake_time: FakeTime
) -> None:
    provider.default = failure(500)
    policy = RetryPolicy(attempts=99, first_wait_s=10.0, longest_wait_s=40.0, total_s=60.0)
    error = await failing(connected(provider.entry(), policy=policy))
    assert sum(fake_time.slept) < 60
    assert error.attempts == len(fake_time.slept) + 1 == 5


@pytest.mark.parametrize(
    ("headers", "waited"),
    [
        ({"retry-after": "7"}, 7.5),
        ({"retry-after": format_datetime(FakeTime.PRESENT + timedelta(seconds=20), usegmt=True)}, 20.5),
        ({"retry-after": format_datetime(FakeTime.PRESENT - timedelta(days=1), usegmt=True)}, 0.5),
        ({"retry-after": "86400"}, 60.0),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.75),
        ({"retry-after": "soon"}, 0.5),
        ({}, 0.5),
    ],
    ids=["seconds", "a date", "a past date", "capped", "milliseconds", "nonsense", "nothing"],
)
async def test_the_wait_that_the_provider_asks_for_is_kept(
    headers: dict[str, str], waited: float, provider: FakeProvider, connected: Connect, fake_time: FakeTime
) -> None:
    provider.script = [failure(429, headers)]
    done = await ask(connected(provider.entry(), policy=RetryPolicy(first_wait_s=1.0, longest_wait_s=60.0)))
    assert done.attempts == 2
    assert fake_time.slept == [waited]


async def test_a_quota_that_is_used_up_is_not_waited_for(provider: FakeProvider, connected: Connect) -> None:
    provider.default = failure(429, code="insufficient_quota")
    error = await failing(connected(provider.entry()))
    assert (error.kind, error.retryable, provider.requests) == ("rate_limit", False, 1)


@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, "bad_request"), (401, "auth"), (403, "auth"), (404, "not_found"), (413, "bad_request"),
     (422, "bad_request")],
)  # fmt: skip
async def test_what_no_retry_cures_is_asked_once(
    status: int, kind: str, provider: FakeProvider, connected: Connect
) -> None:
    provider.default = failure(status)
    error = await failing(connected(provider.entry()))
    assert (error.kind, error.status, error.retryable, provider.requests) == (kind, status, False, 1)


async def test_a_refused_key_names_its_variable(provider: FakeProvider, connected: Connect) -> None:
    provider.default = failure(401)
    assert "FAKE_API_KEY: it is wrong" in str(await failing(connected(provider.entry())))
    without = connected(provider.entry(key_required=False), key="")
    assert "FAKE_API_KEY: it is not set" in str(await failing(without))


def test_a_missing_key_is_named_before_anything_is_sent(provider: FakeProvider, connected: Connect) -> None:
    with pytest.raises(ModelError, match="FAKE_API_KEY is not set"):
        connected(provider.entry(), key="  ")


def test_a_key_that_cannot_be_a_header_is_named_without_being_shown(
    provider: FakeProvider, connected: Connect
) -> None:
    with pytest.raises(ModelError, match="FAKE_API_KEY holds a line break") as caught:
        connected(provider.entry(), key=f"{KEY}\nrest")
    assert KEY not in str(caught.value)


async def test_a_prompt_that_the_provider_declines_is_a_refusal(
    provider: FakeProvider, connected: Connect
) -> None:
    provider.default = failure(400, code="content_filter")
    done = await ask(connected(provider.entry()))
    assert (done.finish_reason, done.message["content"], done.usage) == ("content_filter", "", None)
    assert KEY not in str(done)
    assert done.message["refusal"]


async def test_a_provider_that_hangs_is_given_up(provider: FakeProvider, connected: Connect) -> None:
    provider.default = hang
    model = connected(provider.entry(timeout_s=0.2), policy=RetryPolicy(attempts=2))
    async with asyncio.timeout(5):
        error = await failing(model)
    assert (error.kind, provider.requests) == ("timeout", 2)
    assert "within 0.2 s" in str(error)


@pytest.mark.parametrize("behaviour", [hang_up, cut_off])
async def test_a_broken_connection_is_tried_again(
    behaviour: Any, provider: FakeProvider, connected: Connect
) -> None:
    provider.script = [behaviour]
    assert (await ask(connected(provider.entry()))).attempts == 2
    provider.default = behaviour
    error = await failing(connected(provider.entry(), policy=RetryPolicy(attempts=2)))
    assert (error.kind, error.attempts) == ("connection", 2)


async def test_an_endpoint_that_is_down_says_so(connected: Connect) -> None:
    async with FakeProvider() as gone:
        entry = gone.entry()
    error = await failing(connected(entry, policy=RetryPolicy(attempts=1)))
    assert error.kind == "connection"
    assert "can't connect: Connection refused" in str(error)


async def test_a_redirect_is_not_followed(provider: FakeProvider, connected: Connect) -> None:
    async with FakeProvider() as elsewhere:
        provider.default = answer("", 307, {"location": f"{elsewhere.address}/v1/chat/completions"})
        error = await failing(connected(provider.entry()))
        assert elsewhere.requests == 0
    assert (error.kind, error.retryable) == ("bad_request", False)


async def test_a_response_without_end_is_cut(
    provider: FakeProvider, connected: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("security_verifiers.models.transport.MOST_BYTES", 10_000)
    provider.default = endless
    error = await failing(connected(provider.entry(), policy=RetryPolicy(attempts=1)))
    assert error.kind == "malformed"


async def test_no_more_requests_are_in_flight_than_allowed(
    provider: FakeProvider, connected: Connect
) -> None:
    provider.default = slow(0.02, answer(chat()))
    model = connected(provider.entry(max_concurrency=3))
    await model.start()
    await asyncio.gather(
        *[model.complete([{"role": "user", "content": "x"}], [], Sampling()) for _ in range(20)]
    )
    await model.close()
    assert (provider.requests, provider.most_in_flight) == (20, 3)


async def test_a_place_is_free_while_its_holder_waits_to_try_again(
    provider: FakeProvider, connected: Connect
) -> None:
    provider.script = [failure(500)]
    provider.default = slow(0.01, answer(chat()))
    model = connected(provider.entry(max_concurrency=1))
    await model.start()
    done = await asyncio.gather(
        *[model.complete([{"role": "user", "content": "x"}], [], Sampling()) for _ in range(3)]
    )
    await model.close()
    assert sorted(each.attempts for each in done) == [1, 1, 2]
    assert provider.most_in_flight == 1


async def test_cancelling_a_call_frees_its_place(provider: FakeProvider, connected: Connect) -> None:
    provider.script = [hang]
    model = connected(provider.entry(max_concurrency=1))
    await model.start()
    stuck = asyncio.create_task(model.complete([{"role": "user", "content": "x"}], [], Sampling()))
    await provider.arrived.wait()
    stuck.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stuck
    async with asyncio.timeout(2):
        await ask(model)
