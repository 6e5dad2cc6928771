"""The report of a reproduction: one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import TYPE_CHECKING, Any, Final

from ontarget.evaluation.figures import svg_of
from ontarget.paper import tables
from ontarget.paper.plan import LABELS
from ontarget.report import figure, page, pair, paragraph, section

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_TITLE: Final = "Will my robot achieve my goals? The paper, reproduced"

_SURROGATE: Final = (
    "The authors' code, trajectories, Tamarisk constants and policy are not public. Our skirmish "
    "is a surrogate simulator, not StarCraft data; our Tamarisk takes its constants from the 2014 "
    "Reinforcement Learning Competition, and we chose its policy. So our figures can be compared "
    "with the paper's, but they neither confirm nor contradict them digit by digit."
)

_FIGURES: Final = {
    "ece": (
        "Calibration error against time",
        "Expected calibration error of both bounds, 30 bins, mean over the partitions; bands are "
        "one standard deviation to each side. The dotted line is about what perfect forecasts "
        "would show on as many episodes, by chance.",
    ),
    "reliability": (
        "Reliability",
        "Lower bounds of all steps and partitions. Below, how many forecasts each bin holds, on a "
        "logarithmic scale. Bars are 95 % intervals over whole episodes.",
    ),
    "episodes": (
        "Ten episodes",
        "The lower bound for ten random episodes of the first partition, eight that met the target "
        "and two that missed it. Some do not converge: see below.",
    ),
    "mean": (
        "Mean probability",
        "Mean lower bound over all episodes; the band is one standard deviation of the partitions' "
        "means. The dotted line is the share of episodes that met the target. The bound may differ "
        "from it: PCQR⁻¹ is calibrated for the distribution of outcomes, not for one fixed target.",
    ),
}


def page_of(
    results: Mapping[str, Any], timing: Mapping[str, Any], figures: Mapping[str, Figure]
) -> str:
    """The report of a reproduction as one HTML page, which loads nothing from elsewhere."""
    drawn = {name: svg_of(one) for name, one in figures.items()}
    return page(_TITLE, _parts(results, timing, drawn))


def _parts(
    results: Mapping[str, Any], timing: Mapping[str, Any], drawn: Mapping[str, str]
) -> Iterator[str]:
    plan = results["plan"]
    yield from _opening(results)
    yield section("The paper's figures beside ours", _main(results))
    yield section("Calibration error and Brier score", _forecasts(results))
    for name, (title, caption) in _FIGURES.items():
        yield section(title, _by_domain(plan["domains"], drawn, name, caption))
    yield section("The episodes whose probability does not converge", _convergence(results, drawn))
    yield section("Time", _times(timing))


def _main(results: Mapping[str, Any]) -> Iterator[str]:
    yield tables.main_table(results).html()
    yield paragraph(_SURROGATE)
    yield paragraph(
        "“Exact atoms” means that no noise is added to the outcomes. An atom is an outcome that "
        "many episodes share. An interval contains all of these episodes or none, so it covers "
        "more than 80 %: a coverage of at least the level is promised, not the level itself."
    )
    if not results["plan"]["quick"]:  # the requirements are for the full size
        yield tables.checks_table(results).html()


def _forecasts(results: Mapping[str, Any]) -> Iterator[str]:
    yield paragraph(
        "Pooled over all steps: first the mean over the partitions ± their standard deviation, "
        "then the error of all partitions' forecasts together. Perfect forecasts show an error "
        "too, by chance."
    )
    yield tables.calibration_table(results).html()
    yield paragraph(
        "Calibrated (p) and raw (the model's own probability) Brier scores of the same forecasts. "
        "The paper's p is computed from the ranks of only n calibration episodes. Even for a "
        "perfect model, this raises the Brier score by the price in the last column: the Brier "
        "score divided by n + 2. Calibration helps where the model is wrong in the same way for "
        "all states, because it corrects the distribution of outcomes as a whole and not any "
        "single target. Partitions share episodes, so the true standard error is somewhat larger."
    )
    yield tables.brier_table(results).html()


def _opening(results: Mapping[str, Any]) -> Iterator[str]:
    plan = results["plan"]
    yield f"<h1>{escape(_TITLE)}</h1>"
    if plan["quick"]:
        yield (
            '<p class="warning"><strong>A quick run.</strong> Fewer episodes, partitions and trees '
            "than the paper; its figures only show that everything works. Run "
            "<code>ontarget paper</code> without <code>--quick</code> for the real ones.</p>"
        )
    yield paragraph(
        "Guyer and Dietterich predict at every step of a run the probability that it ends inside a "
        "target, by inverting conformal prediction (PCQR⁻¹). Here are their experiments on our "
        "simulators."
    )
    yield paragraph(
        f"{plan['episodes']:,} episodes per domain, in {plan['partitions']} random partitions of "
        f"{plan['train']:,} to train, {plan['calibrate']:,} to calibrate and {plan['test']:,} to "
        f"test; at each step one forest of {plan['n_trees']} trees with at least "
        f"{plan['min_leaf']} episodes in a leaf. The paper gives neither number; "
        "ours are those of GoalMonitor(preset='paper'). "
        "The target reaches from the 10 % to the 90 % quantile of the test episodes' outcomes. "
        "± is the standard deviation over the partitions."
    )
    yield paragraph(
        f"Made by ontarget {results['version']}, commit {results['commit']}, seed {plan['seed']}.",
        "note",
    )


def _convergence(results: Mapping[str, Any], drawn: Mapping[str, str]) -> Iterator[str]:
    yield paragraph(
        "The paper adds noise of ±5·10⁻⁶ to every outcome, so that no two are equal, and sets the "
        "target's ends among the noisy outcomes. If an episode's outcome differs from an end by "
        "less than the noise, the episode stays open to the last step: only the noise decides it. "
        "With exact atoms, an outcome on a closed end counts as inside, and nothing is left open."
    )
    yield tables.open_table(results).html()
    for name, caption in (
        ("open", "Episodes with a lower bound between 5 % and 95 %."),
        ("episodes-atoms", "The same ten episodes with exact atoms."),
    ):
        yield from _by_domain(results["plan"]["domains"], drawn, name, caption)


def _times(timing: Mapping[str, Any]) -> Iterator[str]:
    load = timing["load_average"]
    yield paragraph(
        f"{timing['cores']} cores, {timing['threads']} threads"
        + (f", load average {load:.1f} at the end." if load is not None else ".")
        + " Seconds by the clock include whatever else the machine did."
    )
    yield tables.time_table(timing).html()


def _by_domain(
    domains: list[str], drawn: Mapping[str, str], name: str, caption: str
) -> Iterator[str]:
    """The same figure for every domain as HTML, side by side if there is room, with a caption."""
    yield pair(*(figure(drawn[f"{name}-{domain}"], title=LABELS[domain]) for domain in domains))
    yield paragraph(caption, "note")
