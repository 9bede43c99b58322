"""Text that came from outside."""

import re
from collections.abc import Mapping
from typing import Any

MAX_NESTING = 64
"""JSON nested deeper than this is no tool call in earnest; at some hundreds, decoders run out of stack."""

_STRINGS = re.compile(r'"(?:[^"\\]|\\.)*+"', re.DOTALL)
_BRACKETS = re.compile(r"[\[\]{}]")
_SURROGATES = re.compile(r"[\ud800-\udfff]")


def mend_surrogates(value: Any) -> Any:
    """A JSON value with each half of a surrogate pair replaced by U+FFFD, as decoders of bytes do.

    JSON can spell such a half and UTF-8 can't hold it: left in, what a model wrote would break the transport
    instead of its grade.
    """
    if isinstance(value, str):
        return value if value.isascii() else _SURROGATES.sub("\ufffd", value)
    if isinstance(value, Mapping):
        return {mend_surrogates(key): mend_surrogates(item) for key, item in value.items()}
    return [mend_surrogates(item) for item in value] if isinstance(value, list | tuple) else value


def nests_too_deep(text: str) -> bool:
    """Whether a JSON text nests deeper than `MAX_NESTING`. Looks at brackets only, so any text will do."""
    if text.count("[") + text.count("{") <= MAX_NESTING:
        return False
    depth = 0
    for bracket in _BRACKETS.finditer(_STRINGS.sub("", text)):
        depth += 1 if bracket[0] in "[{" else -1
        if depth > MAX_NESTING:
            return True
    return False
