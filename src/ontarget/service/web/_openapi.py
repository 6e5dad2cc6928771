"""Writes the OpenAPI description of the HTTP API, from the same table that serves the requests."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from ontarget._package import __version__
from ontarget.service.messages import Problem
from ontarget.service.web._http import Endpoint


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
