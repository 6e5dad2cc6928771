"""An evaluation as one HTML page that needs no other file: verdict, figures, guarantees.

The page is well-formed XML too, has no script and refers to nothing outside itself. The same
evaluation gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from types import MappingProxyType

from ontarget._numerals import percent
from ontarget._plain import plain
from ontarget._typing import ArrayLike
from ontarget._version import __version__
from ontarget.errors import FewEpisodesError, OntargetError
from ontarget.evaluation.figures import bias_chart, svg_of
from ontarget.fitted.fitted import Fitted
from ontarget.goal import Goal
from ontarget.live.rules import AlarmRule
from ontarget.report import _words as words
from ontarget.report._action import action_of
from ontarget.report._binned import together_in_words
from ontarget.report._facts import Facts, facts_of
from ontarget.report._figures import (
    PATH_LEVEL,
    culprit_of,
    draw,
    draw_run,
    example_episode,
    path_level,
    path_step,
    pit_bars,
    pit_step,
    pooled_in_words,
)
from ontarget.report._findings import verdict
from ontarget.report._html import (
    Table,
    figure,
    page,
    pair,
    paragraph,
    points,
    section,
    text_of,
)
from ontarget.report._why import HEADS, fall_rows
from ontarget.report.measured import Measured
from ontarget.report.parts import CHANGE, panels_of

_WEAK = 2.0  # times as high as expected: a bar that may be so high proves little


def report_page(
    found: Measured,
    rule: AlarmRule,
    by: Mapping[str, ArrayLike] = MappingProxyType({}),
    name: str = "",
) -> str:
    """The HTML page of a report about an evaluation and an alarm rule.

    For each column in ``by`` it shows how far p is off for each value of the column. p is the
    probability of meeting the target. ``name`` is the model's name in the first line; without it,
    the line names the policy.
    """
    facts = facts_of(found, rule)
    return page(
        f"ontarget report: {words.target_in_words(found.target)}",
        [
            _head(facts, name),
            _verdict(facts),
            _calibration(facts),
            _where(found, by),
            _runs(found),
            _why(found),
            _behaviors(found) if _is_goal(found) else pair(_alarms(found), _distribution(found)),
            _behind(facts),
            _promises(facts),
            _foot(),
        ],
    )


def _is_goal(found: Measured) -> bool:
    return isinstance(found.target, Goal)


def _length(fitted: Fitted) -> str:
    steps = f"{fitted.horizon:,} step{'s' * (fitted.horizon != 1)}"
    if fitted.horizon_declared:
        return f"A run has {steps} at most."
    return f"The longest run learned from had {steps}; a longer run is possible."


def _chosen(fitted: Fitted) -> str:
    """Sentences on what the fit chose: which steps share a model (blocks), how experts count.

    They are for the people who fitted the monitor.
    """
    chosen = fitted.trained.chosen
    several = chosen.spacing and fitted.horizon > 1
    said = [f"Blocks of steps are {chosen.blocks_in_words}." if several else ""]
    if chosen.experts:
        said.append(f"Its experts: {chosen.experts_in_words}.")
    return " ".join(part for part in said if part)


def _head(facts: Facts, name: str) -> str:
    found, fitted = facts.found, facts.found.fitted
    policy = plain(fitted.trained.parameters["policy"])
    target = words.target_in_words(found.target)
    if not _is_goal(found):
        target = f"{plain(fitted.label)} {target}"
    about = [
        "At each step of a run, the monitor says p: the probability that the run will meet the "
        "target.",
        f"It was made from {facts.recorded:,} recorded runs. How far p can be trusted was measured "
        f"on {found.met.size:,} runs{'' if found.fitted_on.size else ' that it had never seen'}.",
        f"Policy: {policy}." if policy else "",
        _length(fitted),
    ]
    of = f" on {plain(name) or policy}" if name or policy else ""
    return (
        f'<header>\n<p class="kicker">ontarget report{escape(of)}: {facts.recorded:,} recorded '
        f"runs, {found.met.size:,} new runs</p>\n"
        f"<h1>The target: {escape(target)}</h1>\n{_action(facts)}\n"
        f'<p class="about">{escape(" ".join(part for part in about if part))}</p>\n</header>'
    )


def _action(facts: Facts) -> str:
    """Advice in one line, as HTML: how to use p and the alarm, and what to do next."""
    told = " ".join(
        f"<span><strong>{name}:</strong> {text_of(text)}.</span>"
        for name, text in action_of(facts)._asdict().items()
    )
    return f'<p class="action">{told}</p>'


def _verdict(facts: Facts) -> str:
    looks = {True: ("good", "✓"), False: ("poor", "!"), None: ("neither", "○")}
    items = "\n".join(
        f'<li class="{looks[one.good][0]}"><strong><span class="mark">{looks[one.good][1]}</span>'
        f'{text_of(one.headline)}</strong> <span class="detail">'
        f"{text_of(' '.join(filter(None, [one.detail, one.why])))}</span></li>"
        for one in verdict(facts)
    )
    legend = (
        "✓ good on these runs, ! act on it, ○ neither: the last sentence says why. Points are "
        "percentage points of p. Assure runs (assure episodes) are recorded runs that no model "
        "learned from: they are kept for promises, and every promise rests on them."
    )
    return f'{paragraph(legend, "note")}\n<ul class="verdict">\n{items}\n</ul>'


def _calibration(facts: Facts) -> str:
    found = facts.found
    heads = ("it said", "came true", "95\u00a0% interval", "forecasts", "runs")
    table = Table(heads, words.said_table(found), numbers=range(5))
    diagram = _figure(
        found,
        "reliability",
        "Across: what it said. Up: how often that came true, with 95\u00a0% bars. On the dotted "
        "line the two agree; a bar that reaches the line shows no error. Of many bars, one in "
        "twenty misses it by chance alone. Below: how many forecasts there are of each kind. The "
        f"table has the same figures. {together_in_words(facts)}".rstrip(),
    )
    by_step = _figure(
        found,
        "ece",
        "How far, on average, p lies from what came true (the expected calibration error), "
        f"{pooled_in_words(found)}. Even a perfect p shows the dotted line. Where the band "
        "lies above it, those steps alone show that p is off. All steps together tell more: they "
        "are judged at the top of this page.",
    )
    return section(
        "Does what it says come true?", [pair(diagram, f"<div>{table.html()}{by_step}</div>")]
    )


def _where(found: Measured, by: Mapping[str, ArrayLike]) -> str:
    """The section on how far p is off for each part of a run, group, and value of a column.

    p is the probability of meeting the target. ``by`` has further columns to show.
    """
    heads = ("", "runs", "it said", "came true", "p is")
    panels = []
    for name, parts in panels_of(found, by).items():
        rows = [
            (
                plain(part.value),
                f"{part.episodes:,}",
                percent(part.mean_p),
                percent(part.met),
                part.in_words,
            )
            for part in parts
        ]
        drawn = bias_chart(plain(name), [(plain(one.value), *one.too_high) for one in parts])
        table = Table(
            (plain(name), *heads[1:]),
            rows,
            caption=_basis(plain(name)),
            numbers=range(1, 4),
            sentences=True,
        )
        panels.append(pair(table.html(), figure(svg_of(drawn))))
    text = (
        "How far the mean p lies above the share that came true, for each part by itself, with "
        "95\u00a0% bars: to the right of the line p promised too much, to the left too little. "
        "Errors both ways cancel here, so a figure can be smaller than at the top of the page. Of "
        "many parts, one in twenty misses the line by chance alone."
    )
    return section("Where is it right, and where not?", [paragraph(text), *panels])


def _basis(name: str) -> str:
    """Which runs and steps a table of the section is about, in words; ``name`` names the table."""
    if name == CHANGE:
        return "Before and since the change, over all steps unless said otherwise"
    if name == "steps":
        return "By the step of the run, over all runs"
    return f"By {name}, over all steps"


def _runs(found: Measured) -> str:
    i = example_episode(found)
    some = _figure(
        found,
        "episodes",
        "Some of the runs, from clear to close cases. A good monitor is undecided early, and sure "
        "of the right outcome long before the end.",
    )
    shown, what, whose, name = found, "target", "its outcome", ""
    if _is_goal(found):
        if not found.parts:
            return section("What does it look like?", [some])
        name = culprit_of(found, i)
        shown, what = found.parts[name], "goal"
        whose = f"its {plain(name)}, the likely culprit,"
    one = figure(
        svg_of(draw_run(shown, "fan", i, unit=name)),
        f"One run (id {plain(found.ids[i])}) that {'met' if found.met[i] else 'missed'} the "
        f"{what}: at each step, where {whose} was predicted to lie, what it had so far, and "
        "what it ended with. The bands hold the outcome with a probability of 90\u00a0% and "
        "50\u00a0%, at each step by itself.",
    )
    return section("What does it look like?", [pair(some, one), _path(shown, i, name)])


def _path(found: Measured, episode: int, unit: str) -> str:
    """A figure of the path that one run was predicted to take, as HTML.

    If too few episodes were recorded to draw it, a sentence says so; if it cannot be drawn for
    another reason, the text is empty.
    """
    try:
        drawn = draw_run(found, "path", episode, unit=unit)
    except FewEpisodesError as error:
        return paragraph(f"The path of this run is not shown: {error}.")
    except OntargetError:
        return ""
    level = path_level(found, episode)
    texts = [
        f"The same run, predicted at step {path_step(found, episode)}. With a probability of "
        f"{percent(level)} a run stays inside such a band from there to its end: the whole path "
        "counts, not each step by itself.",
        "This is another band than those above, which are about the outcome alone.",
    ]
    if level < PATH_LEVEL:
        texts[0] += (
            f" It is {percent(level)} here, not {percent(PATH_LEVEL)}: with so few recorded runs, "
            f"a band for {percent(PATH_LEVEL)} would be too wide to say anything."
        )
    return pair(figure(svg_of(drawn)), f"<div>{''.join(map(paragraph, texts))}</div>")


def _why(found: Measured) -> str:
    rows = fall_rows(found)
    if not rows:
        return ""
    table = Table(HEADS, rows, numbers=[1, 2, 3], sentences=True)
    text = (
        "Runs that missed the target, each at the step where p fell most. The change is shared out "
        "among its causes; this explains the model, not the world. p is based on the "
        "recorded runs most like this one, and the more alike, the more a run counts: that is its "
        "weight. The share of them that miss the target is not exactly 100\u00a0% less p: p may "
        "also take in models that know no single runs, and it is calibrated. The command ontarget "
        "explain names these runs."
    )
    return section("Why did p fall?", [paragraph(text), table.html()])


def _alarms(found: Measured) -> str:
    n_met, title = int(found.met.sum()), "What does an alarm buy?"
    if not 0 < n_met < found.met.size:
        none = "missed" if n_met else "met"
        text = f"No run {none} the target, so there is nothing to compare."
        return section(title, [paragraph(text)])
    drawn = _figure(
        found,
        "alarms",
        "For each rate of false alarms: the share of failing runs whose alarm comes while the "
        "target can still be met, and how many steps before the outcome is decided. Measured on "
        "these runs, so nothing here is promised: a promised rate uses a threshold that was "
        "set on assure runs, of which there may be too few. The dots are at 1, 5 and "
        "10\u00a0% false alarms.",
    )
    return section(title, [drawn])


def _behaviors(found: Measured) -> str:
    """The section on what an alarm is worth, and one on each behavior of a goal by itself.

    A goal has a target for each of several behaviors (numbers that a run is judged by). The second
    section is missing for other targets.
    """
    if not found.parts:
        return _alarms(found)
    heads = ("behavior", "asked", "met", "off by (points)", "Brier score")
    table = Table(heads, words.behavior_rows(found.parts), numbers=range(2, 5))
    text = (
        "Each behavior by itself, for what the goal asks of it. Where a run is in trouble, the one "
        "with the lowest probability is the likely culprit; a live watch has them as parts."
    )
    return pair(
        _alarms(found), section("Which behavior is at fault?", [paragraph(text), table.html()])
    )


def _distribution(found: Measured) -> str:
    t, bars = pit_step(found), pit_bars(found)
    shown = found.pit(t, bars)
    verdict = (
        "They stay inside the band that chance allows for all of them together."
        if shown.is_flat
        else "They do not all stay inside the band that chance allows for all of them together."
    )
    times = float((shown.high / shown.expected).max())
    if shown.is_flat and times >= _WEAK:
        verdict += (
            f" With so few runs that says little: only a bar more than {times:.1f} times as "
            "high as expected would leave it."
        )
    drawn = _figure(
        found,
        "pit",
        f"Where outcomes fell in what was predicted at step {t}. If the distribution were exactly "
        f"right, all bars would reach the black line, apart from chance. {verdict}",
    )
    return section("Is the whole distribution right?", [drawn])


def _behind(facts: Facts) -> str:
    heads = ("runs", "how many", "what they do, and how precise that makes it")
    table = Table(heads, words.backing(facts), numbers=[1], sentences=True)
    chosen = _chosen(facts.found.fitted)
    return section(
        "What stands behind these figures?",
        [table.html(), *([paragraph(chosen)] if chosen else [])],
    )


def _promises(facts: Facts) -> str:
    void, promised = words.void_since_change(facts), words.guaranteed(facts)
    guaranteed = f"<h3>Guaranteed{' before the change' * bool(void)}</h3>"
    guaranteed += f"{paragraph(void)}{points(promised, struck=True)}" if void else points(promised)
    measured = f"<h3>Measured, not guaranteed</h3>{points(words.measured_only(facts))}"
    return section(
        "What is guaranteed, and what is only measured?",
        [
            paragraph(
                "If new runs are like the recorded ones: the same policy, the same surroundings, "
                "in no order that matters."
            ),
            pair(f"<div>{guaranteed}</div>", f"<div>{measured}</div>"),
            "<h3>It is void if</h3>",
            points(words.voiding()),
        ],
    )


def _foot() -> str:
    return (
        f"<footer>Made by ontarget {escape(__version__)} with PCQR and its inverse. This file "
        "needs no network and no other file.</footer>"
    )


def _figure(found: Measured, name: str, caption: str) -> str:
    return figure(svg_of(draw(found, name)), caption)
