"""JSON from files that nobody vouches for: bounded in memory and depth, and without ambiguity."""

from __future__ import annotations

import json
from typing import Any, NoReturn

__all__ = [
    "MAX_DEPTH",
    "check_plain",
    "dump_json",
    "json_memory",
    "parse_json",
    "parse_json_string",
]

MAX_DEPTH = 32

# Bytes of memory that a character may stand for once parsed, at worst. A comma brings one more
# value, a string of one wide letter being the largest; a colon a key, its place in a dictionary and
# in the list of pairs that is looked through for duplicates; a bracket an object of its own.
# tests/monitor/test_checked_json.py measures the shapes that cost the most.
_COSTS = ((",", 100), ("[", 80), (":", 220), ("{", 150))


def dump_json(value: Any) -> str:
    """The value as compact JSON with sorted keys, in ASCII: one text for one value."""
    return json.dumps(value, allow_nan=False, sort_keys=True, separators=(",", ":"))


def parse_json(text: str, memory: int) -> Any:
    """What the text says, or a ValueError if it says it badly or would need too much memory.

    Refused are duplicate keys, NaN and Infinity, and any text whose values could fill more than
    `memory` bytes; that is judged before anything is built. Use `check_plain` on parts of any form.
    """
    _check_memory(json_memory(text), memory)
    try:
        return json.loads(text, object_pairs_hook=_without_duplicates, parse_constant=_refuse)
    except RecursionError:
        raise ValueError(f"its JSON is nested more than {MAX_DEPTH} deep") from None


def parse_json_string(text: str, memory: int) -> str:
    """The string that a JSON text consists of, or a ValueError."""
    _check_memory(_text_memory(text), memory)
    value = json.loads(text) if text.startswith('"') else None
    if not isinstance(value, str):
        raise ValueError("its metadata is no string")
    return value


def check_plain(value: Any) -> None:
    """Refuse keys that are no str, numbers that are none, and nesting beyond `MAX_DEPTH`."""
    # Level by level: recursion would fail on the very depth that is to be refused.
    level = [value]
    for _ in range(MAX_DEPTH):
        below: list[Any] = []
        for node in level:
            if isinstance(node, dict):
                for key in node:
                    if not isinstance(key, str):
                        raise ValueError(f"the key {key!r:.80} is no str")
                below.extend(node.values())
            elif isinstance(node, list | tuple):
                below.extend(node)
            elif isinstance(node, float) and node - node != 0:
                raise ValueError(f"it holds {node}, which is no number")
        if not below:
            return
        level = below
    raise ValueError(f"it is nested more than {MAX_DEPTH} deep")


def json_memory(text: str) -> int:
    """An upper bound of the memory that a JSON text and what it says take."""
    return _text_memory(text) + sum(cost * text.count(sign) for sign, cost in _COSTS)


def _text_memory(text: str) -> int:
    """An upper bound of the memory that a text and the strings in it take."""
    # One letter beyond the first 65,536 makes its whole string take four bytes per letter, and a
    # string grows in steps of a quarter while it is read.
    return len(text) * (1 + (5 if "\\u" in text else 1))


def _check_memory(needed: int, allowed: int) -> None:
    if needed > allowed:
        raise ValueError(
            f"its JSON may need {needed:,} bytes of memory where {allowed:,} are allowed"
        )


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise ValueError(f"its JSON holds the key {key!r:.80} twice")
            seen.add(key)
    return found


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"its JSON holds {constant}, which is no number")
