"""Steps as they arrive: one, an array, or lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
from starlette.requests import Request

from ontarget.service.messages import Problem, StepMessage
from ontarget.service.web._http import Refusal

__all__ = ["read_steps"]

_one: Final = msgspec.json.Decoder(StepMessage)
_many: Final = msgspec.json.Decoder(list[StepMessage])
_raw: Final = msgspec.json.Decoder(list[msgspec.Raw])


def read_steps(
    request: Request, body: bytes, most: int
) -> tuple[list[StepMessage | Problem], bool, bool]:
    """The messages of a body, whether it was one alone, and whether it was lines."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip()
    if kind in ("application/x-ndjson", "application/jsonl"):
        parts: list[bytes | msgspec.Raw] = [line for line in body.splitlines() if line.strip()]
        return _each(parts, most), False, True
    if kind != "application/json":
        raise Refusal(
            415, "not JSON", "send content-type: application/json or application/x-ndjson"
        )
    try:
        if body.lstrip()[:1] != b"[":
            return [_one.decode(body)], True, False
        try:
            found: list[StepMessage | Problem] = list(_many.decode(body))
        except msgspec.ValidationError:  # item by item, to say which are wrong
            found = _each(list(_raw.decode(body)), most)
    except (msgspec.ValidationError, msgspec.DecodeError, RecursionError) as error:
        raise Refusal(400, "wrong body", str(error)) from None
    if len(found) > most:
        raise Refusal(413, "too large", f"a request has at most {most:,} steps")
    return found, False, False


def _each(parts: Sequence[bytes | msgspec.Raw], most: int) -> list[StepMessage | Problem]:
    if len(parts) > most:
        raise Refusal(413, "too large", f"a request has at most {most:,} steps")
    found: list[StepMessage | Problem] = []
    for part in parts:
        try:
            found.append(_one.decode(part))
        except (msgspec.ValidationError, msgspec.DecodeError, RecursionError) as error:
            kind = "urn:ontarget:wrong-body"
            found.append(Problem(status=400, title="wrong body", detail=str(error), type=kind))
    return found
