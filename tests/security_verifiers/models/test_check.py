"""`sv models list` and `sv models check`: one line that says what is wrong."""

from datetime import date
from pathlib import Path
from typing import Any

import pytest

from security_verifiers.models.check import CheckResult, check_argument, rows
from security_verifiers.models.portfolio import Portfolio, load_portfolio

from .fake_provider import KEY, FakeProvider, answer, chat, failure

TODAY = date(2026, 11, 21)
SHIPPED = load_portfolio()


async def checked(provider: FakeProvider, key: str = KEY, **changes: Any) -> CheckResult:
    portfolio = Portfolio(Path("models.toml"), {"fake": provider.entry(**changes)}, "fake")
    result = await check_argument("fake", portfolio, {"FAKE_API_KEY": key}, TODAY)
    assert "\n" not in result.reason
    assert KEY not in result.reason
    return result


async def test_a_model_that_answers_is_asked_once_and_briefly(provider: FakeProvider) -> None:
    result = await checked(provider)
    assert result.ok
    assert "fake-1 answered" in result.reason
    assert provider.requests == 1
    assert provider.bodies[0]["max_tokens"] == 16


@pytest.mark.parametrize(
    ("status", "words"),
    [(401, "FAKE_API_KEY: it is wrong"), (404, "no such model"), (500, "answered 500"), (429, "too many")],
)
async def test_what_the_provider_refuses_is_told_after_one_request(
    status: int, words: str, provider: FakeProvider
) -> None:
    provider.default = failure(status)
    result = await checked(provider)
    assert not result.ok
    assert words in result.reason
    assert provider.requests == 1


async def test_a_missing_key_names_its_variable(provider: FakeProvider) -> None:
    result = await checked(provider, key="")
    assert not result.ok
    assert "FAKE_API_KEY is not set" in result.reason
    assert provider.requests == 0


async def test_a_web_page_is_no_model(provider: FakeProvider) -> None:
    provider.default = answer("<!doctype html><title>Sign in</title>")
    assert "an HTML page" in (await checked(provider)).reason


async def test_an_endpoint_that_is_down_is_told() -> None:
    async with FakeProvider() as gone:
        pass
    result = await checked(gone)
    assert not result.ok
    assert "Is it running?" in result.reason


async def test_a_model_whose_day_has_passed_says_so_only_when_it_fails(provider: FakeProvider) -> None:
    yesterday = date(2026, 11, 20)
    provider.script = [failure(404), answer(chat())]
    assert "retired it on 2026-11-20" in (await checked(provider, retires=yesterday)).reason
    assert (await checked(provider, retires=yesterday)).ok


async def test_names_that_resolve_to_nothing_are_an_answer_too() -> None:
    unknown = await check_argument("gtp-5", SHIPPED, {}, TODAY)
    assert not unknown.ok
    assert "Did you mean gpt-5" in unknown.reason
    unavailable = await check_argument("Qwen3-72B", SHIPPED, {}, TODAY)
    assert not unavailable.ok
    assert "Qwen3-32B" in unavailable.reason
    assert (await check_argument("policy:random", SHIPPED, {}, TODAY)).ok


def test_the_list_shows_keys_that_are_set_without_showing_them() -> None:
    listed = {row.id: row for row in rows(SHIPPED, {"OPENAI_API_KEY": KEY})}
    assert list(listed) == list(SHIPPED.entries)
    assert listed["gpt-5"].key_set is True
    assert listed["claude-sonnet-4-5"].key_set is False
    assert listed["smollm2-135m"].key_set is None
    assert [row.id for row in listed.values() if row.is_default] == ["smollm2-135m"]
    assert listed["Qwen3-72B"].alternative == "Qwen3-32B"
    assert KEY not in str(listed)
