"""The shipped portfolio, the strictness of its format, and how names are resolved."""

import copy
import re
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from security_verifiers.models.base import Sampling
from security_verifiers.models.entries import ModelEntry, host_kind
from security_verifiers.models.portfolio import PolicyRef, Portfolio, load_portfolio, parse_portfolio
from sv_shared.errors import ModelError, UsageError

PLAN = [
    "gpt-5",
    "gpt-5-mini",
    "Claude Sonnet 4.5",
    "Qwen3-72B",
    "Qwen3-235B-A22B",
    "Llama-3.1-8B",
    "Llama-3-70B",
    "Mixtral-8x22B",
]
"""Section 2 of the research plan, in its own spelling."""

SHIPPED = load_portfolio()


def entry(name: str | None = None) -> ModelEntry:
    found = SHIPPED.resolve(name)
    assert isinstance(found, ModelEntry)
    return found


@pytest.mark.parametrize("name", PLAN)
def test_every_model_of_the_plan_is_found_under_the_plan_s_name(name: str) -> None:
    names = {id_.casefold(): each.table for id_, each in SHIPPED.entries.items()}
    names |= {table.plan_name.casefold(): table for table in names.values() if table.plan_name}
    table = names[name.casefold()]
    if table.status == "available":
        assert entry(name).table == table
    else:
        assert entry(table.alternative).table.status == "available"


def test_the_default_needs_no_key_and_no_network() -> None:
    default = entry()
    assert default.id == "smollm2-135m"
    assert (default.endpoint.provider, default.endpoint.key_variable) == ("local-llama", None)
    assert default.effective(Sampling()) == Sampling(temperature=0.0, max_tokens=128)
    assert default.table.server is not None
    assert default.endpoint.max_concurrency >= default.table.server.slots


def test_prices_say_where_and_when_they_were_read_or_that_they_are_unknown() -> None:
    prices = {each.id: each.price for each in SHIPPED.entries.values()}
    assert prices["Qwen3-235B-A22B"] is None
    for price in filter(None, prices.values()):
        assert date(2025, 1, 1) < price.as_of
        assert price.source


def test_an_unavailable_model_is_never_run_as_another() -> None:
    with pytest.raises(ModelError, match="32B only") as caught:
        SHIPPED.resolve("Qwen3-72B")
    assert caught.value.hint.endswith("--model Qwen3-32B")


def test_open_models_are_served_where_the_environment_says() -> None:
    env = {"VLLM_BASE_URL": "http://10.0.0.7:8000/v1/"}
    for name in ("Qwen3-235B-A22B", "Llama-3.1-8B", "Llama-3-70B", "Mixtral-8x22B"):
        assert entry(name).base_url({}) == "http://localhost:8000/v1"
        assert entry(name).base_url(env) == "http://10.0.0.7:8000/v1"
        assert entry(name).info(env).host_kind == "private"
        assert entry(name).price is None
    with pytest.raises(ModelError, match="VLLM_BASE_URL"):
        entry("Llama-3-70B").base_url({"VLLM_BASE_URL": "localhost:8000"})


# --- Names -----------------------------------------------------------------------------------------------


def test_an_unknown_model_lists_close_matches() -> None:
    with pytest.raises(ModelError, match="no model is called 'gtp-5'") as caught:
        SHIPPED.resolve("gtp-5")
    assert "gpt-5" in caught.value.hint


def test_case_and_blanks_do_not_matter() -> None:
    assert entry(" llama-3.1-8b ").id == "Llama-3.1-8B"
    assert entry("claude sonnet 4.5").id == "claude-sonnet-4-5"


def test_a_policy_is_marked_and_not_looked_up() -> None:
    assert SHIPPED.resolve("policy:reference") == PolicyRef("reference")
    with pytest.raises(ModelError, match="needs a name"):
        SHIPPED.resolve("policy:")


