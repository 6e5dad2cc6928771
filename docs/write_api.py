"""Writes the pages in docs/api/ from the docstrings of all public names of the library.

`make site` runs this; the pages are not kept in the repository.

The public names of a package are those in its ``__all__``. Each is described once, on the page of
the package it is defined in. What a class inherits from another public class is described only with
that class. Docstrings are in numpydoc style; types come from the annotations.
"""

from __future__ import annotations

import enum
import importlib
import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from ontarget._package import is_internal

API = Path(__file__).parent / "api"
METHODS = (API.parent / "methods.md").read_text()
# Page -> the package whose docstring opens it, and the packages whose names may live there.
PAGES = {
    "target": "ontarget.target",
    "goal": "ontarget.goal",
    "episodes": "ontarget.episodes",
    "reading": "ontarget.reading",
    "models": "ontarget.models",
    "conformal": "ontarget.conformal",
    "evaluation": "ontarget.evaluation",
    "live": "ontarget.live",
    "drift": "ontarget.drift",
    "report": "ontarget.report",
    "monitor": "ontarget.monitor",
    "study": "ontarget.study",
    "domains": "ontarget.domains",
    "integrations": "ontarget.integrations",
    "errors": "ontarget.errors",
}
PACKAGES = [
    "ontarget",
    "ontarget.episodes",
    "ontarget.reading",
    "ontarget.models",
    "ontarget.conformal",
    "ontarget.evaluation",
    "ontarget.evaluation.figures",
    "ontarget.live",
    "ontarget.drift",
    "ontarget.report",
    "ontarget.study",
    "ontarget.domains",
    "ontarget.integrations",
]
# What a monitor hands out from `ontarget.fitted`; the rest of that package is not for users.
HANDED_OUT = {
    "ontarget.fitted.paths.bands": "PathBand",
    "ontarget.fitted.guarantee": "Threshold",
}
SECTIONS = ("Parameters", "Attributes", "Notes", "Examples", "References", "Returns", "Yields")
LONGEST = 88


