"""The look of all figures, and a figure as SVG text or as a file.

Series differ in colour, line and marker, so that they can be distinguished in grey and by
colour-blind readers (the hues are those of Okabe and Ito). The same figure gives the same bytes.
"""

from __future__ import annotations

import io
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Literal
from xml.sax.saxutils import quoteattr

from ontarget._typing import AnyArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True)
class Theme:
    """The colours of a figure, each named after its use; no two are equal."""

    ink: str
    muted: str
    rule: str
    paper: str
    blue: str
    vermilion: str
    green: str
    purple: str

    def roles(self) -> dict[str, str]:
        """A dictionary from the name of each use of a colour, such as "ink", to the colour."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


LIGHT = Theme(
    ink="#1b1f24",
    muted="#5f6873",
    rule="#d5dae0",
    paper="#fefefe",
    blue="#0072b2",
    vermilion="#d55e00",
    green="#009e73",
    purple="#aa4499",
)
DARK = Theme(
    ink="#e6e9ed",
    muted="#a3acb8",
    rule="#3b434d",
    paper="#14181d",
    blue="#56b4e9",
    vermilion="#f0883e",
    green="#2fc79a",
    purple="#d98bc8",
)


@dataclass(frozen=True, slots=True)
class Look:
    """How one series is drawn: its colour, its line and its marker."""

    color: str
    line: Any
    marker: str


_LINES = ("-", (0, (6, 2)), (0, (2, 1.5)), (0, (6, 2, 1.5, 2)))
_MARKERS = ("o", "s", "^", "D")

_SETTINGS: dict[str, Any] = {
    "font.size": 10.0,
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Helvetica"],
    "axes.labelsize": 10.0,
    "axes.titlesize": 10.0,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.linewidth": 0.6,
    "xtick.labelsize": 9.0,
    "ytick.labelsize": 9.0,
    "xtick.major.size": 3.0,
    "ytick.major.size": 3.0,
    "lines.linewidth": 1.7,
    "lines.markersize": 4.5,
    "legend.frameon": False,
    "legend.fontsize": 9.0,
    "legend.handlelength": 2.6,
    "hatch.linewidth": 0.6,
    "savefig.dpi": 160,
    "svg.fonttype": "none",
    "svg.hashsalt": "ontarget",
    "path.simplify": True,
}
# matplotlib has one set of settings for the whole process. Ours are set only while a figure is
# drawn, by one thread at a time, and then the old settings are restored.
_lock = threading.RLock()


@contextmanager
def drawing(theme: Theme = LIGHT) -> Iterator[None]:
    """A context with Matplotlib's defaults and this style; the caller's settings are ignored."""
    import matplotlib as mpl

    settings: Any = {
        **_SETTINGS,
        "text.color": theme.ink,
        "axes.labelcolor": theme.ink,
        "axes.edgecolor": theme.muted,
        "xtick.color": theme.muted,
        "ytick.color": theme.muted,
        "xtick.labelcolor": theme.ink,
        "ytick.labelcolor": theme.ink,
        "grid.color": theme.rule,
        "axes.facecolor": "none",
        "figure.facecolor": theme.paper,
        "hatch.color": theme.muted,
    }
    with _lock, mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(settings)
        yield


@contextmanager
def canvas(
    theme: Theme,
    size: tuple[float, float],
    *,
    rows: tuple[float, ...] = (1.0,),
    columns: tuple[float, ...] = (1.0,),
    label: str,
) -> Iterator[tuple[Figure, list[Axes]]]:
    """A context that gives a figure and its axes; axes in one column share their x axis."""
    with drawing(theme):
        from matplotlib.figure import Figure

        figure = Figure(figsize=size, layout="constrained")
        figure.set_label(label)
        axes = figure.subplots(
            len(rows),
            len(columns),
            sharex="col",
            squeeze=False,
            height_ratios=rows,
            width_ratios=columns,
        )
        yield figure, list(axes.flat)
        # A constrained layout moves a little each time it is drawn. So compute it once and keep it.
        figure.draw_without_rendering()
        figure.set_layout_engine("none")


def series_looks(names: list[str], theme: Theme) -> dict[str, Look]:
    """A colour, line and marker for each of up to four series, by its name."""
    colors = (theme.blue, theme.vermilion, theme.green, theme.purple)
    looks = (Look(*parts) for parts in zip(colors, _LINES, _MARKERS, strict=True))
    return dict(zip(names, looks, strict=False))


def theme_of(dark: bool) -> Theme:
    """The colours for a light or a dark background."""
    return DARK if dark else LIGHT


def theme_css() -> str:
    """The CSS rules by which figures from `svg_of` follow a page: light, dark or printed.

    Examples
    --------
    >>> print(theme_css().splitlines()[0][:40])
    :root { --ontarget-ink: #1b1f24; --ontar
    """
    light, dark = _variables(LIGHT), _variables(DARK)
    return (
        f":root {{ {light} }}\n"
        f"@media (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}\n"
        f"@media print {{ :root {{ {light} }} }}\n"
        "svg.ontarget { max-width: 100%; height: auto; }\n"
    )


def percent_axis(axes: Axes, which: str) -> None:
    """Write the ticks of an axis of shares from 0 to 1 as percentages."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))
    # A space that does not break, as in running text; no more digits than the tick needs.
    axis.set_major_formatter(FuncFormatter(lambda share, _: f"{round(100 * share, 4):g}\u00a0%"))


def step_axis(axes: Axes, steps: int) -> None:
    """Label the x axis with whole steps, with some space at both ends for markers."""
    from matplotlib.ticker import MaxNLocator

    axes.set_xlabel("step")
    axes.xaxis.set_major_locator(MaxNLocator(8, integer=True, steps=[1, 2, 5, 10], min_n_ticks=1))
    room = max(0.015 * steps, 0.5 if steps < 2 else 0.0)
    axes.set_xlim(-room, steps - 1 + room)


def shade(
    axes: Axes, x: AnyArray, ends: tuple[AnyArray, AnyArray], color: str, alpha: float, **how: Any
) -> None:
    """Shade the range between two lines, without an edge."""
    axes.fill_between(x, *ends, color=color, alpha=alpha, linewidth=0, **how)


def dotted(color: str) -> dict[str, Any]:
    """The matplotlib options that draw a dotted reference line in this colour."""
    return {"color": color, "linestyle": (0, (1, 1.5)), "linewidth": 1.3}


def legend_above(axes: Axes, *, columns: int = 3) -> None:
    """Put a legend above the axes, where it cannot hide data."""
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        axes.legend(
            handles,
            labels,
            loc="lower left",
            bbox_to_anchor=(0.0, 1.0),
            ncols=min(columns, len(handles)),
            borderaxespad=0.2,
            columnspacing=1.6,
            handletextpad=0.6,
        )


def _variables(theme: Theme) -> str:
    return " ".join(f"--ontarget-{name}: {color};" for name, color in theme.roles().items())


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
    """The figure as inline SVG for an HTML page, with a transparent background."""
    # The same figure gives the same text. Ids contain a hash of the figure, so that one page can
    # contain several figures. The colours are CSS variables, with the figure's own colours as
    # defaults. If the page contains the rules of `theme_css`, they follow its light or dark theme.
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
