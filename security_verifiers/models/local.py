"""The embedded model: weights from an installed package, served by a llama.cpp process that we own."""

import asyncio
import hashlib
import importlib.util
import json
import os
import secrets
import signal
import sys
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib import metadata
from pathlib import Path

import aiohttp

from security_verifiers.models.base import Completion, Message, ModelCallError, ModelInfo, Sampling, ToolSpec
from security_verifiers.models.endpoint import ChatEndpoint, bearer
from security_verifiers.models.entries import LocalServer, ModelEntry
from security_verifiers.models.limits import RateLimiter
from security_verifiers.models.retries import RetryPolicy
from security_verifiers.models.timing import REAL
from security_verifiers.models.transport import Target, Transport
from sv_shared.errors import ModelError

Progress = Callable[[str], None]
"""Told, in a few words, what is being waited for."""

_ENGINE = "xllamacpp"
_START_S = 120.0
_STOP_S = 5.0
_MOST_THREADS = 8  # a model this small gains nothing from more
_INSTALL = "Run `make quickstart`, or pip install 'security-verifiers[local]'"


def _silent(text: str) -> None:
    """Tells nobody."""


class LocalLlama:
    """A model in a process of our own: started by `start`, stopped by `close`, never outliving us.

    Greedy answers are the same bit for bit while one request at a time is in flight, in any order. With
    several, a prompt whose beginning is cached may now and then be summed in another order, so that a near
    tie falls the other way; `extra_body = { cache_prompt = false }` ends that, at half the speed.

    Args:
        entry: a local-llama entry of the portfolio.
        limiter: bounds requests in flight; the server's slots bound how many are decoded together.
        progress: told what `start` is waiting for.
    """

    def __init__(self, entry: ModelEntry, limiter: RateLimiter, progress: Progress = _silent) -> None:
        if entry.table.server is None or entry.table.context is None:
            raise ModelError(f"{entry.id} is no local model")
        self._entry, self._limiter, self._progress = entry, limiter, progress
        self._server, self._context = entry.table.server, entry.table.context
        self._process: asyncio.subprocess.Process | None = None
        self._said: deque[str] = deque(maxlen=20)
        self._listening: asyncio.Task[None] | None = None
        self._chat: ChatEndpoint | None = None
        self._starting = asyncio.Lock()

    @property
    def info(self) -> ModelInfo:
        """The entry's facts, with the engine's version and the weights' digest."""
        return replace(self._entry.info({}), engine=engine_name(self._server))

    @property
    def pid(self) -> int | None:
        """The server's process id while it runs."""
        alive = self._process is not None and self._process.returncode is None
        return self._process.pid if self._process is not None and alive else None

    async def start(self) -> None:
        """Load the model and wait until it answers.

        Raises:
            ModelError: the extra is not installed, the weights are damaged, or the server doesn't come up.
        """
        async with self._starting:
            if self._chat is not None:
                return
            weights = await asyncio.to_thread(find_weights, self._server)
            self._progress(f"loading {self._entry.id} ({weights.stat().st_size / 1e6:.0f} MB)")
            try:
                await self._launch(weights)
            except BaseException:
                await self.close()
                raise
            self._progress(f"{self._entry.id} is ready: {self._server.slots} slots of {self._context} tokens")

    async def complete(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], sampling: Sampling
    ) -> Completion:
        if self._chat is None:
            raise ModelError(f"{self._entry.id} is not running", hint="Call start() before complete()")
        try:
            return await self._chat.complete(messages, tools, sampling)
        except ModelCallError as error:
            death = await self._death() if error.kind == "connection" else None
            if death is None:
                raise
        raise death

    async def close(self) -> None:
        """Stop the server and wait until it is gone."""
        if self._chat is not None:
            await self._chat.close()
            self._chat = None
        process, self._process = self._process, None
        if process is not None:
            await _stop(process)
        if self._listening is not None:
            await self._listening
            self._listening = None

    async def _launch(self, weights: Path) -> None:
        key = secrets.token_hex(16)
        settings = {
            "path": str(weights),
            "name": self._entry.table.served_name,
            "key": key,
            "slots": self._server.slots,
            "context": self._context,
            "threads": min(_cpus(), _MOST_THREADS),
        }
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "security_verifiers.models.local_server",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            # Its own session: Ctrl-C is ours to act upon, and the whole group can be killed.
            start_new_session=True,
            # Threads that spin at barriers starve whoever shares their core: 9 ms a token became 100.
            env={"OMP_WAIT_POLICY": "passive", **os.environ},
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._listening = asyncio.create_task(self._listen(self._process.stderr))
        with suppress(ConnectionError):  # it died already, which the missing answer tells better
            self._process.stdin.write(json.dumps(settings).encode() + b"\n")
            await self._process.stdin.drain()
        try:
            line = await asyncio.wait_for(self._process.stdout.readline(), _START_S)
        except TimeoutError:
            raise self._failed(f"did not come up within {_START_S:g} s") from None
        if not line:
            await self._process.wait()
            await self._listening
            raise self._failed(f"ended while loading (exit code {self._process.returncode})")
        await self._connect(json.loads(line)["address"], key)

    async def _connect(self, address: str, key: str) -> None:
        target = Target(
            model_id=self._entry.id,
            base_url=f"{address}/v1",
            base_url_variable=None,
            key_variable=None,
            key=key,
            key_header=bearer,
            timeout_s=self._entry.endpoint.timeout_s,
        )
        # A second attempt is for the server closing an idle connection just as we use it.
        policy = RetryPolicy(attempts=2, first_wait_s=0.1, total_s=target.timeout_s)
        chat = ChatEndpoint(self._entry, self.info, Transport(target, self._limiter, policy, REAL))
        await chat.start()
        self._chat = chat
        try:
            async with asyncio.timeout(_START_S):
                await _healthy(f"{address}/health")
        except TimeoutError:
            raise self._failed(f"did not report health within {_START_S:g} s") from None

    async def _listen(self, stream: asyncio.StreamReader) -> None:
        """Keep the server's last words; an unread pipe would stop it."""
        while line := await stream.readline():
            if text := line.decode(errors="replace").strip():
                self._said.append(text)

    async def _death(self) -> ModelCallError | None:
        """The error for a server that has died; None where it lives."""
        process = self._process
        if process is None:
            return None
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), 1.0)
        if process.returncode is None:
            return None
        error = self._failed(f"died (exit code {process.returncode})")
        return ModelCallError(
            error.what, kind="connection", where=error.where, hint=error.hint, retryable=False
        )

    def _failed(self, what: str) -> ModelError:
        said = f": {self._said[-1]}" if self._said else ""
        return ModelError(f"the server of {self._entry.id} {what}{said}", where=self._server.file)


