"""Checks docs/surface.txt, the list of what docs/stability.md promises not to change.

    python docs/write_surface.py             # says what has changed
    python docs/write_surface.py --update    # writes it

Python names are promised by writing them into the list: what it does not name is not promised. The
commands, the requests of the service and the formats of files are listed by this script. A changed
line is a change that users may notice: describe it in CHANGELOG.md, then update.
"""

from __future__ import annotations

import difflib
import inspect
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import typer

import ontarget

SURFACE = Path(__file__).parent / "surface.txt"
# Ontarget makes these and hands them out; how they are made is not promised.
HANDED_OUT = (
    ontarget.AlarmRule,
    ontarget.Episodes,
    ontarget.Evaluation,
    ontarget.Explanation,
    ontarget.FleetWatch,
    ontarget.Interval,
    ontarget.Outlook,
    ontarget.Outlooks,
    ontarget.Probability,
    ontarget.RunState,
    ontarget.Sessions,
    ontarget.Status,
    ontarget.Watch,
)


def python_names() -> Iterator[str]:
    """The names of the list as they are now, with their parameters; names that are gone are not."""
    listed = re.findall(r"^ontarget\.[\w.]+", SURFACE.read_text(), flags=re.MULTILINE)
    faces = [f"ontarget.{name}" for name in ontarget.__all__ if name != "__version__"]
    for name in sorted({*listed, *faces}, key=lambda name: (name.lower(), name)):
        try:
            yield name + _parameters(_found(name))
        except AttributeError:
            continue


def _found(name: str) -> object:
    """The object of this name; None for a field of a class."""
    owner: object = ontarget
    for part in name.split(".")[1:]:
        if not inspect.isclass(owner):
            owner = getattr(owner, part)
        elif part in inspect.get_annotations(owner):
            return None
        else:
            owner = inspect.getattr_static(owner, part)
    return owner


def _parameters(thing: object) -> str:
    """How it is called, without types; nothing for what users read, raise or are handed."""
    if isinstance(thing, classmethod | staticmethod):
        thing = thing.__func__
    raised = inspect.isclass(thing) and issubclass(thing, BaseException)
    if raised or thing in HANDED_OUT or not callable(thing):
        return ""
    words = []
    for parameter in inspect.signature(thing).parameters.values():
        if parameter.name in ("self", "cls"):
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not any(word[0] == "*" for word in words):
            words.append("*")
        shown = str(parameter.replace(annotation=parameter.empty))
        words.append(re.sub(r"<(?:function|class) '?([\w.]+).*>", r"\1", shown))
    return f"({', '.join(words)})"


def commands() -> Iterator[str]:
    """A line for every argument and option of the command line, with the commands that have it."""
    from ontarget.cli import app

    having: dict[str, list[str]] = defaultdict(list)
    for name, command in sorted(typer.main.get_command(app).commands.items()):  # type: ignore[attr-defined]
        for parameter in command.params:
            having[", ".join([*parameter.opts, *parameter.secondary_opts])].append(name)
    for option, names in sorted(having.items()):
        yield f"ontarget {option}: {', '.join(names)}"


def requests() -> Iterator[str]:
    """A line for every request of the service, with its query, and for the fields of messages."""
    from ontarget.service.web._http import described
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
    now, then = surface(), SURFACE.read_text()
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
