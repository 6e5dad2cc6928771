"""Makes HTML pages from templates, in one style: each is one file that loads nothing else."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

from ontarget._text import percent
from ontarget.errors import InputError
from ontarget.evaluation.figures import theme_css

# No scripts, frames, forms, fonts or requests: styles and pictures are part of the page.
CONTENT_POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'"
)


@dataclass(frozen=True)
class Table:
    """A table for an HTML page: a heading row and rows of text; the first column names each row."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""
    numbers: Collection[int] = ()
    sentences: bool = False

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.head):
                raise InputError(f"a row needs {len(self.head)} cells, got {len(row)}: {row!r}")


def render(template: str, package: str = "ontarget.report", **values: Any) -> str:
    """The HTML page of a template in this package, with these values; plain text is escaped."""
    found = _templates(package).get_template(template)
    return found.render(content_policy=CONTENT_POLICY, theme=theme_css(), **values)


def sentence(text: str) -> str:
    """The clause as a sentence; p stays small in front, because P would mean something else."""
    return f"{text if text.startswith('p ') else text[:1].upper() + text[1:]}."


@cache
def _templates(package: str) -> Environment:
    places = dict.fromkeys(("ontarget.report", package))
    found = Environment(
        loader=ChoiceLoader([PackageLoader(place, "") for place in places]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_settled,
    )
    found.filters |= {"percent": percent, "count": "{:,}".format}
    return found


def _settled(value: Any) -> Any:
    """A number and its per cent sign stay on one line."""
    return value.replace(" %", "\u00a0%") if type(value) is str else value