def find_weights(server: LocalServer) -> Path:
    """The weights' file, found through the metadata of the package that ships it and checked by digest.

    The package itself is not imported: it is a plugin of a program that we don't install.

    Raises:
        ModelError: the engine or the package is not installed, or the file is missing or damaged.
    """
    if importlib.util.find_spec(_ENGINE) is None:
        raise ModelError(f"{_ENGINE}, which serves local models, is not installed", hint=_INSTALL)
    try:
        files = metadata.distribution(server.distribution).files or []
    except metadata.PackageNotFoundError:
        raise ModelError(
            f"{server.distribution}, which ships the weights, is not installed", hint=_INSTALL
        ) from None
    path = next((Path(str(file.locate())) for file in files if file.name == server.file), None)
    if path is None or not path.is_file():
        raise ModelError(f"{server.file} is not in the installed {server.distribution}", hint=_INSTALL)
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    if digest != server.sha256:
        raise ModelError(
            f"the weights are not the ones that the portfolio names (sha256 {digest[:12]}…)",
            where=str(path),
            hint=f"Install {server.distribution} again",
        )
    return path


def engine_name(server: LocalServer) -> str:
    """Engine, version, weights and slots: what two runs have to share to be comparable."""
    try:
        version = metadata.version(_ENGINE)
    except metadata.PackageNotFoundError:
        version = "not installed"
    return f"llama.cpp ({_ENGINE} {version}), {server.file} sha256:{server.sha256[:12]}, {server.slots} slots"


def _cpus() -> int:
    """CPUs that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


async def _healthy(url: str) -> None:
    """Wait until the server says that it is ready."""
    async with aiohttp.ClientSession() as session:
        while True:
            with suppress(aiohttp.ClientError):
                async with session.get(url) as response:
                    if response.status == 200:
                        return
            await asyncio.sleep(0.05)


async def _stop(process: asyncio.subprocess.Process) -> None:
    """Ask a process to end by closing its input; kill its group if it doesn't."""
    if process.stdin is not None:
        process.stdin.close()
    try:
        await asyncio.wait_for(process.wait(), _STOP_S)
    except TimeoutError:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
