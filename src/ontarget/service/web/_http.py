"""Checks that every request passes: size, address, token and rate.

Errors have the form of RFC 9457.
"""

from __future__ import annotations

import ipaddress
import logging
import re
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from ontarget._package import __version__
from ontarget.errors import InputError, OntargetError, StoreError
from ontarget.service._writer import BusyError
from ontarget.service.held import ClosedError
from ontarget.service.messages import Problem
from ontarget.service.service import Service

Handler: TypeAlias = Callable[[Request, Service], Awaitable[Response]]

_log: Final = logging.getLogger("ontarget.service")
_CLIENTS: Final = 10_000
SESSION: Final = "ontarget_session"  # the cookie of somebody who signed in on the page
_STRICT: Final = {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


_STRICT_RAW: Final = [(name.encode(), value.encode()) for name, value in _STRICT.items()]


class Refusal(Exception):  # noqa: N818  # a refusal is an answer
    """An error that refuses a request; the client gets it as a `Problem` (RFC 9457)."""

    def __init__(self, status: int, title: str, detail: str, **headers: str) -> None:
        super().__init__(detail)
        kind = f"urn:ontarget:{title.replace(' ', '-')}"
        self.problem = Problem(status=status, title=title, detail=detail, type=kind)
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


@dataclass(frozen=True)
class Endpoint:
    """One endpoint of the API: its path, the scope it needs, and what it takes and returns."""

    method: str
    path: str
    handler: Handler
    summary: str
    scope: str | None = "read"
    takes: tuple[Any, ...] = ()  # the types that a body may have
    gives: tuple[Any, ...] = ()
    query: dict[str, Any] = field(default_factory=dict)
    media: str = "application/json"


class Buckets:
    """Limits the messages per second of each client, which may send one second's worth at once."""

    def __init__(self, rate: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._clock = clock
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, client: str, amount: int) -> float:
        """How many seconds the client must wait before it may send ``amount`` messages."""
        now = self._clock()
        level, since = self._levels.pop(client, (self._rate, now))
        level = min(self._rate, level + (now - since) * self._rate)
        # A batch larger than a second's worth passes when nothing was sent for a second.
        wait = 0.0 if level >= min(amount, self._rate) else (amount - level) / self._rate
        self._levels[client] = (level - amount if wait == 0.0 else level), now
        while len(self._levels) > _CLIENTS:
            self._levels.popitem(last=False)
        return wait


def json_response(value: Any, status: int = 200) -> Response:
    """An HTTP response with a value as JSON."""
    return Response(msgspec.json.encode(value), status, media_type="application/json")


def answered(
    endpoint: Endpoint, service: Service, *, open_to_all: bool
) -> Callable[[Request], Awaitable[Response]]:
    """The endpoint as a function that Starlette calls; with ``open_to_all`` no token is needed."""

    async def respond(request: Request) -> Response:
        try:
            await _admit(request, endpoint.scope, service, open_to_all=open_to_all)
            response = await endpoint.handler(request, service)
        except Exception as error:
            response = refused(error)
        return strict(response)

    return respond


def strict(response: Response) -> Response:
    """The same response, with the security headers that all responses of the service have."""
    given = {name for name, _ in response.raw_headers}
    response.raw_headers += [one for one in _STRICT_RAW if one[0] not in given]
    return response


async def _admit(
    request: Request, scope: str | None, service: Service, *, open_to_all: bool
) -> None:
    """Raise a `Refusal` if the client may not use an endpoint that needs this scope."""
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    request.state.client = request.client.host if request.client else ""
    if scope is None:
        return
    if not token and not open_to_all and SESSION in request.cookies:
        kind, token = "bearer", request.cookies[SESSION]
        _check_same_page(request)
    if token:
        if not service.tokens.fresh:
            await run_in_threadpool(service.tokens.refresh)
        scopes = service.tokens.scopes_of(token.strip())
        if kind.lower() != "bearer" or not scopes:
            raise Refusal(
                401, "unknown token", "send a token of this service", www_authenticate="Bearer"
            )
        if scope not in scopes:
            wrong = f"this request needs a token with the scope {scope}"
            raise Refusal(403, "not allowed", wrong)
        request.state.client = token.split("_")[1]
        return
    if not open_to_all:
        detail = "send a token: Authorization: Bearer ot_…"
        raise Refusal(401, "no token", detail, www_authenticate="Bearer")
    # Without tokens, a page in a browser on this machine must not be able to talk to the service.
    if not is_local(request.headers.get("host") or request.url.netloc):
        raise Refusal(
            403,
            "not local",
            "without a token the service answers only clients on this machine (127.0.0.1)",
        )
    if "x-forwarded-for" in request.headers or "forwarded" in request.headers:
        detail = "this request came through a proxy; start the service with --require-token"
        raise Refusal(403, "not local", detail)
    origin = request.headers.get("origin")
    if origin is not None and origin != f"http://{request.headers.get('host', '')}":
        raise Refusal(
            403, "not local", "without a token, requests from other web pages are refused"
        )


async def holds_token(request: Request, service: Service, scope: str) -> bool:
    """Whether the client sent a token (or a session) with this scope; False if nobody can tell."""
    try:
        await _admit(request, scope, service, open_to_all=False)
    except (Refusal, StoreError):
        return False
    return True


def _check_same_page(request: Request) -> None:
    """Refuse a request with a cookie that comes from a web page of another host."""
    origin = request.headers.get("origin", "")
    if request.method != "GET" and origin.partition("://")[2] != request.headers.get("host", ""):
        raise Refusal(403, "another page", "a session is valid only on the page of this service")


async def body_of(request: Request, most: int) -> bytes:
    """The body of a request; raises a `Refusal` if it has more than ``most`` bytes."""
    said = request.headers.get("content-length", "0")
    if said.isdigit() and int(said) > most:
        raise Refusal(413, "too large", f"a request has at most {most:,} bytes", connection="close")
    parts: list[bytes] = []
    size, more = 0, True
    while more:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        parts.append(message.get("body", b""))
        size, more = size + len(parts[-1]), message.get("more_body", False)
        if size > most:
            raise Refusal(
                413, "too large", f"a request has at most {most:,} bytes", connection="close"
            )
    return parts[0] if len(parts) == 1 else b"".join(parts)


async def decoded(request: Request, service: Service, kind: Any) -> Any:
    """The JSON body of a request as an object of this type; raises a `Refusal` if it is not one."""
    if (
        request.headers.get("content-type", "").partition(";")[0].strip().lower()
        != "application/json"
    ):
        raise Refusal(415, "not JSON", "send content-type: application/json")
    body = await body_of(request, service.limits.body_bytes)
    try:
        return msgspec.json.decode(body or b"{}", type=kind)
    except (msgspec.ValidationError, msgspec.DecodeError, RecursionError) as error:
        raise Refusal(400, "wrong body", str(error)) from None


def refused(error: Exception) -> Response:
    """The HTTP response for an error."""
    if isinstance(error, Refusal):
        return problem_response(error.problem, error.headers)
    if isinstance(error, BusyError):
        busy = Problem(status=429, title="busy", detail=str(error), type="urn:ontarget:busy")
        return problem_response(busy, {"retry-after": "1"})
    if isinstance(error, StoreError):
        _log.error("the store failed: %s", error)
        detail = "the store cannot be written; nothing was saved, send it again later"
        down = Problem(status=503, title="store", detail=detail, type="urn:ontarget:store")
        return problem_response(down, {"retry-after": "5"})
    if isinstance(error, ClosedError):
        kind = "urn:ontarget:closed-contract"
        closed = Problem(status=409, title="closed contract", detail=str(error), type=kind)
        return problem_response(closed)
    if isinstance(error, InputError | OntargetError):
        return problem_response(
            Problem(status=422, title="refused", detail=str(error), type="urn:ontarget:refused")
        )
    if isinstance(error, HTTPException):
        return problem_response(Problem(status=error.status_code, title=error.detail))
    if isinstance(error, ClientDisconnect):
        return Response(status_code=400)
    _log.error("a request failed", exc_info=error)
    return problem_response(Problem(status=500, title="error", detail="see the service's log"))


def problem_response(problem: Problem, headers: dict[str, str] | None = None) -> Response:
    """A `Problem` as an HTTP response in the form of RFC 9457."""
    return Response(
        msgspec.json.encode(problem), problem.status, headers, media_type="application/problem+json"
    )


@lru_cache(maxsize=1024)  # asked at every step
def is_local(netloc: str) -> bool:
    """Whether a host name, perhaps with a port, means this machine."""
    try:
        return is_loopback(urlsplit(f"//{netloc}").hostname or "")
    except ValueError:
        return False


def is_loopback(host: str) -> bool:
    """Whether an address is this machine's own."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def described(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """The OpenAPI 3.1 document of these endpoints."""
    types = [Problem, *(one for e in endpoints for one in (*e.takes, *e.gives))]
    schemas, components = msgspec.json.schema_components(
        types, ref_template="#/components/schemas/{name}"
    )
    of = {repr(kind): schema for kind, schema in zip(types, schemas, strict=True)}
    paths: dict[str, dict[str, Any]] = {}
    for one in endpoints:
        paths.setdefault(one.path, {})[one.method.lower()] = _operation(one, of)
    return {
        "openapi": "3.1.0",
        "info": {"title": "ontarget", "version": __version__},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }


def _operation(one: Endpoint, of: dict[str, Any]) -> dict[str, Any]:
    gives = {"schema": _any_of(one.gives, of)} if one.gives else {}
    wrong = {"application/problem+json": {"schema": of[repr(Problem)]}}
    found: dict[str, Any] = {
        "summary": one.summary,
        "operationId": re.sub(r"\W+", "_", f"{one.method.lower()}{one.path}").strip("_"),
        "parameters": [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
            for name in re.findall(r"\{(\w+)", one.path)
        ]
        + [{"name": name, "in": "query", "schema": schema} for name, schema in one.query.items()],
        "responses": {
            "200": {"description": "OK", "content": {one.media: gives}},
            "default": {"description": "refused", "content": wrong},
        },
    }
    if one.takes:
        content = {"application/json": {"schema": _any_of(one.takes, of)}}
        if one.path == "/v1/steps":
            content["application/x-ndjson"] = {"schema": {"type": "string"}}
        found["requestBody"] = {"required": True, "content": content}
    return found


def _any_of(types: tuple[Any, ...], of: dict[str, Any]) -> dict[str, Any]:
    found = [of[repr(one)] for one in types]
    return found[0] if len(found) == 1 else {"anyOf": found}
