"""OpenAI-compatible chat completions: OpenAI itself, vLLM, llama.cpp and whoever else speaks the dialect."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from security_verifiers.models.base import (
    Completion,
    Message,
    ModelCallError,
    ModelInfo,
    Sampling,
    ToolSpec,
    Usage,
)
from security_verifiers.models.entries import ModelEntry
from security_verifiers.models.transport import Malformed, Transport

CHARACTERS_PER_TOKEN = 4
"""Rule of thumb for English text, used only where nobody counts for us."""
_DECLINED_CODES = frozenset({"content_filter", "content_policy_violation", "invalid_prompt"})
"""Codes by which a provider declines the prompt itself: an outcome of the call, not a failure of it."""


def bearer(key: str) -> Mapping[str, str]:
    """The header that presents a key to an OpenAI-compatible endpoint."""
    return {"authorization": f"Bearer {key}"}


class ChatEndpoint:
    """A model behind `POST <base URL>/chat/completions`."""

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
        effective = self._entry.effective(sampling)
        body = request_body(self._entry, messages, tools, effective)
        try:
            reply = await self._transport.post(
                "/chat/completions",
                body,
                parse_completion,
                headers={},
                tokens=estimate_tokens(body) + (effective.max_tokens or 0),
                used=lambda parsed: parsed.usage.total_tokens if parsed.usage else None,
            )
        except ModelCallError as error:
            if error.code in _DECLINED_CODES:
                return _declined(error, body)
            raise
        return finished(reply.value, body, reply.attempts, reply.latency_s)


def request_body(
    entry: ModelEntry, messages: Sequence[Message], tools: Sequence[ToolSpec], sampling: Sampling
) -> dict[str, Any]:
    """The request, with only those sampling fields that are set."""
    body: dict[str, Any] = {"model": entry.table.served_name, "messages": [dict(m) for m in messages]}
    if tools:
        body["tools"] = [dict(tool) for tool in tools]
    wishes = {
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        entry.table.max_tokens_field: sampling.max_tokens,
        "seed": sampling.seed,
    }
    body.update({name: value for name, value in wishes.items() if value is not None})
    if sampling.answer_schema is not None:
        form = {"name": "answer", "strict": True, "schema": dict(sampling.answer_schema)}
        body["response_format"] = {"type": "json_schema", "json_schema": form}
    body.update(entry.table.extra_body)
    return body


def parse_completion(response: Mapping[str, Any]) -> Completion:
    """A Completion from a response's object (attempts and latency are filled in by `finished`).

    Raises:
        Malformed: the response is not what the dialect promises.
    """
    if response.get("error"):
        raise Malformed("an error inside a success")
    choices = response.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise Malformed("no choices")
    choice = choices[0]
    reason = choice.get("finish_reason")
    if not isinstance(reason, str):
        raise Malformed("no finish_reason")
    message = _message(choice.get("message"), reason)
    token_ids, logprobs = _tokens(choice)
    model = response.get("model")
    return Completion(
        message=message,
        finish_reason=reason,
        usage=_usage(response.get("usage")),
        model=model if isinstance(model, str) else "",
        token_ids=token_ids,
        logprobs=logprobs,
        attempts=1,
        latency_s=0.0,
    )


def finished(parsed: Completion, body: Mapping[str, Any], attempts: int, latency_s: float) -> Completion:
    """The parsed completion with what only the caller knows; a labelled estimate where no usage was told."""
    usage = parsed.usage or Usage(
        prompt_tokens=estimate_tokens(body),
        completion_tokens=estimate_tokens(parsed.message),
        estimated=True,
    )
    model = parsed.model or str(body["model"])
    return replace(parsed, usage=usage, model=model, attempts=attempts, latency_s=latency_s)


def _declined(error: ModelCallError, body: Mapping[str, Any]) -> Completion:
    """A provider's refusal that came as an error."""
    return Completion(
        message={"role": "assistant", "content": "", "refusal": error.what},
        finish_reason="content_filter",
        usage=None,
        model=str(body["model"]),
        token_ids=None,
        logprobs=None,
        attempts=error.attempts,
        latency_s=0.0,
    )


