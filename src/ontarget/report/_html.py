"""The pieces of an HTML page: text, tables, figures, and the page around them.

A page is one HTML file, well-formed as XML, without scripts, that refers to nothing outside itself.
Plain text is escaped here; what is already HTML is passed on as it is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from ontarget._whole_file import write_whole as write_whole
from ontarget.errors import InputError
from ontarget.report._style import style_sheet

# No scripts, frames, forms, fonts or requests: styles and pictures are part of the page.
CONTENT_POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'"
)


@dataclass(frozen=True)
class Table:
    """A table for an HTML page: a heading row and rows of text; the first column names each row.

    Parameters
    ----------
    head, rows
        The cells, as plain text.
    caption
        What the table shows; empty if the text around it says so.
    numbers
        The columns whose cells are aligned to the right.
    sentences
        Whether cells are words, which may break into lines. Figures stay on one line.

    Examples
    --------
    >>> "<td>2 &lt; 3</td>" in Table(("", "so"), [("first", "2 < 3")]).html()
    True
    """

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""
    numbers: Collection[int] = ()
    sentences: bool = False

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.head):
                raise InputError(f"a row needs {len(self.head)} cells, got {len(row)}: {row!r}")

    def html(self) -> str:
        """The table as HTML; on a narrow page it scrolls by itself."""
        caption = f"<caption>{escape(self.caption)}</caption>" if self.caption else ""
        head = "".join(self._cell("th", k, cell, "col") for k, cell in enumerate(self.head))
        rows = "\n".join(
            "<tr>"
            + self._cell("th", 0, row[0], "row")
            + "".join(self._cell("td", k, cell) for k, cell in enumerate(row[1:], start=1))
            + "</tr>"
            for row in self.rows
        )
        kind = ' class="sentences"' if self.sentences else ""
        return (
            f'<div class="scroll"><table{kind}>{caption}\n<thead><tr>{head}</tr></thead>\n'
            f"<tbody>\n{rows}\n</tbody></table></div>"
        )

    def _cell(self, tag: str, column: int, text: str, scope: str = "") -> str:
        kind = ' class="number"' if column in self.numbers else ""
        of = f' scope="{scope}"' if scope else ""
        return f"<{tag}{of}{kind}>{escape(text)}</{tag}>"


def page(title: str, parts: Iterable[str]) -> str:
    """A whole HTML page, as text for a file; ``parts`` are pieces of HTML."""
    body = "\n".join(parts)
    return (
        '<!DOCTYPE html>\n<html lang="en" xmlns="http://www.w3.org/1999/xhtml">\n<head>\n'
        f'<meta charset="utf-8" />\n{_policy_tag()}\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1" />\n'
        f"<title>{escape(title)}</title>\n<style>\n{style_sheet()}</style>\n</head>\n"
        f"<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def section(title: str, parts: Iterable[str]) -> str:
    """A section with a heading; its parts are HTML."""
    body = "\n".join(parts)
    return f"<section>\n<h2>{escape(title)}</h2>\n{body}\n</section>"


def paragraph(text: str, kind: str = "") -> str:
    """A paragraph of plain text; ``kind`` is a class of the style sheet, such as ``"note"``."""
    of = f' class="{kind}"' if kind else ""
    return f"<p{of}>{text_of(text)}</p>"


def points(items: Iterable[str], *, struck: bool = False) -> str:
    """A list of points in plain text; with ``struck`` all are crossed out as no longer valid."""
    before, after = ("<s>", "</s>") if struck else ("", "")
    lines = "\n".join(f"<li>{before}{text_of(item)}{after}</li>" for item in items)
    return f'<ul class="points">\n{lines}\n</ul>'


def figure(svg: str, caption: str = "", *, title: str = "") -> str:
    """A figure from its inline SVG, with a title above it and a caption below."""
    above = f"<h3>{escape(title)}</h3>\n" if title else ""
    below = f"\n<figcaption>{text_of(caption)}</figcaption>" if caption else ""
    return f"<figure>\n{above}{svg.strip()}{below}\n</figure>"


def pair(*parts: str) -> str:
    """Pieces of HTML, shown side by side if the page is wide enough."""
    return '<div class="pair">\n' + "\n".join(parts) + "\n</div>"


def text_of(text: str) -> str:
    """Plain text as HTML; a number and its per cent sign stay on one line."""
    return escape(text).replace(" %", "\u00a0%")


def _policy_tag() -> str:
    """The content security policy: the first tag in a page's head, so that it applies to all."""
    return f'<meta http-equiv="Content-Security-Policy" content="{CONTENT_POLICY}" />'