def test_an_endpoint_can_be_named_on_the_spot_and_gets_no_provider_s_key() -> None:
    found = entry("openai:org/my@v2@http://localhost:8001/v1/")
    assert (found.table.served_name, found.base_url({})) == ("org/my@v2", "http://localhost:8001/v1")
    assert found.key({"OPENAI_API_KEY": "secret"}) is None
    assert found.key({"SV_ENDPOINT_API_KEY": " k "}) == "k"
    assert found.price is None
    assert found.info({}).context_tokens is None


@pytest.mark.parametrize(
    "text",
    [
        "openai:",
        "openai:m",
        "openai:m@",
        "openai:m@ftp://host/v1",
        "openai:@http://host/v1",
        "openai:m@http://user:hunter2@host/v1",
        "openai:m@http://host/v1?key=hunter2",
        "openai:m@http:///v1",
    ],
)
def test_a_badly_named_endpoint_is_an_error_that_repeats_no_password(text: str) -> None:
    with pytest.raises(ModelError) as caught:
        SHIPPED.resolve(text)
    assert "hunter2" not in str(caught.value)


@given(st.text() | st.text().map("openai:{}".format) | st.text().map("openai:m@http://{}".format))
def test_any_text_is_a_model_or_a_model_error(text: str) -> None:
    try:
        found = SHIPPED.resolve(text)
    except ModelError:
        return
    assert isinstance(found, ModelEntry | PolicyRef)


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("http://localhost:8000/v1", "loopback"),
        ("http://127.0.0.9/v1", "loopback"),
        ("http://[::1]:80/v1", "loopback"),
        ("http://192.168.1.4/v1", "private"),
        ("http://gpu-box:8000/v1", "private"),
        ("http://vllm.internal/v1", "private"),
        ("https://api.openai.com/v1", "public"),
        ("http://8.8.8.8/v1", "public"),
    ],
)
def test_hosts_are_sorted_by_where_they_stand(url: str, kind: str) -> None:
    assert host_kind(url) == kind


# --- Sampling --------------------------------------------------------------------------------------------


def test_a_run_s_wishes_win_over_the_entry_s_defaults() -> None:
    wishes = Sampling(temperature=0.7, top_p=0.9, max_tokens=5, seed=3)
    assert entry().effective(wishes) == wishes
    assert entry().effective(entry().effective(wishes)) == wishes


def test_a_seed_that_is_not_taken_is_dropped_in_sight() -> None:
    assert entry("claude-sonnet-4-5").effective(Sampling(seed=1)) == Sampling(max_tokens=4096)


@pytest.mark.parametrize(
    ("name", "sampling", "words"),
    [
        ("gpt-5", Sampling(temperature=0.0), "neither a temperature"),
        ("gpt-5", Sampling(top_p=0.5), "neither a temperature"),
        ("gpt-5", Sampling(max_tokens=128_001), "at most 128000"),
        ("smollm2-135m", Sampling(max_tokens=0), "at least 1"),
        ("smollm2-135m", Sampling(max_tokens=10**6), "at most"),
        ("smollm2-135m", Sampling(temperature=-0.1), "from 0 to 2"),
        ("smollm2-135m", Sampling(temperature=float("nan")), "from 0 to 2"),
        ("smollm2-135m", Sampling(top_p=0.0), "above 0"),
    ],
)
def test_sampling_that_cannot_be_honoured_is_an_error(name: str, sampling: Sampling, words: str) -> None:
    with pytest.raises(ModelError, match=words):
        entry(name).effective(sampling)


# --- The file --------------------------------------------------------------------------------------------

