"""OPA: our Rego policies, evaluated by one warm server on a unix socket."""

import asyncio
import json
import shutil
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sv_env_config_verification.adapters.base import Desk, Hit, decode, garbled, hash_folder
from sv_env_config_verification.children import Child
from sv_env_config_verification.inputs import Problem, problem
from sv_env_config_verification.shapes import Shapes
from sv_shared.errors import ToolError
from sv_shared.findings import Finding, tidy
from sv_shared.tool_cache import CacheKey, content_hash
from sv_shared.tool_folder import find_installed
from sv_shared.tools import Ending, Tool, ToolFailed, ToolResult

if TYPE_CHECKING:
    import aiohttp

POLICIES = Path(__file__).parents[1] / "policies"

_PATH = "v1/data/sv/findings"
_START_S = 30.0
_POLL_S = 0.01
_MAX_ANSWER = 16 << 20
_EMPTY = Shapes().to_input()


class OpaAdapter:
    """Findings of our Rego policies by the real OPA.

    The server starts with the first scan, holds the policies, and listens on a socket in a private folder; no
    network port is opened. It ends with `close`, and when this process ends in any other way. One that has
    died is started again.

    Args:
        desk: what the adapters share.
        tool: the OPA to use; None: the installed one.
        policies: folder of Rego files whose `data.sv.findings` is the set of findings.
        timeout_s: wall time for one workspace.
    """

    name = "opa"
    engine = "opa"

    def __init__(
        self, desk: Desk, *, tool: Tool | None = None, policies: Path = POLICIES, timeout_s: float = 10.0
    ) -> None:
        self._desk, self._tool, self._policies, self._timeout_s = desk, tool, policies, timeout_s
        self._server: _Server | None = None
        self._starting = asyncio.Lock()
        self._rules = ""

    async def version(self) -> str:
        """OPA's version, such as "1.22.0"."""
        return (await self._find()).version

    async def scan(self, files: Mapping[str, str]) -> list[Finding]:
        """As `Adapter.scan`."""
        shapes = await self._desk.reader.read(files)
        tool = await self._find()
        question = json.dumps({"input": shapes.to_input()}).encode()
        key = CacheKey(self.name, tool.version, self._rules, content_hash(question))
        hits = await self._desk.cached(
            key, lambda: self._ask(question, files), lambda r: parse_hits(r, shapes)
        )
        return tidy(self._desk.findings(self.name, self.engine, tool.version, hits))

    async def close(self) -> None:
        """End the server. A second call does nothing."""
        if self._server is not None:
            await self._server.stop()
            self._server = None

    async def _find(self) -> Tool:
        if self._tool is None:
            self._tool = await find_installed("opa", version_args=("version",))
        if not self._rules:
            self._rules = hash_folder(self._policies)
        return self._tool

    async def _ask(self, question: bytes, files: Mapping[str, str]) -> ToolResult:
        """OPA's answer. Whether the input was the cause of a failure, an empty one tells."""
        try:
            return await self._exchange(question)
        except ToolFailed as error:
            await self._exchange(json.dumps({"input": _EMPTY}).encode())
            raise problem(Problem.REFUSED, f"OPA did not survive it: {error.what}", min(files)) from error

    async def _exchange(self, question: bytes) -> ToolResult:
        server = await self._running()
        try:
            return await server.post(_PATH, question, self._timeout_s)
        except ToolFailed:
            if server is self._server:
                self._server = None
            await server.stop()
            raise

    async def _running(self) -> "_Server":
        async with self._starting:
            if self._server is not None and not self._server.child.alive:
                await self.close()
            if self._server is None:
                self._server = await _Server.start(await self._find(), self._policies)
            return self._server