@dataclass
class Docstring:
    """The sections of a docstring in numpydoc style: text, parameters, notes, examples."""

    text: str = ""
    sections: dict[str, list[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, thing: object) -> Docstring:
        """The docstring of a class, function or property, without inherited ones."""
        found = cls()
        named = inspect.isclass(thing) or inspect.ismodule(thing) or hasattr(thing, "__name__")
        described = named or isinstance(thing, property)  # a value has only that of its type
        text = getattr(thing, "__doc__", None) if described else None
        lines = inspect.cleandoc(text or "").split("\n")
        name = ""
        kept: list[str] = []
        for number, line in enumerate(lines):
            below = lines[number + 1] if number + 1 < len(lines) else ""
            if line in SECTIONS and below.startswith("---"):
                found._keep(name, kept)
                name, kept = line, []
            elif not (line.startswith("---") and kept == []):
                kept.append(line)
        found._keep(name, kept)
        return found

    def _keep(self, name: str, lines: list[str]) -> None:
        if name:
            self.sections[name] = lines
        else:
            self.text = "\n".join(lines).strip()

    @property
    def first(self) -> str:
        """The first sentence of the docstring, for an index."""
        return markdown(self.text.split("\n\n")[0])


def markdown(text: str) -> str:
    """The text of a docstring as Markdown, with one line per paragraph."""
    paragraphs = text.strip().split("\n\n")
    joined = [
        p if p.lstrip().startswith(("- ", "* ")) else p.replace("\n", " ") for p in paragraphs
    ]
    linked = re.sub(_QUOTED, _method_links, "\n\n".join(joined))
    return re.sub(r"``(.+?)``", r"`\1`", linked)


# "(M8)", "(method M8)", "method M8 in docs/methods.md" and "methods M8 and M9 in docs/methods.md".
_NUMBERS = r"(M\d+(?:(?:, | and )M\d+)*)"
_QUOTED = rf"(?<=\()(?:methods? )?{_NUMBERS}(?=\))|methods? {_NUMBERS} in docs/methods\.md"


def _method_links(found: re.Match[str]) -> str:
    """Links in place of numbers such as M24, which name a section of docs/methods.md."""
    links = re.sub(r"M\d+", _method_link, found[1] or found[2])
    return links if "](" in links else found[0]


def _method_link(found: re.Match[str]) -> str:
    heading = re.search(rf"^## ({found[0]} (.+?))(?: \(beyond the paper\))?$", METHODS, flags=re.M)
    if heading is None:
        return found[0]
    whole = heading[0].removeprefix("## ").lower()
    anchor = re.sub(r"[^\w\- ]", "", whole).replace(" ", "-")
    return f"[method: {heading[2]}](../methods.md#{anchor})"


@cache
def public() -> dict[str, tuple[str, object]]:
    """For each public name, the package to import it from, and the object.

    If several packages have the name, the first of them in `PACKAGES` counts.
    """
    found: dict[str, tuple[str, object]] = {}
    for package in PACKAGES:
        module = importlib.import_module(package)
        for name in module.__all__:
            if not name.startswith("__") and name not in found:
                found[name] = (package, getattr(module, name))
    errors = importlib.import_module("ontarget.errors")
    for name in errors.__all__:
        found.setdefault(name, (errors.__name__, getattr(errors, name)))
    for module, name in HANDED_OUT.items():
        found[name] = ("ontarget.fitted", getattr(importlib.import_module(module), name))
    return found


def home(package: str, thing: object) -> str:
    """The name of the page that describes a public name of this package."""
    if package == "ontarget.fitted":
        return "monitor"
    module = getattr(thing, "__module__", None) or package
    parts = (module if module.startswith("ontarget") else package).split(".")
    return parts[1] if len(parts) > 1 and parts[1] in PAGES else package.split(".")[1]


def page(name: str, entries: list[tuple[str, str, object]]) -> str:
    """One page: what the package is for, an index, and a description of every name."""
    intro = Docstring.of(importlib.import_module(PAGES[name]))
    lines = [f"# `{PAGES[name]}`", "", markdown(intro.text), "", "[All pages](README.md)", ""]
    lines += [
        f"- [`{who}`](#{who.lower()}): {Docstring.of(thing).first}" for who, _, thing in entries
    ]
    for who, package, thing in entries:
        lines += ["", f"## {who}", "", *described(who, package, thing)]
    return "\n".join(lines) + "\n"


def spelled(value: object) -> str:
    """A default or constant as text: as code would write it, a function or a class by its name."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key!r}: {spelled(one)}" for key, one in value.items()) + "}"
    named = inspect.isfunction(value) or inspect.isclass(value)
    return value.__name__ if named else repr(value)


def described(name: str, package: str, thing: Any) -> list[str]:
    """The full description of a class, function or constant, as lines of Markdown."""
    if not (inspect.isclass(thing) or inspect.isroutine(thing)):
        return code(f"{package}.{name} = {spelled(thing)}")
    if not inspect.isclass(thing):
        return [*code(f"{package}.{signature(name, thing)}"), *body(thing, thing)]
    lines: list[str] = []
    if issubclass(thing, enum.Enum):
        lines += code(f"{package}.{name}: {', '.join(member.name for member in thing)}")
    elif issubclass(thing, BaseException):
        kinds = ", ".join(base.__name__ for base in thing.__bases__)
        lines += code(f"{package}.{name}({kinds})")
    elif getattr(thing, "_is_protocol", False):
        lines += code(f"class {package}.{name}(Protocol)")
    else:
        lines += code(f"{package}.{signature(name, thing)}")
    lines += body(thing, getattr(thing, "__init__", thing))
    for member, value in members(thing):
        lines += ["", f"### {name}.{member}", ""]
        if isinstance(value, property):
            lines += [f"*Property.* {markdown(Docstring.of(value).text)}"]
        else:
            lines += [*code(signature(member, value)), *body(value, value)]
    if not issubclass(thing, BaseException):  # the signature of an error names its bases
        lines += inherited(thing)
    return lines


def inherited(thing: type) -> list[str]:
    """A line that says where to find the members that a class inherits from public classes."""
    own = {name for name, _ in members(thing)}
    lines: list[str] = []
    for base in public_bases(thing):
        shared = [f"`{name}`" for name, _ in members(base) if name not in own]
        if shared:
            page = home(public()[base.__name__][0], base)
            link = f"[`{base.__name__}`]({page}.md#{base.__name__.lower()})"
            lines += ["", f"Also, as described for {link}: {', '.join(shared)}."]
    return lines


def public_bases(thing: type) -> list[type]:
    """The classes that a class inherits from, if they are public themselves."""
    return [
        base for base in thing.__mro__[1:] if public().get(base.__name__, ("", None))[1] is base
    ]


def members(thing: type) -> Iterator[tuple[str, Any]]:
    """The public methods and properties of a class, in the order of its code.

    Members that come from another public class are left out, because they are described there.
    """
    seen: set[str] = set()
    elsewhere = {one for base in public_bases(thing) for one in base.__mro__}
    for base in thing.__mro__:
        if base in elsewhere or not base.__module__.startswith("ontarget"):
            continue
        for name, value in vars(base).items():
            plain = value.__func__ if isinstance(value, (classmethod, staticmethod)) else value
            cached = getattr(plain, "func", None)  # functools.cached_property
            if type(plain).__name__ == "cached_property":
                plain = property(cached, doc=plain.__doc__)
            known = inspect.isfunction(plain) or isinstance(plain, property)
            if name.startswith("_") or name in seen or not known or not plain.__doc__:
                continue
            if is_internal(plain):
                continue
            if not getattr(plain, "__module__", "ontarget").startswith("ontarget"):
                continue
            seen.add(name)
            yield name, plain


def signature(name: str, thing: Any) -> str:
    """How a function or class is called, without types; these are listed with the parameters."""
    if isinstance(thing, enum.EnumMeta):  # how it is called differs between versions of Python
        return f"{name}(value)"
    try:
        found = inspect.signature(thing)
    except (TypeError, ValueError):
        return f"{name}(…)"
    words: list[str] = []
    starred = False
    for parameter in found.parameters.values():
        if parameter.name in ("self", "cls"):
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            words.append("*")
            starred = True
        starred |= parameter.kind is parameter.VAR_POSITIONAL
        word = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        default = (
            ""
            if parameter.default is parameter.empty
            else f"={spelled(parameter.default)}".replace("'", '"')
        )
        words.append(f"{word}{parameter.name}{default}")
    flat = f"{name}({', '.join(words)})"
    if len(flat) <= LONGEST:
        return flat
    return f"{name}(\n" + "".join(f"    {word},\n" for word in words) + ")"


def body(thing: object, called: object) -> list[str]:
    """A docstring as lines of Markdown: text, parameters, notes and examples."""
    doc = Docstring.of(thing)
    types = {**annotations(thing), **annotations(called)}
    lines = [markdown(doc.text)] if doc.text else []
    gives = types.get("return")
    if gives and gives != "None" and inspect.isroutine(thing):
        lines += ["", f"Returns `{gives}`."]
    for heading in ("Parameters", "Attributes"):
        if heading in doc.sections:
            lines += ["", f"**{heading}**", "", *items(doc.sections[heading], types)]
    for heading in ("Returns", "Yields", "Notes", "References"):
        if heading in doc.sections:
            lines += ["", f"**{heading}**", "", markdown("\n".join(doc.sections[heading]))]
    if "Examples" in doc.sections:
        example = "\n".join(doc.sections["Examples"]).strip()
        lines += ["", "**Example**", ""]
        lines += code(example) if ">>>" in example else [markdown(example)]
    return lines


def items(lines: list[str], types: dict[str, str]) -> list[str]:
    """A numpydoc list of names and their meanings, as lines of Markdown."""
    found: list[tuple[str, list[str]]] = []
    for line in lines:
        if line and not line.startswith(" "):
            found.append((line.strip(), []))
        elif line.strip() and found:
            found[-1][1].append(line.strip())
    return [f"- {_named(names, types)}: {markdown(' '.join(text))}" for names, text in found]


def _named(names: str, types: dict[str, str]) -> str:
    shown = []
    for name in (one.strip() for one in names.split(",")):
        kind = types.get(name.lstrip("*"))
        shown.append(f"`{name}` (`{kind}`)" if kind else f"`{name}`")
    return ", ".join(shown)


def annotations(thing: object) -> dict[str, str]:
    """For each parameter, its type as the source code spells it."""
    found = dict(getattr(thing, "__annotations__", {}))
    return {
        name: kind if isinstance(kind, str) else _type_name(kind) for name, kind in found.items()
    }


def _type_name(kind: object) -> str:
    # A NamedTuple keeps its types as ForwardRef, which Python 3.14 spells differently.
    named = getattr(kind, "__forward_arg__", None) or getattr(kind, "__name__", None)
    return named or str(kind).replace("typing.", "")


def code(text: str) -> list[str]:
    """The text as a Markdown code block."""
    return ["```python", *text.split("\n"), "```", ""]


def written() -> dict[str, str]:
    """The text of every page, by its file name."""
    by_page: dict[str, list[tuple[str, str, object]]] = {name: [] for name in PAGES}
    for name, (package, thing) in sorted(public().items(), key=lambda item: item[0].lower()):
        by_page[home(package, thing)].append((name, package, thing))
    found = {f"{name}.md": page(name, entries) for name, entries in by_page.items()}
    index = [
        "# API reference",
        "",
        "Written from the docstrings. The [glossary](../glossary.md) explains the words, and "
        "[the method](../methods.md) the mathematics. A signature begins with the package to "
        "import from.",
        "",
        "Later versions keep the names in [surface.txt](../surface.txt): those of `ontarget` "
        "itself with most of their methods, and the errors. Everything else here is yours to use, "
        "and may change in any version ([what stays as it is](../stability.md)).",
    ]
    for name, entries in by_page.items():
        links = ", ".join(f"[`{who}`]({name}.md#{who.lower()})" for who, _, _ in entries)
        index += ["", f"**[`{PAGES[name]}`]({name}.md)**: {links}"]
    return {"README.md": "\n".join(index) + "\n", **found}


def main() -> None:
    """Write all pages."""
    API.mkdir(exist_ok=True)
    for name, text in written().items():
        (API / name).write_text(text)


if __name__ == "__main__":
    main()
