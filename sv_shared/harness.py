"""ChatHarness: the chat loop of a rollout, inside the worker process.

A harness owes verifiers one thing: every model call goes through the interception endpoint. How the call
gets there is free, so there are two transports: HTTP (any verifiers command, prime-rl), and a direct call
where the interception server lives in this very process (`sv_shared.interception`), which the evaluation
runner uses.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, ClassVar

import aiohttp
import verifiers.v1 as vf
from pydantic import Field
from verifiers.v1.dialects.chat import message_to_wire
from verifiers.v1.errors import ToolsetError

from sv_shared.interception import LOCAL_SERVERS
from sv_shared.text import mend_surrogates, nests_too_deep

MODEL_ERROR_EXIT_CODE = 1

Wire = dict[str, Any]
CallTool = Callable[[str, Wire], Awaitable[str]]
Complete = Callable[[Wire], Awaitable[tuple[int, bytes]]]


class ChatHarnessConfig(vf.HarnessConfig):
    """Limits of the chat loop."""

    max_turns: int = Field(16, ge=1)
    """Most model calls in one segment; a loop of tool calls ends there."""
    tool_timeout_s: float = Field(120.0, gt=0)
    """Longest wait for one tool call, in seconds."""


class ChatHarness(vf.Harness[ChatHarnessConfig]):
    """Chat completions with the task's MCP tools, until the model answers without a tool call."""

    APPENDS_SYSTEM_PROMPT = True
    SUPPORTS_MCP = True
    SUPPORTS_RESUME = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    _http: ClassVar[tuple[asyncio.AbstractEventLoop, aiohttp.ClientSession] | None] = None
    """The session of the newest event loop; one can't be used from another."""

    async def launch(
        self,
        ctx: vf.ModelContext,
        trace: vf.Trace,
        runtime: vf.Runtime,
        endpoint: str,
        secret: str,
        mcp_urls: dict[str, str],
        data: vf.TaskData,
    ) -> vf.ProgramResult:
        try:
            async with AsyncExitStack() as stack:
                tools, call_tool = await connect_tools(stack, mcp_urls, self.config.tool_timeout_s)
                complete = partial(self._complete, endpoint, secret)
                return await self._chat(ctx.model, self._opening(data), tools, complete, call_tool)
        except ExceptionGroup as broken:
            # The MCP client's task groups wrap whatever breaks while they are open.
            raise ToolsetError(f"a tool server failed: {_causes(broken)}") from broken

    async def _chat(
        self, model: str, messages: list[Wire], tools: list[Wire], complete: Complete, call_tool: CallTool
    ) -> vf.ProgramResult:
        for _ in range(self.config.max_turns):
            body: Wire = {"model": model, "messages": messages}
            if tools:
                body["tools"] = tools
            status, reply = await complete(body)
            if status != 200:
                return vf.ProgramResult(exit_code=MODEL_ERROR_EXIT_CODE, stdout="", stderr=reply.decode())
            message = json.loads(reply)["choices"][0]["message"]
            messages.append(message)
            calls = message.get("tool_calls") or []
            if not calls:
                break
            for call in calls:
                content = await answer_call(call, call_tool)
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": content})
        return vf.ProgramResult(exit_code=0, stdout="", stderr="")

    def _opening(self, data: vf.TaskData) -> list[Wire]:
        system, prompt = self.resolve_prompt(data)
        messages: list[Wire] = [{"role": "system", "content": system}] if system else []
        if isinstance(prompt, str):
            return [*messages, {"role": "user", "content": prompt}]
        return messages + [message_to_wire(message) for message in prompt or []]

    async def _complete(self, endpoint: str, secret: str, body: Wire) -> tuple[int, bytes]:
        local = LOCAL_SERVERS.get(endpoint)
        if local is not None:
            return await local.complete(secret, body)
        async with self._session().post(
            f"{endpoint}/chat/completions", headers={"Authorization": f"Bearer {secret}"}, json=body
        ) as response:
            return response.status, await response.read()

    @classmethod
    def _session(cls) -> aiohttp.ClientSession:
        loop = asyncio.get_running_loop()
        if cls._http is None or cls._http[0] is not loop or cls._http[1].closed:
            session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(total=None)
            )
            cls._http = loop, session
        return cls._http[1]


async def answer_call(call: Mapping[str, Any], call_tool: CallTool) -> str:
    """The text of a tool message. What the model got wrong in its call is told to the model, never raised."""
    name, text = call["function"]["name"], call["function"]["arguments"] or "{}"
    if nests_too_deep(text):
        return f"error: the arguments of {name} are nested too deeply"
    try:
        arguments = json.loads(text, parse_constant=_refuse_constant)
    except ValueError as error:
        return f"error: the arguments of {name} are not JSON: {error}"
    if not isinstance(arguments, dict):
        return f"error: the arguments of {name} must be a JSON object"
    return await call_tool(name, mend_surrogates(arguments))


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _causes(group: BaseExceptionGroup[BaseException]) -> str:
    """What is at the bottom of a group, in one line."""
    return "; ".join(
        _causes(error) if isinstance(error, BaseExceptionGroup) else f"{type(error).__name__}: {error}"
        for error in group.exceptions
    )


async def connect_tools(
    stack: AsyncExitStack, mcp_urls: Mapping[str, str], timeout_s: float
) -> tuple[list[Wire], CallTool]:
    """Open the rollout's MCP servers.

    Returns the tools as OpenAI specs (name `<server>_<tool>`) and the function that calls one by that name.
    """
    if not mcp_urls:
        return [], _no_tools
    # Imported here: an environment without tools need not pay for the MCP client.
    from mcp import ClientSession, MCPError
    from mcp.client.streamable_http import streamable_http_client
    from mcp.types import REQUEST_TIMEOUT

    specs: list[Wire] = []
    route: dict[str, tuple[Any, str]] = {}
    for server, url in mcp_urls.items():
        read, write, *_ = await stack.enter_async_context(streamable_http_client(url))
        session = await stack.enter_async_context(ClientSession(read, write))
        await session.initialize()
        for tool in (await session.list_tools()).tools:
            name = f"{server}_{tool.name}" if server else tool.name
            route[name] = (session, tool.name)
            specs.append(
                {
                    "type": "function",
                    "function": {
                        "name": name,
                        "description": tool.description or "",
                        "parameters": tool.input_schema,
                    },
                }
            )

    async def call(name: str, arguments: Wire) -> str:
        if name not in route:
            return f"error: there is no tool {name!r}; there are {', '.join(sorted(route))}"
        session, tool = route[name]
        try:
            result = await session.call_tool(tool, arguments, read_timeout_seconds=timeout_s)
        except MCPError as error:
            if error.code != REQUEST_TIMEOUT:
                raise
            return f"error: {name} gave no answer within {timeout_s:g} s"
        return "\n".join(part.text for part in result.content if part.type == "text")

    return specs, call


async def _no_tools(name: str, arguments: Wire) -> str:
    return f"error: there is no tool {name!r}; this task has none"