class _Server:
    """An `opa run --server` and the connection to it."""

    def __init__(self, tool: Tool, child: Child, folder: Path, session: "aiohttp.ClientSession") -> None:
        self.child = child
        self._tool, self._folder, self._session = tool, folder, session

    @classmethod
    async def start(cls, tool: Tool, policies: Path) -> "_Server":
        """Start a server and wait until it answers.

        Raises:
            ToolError: it does not come up; the message holds its last words, such as an error in a policy.
        """
        import aiohttp

        # /tmp and not the user's folder for temporary files: the path of a socket may have 107 characters.
        folder = Path(tempfile.mkdtemp(prefix="sv-opa-", dir="/tmp"))
        socket = folder / "opa.sock"
        args = [
            "run",
            "--server",
            "--addr",
            f"unix://{socket}",
            "--log-level",
            "error",
            "--skip-version-check",
        ]
        try:
            child = await Child.start(
                replace(tool, env={**tool.env, "HOME": str(folder)}), [*args, policies], talks=False
            )
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        session = aiohttp.ClientSession("http://opa", connector=aiohttp.UnixConnector(str(socket)))
        server = cls(tool, child, folder, session)
        try:
            await server._wait(socket)
        except BaseException:
            await server.stop()
            raise
        return server

    async def post(self, path: str, body: bytes, timeout_s: float) -> ToolResult:
        """Ask, and take the answer as a result.

        Raises:
            ToolFailed: no answer in time, a broken connection, or too long an answer.
        """
        import aiohttp

        started = time.monotonic()
        ending, answer, status = Ending.EXITED, b"", 0
        try:
            limit = aiohttp.ClientTimeout(total=timeout_s)
            async with self._session.post(f"/{path}", data=body, timeout=limit) as response:
                status = response.status
                while chunk := await response.content.read(1 << 16):
                    answer += chunk
                    if len(answer) > _MAX_ANSWER:
                        ending = Ending.FLOODED
                        break
        except TimeoutError:
            ending = Ending.TIMED_OUT
        except (aiohttp.ClientError, OSError):
            ending = Ending.SIGNALLED
        seconds = time.monotonic() - started
        result = ToolResult(status, answer, b"", seconds, ending, self._tool.name, self._tool.version)
        if ending is not Ending.EXITED:
            why = f"opa {self._tool.version} {ending} on a question: {self.child.last_words()!r}"
            raise ToolFailed(why, result)
        return result

    async def stop(self) -> None:
        """Close the connection, end the process, remove the socket. A second call does nothing."""
        await self._session.close()
        await self.child.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    async def _wait(self, socket: Path) -> None:
        deadline = time.monotonic() + _START_S
        while self.child.alive and time.monotonic() < deadline:
            try:
                _, writer = await asyncio.open_unix_connection(str(socket))
            except OSError:
                await asyncio.sleep(_POLL_S)  # it is not there yet, or nobody listens yet
            else:
                writer.close()
                return
        state = "does not answer" if self.child.alive else "ended at its start"
        said = await self.child.heard()
        raise ToolError(f"the OPA server {state}: {said!r}", where=str(self._tool.binary))


def parse_hits(result: ToolResult, shapes: Shapes) -> list[Hit]:
    """The hits in OPA's answer.

    Raises:
        ToolError: it is no answer, has no `data.sv.findings`, or tells of objects that are not in the input.
    """
    answer = decode(result)
    if result.returncode != 200 or not isinstance(answer, dict) or not isinstance(answer.get("result"), list):
        raise garbled(result.tool, result.version, f"status {result.returncode}, {str(answer)[:200]}")
    return check_hits(answer["result"], shapes, result.tool, result.version)


def check_hits(rows: list[Any], shapes: Shapes, tool: str, version: str) -> list[Hit]:
    """Rows of `data.sv.findings` as hits.

    Raises:
        ToolError: a row is not of the form, or tells of an object that is not in the input.
    """
    known = {(item.id, item.file) for item in shapes.items()}
    hits = []
    for row in rows:
        try:
            hit = Hit(row["rule"], row["id"], row["file"], row["line"], row["message"])
        except (KeyError, TypeError) as error:
            raise garbled(tool, version, f"a finding is {str(row)[:200]}") from error
        texts = (hit.rule, hit.object, hit.file, hit.message)
        if not all(isinstance(text, str) for text in texts) or type(hit.line) is not int:
            raise garbled(tool, version, f"a finding is {str(row)[:200]}")
        if (hit.object, hit.file) not in known:
            raise garbled(
                tool, version, f"a finding of {hit.object!r} in {hit.file!r}, which is not in the input"
            )
        hits.append(hit)
    return hits
