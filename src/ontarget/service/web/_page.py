"""The service's web page: its files, and signing in with a token.

The page is plain HTML, CSS and JavaScript. It sends requests to this service and to no other host.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Annotated, Final

import msgspec
from msgspec import Meta
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ontarget.evaluation.figures import theme_css
from ontarget.service.service import Service
from ontarget.service.tokens import SCOPES
from ontarget.service.web._http import SESSION, Refusal, decoded, json_response, refused, strict

_KINDS: Final = {
    ".css": "text/css",
    ".html": "text/html",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}
# The page runs its own modules and shows what they draw, and talks to the host that it came from.
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_SIGNED_IN: Final = 12 * 3600  # seconds


class SignIn(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A request to sign in: a token, for which the browser gets a cookie."""

    token: Annotated[str, Meta(min_length=1, max_length=200)]


def page_routes(service: Service, *, open_to_all: bool) -> list[Route]:
    """The routes of the page (``/``), of its files (``/page``) and of signing in (``/session``)."""
    found = {name: (kind, text.encode()) for name, kind, text in _files()}

    async def page(request: Request) -> Response:
        name = request.path_params.get("name", "index.html")
        if name not in found:
            return strict(refused(Refusal(404, "not found", "the page has no such file")))
        kind, body = found[name]
        headers = {"content-security-policy": _POLICY, "cache-control": "no-cache"}
        return strict(Response(body, headers=headers, media_type=kind))

    async def session(request: Request) -> Response:
        try:
            return strict(await _session(request, service, open_to_all=open_to_all))
        except Refusal as error:
            return strict(refused(error))

    return [
        Route("/", page),
        Route("/page/{name}", page),
        Route("/session", session, methods=["GET", "POST", "DELETE"]),
    ]


async def _session(request: Request, service: Service, *, open_to_all: bool) -> Response:
    if request.method == "DELETE":
        response = json_response({"scopes": []})
        response.delete_cookie(SESSION, httponly=True, samesite="strict")
        return response
    if open_to_all:
        return json_response({"scopes": list(SCOPES)})
    token = request.cookies.get(SESSION, "")
    if request.method == "POST":
        token = (await decoded(request, service, SignIn)).token
    scopes = await run_in_threadpool(service.tokens.scopes_of, token)
    if "read" not in scopes:
        raise Refusal(
            401, "unknown token", "this is not a token of this service with the scope read"
        )
    response = json_response({"scopes": sorted(scopes)})
    if request.method == "POST":
        response.set_cookie(
            SESSION,
            token,
            max_age=_SIGNED_IN,
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
    return response


def _files() -> list[tuple[str, str, str]]:
    """The name, content type and text of each file of the web page."""
    found = [("theme.css", "text/css", theme_css())]
    for one in (files("ontarget.service.web") / "page").iterdir():
        kind = _KINDS.get("." + one.name.rpartition(".")[2])
        if kind is not None:
            found.append((one.name, kind, one.read_text(encoding="utf-8")))
    return found
