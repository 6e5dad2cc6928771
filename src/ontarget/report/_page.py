"""An evaluation as one HTML page that needs nothing else: verdict, figures, guarantees.

The page is well-formed XML too, holds no script and refers to nothing outside itself. The same
evaluation gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from ontarget._version import __version__
from ontarget.evaluation.figures import svg_of
from ontarget.fitted.fitted import Fitted
from ontarget.live.rules import AlarmRule
from ontarget.report import _words as words
from ontarget.report._figures import draw, example_episode, pit_step
from ontarget.report._style import style_sheet
from ontarget.report.measured import Measured

__all__ = ["report_page"]


def report_page(found: Measured, rule: AlarmRule) -> str:
    """The page as text."""
    facts = words.facts_of(found, rule)
    parts = [
        _head(found),
        _verdict(facts),
        _calibration(found),
        _runs(found),
        _pair(_alarms(found), _distribution(found)),
        _behind(facts),
        _promises(facts),
        _foot(),
    ]
    title = escape(f"ontarget report: {words.target_in_words(found.target)}")
    return (
        '<!DOCTYPE html>\n<html lang="en" xmlns="http://www.w3.org/1999/xhtml">\n<head>\n'
        '<meta charset="utf-8" />\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1" />\n'
        f"<title>{title}</title>\n<style>\n{style_sheet()}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(parts)
        + "\n</main>\n</body>\n</html>\n"
    )


def _length(fitted: Fitted) -> str:
    steps = f"{fitted.horizon:,} step{'s' * (fitted.horizon != 1)}"
    if fitted.horizon_declared:
        return f"A run has {steps} at most."
    return f"The longest run recorded had {steps}; no limit was declared."


def _head(found: Measured) -> str:
    fitted = found.fitted
    policy = str(fitted.trained.parameters["policy"])
    target = f"{fitted.behavior.label} {words.target_in_words(found.target)}"
    about = [
        f"How far a monitor can be trusted, measured on {found.met.size:,} episodes"
        f"{'' if found.fitted_on.size else ' that it had never seen'}.",
        f"Policy: {policy}." if policy else "",
        _length(fitted),
    ]
    return (
        '<header>\n<p class="kicker">ontarget report</p>\n'
        f"<h1>The target: {escape(target)}</h1>\n"
        f'<p class="about">{escape(" ".join(part for part in about if part))}</p>\n</header>'
    )


def _verdict(facts: words.Facts) -> str:
    items = "\n".join(
        f"<li{'' if one.good else ' class=' + chr(34) + 'poor' + chr(34)}>"
        f'<strong><span class="mark">{"✓" if one.good else "!"}</span>{escape(one.headline)}'
        f'</strong> <span class="detail">{escape(one.detail)}</span></li>'
        for one in words.verdict(facts)
    )
    return f'<ul class="verdict">\n{items}\n</ul>'


def _calibration(found: Measured) -> str:
    heads = ("it said", "came true", "95\u00a0% interval", "forecasts", "episodes")
    table = _table(heads, words.said_table(found), numbers=range(5))
    diagram = _figure(
        found,
        "reliability",
        "Across: what it said. Up: how often that came true, with 95\u00a0% bars. On the dotted "
        "line the two agree. Below: how many forecasts there are of each kind.",
    )
    by_step = _figure(
        found,
        "ece",
        "The expected calibration error of each step by itself: how far, on average, probabilities "
        "lie from what came true. Even perfect ones show the dotted line.",
    )
    return _section(
        "Does what it says come true?",
        _pair(diagram, f"<div>{_scrolling(table)}{by_step}</div>"),
    )


def _runs(found: Measured) -> str:
    i = example_episode(found)
    some = _figure(
        found,
        "episodes",
        "Some of the runs, from plain to close ones. A good monitor is undecided early and sure of "
        "the right end long before it.",
    )
    one = _figure(
        found,
        "fan",
        f"One run (id {found.ids[i]}) that {'met' if found.met[i] else 'missed'} the target: at "
        "each step, where its outcome was predicted to lie, what it had so far, and what it ended "
        "with.",
    )
    return _section("What does it look like?", _pair(some, one))


def _alarms(found: Measured) -> str:
    n_met, title = int(found.met.sum()), "What does an alarm buy?"
    if not 0 < n_met < found.met.size:
        none = "missed" if n_met else "met"
        return _section(
            title, f"<p>No episode {none} the target, so there is nothing to compare.</p>"
        )
    return _section(
        title,
        _figure(
            found,
            "alarms",
            "For each rate of false alarms: the share of failing runs that raise one, and how many "
            "steps before their end. Measured on these episodes; a promised rate uses a threshold "
            "that was set on others.",
        ),
    )


def _distribution(found: Measured) -> str:
    t = pit_step(found)
    flat = "stay" if found.pit(t).is_flat else "do not all stay"
    return _section(
        "Is the whole distribution right?",
        _figure(
            found,
            "pit",
            f"Where outcomes fell in what was predicted at step {t}: were the distribution exactly "
            f"right, all bars would be as high but for chance. They {flat} inside the band that "
            "chance allows for all of them together.",
        ),
    )


def _behind(facts: words.Facts) -> str:
    heads = ("episodes", "how many", "what they do, and how precise that makes it")
    table = _table(heads, words.backing(facts), numbers=[1])
    return _section("What stands behind these figures?", _scrolling(table))


def _promises(facts: words.Facts) -> str:
    lists = (
        ("Guaranteed", words.guaranteed(facts)),
        ("Measured, not guaranteed", words.measured_only(facts)),
    )
    columns = (f"<div><h3>{escape(name)}</h3>{_points(points)}</div>" for name, points in lists)
    return _section(
        "What is guaranteed, and what is only measured?",
        "<p>If new runs are like the recorded ones: the same policy, the same surroundings, in no "
        f"order that matters.</p>\n{_pair(*columns)}\n"
        f"<h3>It is void if</h3>\n{_points(words.voiding())}",
    )


def _foot() -> str:
    return (
        f"<footer>Made by ontarget {escape(__version__)} with PCQR and its inverse. This file "
        "needs no network and no other file.</footer>"
    )


def _section(title: str, body: str) -> str:
    return f"<section>\n<h2>{escape(title)}</h2>\n{body}\n</section>"


def _pair(*parts: str) -> str:
    """Parts side by side where the page is wide enough."""
    return '<div class="pair">\n' + "\n".join(parts) + "\n</div>"


def _scrolling(table: str) -> str:
    """A table that scrolls by itself on a narrow page."""
    return f'<div class="table">{table}</div>'


def _figure(found: Measured, name: str, caption: str) -> str:
    picture = svg_of(draw(found, name)).strip()
    return f"<figure>\n{picture}\n<figcaption>{escape(caption)}</figcaption>\n</figure>"


def _table(
    heads: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Iterable[int] = ()
) -> str:
    right = set(numbers)

    def cell(tag: str, place: int, text: str) -> str:
        kind = ' class="number"' if place in right else ""
        return f"<{tag}{kind}>{escape(text)}</{tag}>"

    head = "".join(cell("th", place, text) for place, text in enumerate(heads))
    body = "\n".join(
        "<tr>" + "".join(cell("td", place, text) for place, text in enumerate(row)) + "</tr>"
        for row in rows
    )
    return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>"


def _points(points: Iterable[str]) -> str:
    items = "\n".join(f"<li>{escape(point)}</li>" for point in points)
    return f'<ul class="points">\n{items}\n</ul>'
