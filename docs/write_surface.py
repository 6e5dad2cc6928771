"""Writes docs/surface.txt: all that docs/stability.md promises not to change, one line each.

    python docs/write_surface.py             # says what has changed
    python docs/write_surface.py --update    # writes it

A changed line is a change that users may notice: describe it in CHANGELOG.md, then update.
"""

from __future__ import annotations

import difflib
import inspect
import sys
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path

import typer

sys.path.insert(0, str(Path(__file__).parent))
import write_api

SURFACE = Path(__file__).parent / "surface.txt"


def python_names() -> Iterator[str]:
    """A line for every public name with its parameters, and for every public member of a class."""
    for name, (package, thing) in sorted(write_api.public().items()):
        if inspect.isclass(thing):
            yield _call(f"{package}.{name}", thing)
            if is_dataclass(thing):
                yield from (f"{package}.{name}.{own.name}" for own in fields(thing))
            for member, value in write_api.members(thing):
                own = f"{package}.{name}.{member}"
                yield own if isinstance(value, property) else _call(own, value)
        else:
            yield _call(f"{package}.{name}", thing) if callable(thing) else f"{package}.{name}"


def _call(name: str, thing: object) -> str:
    flat = " ".join(write_api.signature(name, thing).split())
    return flat.replace("( ", "(").replace(", )", ")")


def commands() -> Iterator[str]:
    """A line for every command of the command line, with its arguments and options."""
    from ontarget.cli import app

    for name, command in sorted(typer.main.get_command(app).commands.items()):  # type: ignore[attr-defined]
        for parameter in command.params:
            spelled = ", ".join([*parameter.opts, *parameter.secondary_opts])
            yield f"ontarget {name} {spelled}"


def requests() -> Iterator[str]:
    """A line for every request of the service, with its query, and for the fields of messages."""
    from ontarget.service.web._openapi import described
    from ontarget.service.web.api import Api

    page = described(Api.endpoints(object.__new__(Api)))
    for path, methods in page["paths"].items():
        for method, operation in methods.items():
            query = [one["name"] for one in operation["parameters"] if one["in"] == "query"]
            yield f"{method.upper()} {path}" + (f" ? {', '.join(query)}" if query else "")
    for name, schema in sorted(page["components"]["schemas"].items()):
        yield f"{name}: {', '.join(schema.get('properties', schema.get('enum', [])))}"


def files() -> Iterator[str]:
    """A line for the format of every kind of file that the library writes."""
    from ontarget.modelfile._header import VERSION

    yield f"model file, layout {VERSION}"


def surface() -> str:
    """The whole list as text."""
    parts = {"Python": python_names, "Commands": commands, "Requests": requests, "Files": files}
    return "\n".join(f"# {name}\n" + "\n".join(make()) + "\n" for name, make in parts.items())


def main() -> None:
    """Say what has changed since docs/surface.txt was written, or write it with --update."""
    now = surface()
    then = SURFACE.read_text() if SURFACE.exists() else ""
    if "--update" in sys.argv:
        SURFACE.write_text(now)
    changes = [
        line
        for line in difflib.unified_diff(then.splitlines(), now.splitlines(), lineterm="", n=0)
        if not line.startswith(("---", "+++", "@@"))
    ]
    sys.stdout.write("\n".join(changes) + "\n" if changes else "nothing has changed\n")
    sys.exit(1 if changes and "--update" not in sys.argv else 0)


if __name__ == "__main__":
    main()
