"""Storage: how much text of a rollout may leave the process, decided before any file or log sees it."""

import hashlib
import ipaddress
import json
import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any

Redactor = Callable[[str], str]
"""Takes identifying and harmful detail out of a text. Must be total: any string in, a string out."""


class Storage(StrEnum):
    """What is kept of the texts of a rollout. A task declares it."""

    FULL = "full"
    """Everything."""
    REDACTED = "redacted"
    """Texts as a redactor leaves them; those of the conversation with the hash of the original."""
    HASH_ONLY = "hash_only"
    """Of each text its hash and its length. Such a rollout can't be scored again."""


PLAIN: frozenset[tuple[str, ...]] = frozenset(
    {
        ("type",),
        ("key", "task"),
        ("task_id",),
        ("cluster",),
        ("difficulty",),
        ("storage",),
        ("seat",),
        ("outcome",),
        ("flags",),
        ("error", "where"),
        ("error", "type"),
        ("seats", "*", "model"),
        ("seats", "*", "finish_reason"),
    }
)
"""Where a record holds words of ours: these strings stay. "*" is any name; lists add nothing to a path.

A string anywhere else counts as text, so that a field added tomorrow is hashed until it is listed here. List
only what no model, task text or tool output can fill.
"""

_ROLES = frozenset({"system", "developer", "user", "assistant", "tool"})
_CONVERSATION = frozenset({"prompt", "completion"})
_CAUSE_NAME = re.compile(r"([a-z][a-z0-9_]{0,40})(?::|$)")

_URL = re.compile(r"(?:\b[a-z][a-z0-9+.-]{1,20}://|\bwww\.)[^\s<>\"']+", re.IGNORECASE)
_EMAIL = re.compile(r"(?<![\w.%+-])[\w.%+-]++@[\w.-]+")
_IPV4 = re.compile(r"(?:\d{1,3}\.){3}\d{1,3}(?:/\d{1,2})?")
_IPV6 = re.compile(r"(?<![\w:.])[0-9a-f:.]{2,45}(?![\w:])", re.IGNORECASE)
_TOKEN = re.compile(r"[A-Za-z0-9+/_=-]{24,}")
_NUMBER = re.compile(r"\d(?:[ -]?\d){8,}")


def apply_storage(
    record: Mapping[str, Any], storage: Storage, redactor: Redactor | None = None
) -> dict[str, Any]:
    """The record as it may be stored. Numbers, booleans, None, keys and the strings of `PLAIN` stay.

    - full: everything stays.
    - redacted: a string under "prompt" or "completion" becomes {"sha256", "chars", "text"}, text being what
      the redactor leaves; any other string becomes what the redactor leaves.
    - hash_only: a string becomes {"sha256", "chars"}; of `cause` the name before ":" is kept instead.

    An empty string stays empty. Message roles stay. What a model may have made the keys of is hashed as a
    whole under hash_only (tool-call "arguments" that are an object), and token ids, which decode to the very
    text, are hashed as a whole under both. The hash has no salt, so that equal texts can be found across
    runs: a short text (a label, a number) can be guessed from it.

    Args:
        record: a rollout's record as plain JSON types; it is not changed.
        storage: the task's declared storage.
        redactor: for `Storage.REDACTED`; default `redact`.
    """
    if storage is Storage.FULL:
        return dict(record)
    keeper = _Keeper(redactor or redact) if storage is Storage.REDACTED else _Hasher()
    return {key: keeper.value(item, (key,)) for key, item in record.items()}


def fingerprint(text: str) -> dict[str, Any]:
    """{"sha256": of the text in UTF-8, "chars": its length in characters}; lone surrogates are allowed."""
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return {"sha256": digest, "chars": len(text)}


def redact(text: str) -> str:
    """The text without URLs, e-mail and IP addresses, long numbers and long tokens (keys, base64, hex).

    Each is replaced by a word in brackets. Takes time linear in the text. It removes what looks like an
    identifier; it does not judge what a text says.
    """
    text = _URL.sub("[url]", text)
    text = _EMAIL.sub("[email]", text)
    text = _IPV4.sub("[ip]", text)
    text = _IPV6.sub(_ipv6, text)
    text = _TOKEN.sub(_token, text)
    return _NUMBER.sub("[number]", text)


def _ipv6(match: re.Match[str]) -> str:
    found = match[0].rstrip(".")
    try:
        ipaddress.IPv6Address(found)
    except ValueError:
        return match[0]
    return "[ip]" + match[0][len(found) :]


def _token(match: re.Match[str]) -> str:
    found = match[0]
    mixed = any(c.isdigit() for c in found) or (found != found.lower() and found != found.upper())
    return "[token]" if mixed else found


class _Hasher:
    """Walks a record and replaces its texts by their fingerprints."""

    hashed_whole = frozenset({"arguments", "token_ids"})

    def text(self, text: str, path: tuple[str, ...]) -> Any:
        if path == ("cause",) and (name := _CAUSE_NAME.match(text)):
            return name[1]
        return fingerprint(text)

    def value(self, value: Any, path: tuple[str, ...]) -> Any:
        if isinstance(value, str):
            return value if not value or self._is_ours(value, path) else self.text(str(value), path)
        if isinstance(value, Mapping | list | tuple) and path[-1] in self.hashed_whole:
            return fingerprint(json.dumps(value, sort_keys=True))
        if isinstance(value, Mapping):
            return {key: self.value(item, (*path, key)) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.value(item, path) for item in value]
        return value

    def _is_ours(self, value: str, path: tuple[str, ...]) -> bool:
        if path[-1] == "role" and value in _ROLES:
            return True
        return path in PLAIN or (path[0] == "seats" and (path[0], "*", *path[2:]) in PLAIN)


class _Keeper(_Hasher):
    """Walks a record and replaces its texts by what a redactor leaves of them."""

    hashed_whole = frozenset({"token_ids"})

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor

    def text(self, text: str, path: tuple[str, ...]) -> Any:
        kept = self._redactor(text)
        return kept if _CONVERSATION.isdisjoint(path) else {**fingerprint(text), "text": kept}