GOOD: dict[str, Any] = {
    "default": "small",
    "endpoints": {
        "here": {"provider": "local-llama"},
        "there": {"provider": "openai-compatible", "base_url": "http://localhost/v1"},
        "claude": {"provider": "anthropic", "base_url": "https://example.org/v1"},
    },
    "models": {
        "small": {
            "endpoint": "here",
            "served_name": "s",
            "context": 100,
            "price": "unknown",
            "server": {"distribution": "d", "file": "f", "sha256": "0" * 64, "slots": 2},
        },
        "big": {
            "endpoint": "there",
            "served_name": "b",
            "context": 100,
            "price": {"input": 1, "output": 2.5, "as_of": date(2026, 1, 1), "source": "s"},
        },
    },
}
BROKEN: dict[str, tuple[str, Any, str]] = {
    "unknown key in a model": ("models.big.prize", 1, "models.big.prize"),
    "unknown key in an endpoint": ("endpoints.there.url", "x", "endpoints.there.url"),
    "unknown key in a price": ("models.big.price.per", 1, "models.big.price.per"),
    "unknown table": ("policies", {}, "policies"),
    "price a string": ("models.big.price", "cheap", "models.big.price"),
    "price negative": ("models.big.price.input", -1, "models.big.price.input"),
    "price infinite": ("models.big.price.input", float("inf"), "models.big.price.input"),
    "price without a day": ("models.big.price.as_of", None, "models.big.price.as_of"),
    "no price": ("models.big.price", None, "models.big.price"),
    "context a string": ("models.big.context", "100", "models.big.context"),
    "context zero": ("models.big.context", 0, "models.big.context"),
    "unknown provider": ("endpoints.there.provider", "carrier-pigeon", "endpoints.there.provider"),
    "no address": ("endpoints.there.base_url", None, "endpoints.there"),
    "address with a password": ("endpoints.there.base_url", "http://a:b@c/v1", "endpoints.there.base_url"),
    "no such endpoint": ("models.big.endpoint", "nowhere", "models.big"),
    "server on a remote model": ("models.big.server", GOOD["models"]["small"]["server"], "models.big"),
    "unavailable without alternative": ("models.big.status", "unavailable", "models.big"),
    "available with alternative": ("models.big.alternative", "small", "models.big"),
    "no such default": ("default", "none", "default"),
    "an id with a colon": ("models.policy:x", GOOD["models"]["big"], "models.policy:x"),
    "Claude without a length": ("models.big.endpoint", "claude", "models.big"),
    "extra body that takes over": ("models.big.extra_body", {"messages": []}, "models.big.extra_body"),
}


def changed(path: str, value: Any) -> dict[str, Any]:
    """GOOD with one value set, or removed where it is None."""
    raw = copy.deepcopy(GOOD)
    *parents, last = path.split(".")
    table = raw
    for parent in parents:
        table = table[parent]
    if value is None:
        del table[last]
    else:
        table[last] = value
    return raw


def parse(raw: dict[str, Any]) -> Portfolio:
    return parse_portfolio(raw, Path("some/models.toml"))


def test_the_smallest_good_file_is_read() -> None:
    assert list(parse(GOOD).entries) == ["small", "big"]


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_entry_is_named_with_its_file(name: str) -> None:
    path, value, named = BROKEN[name]
    with pytest.raises(UsageError, match=f"^{re.escape(named)}: ") as caught:
        parse(changed(path, value))
    assert "some/models.toml" in str(caught.value)


def test_an_alternative_has_to_be_available() -> None:
    raw = changed("models.big.status", "unavailable")
    raw["models"]["big"]["alternative"] = "big"
    with pytest.raises(UsageError, match=r"models\.big: its alternative 'big'"):
        parse(raw)


def test_a_file_that_is_missing_or_no_toml_says_where(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"absent\.toml"):
        load_portfolio(tmp_path / "absent.toml")
    broken = tmp_path / "models.toml"
    broken.write_text("default = \n")
    with pytest.raises(UsageError, match="line 1"):
        load_portfolio(broken)
    broken.write_bytes(b"default = '\xff'")
    with pytest.raises(UsageError, match="no TOML"):
        load_portfolio(broken)