def estimate_tokens(value: Mapping[str, Any]) -> int:
    """About how many tokens a JSON value holds."""
    return len(json.dumps(value, ensure_ascii=False)) // CHARACTERS_PER_TOKEN + 1


def _message(raw: Any, reason: str) -> dict[str, Any]:
    if not isinstance(raw, dict):
        raise Malformed("no message")
    content = _text(raw.get("content"))
    calls = _tool_calls(raw.get("tool_calls"))
    # vLLM renamed reasoning_content to reasoning in 2026; other servers kept the old name.
    reasoning = raw.get("reasoning_content") or raw.get("reasoning")
    refusal = raw.get("refusal")
    cut = reason in ("length", "content_filter")
    if content is None and not (calls or reasoning or refusal or cut):
        raise Malformed("a message without content")
    message: dict[str, Any] = {
        "role": "assistant",
        "content": content if content is not None or calls else "",
    }
    if calls:
        message["tool_calls"] = calls
    if isinstance(reasoning, str) and reasoning:
        message["reasoning_content"] = reasoning
    if isinstance(refusal, str) and refusal:
        message["refusal"] = refusal
    return message


def _text(content: Any) -> str | None:
    """A message's text: a string, or a list of text parts as some servers send it."""
    if content is None or isinstance(content, str):
        return content
    if isinstance(content, list) and all(isinstance(part, dict) for part in content):
        texts = [part.get("text") for part in content]
        if all(isinstance(text, str) for text in texts):
            return "".join(texts)
    raise Malformed("content of an unknown form")


def _tool_calls(raw: Any) -> list[dict[str, Any]]:
    if raw is None:
        return []
    if not isinstance(raw, list):
        raise Malformed("tool_calls that are no list")
    calls = []
    for call in raw:
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            raise Malformed("a tool call without a function name")
        if not isinstance(call.get("id"), str) or not isinstance(function.get("arguments"), str):
            raise Malformed("a tool call without an id or without arguments")
        named = {"name": function["name"], "arguments": function["arguments"]}
        calls.append({"id": call["id"], "type": "function", "function": named})
    return calls


def _usage(raw: Any) -> Usage | None:
    """Token counts; None where the two that matter aren't both there."""
    if not isinstance(raw, dict):
        return None
    prompt, completion = _count(raw, "prompt_tokens"), _count(raw, "completion_tokens")
    if prompt is None or completion is None:
        return None
    return Usage(
        prompt_tokens=prompt,
        completion_tokens=completion,
        reasoning_tokens=_count(raw.get("completion_tokens_details"), "reasoning_tokens"),
        cached_tokens=_count(raw.get("prompt_tokens_details"), "cached_tokens"),
    )


def _count(table: Any, name: str) -> int | None:
    value = table.get(name) if isinstance(table, dict) else None
    return value if type(value) is int and value >= 0 else None


def _tokens(choice: Mapping[str, Any]) -> tuple[list[int] | None, list[float] | None]:
    """Token ids (vLLM's `token_ids`, llama.cpp's `id` beside each logprob) and log-probabilities."""
    table = choice.get("logprobs")
    content = table.get("content") if isinstance(table, dict) else None
    rows = [row for row in content if isinstance(row, dict)] if isinstance(content, list) else []
    logprobs = [float(row["logprob"]) for row in rows if type(row.get("logprob")) in (int, float)]
    ids = choice.get("token_ids")
    if not isinstance(ids, list):
        ids = [row.get("id") for row in rows]
    whole = bool(ids) and all(type(id_) is int for id_ in ids)
    if rows and len(logprobs) != len(rows):
        raise Malformed("log-probabilities with gaps")
    if whole and logprobs and len(ids) != len(logprobs):
        raise Malformed(f"{len(ids)} token ids beside {len(logprobs)} log-probabilities")
    return (list(ids) if whole else None), (logprobs or None)
