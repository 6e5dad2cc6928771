"""A fast path for requests with steps, which avoids the HTTP parser and the web framework.

The bytes of a connection go straight to the thread that writes steps, and its answers back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import Enum, auto
from functools import lru_cache
from http import HTTPStatus
from typing import Final

from starlette.responses import Response

from ontarget.service.service import Service
from ontarget.service.web._http import is_local, strict
from ontarget.service.web._steps import Outcome, Steps

__all__ = ["Direct", "Found", "response_of"]

_LINE: Final = b"POST /v1/steps HTTP/1.1\r\n"
_END: Final = b"\r\n\r\n"
_WAITED_FOR: Final = 65536  # bytes of a body whose rest is waited for
_CLOSE: Final = (b"connection", b"close")
# Whatever else a head says is for the parser to judge.
_PLAIN: Final = frozenset(
    {b"accept", b"accept-encoding", b"accept-language", b"authorization", b"connection",
     b"content-length", b"content-type", b"host", b"user-agent"}
)  # fmt: skip


class Found(Enum):
    """What some bytes turned out to be: a request for the fast path, part of one, or neither."""

    TAKEN = auto()  # a request that is answered soon
    PART = auto()  # the beginning of one: wait for the rest
    OTHER = auto()  # anything else


class Direct:
    """Handles small, ordinary requests with steps on a fast path.

    A request on this path needs no task, no HTTP parser and no web framework. All other requests go
    through uvicorn and Starlette. So do requests of clients that may not report steps, which
    Starlette then refuses.

    Parameters
    ----------
    steps
        The object that takes steps and makes the response.
    service
        The service.
    open_to_all
        Whether requests need no token.
    """

    def __init__(self, steps: Steps, service: Service, *, open_to_all: bool) -> None:
        self._steps = steps
        self._tokens = service.tokens
        self._most = service.limits.body_bytes
        self._open = open_to_all

    def take(self, data: bytes, address: str, done: Callable[[Outcome], None]) -> Found:
        """Handle these bytes if they are a small, ordinary request with steps.

        Returns what the bytes are. If they are such a request, ``done`` is later called with the
        response.

        Parameters
        ----------
        data
            The bytes read so far, from the beginning of a request.
        address
            The client's address.
        done
            A function that is called on the event loop with the response.
        """
        end = data.find(_END) if data.startswith(_LINE) else -1
        fields = _fields(data[:end]) if end >= 0 else None
        if fields is None or fields.get(b"connection", b"keep-alive").lower() != b"keep-alive":
            return Found.OTHER
        given, body = fields.get(b"content-length", b""), end + len(_END)
        size = int(given) if given.isdigit() and len(given) < 10 else -1
        if not len(data) - body <= size <= self._most:
            return Found.OTHER
        client = self._client(fields, address)
        if client is None:
            return Found.OTHER
        if size > len(data) - body:
            return Found.PART if size <= _WAITED_FOR else Found.OTHER
        kind = fields.get(b"content-type", b"").decode("latin-1")
        self._steps.begin(kind, data[body:], client, done)
        return Found.TAKEN

    def _client(self, fields: dict[bytes, bytes], address: str) -> str | None:
        """The client's name: from its token, or else its address.

        None if the request must go through Starlette.
        """
        said = fields.get(b"authorization")
        if said is None:
            local = self._open and is_local(fields.get(b"host", b"").decode("latin-1"))
            return address if local else None
        if not self._tokens.fresh:
            return None
        kind, _, token = said.decode("latin-1").partition(" ")
        token = token.strip()
        if kind.lower() != "bearer" or "report" not in self._tokens.scopes_of(token):
            return None
        return token.split("_")[1]


def _fields(head: bytes) -> dict[bytes, bytes] | None:
    """The header fields of a request by name; None if the header has anything unusual."""
    lines = head.split(b"\r\n")
    breaks = len(lines) - 1
    if head.count(b"\n") != breaks or head.count(b"\r") != breaks or b"\0" in head:
        return None
    found: dict[bytes, bytes] = {}
    for line in lines[1:]:
        name, _, value = line.partition(b":")
        name = name.lower()
        if name not in _PLAIN or name in found:
            return None
        found[name] = value.strip(b" \t")
    return found


def response_of(outcome: Outcome, common: Sequence[tuple[bytes, bytes]], *, last: bool) -> bytes:
    """The bytes of an HTTP response.

    Parameters
    ----------
    outcome
        The status and the body of the response.
    common
        Header fields of the server, such as the date.
    last
        Whether the connection is closed after this response.
    """
    more = (*common, _CLOSE) if last else tuple(common)
    if isinstance(outcome, bytes):
        return b"%scontent-length: %d\r\n\r\n%s" % (_good_head(more), len(outcome), outcome)
    return _head(outcome.status_code, (*more, *strict(outcome).raw_headers)) + bytes(outcome.body)


@lru_cache(maxsize=4)  # the date changes every second
def _good_head(more: tuple[tuple[bytes, bytes], ...]) -> bytes:
    """The start of every response to accepted steps, up to the length of the body."""
    fields = strict(Response(media_type="application/json")).raw_headers
    kept = [one for one in fields if one[0] != b"content-length"]
    return _head(200, (*more, *kept)).removesuffix(b"\r\n")


def _head(status: int, fields: Iterable[tuple[bytes, bytes]]) -> bytes:
    line = b"HTTP/1.1 %d %s\r\n" % (status, HTTPStatus(status).phrase.encode())
    return b"".join([line, *(b"%s: %s\r\n" % one for one in fields), b"\r\n"])
