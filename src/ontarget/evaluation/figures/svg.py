"""A figure as SVG text or as the bytes of a file; the same figure gives the same bytes."""

from __future__ import annotations

import io
import re
from hashlib import blake2b
from typing import TYPE_CHECKING, Literal
from xml.sax.saxutils import quoteattr

from ontarget.evaluation.figures._style import DARK, LIGHT, drawing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_ID = re.compile(r' id="([^"]*)"')
_PLACES = re.compile(r' (?:d|x|y|transform)="[^"]*"')
# matplotlib's style sheet would affect every other picture on the page, so it is removed. The root
# element sets the same style, and its children inherit it.
_NEEDLESS = (
    re.compile(r"\s*<metadata>.*?</metadata>", re.DOTALL),
    re.compile(r"\s*<defs>\s*<style[^>]*>[^<]*</style>\s*</defs>"),
    re.compile(r' transform="rotate\(-?0 [^"]*\)"'),
)
_NUMBER = re.compile(r"-?\d+\.\d+")
_REFERENCE = re.compile(r'(url\(#|href="#)([^)"]*)')


def svg_of(figure: Figure) -> str:
    """The figure as inline SVG for an HTML page, with a transparent background.

    The same figure gives the same text. Ids contain a hash of the figure, so that one page can
    contain several figures. The colours are CSS variables, with the figure's own colours as
    defaults. If the page contains the rules of `theme_css`, they follow its light or dark theme.
    """
    with drawing():
        buffer = io.StringIO()
        metadata = {"Date": None, "Creator": None, "Format": None, "Type": None}
        figure.savefig(buffer, format="svg", transparent=True, metadata=metadata)
    text = buffer.getvalue()
    text = text[text.index("<svg") :].rstrip() + "\n"
    for needless in _NEEDLESS:
        text = needless.sub("", text)
    text = _PLACES.sub(lambda found: _NUMBER.sub(_rounded, found[0]), text)
    return _themed(_renamed(_opened(text, str(figure.get_label()))))


def figure_bytes(figure: Figure, kind: Literal["svg", "png"]) -> bytes:
    """The figure as a file of this kind; the same figure gives the same bytes."""
    buffer = io.BytesIO()
    metadata = {"svg": {"Date": None}, "png": {"Software": None}}[kind]
    with drawing():
        figure.savefig(buffer, format=kind, metadata=metadata)
    return buffer.getvalue()


def _rounded(found: re.Match[str]) -> str:
    """A coordinate rounded to 0.01 points, which is shorter and the same on every machine."""
    return f"{round(float(found[0]), 2):g}"


def _opened(text: str, label: str) -> str:
    """The SVG text with its root element marked as an image, and the label as its description."""
    name = f' role="img" aria-label={quoteattr(label)}' if label else ""
    style = "stroke-linejoin: round; stroke-linecap: butt"
    return text.replace("<svg", f'<svg class="ontarget"{name} style="{style}"', 1)


def _renamed(text: str) -> str:
    """The SVG text with ids that are unique to this figure, without ids that nothing refers to."""
    used = {name for _, name in _REFERENCE.findall(text)}
    digest = blake2b(text.encode(), digest_size=5).hexdigest()
    order: dict[str, str] = {}
    for name in _ID.findall(text):
        if name in used:
            order.setdefault(name, f"f{digest}-{len(order)}")
    text = _ID.sub(lambda found: f' id="{order[found[1]]}"' if found[1] in order else "", text)
    return _REFERENCE.sub(lambda found: found[1] + order.get(found[2], found[2]), text)


def _themed(text: str) -> str:
    """The SVG text with each colour of the light or dark theme replaced by a CSS variable."""
    for theme in (LIGHT, DARK):
        for role, color in theme.roles().items():
            text = re.sub(rf"(?<!, ){color}", f"var(--ontarget-{role}, {color})", text)
    return text
