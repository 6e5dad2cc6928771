"""JSON from files that nobody vouches for: bounded in memory and depth, and without ambiguity."""

from __future__ import annotations

import json
from typing import Any, NoReturn

from ontarget.errors import InputError

__all__ = ["MAX_DEPTH", "dump_json", "parse_json", "parse_json_string"]

MAX_DEPTH = 32

# Bytes of memory that a character may stand for once parsed, at worst. A comma brings one more
# value, a string of one wide letter being the largest; a colon a key, its place in a dictionary and
# in the list of pairs that is looked through for duplicates; a bracket an object of its own.
# Measured by test_container_hostile.py over the shapes that cost the most.
_COSTS = ((",", 100), ("[", 150), (":", 350), ("{", 350))


def dump_json(value: Any, name: str) -> str:
    """The value as compact JSON with sorted keys, in ASCII: one text for one value."""
    try:
        _check_tree(value)
        return json.dumps(value, allow_nan=False, sort_keys=True, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{name} needs to be plain JSON (str keys, finite numbers, lists and dicts at most "
            f"{MAX_DEPTH} deep): {error}"
        ) from error


def parse_json(text: str, memory: int) -> Any:
    """What the text says, or a ValueError if it says it badly or would need too much memory.

    Refused are duplicate keys, NaN and infinities, nesting deeper than `MAX_DEPTH`, and any text
    whose values could fill more than `memory` bytes; that is judged before anything is built.
    """
    _check_memory(
        _text_memory(text) + sum(cost * text.count(sign) for sign, cost in _COSTS), memory
    )
    try:
        value = json.loads(text, object_pairs_hook=_without_duplicates, parse_constant=_refuse)
    except RecursionError:
        raise ValueError(f"its JSON is nested more than {MAX_DEPTH} deep") from None
    _check_tree(value)
    return value


def parse_json_string(text: str, start: int, memory: int) -> tuple[str, int]:
    """The JSON string whose quote stands at `start`, and where it ends, or a ValueError."""
    if text[start : start + 1] != '"':
        raise ValueError("it needs a JSON string")
    _check_memory(_text_memory(text), memory)
    value, stop = json.JSONDecoder().raw_decode(text, start)
    return value, stop


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
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"its JSON holds the key {twice!r:.80} twice")
    return found


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"its JSON holds {constant}, which is no number")


def _check_tree(value: Any) -> None:
    """Refuse keys that are no str, infinities and depth, level by level, so without recursion."""
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
