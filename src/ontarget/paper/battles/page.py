"""The figures, tables and web page of the comparison of two game engines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import TYPE_CHECKING, Any, Final

from ontarget.evaluation import binomial_band
from ontarget.evaluation.figures import Curve, mean_chart, svg_of
from ontarget.paper import checks, tables
from ontarget.paper.battles.engines import ENGINES
from ontarget.paper.charts import draw_all
from ontarget.paper.page import FIGURES, by_domain
from ontarget.paper.plan import LABELS, PAPER, Plan
from ontarget.paper.summary import Parts, open_share
from ontarget.report import Table, figure, page, pair, paragraph, section

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw", "engine_table", "open_table", "page_of", "soundness_table"]

Results = Mapping[str, Any]

_TITLE: Final = "The paper's battles, in an engine that is not ours"
# The paper's own scenario, by the same facts as an engine's.
_STARCRAFT: Final = ("Blizzard", "not told", "not told", "not told", "the game's built-in logic")
_FACTS: Final = ("engine written by", "units", "a step", "start locations apart", "red")


def draw(plan: Plan, parts: Parts, results: Results) -> dict[str, Figure]:
    """The paper's figures for each game engine, and charts of how long battles last.

    The charts also show for how long it is open whether the target will be met.
    """
    figures = draw_all(plan, parts)
    last = {LABELS[one]: Curve.of(results["battles"][one]["fought"]) for one in ENGINES}
    still = {
        LABELS[one]: Curve.of_repeats([open_share(part) for part in parts[one, "atoms"]])
        for one in ENGINES
    }
    for name, curves, axis, label in (
        ("fought", last, "battles still fought", "battles with units on both sides"),
        ("open", still, "battles still open", "battles with a lower bound from 5 to 95 %"),
    ):
        chart = mean_chart(curves)
        chart.axes[0].set_ylabel(axis)
        chart.set_label(f"Share of {label}, against time, in both engines")
        figures[f"{name}-battles"] = chart
    return figures


def engine_table() -> Table:
    """A table that compares each game engine with StarCraft II, which the paper used."""
    rows = zip(_FACTS, _STARCRAFT, *(one.facts for one in ENGINES.values()), strict=True)
    head = ("", f"{PAPER['smax'].name} (the paper)", *(LABELS[one] for one in ENGINES))
    return Table(head, list(rows), sentences=True)


def soundness_table(results: Results) -> Table:
    """A table of checks that any sound game engine passes.

    Each of two equal sides wins about half of the battles; units, hit points and rewards add up.
    """
    rows = []
    for one in ENGINES:
        found, even = results["battles"][one]["unaccounted"], results["battles"][one]["even"]
        decided = even["blue"] + even["red"]
        low, high = binomial_band(decided, 0.5, band=0.99)
        rows.append(
            (
                LABELS[one],
                f"{even['blue']:,} of {decided:,} ({low:,} to {high:,})",
                f"{even['neither']:,}",
                *(f"{found[kind]:,}" for kind in ("units", "rewards", "hit points")),
            )
        )
    head = (
        "",
        "blue wins against an equal red (99 % band of a fair coin)",
        "neither wins",
        "steps where units do not add up",
        "where rewards do not",
        "where hit points do not",
    )
    return Table(head, rows, sentences=True)


def open_table(results: Results) -> Table:
    """A table of how long battles are fought, and how long it is open whether the target is met.

    It is open while the probability is not close to 0 or 1. That is judged by the true probability
    and by the lower bound p_low.
    """
    battles = results["battles"]
    steps = [int(t) for t in battles["smax"]["open"]]
    rows: list[tuple[str, ...]] = []
    for one in ENGINES:
        p_low = results["domains"][one]["atoms"]["open_share"]["mean"]
        full = [each["share"] for each in battles[one]["open"].values()]
        for name, shares in (
            ("still fought", [battles[one]["fought"][t] for t in steps]),
            ("open given the full state", full),
            ("open by p_low", [p_low[t] for t in steps]),
        ):
            rows.append((f"{LABELS[one]}: {name}", *(f"{100 * share:.0f} %" for share in shares)))
    return Table(("", *(f"t = {t}" for t in steps)), rows)


def page_of(results: Results, timing: Mapping[str, Any], figures: Mapping[str, Figure]) -> str:
    """The results as one HTML page, which loads nothing from elsewhere."""
    drawn = {name: svg_of(one) for name, one in figures.items()}
    return page(_TITLE, _parts(results, timing, drawn))


def _parts(results: Results, timing: Mapping[str, Any], drawn: Mapping[str, str]) -> Iterator[str]:
    yield from _opening(results)
    yield section("The paper's figures beside both engines'", _main(results))
    yield section("Is the engine sound?", _soundness(results))
    for name, (title, caption) in FIGURES.items():
        yield section(title, by_domain(list(ENGINES), drawn, name, caption))
    yield section("How long a battle stays open", _openness(results, drawn))
    yield section("Time", [tables.time_table(timing).html()])


def _opening(results: Results) -> Iterator[str]:
    plan = results["plan"]
    yield f"<h1>{escape(_TITLE)}</h1>"
    if plan["quick"]:
        yield (
            '<p class="warning"><strong>A quick run.</strong> Fewer episodes, partitions and trees '
            "than the paper; its figures only show that everything works.</p>"
        )
    yield paragraph(
        "The paper's second domain is StarCraft II, whose trajectories are not public. Our "
        "skirmish stands in for it, but we wrote it ourselves. SMAX is the StarCraft-like engine "
        "of JaxMARL, a library for learning with many agents: others wrote its rules, its Marines"
        " and the policy of red. Here the paper's experiment runs on both. Neither is StarCraft "
        "data."
    )
    yield engine_table().html()
    yield paragraph(
        "The same in all three: 5 to 20 blue and 5 to 10 red units, 0 to N reinforcements for red "
        "at t = 14 where N is drawn from 0 to 15, a reward of +1 for each red unit killed and −1 "
        "for each blue unit lost, 57 steps, and a blue that advances toward red. The paper does "
        "not name its features. Both engines here have the same six: living units and total health "
        "of each side, the distance between the centroids, and whether reinforcements have arrived."
    )
    yield paragraph(
        f"{plan['episodes']:,} episodes per engine, in {plan['partitions']} random partitions of "
        f"{plan['train']:,} to train, {plan['calibrate']:,} to calibrate and {plan['test']:,} to "
        f"test; at each step one forest of {plan['n_trees']} trees with at least "
        f"{plan['min_leaf']} episodes in a leaf. ± is the standard deviation over the partitions. "
        f"Made by ontarget {results['version']}, commit {results['commit']}, seed {plan['seed']}.",
        "note",
    )


def _main(results: Results) -> Iterator[str]:
    yield tables.main_table(results).html()
    yield paragraph(
        "“Exact atoms” means that no noise is added to the outcomes. An atom is an outcome that "
        "many episodes share. An interval contains all of these episodes or none, so it covers "
        "more than 80 %."
    )
    if not results["plan"]["quick"]:  # the requirements are for the full size
        yield checks.checks_table(results).html()


def _soundness(results: Results) -> Iterator[str]:
    yield paragraph(
        "Ten against ten under the same policy must be a fair coin. In every step of every "
        "episode, units may only die, except that reinforcements join; the reward must be red's "
        "losses minus blue's; and units may only lose hit points by whole shots. In SMAX all units "
        "act at once, so the last two can kill each other, and neither side wins."
    )
    yield soundness_table(results).html()


def _openness(results: Results, drawn: Mapping[str, str]) -> Iterator[str]:
    yield pair(
        figure(drawn["fought-battles"], title="Both sides have units"),
        figure(drawn["open-battles"], title="The lower bound lies between 5 and 95 %"),
    )
    asked = next(iter(results["battles"]["smax"]["open"].values()))
    yield paragraph(
        "Given its full state, a battle is open if between 5 and 95 % of "
        f"{asked['rollouts']} continuations end inside the target, the 10–90 % interval of "
        f"outcomes. There are {asked['states']} states at each step, so a share has a standard "
        f"error of up to {50 / asked['states'] ** 0.5:.0f} %. The full state has positions, "
        "weapons and targets, which the six features do not show."
    )
    yield open_table(results).html()
