"""Reads the steps in the body of a request: a single step, a JSON array, or one per line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from ontarget.service.messages import Problem, StepMessage
from ontarget.service.web._http import Refusal

_one: Final = msgspec.json.Decoder(StepMessage)
_many: Final = msgspec.json.Decoder(list[StepMessage])
_raw: Final = msgspec.json.Decoder(list[msgspec.Raw])


class Body(NamedTuple):
    """The messages in the body of a request; a `Problem` stands for each that cannot be read."""

    messages: Sequence[StepMessage | Problem]  # in order; a problem for what cannot be read
    good: Sequence[StepMessage]  # those that can; ``messages`` itself if all of them
    single: bool = False  # one alone, not an array of one
    lines: bool = False


def read_steps(content_type: str, body: bytes, most: int) -> Body:
    """Read the messages in a request's body; more than ``most`` messages are refused."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind in ("application/x-ndjson", "application/jsonl"):
        return _each([line for line in body.splitlines() if line.strip()], most, lines=True)
    if kind != "application/json":
        raise Refusal(
            415, "not JSON", "send content-type: application/json or application/x-ndjson"
        )
    try:
        if body.lstrip()[:1] != b"[":
            one = [_one.decode(body)]
            return Body(one, one, single=True)
        try:
            found = _many.decode(body)
        except msgspec.ValidationError:  # item by item, to say which are wrong
            return _each(_raw.decode(body), most)
    except (msgspec.ValidationError, msgspec.DecodeError, RecursionError) as error:
        raise Refusal(400, "wrong body", str(error)) from None
    _check(len(found), most)
    return Body(found, found)


def _each(parts: Sequence[bytes | msgspec.Raw], most: int, *, lines: bool = False) -> Body:
    _check(len(parts), most)
    found: list[StepMessage | Problem] = []
    for part in parts:
        try:
            found.append(_one.decode(part))
        except (msgspec.ValidationError, msgspec.DecodeError, RecursionError) as error:
            kind = "urn:ontarget:wrong-body"
            found.append(Problem(status=400, title="wrong body", detail=str(error), type=kind))
    return Body(found, [one for one in found if isinstance(one, StepMessage)], lines=lines)


def _check(n: int, most: int) -> None:
    if n > most:
        raise Refusal(413, "too large", f"a request has at most {most:,} steps")
