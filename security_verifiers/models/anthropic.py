"""Anthropic's Messages API, spoken from and to OpenAI's wire shape."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from security_verifiers.models.base import Completion, Message, ModelInfo, Sampling, ToolSpec, Usage
from security_verifiers.models.endpoint import estimate_tokens, finished
from security_verifiers.models.entries import ModelEntry
from security_verifiers.models.transport import Malformed, Transport
from sv_shared.errors import ModelError

API_VERSION = "2023-06-01"
"""The dialect's version, sent with every request."""

_FINISH: Mapping[str, str] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}


def api_key(key: str) -> Mapping[str, str]:
    """The header that presents a key to Anthropic."""
    return {"x-api-key": key}


class Messages:
    """A model behind `POST <base URL>/messages`.

    Thinking is not asked for. Where a model thinks all the same, its text becomes `reasoning_content`; it is
    not sent back in later turns, since its signature has no place in the wire shape.
    """

    def __init__(self, entry: ModelEntry, info: ModelInfo, transport: Transport) -> None:
        self._entry, self._transport = entry, transport
        self.info = info

    async def start(self) -> None:
        await self._transport.start()

    async def close(self) -> None:
        await self._transport.close()

    async def complete(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], sampling: Sampling
    ) -> Completion:
        body = request_body(self._entry, messages, tools, self._entry.effective(sampling))
        reply = await self._transport.post(
            "/messages",
            body,
            parse_message,
            headers={"anthropic-version": API_VERSION},
            tokens=estimate_tokens(body) + int(body["max_tokens"]),
            used=lambda parsed: parsed.usage.total_tokens if parsed.usage else None,
        )
        return finished(reply.value, body, reply.attempts, reply.latency_s)


def request_body(
    entry: ModelEntry, messages: Sequence[Message], tools: Sequence[ToolSpec], sampling: Sampling
) -> dict[str, Any]:
    """The request for a conversation in OpenAI's wire shape.

    Raises:
        ModelError: something that this dialect can't express.
    """
    if sampling.temperature is not None and sampling.top_p is not None:
        raise ModelError(f"{entry.id} takes a temperature or a top_p, not both", where="sampling")
    system, turns = translate_messages(messages)
    body: dict[str, Any] = {
        "model": entry.table.served_name,
        "messages": turns,
        "max_tokens": sampling.max_tokens,
    }
    if system:
        body["system"] = system
    if tools:
        body["tools"] = [translate_tool(tool) for tool in tools]
    wishes = {"temperature": sampling.temperature, "top_p": sampling.top_p}
    body.update({name: value for name, value in wishes.items() if value is not None})
    body.update(entry.table.extra_body)
    return body


def translate_messages(messages: Sequence[Message]) -> tuple[str, list[dict[str, Any]]]:
    """The system prompt and the turns of a conversation.

    Neighbouring messages of one side are joined: results of parallel tool calls have to stand in one turn.

    Raises:
        ModelError: a system message after the start, an unknown role, or content that is no text.
    """
    system: list[str] = []
    turns: list[dict[str, Any]] = []
    for message in messages:
        role = message.get("role")
        if role in ("system", "developer"):
            if turns:
                raise ModelError("the Messages API takes system messages only at the start", where="messages")
            system.append(_text(message.get("content")))
            continue
        side, blocks = _blocks(message)
        if turns and turns[-1]["role"] == side:
            turns[-1]["content"].extend(blocks)
        elif blocks:
            turns.append({"role": side, "content": blocks})
    return "\n\n".join(system), turns


def translate_tool(tool: ToolSpec) -> dict[str, Any]:
    """A tool in Anthropic's shape."""
    function = tool["function"]
    translated = {
        "name": function["name"],
        "input_schema": function.get("parameters") or {"type": "object", "properties": {}},
    }
    if function.get("description"):
        translated["description"] = function["description"]
    return translated


def parse_message(response: Mapping[str, Any]) -> Completion:
    """A Completion from a response's object (attempts and latency are filled in by the caller).

    Raises:
        Malformed: the response is not what the dialect promises.
    """
    blocks, reason = response.get("content"), response.get("stop_reason")
    if not isinstance(blocks, list) or not all(isinstance(block, dict) for block in blocks):
        raise Malformed("no content blocks")
    if not isinstance(reason, str):
        raise Malformed("no stop_reason")
    text = _joined(blocks, "text", "text")
    calls = [_call(block) for block in blocks if block.get("type") == "tool_use"]
    message: dict[str, Any] = {"role": "assistant", "content": text if text or not calls else None}
    if calls:
        message["tool_calls"] = calls
    if thinking := _joined(blocks, "thinking", "thinking"):
        message["reasoning_content"] = thinking
    if reason == "refusal":
        message["refusal"] = text or "stopped by the provider"
    model = response.get("model")
    return Completion(
        message=message,
        finish_reason=_FINISH.get(reason, reason),
        usage=_usage(response.get("usage")),
        model=model if isinstance(model, str) else "",
        token_ids=None,
        logprobs=None,
        attempts=1,
        latency_s=0.0,
    )


def _blocks(message: Message) -> tuple[str, list[dict[str, Any]]]:
    """The side that speaks and its content blocks."""
    role = message.get("role")
    if role == "tool":
        result = {"type": "tool_result", "tool_use_id": message.get("tool_call_id")}
        return "user", [{**result, "content": _text(message.get("content"))}]
    if role not in ("user", "assistant"):
        raise ModelError(f"the Messages API has no role {role!r}", where="messages")
    text = _text(message.get("content"))
    # An empty text block is refused, and an assistant that only calls tools has none to give.
    blocks: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
    if role == "assistant":
        blocks += [_tool_use(call) for call in message.get("tool_calls") or []]
    return role, blocks


def _tool_use(call: Mapping[str, Any]) -> dict[str, Any]:
    function = call["function"]
    try:
        arguments = json.loads(function["arguments"] or "{}")
    except ValueError:
        arguments = None
    if not isinstance(arguments, dict):
        raise ModelError(
            f"the Messages API takes a tool's arguments as a JSON object, and {function['name']} got none",
            where="messages",
        )
    return {"type": "tool_use", "id": call["id"], "name": function["name"], "input": arguments}


def _text(content: Any) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list) and all(isinstance(p, dict) and p.get("type") == "text" for p in content):
        return "".join(str(part.get("text", "")) for part in content)
    raise ModelError("only text content can be sent to the Messages API", where="messages")


def _joined(blocks: Sequence[Mapping[str, Any]], kind: str, field: str) -> str:
    texts = [block.get(field) for block in blocks if block.get("type") == kind]
    if not all(isinstance(text, str) for text in texts):
        raise Malformed(f"a {kind} block without text")
    return "".join(str(text) for text in texts)


def _call(block: Mapping[str, Any]) -> dict[str, Any]:
    name, id_, arguments = block.get("name"), block.get("id"), block.get("input")
    if not isinstance(name, str) or not isinstance(id_, str) or not isinstance(arguments, dict):
        raise Malformed("a tool_use block without name, id or input")
    return {"id": id_, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


def _usage(raw: Any) -> Usage | None:
    """Token counts; the dialect counts cached prompt tokens apart, ours include them."""
    if not isinstance(raw, dict):
        return None
    names = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    counts = [raw.get(name) or 0 for name in names]
    if raw.get("input_tokens") is None or raw.get("output_tokens") is None:
        return None
    if not all(type(count) is int and count >= 0 for count in counts):
        return None
    fresh, written, created, read = counts
    return Usage(prompt_tokens=fresh + created + read, completion_tokens=written, cached_tokens=read)
