"""The embedded model, for real: it answers, repeats itself, and never outlives us."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from security_verifiers.models.base import Completion, ModelCallError, Sampling
from security_verifiers.models.entries import LocalServer, ModelEntry
from security_verifiers.models.limits import Limiters
from security_verifiers.models.local import LocalLlama, find_weights
from security_verifiers.models.portfolio import load_portfolio
from sv_shared.errors import ModelError


def default_entry() -> ModelEntry:
    entry = load_portfolio().resolve()
    assert isinstance(entry, ModelEntry)
    return entry


ENTRY = default_entry()
assert ENTRY.table.server is not None
SERVER = ENTRY.table.server
PROMPTS = ["Name three colours.", "What is a port scan?", "Name three colours."]


@pytest.fixture(scope="module")
def weights() -> Path:
    """The installed weights; tests that need them are skipped where the `local` extra is missing."""
    try:
        return find_weights(SERVER)
    except ModelError as error:
        pytest.skip(f"the `local` extra is not installed: {error}")


@pytest.fixture
async def model(weights: Path) -> AsyncIterator[LocalLlama]:
    running = LocalLlama(ENTRY, Limiters().of(ENTRY))
    await running.start()
    yield running
    await running.close()


async def say(model: LocalLlama, text: str, length: int = 12) -> Completion:
    return await model.complete([{"role": "user", "content": text}], [], Sampling(max_tokens=length))


def gone(pid: int, within_s: float = 5.0) -> bool:
    """Whether a process ends in time (one that only waits to be reaped has ended)."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        with contextlib.suppress(psutil.NoSuchProcess):
            if psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
                time.sleep(0.02)
                continue
        return True
    return False


async def test_it_answers_repeats_itself_and_goes_when_told(weights: Path) -> None:
    told: list[str] = []
    model = LocalLlama(ENTRY, Limiters().of(ENTRY), told.append)
    await model.start()
    await model.start()
    pid = model.pid
    assert pid is not None
    assert [text.split()[0] for text in told] == ["loading", "smollm2-135m"]
    assert os.getpgid(pid) != os.getpgid(0)

    answers = [await say(model, prompt) for prompt in PROMPTS]
    assert all(each.message["content"] for each in answers)
    assert answers[0].usage is not None
    assert not answers[0].usage.estimated
    assert answers[0].usage.completion_tokens <= 12
    assert answers[0].token_ids is not None
    assert answers[0].logprobs is not None
    assert len(answers[0].token_ids) == len(answers[0].logprobs) == answers[0].usage.completion_tokens
    assert all(logprob <= 0 for logprob in answers[0].logprobs)
    assert answers[0].model == "SmolLM2-135M-Instruct"
    # Greedy: other prompts in between, another order and what the cache holds change nothing.
    again = [await say(model, prompt) for prompt in reversed(PROMPTS)]
    for first, second in zip(answers, reversed(again), strict=True):
        assert (first.message, first.token_ids, first.logprobs) == (
            second.message,
            second.token_ids,
            second.logprobs,
        )

    many = await asyncio.gather(*[say(model, f"What is {i}?", 2) for i in range(12)])
    assert len({each.message["content"] for each in many}) > 1
    began = time.monotonic()
    await model.close()
    await model.close()
    assert time.monotonic() - began < 2, "it was killed, where closing its input should have ended it"
    assert gone(pid)
    assert model.pid is None
    with pytest.raises(ModelError, match="not running"):
        await say(model, "hello")


async def test_a_crash_in_the_middle_of_a_run_is_a_connection_error(model: LocalLlama) -> None:
    pid = model.pid
    assert pid is not None
    calls = [asyncio.create_task(say(model, f"Write a long story about {i}.", 400)) for i in range(4)]
    await asyncio.sleep(0.3)
    os.kill(pid, signal.SIGKILL)
    for outcome in await asyncio.gather(*calls, return_exceptions=True):
        assert isinstance(outcome, ModelCallError)
        assert (outcome.kind, outcome.retryable) == ("connection", False)
        assert "died (exit code -9)" in str(outcome)


async def test_a_prompt_that_does_not_fit_is_the_request_s_fault(model: LocalLlama) -> None:
    with pytest.raises(ModelCallError) as caught:
        await say(model, "word " * 5000)
    assert (caught.value.kind, caught.value.status) == ("bad_request", 400)


PARENT = """
    import asyncio, os, sys, time
    from security_verifiers.models.limits import Limiters
    from security_verifiers.models.local import LocalLlama
    from security_verifiers.models.portfolio import load_portfolio

    async def main():
        entry = load_portfolio().resolve()
        model = LocalLlama(entry, Limiters().of(entry))
        await model.start()
        if sys.argv[1] == "forked" and os.fork() == 0:
            os.setsid()  # keeps the pipe open past its parent's death
            time.sleep(3600)
        print(model.pid, flush=True)
        await asyncio.sleep(3600)

    asyncio.run(main())
"""


@pytest.mark.parametrize("how", ["alone", "forked"])
def test_the_server_dies_with_a_killed_parent(weights: Path, how: str) -> None:
    """The pipe's end tells it; where a fork still holds the pipe, the kernel does."""
    if how == "forked" and sys.platform != "linux":
        pytest.skip("only Linux kills children with their parent")
    parent = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(PARENT), how], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    line = parent.stdout.readline()
    server = int(line)
    others = [child.pid for child in psutil.Process(parent.pid).children() if child.pid != server]
    assert len(others) == (how == "forked")
    assert not gone(server, within_s=0.1)
    parent.kill()
    parent.wait()
    try:
        assert gone(server)
    finally:
        for pid in others:
            os.kill(pid, signal.SIGKILL)


def test_what_is_not_installed_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch, weights: Path) -> None:
    absent = SERVER.model_copy(update={"distribution": "no-such-distribution"})
    with pytest.raises(ModelError, match="make quickstart"):
        find_weights(absent)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ModelError, match="make quickstart"):
        find_weights(SERVER)


def test_damaged_or_missing_weights_are_not_loaded(weights: Path) -> None:
    other = LocalServer.model_validate(SERVER.model_dump() | {"sha256": "0" * 64})
    with pytest.raises(ModelError, match="not the ones"):
        find_weights(other)
    with pytest.raises(ModelError, match="not in the installed"):
        find_weights(SERVER.model_copy(update={"file": "absent.gguf"}))


async def test_a_server_that_does_not_come_up_tells_its_last_words(
    weights: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF" + bytes(100))
    monkeypatch.setattr("security_verifiers.models.local.find_weights", lambda server: broken)
    model = LocalLlama(ENTRY, Limiters().of(ENTRY))
    with pytest.raises(ModelError, match="ended while loading"):
        await model.start()
    assert model.pid is None
