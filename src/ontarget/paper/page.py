"""The page of a reproduction: one HTML file with everything in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import TYPE_CHECKING, Any, Final

from ontarget.evaluation.figures import svg_of, theme_css
from ontarget.paper import checks, distance_tables, tables
from ontarget.paper.plan import LABELS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["page_of"]

_STYLE: Final = """
:root { color-scheme: light dark; }
body { background: var(--ontarget-paper); color: var(--ontarget-ink); margin: 0 auto;
  max-width: 62rem; padding: 1.5rem; font: 1rem/1.55 system-ui, "Segoe UI", Helvetica, Arial,
  sans-serif; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 .5rem; }
h2 { font-size: 1.25rem; margin: 2.4rem 0 .5rem; border-bottom: 1px solid var(--ontarget-rule);
  padding-bottom: .25rem; }
h3 { font-size: 1rem; margin: 1.4rem 0 .3rem; }
p { max-width: 46rem; margin: .5rem 0; }
.note { color: var(--ontarget-muted); font-size: .92rem; }
.quick { border: 2px solid var(--ontarget-vermilion); padding: .5rem .8rem; max-width: 46rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; margin: .6rem 0 1rem;
  font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: 600; padding: .2rem 0 .3rem; }
th, td { padding: .28rem .8rem .28rem 0; text-align: left; vertical-align: top;
  border-bottom: 1px solid var(--ontarget-rule); }
td { white-space: nowrap; }
.sentences td { white-space: normal; }
thead th { border-bottom: 1.5px solid var(--ontarget-ink); vertical-align: bottom; }
tbody th { font-weight: 400; }
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(26rem, 100%), 1fr));
  gap: 1rem; align-items: start; }
figure { margin: .6rem 0; break-inside: avoid; }
figcaption { font-size: .9rem; color: var(--ontarget-muted); }
@media print { :root { font-size: 9.5pt; }
  body { max-width: none; padding: 0; }
  h2, h3, caption { break-after: avoid; } tr { break-inside: avoid; }
  .note { break-before: avoid; }
  .scroll { overflow: visible; } table { font-size: .8rem; break-inside: avoid; }
  p { max-width: none; } th, td { padding-right: .7rem; }
  .pair { display: block; } .pair svg { max-height: 7.6cm; }
  .pair.tall { display: grid; grid-template-columns: 1fr 1fr; } .tall svg { max-height: 11cm; } }
"""

_TITLE: Final = "Will my robot achieve my goals? The paper, reproduced"

_SURROGATE: Final = (
    "The authors' code, trajectories, Tamarisk constants and policy are not public. Our skirmish "
    "is a surrogate simulator, no StarCraft data; our Tamarisk takes its constants from the 2014 "
    "Reinforcement Learning Competition, and its policy is chosen. So our figures stand beside the "
    "paper's, and neither confirm nor contradict them digit by digit."
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
        "means. The dotted line is the share of episodes that met the target. The bound may lie "
        "off it: PCQR⁻¹ is calibrated for the distribution of outcomes, not for one fixed target.",
    ),
}


def page_of(
    results: Mapping[str, Any], timing: Mapping[str, Any], figures: Mapping[str, Figure]
) -> str:
    """The page as text; it refers to nothing outside itself."""
    drawn = {name: svg_of(figure) for name, figure in figures.items()}
    parts = [*_sections(results, drawn), *_distances(results, timing, drawn), *_times(timing)]
    body = "\n".join(parts)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8"/>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1"/>\n'
        f"<title>{escape(_TITLE)}</title>\n<style>{theme_css()}{_STYLE}</style>\n</head>\n"
        f"<body>\n{body}\n</body>\n</html>\n"
    )


def _sections(results: Mapping[str, Any], drawn: Mapping[str, str]) -> Iterator[str]:
    plan = results["plan"]
    yield from _opening(results)
    yield "<h2>The paper's figures beside ours</h2>"
    yield tables.main_table(results).html()
    yield _text(_SURROGATE)
    yield _text(
        "With exact atoms nothing is added to the outcomes. Many are then equal, and an interval "
        "that must hold all of an atom or none of it covers more than 80 %: at least the level is "
        "promised, not the level itself."
    )
    if not plan["quick"]:  # what is asked is asked of the full size
        yield checks.checks_table(results).html()
    yield from _forecasts(results)
    for name, (title, caption) in _FIGURES.items():
        yield f"<h2>{escape(title)}</h2>"
        yield _pair(plan["domains"], drawn, name, caption)
    yield from _convergence(results, drawn)
    if "studies" in results:
        yield from _studies(results)


def _forecasts(results: Mapping[str, Any]) -> Iterator[str]:
    yield "<h2>Calibration error and Brier score</h2>"
    yield _text(
        "Pooled over all steps: first the mean over the partitions ± their standard deviation, "
        "then the error of all partitions' forecasts together. Perfect forecasts show an error "
        "too, by chance; on Tamarisk the truth is known, and shows how much. “Paper” is a plain "
        "forest per step, “default” the guided forests of a goal monitor."
    )
    yield tables.calibration_table(results).html()
    yield _text(
        "Calibrated (p) and raw (the model's own probability) Brier scores of the same forecasts. "
        "Ranks are known from the calibration episodes only; were the model perfect, that alone "
        "would cost the price in the last column, the Brier score over n + 2. Calibration gains "
        "where the model is wrong in the same way for all states; it corrects the distribution of "
        "outcomes as a whole, and no single target. Partitions share episodes, so the standard "
        "error is an understatement."
    )
    yield tables.brier_table(results).html()


def _opening(results: Mapping[str, Any]) -> Iterator[str]:
    plan = results["plan"]
    yield f"<h1>{escape(_TITLE)}</h1>"
    if plan["quick"]:
        yield (
            '<p class="quick"><strong>A quick run.</strong> Fewer episodes, partitions and trees '
            "than the paper; its figures only show that everything works. Run "
            "<code>ontarget paper</code> without <code>--quick</code> for the real ones.</p>"
        )
    yield _text(
        "Guyer and Dietterich predict at every step of a run the probability that it ends inside a "
        "target, by inverting conformal prediction (PCQR⁻¹). Here are their experiments on our "
        "simulators, and answers to the questions that they leave open."
    )
    yield _text(
        f"{plan['episodes']:,} episodes per domain, in {plan['partitions']} random partitions of "
        f"{plan['train']:,} to train, {plan['calibrate']:,} to calibrate and {plan['test']:,} to "
        f"test; at each step one forest of {plan['n_trees']} trees with at least "
        f"{plan['min_leaf']} episodes a leaf (the paper does not say which). The target reaches "
        "from the 10 % to the 90 % quantile of the test episodes' outcomes. ± is the standard "
        "deviation over the partitions."
    )
    yield (
        f'<p class="note">Made by ontarget {escape(results["version"])}, commit '
        f"{escape(results['commit'])}, seed {plan['seed']}.</p>"
    )


def _convergence(results: Mapping[str, Any], drawn: Mapping[str, str]) -> Iterator[str]:
    domains = results["plan"]["domains"]
    yield "<h2>The episodes whose probability does not converge</h2>"
    yield _text(
        "The paper adds noise of ±5·10⁻⁶ to every outcome, so that no two are equal, and sets the "
        "target's ends among the noisy outcomes. An episode that ends within the noise of an end "
        "stays open to the last step: only the noise decides it. With exact atoms an outcome on a "
        "closed end counts as inside, and nothing is left to decide."
    )
    yield tables.open_table(results).html()
    yield _pair(domains, drawn, "open", "Episodes with a lower bound between 5 % and 95 %.")
    yield _pair(domains, drawn, "episodes-atoms", "The same ten episodes with exact atoms.")


def _studies(results: Mapping[str, Any]) -> Iterator[str]:
    domains = results["plan"]["domains"]
    steps = ", ".join(map(str, next(iter(results["studies"].values()))["rivals"]["noise"]["steps"]))
    yield "<h2>Intervals: PCQR and its rivals</h2>"
    yield _text(
        f"The same partitions and forests, with the paper's noise, at the steps {steps}. Each cell "
        "is coverage in per cent and mean width. “Linear” is linear quantile regression at "
        f"{results['plan']['linear_levels']} levels in place of the forest."
    )
    for domain in domains:
        for table in tables.interval_tables(results, domain):
            yield table.html()
    yield "<h2>Probabilities: PCQR⁻¹ and its rivals</h2>"
    yield _text(
        "At the same steps, pooled. “Raw” is the model's own probability without calibration; "
        "log losses are clipped half a calibration episode away from 0 and 1."
    )
    for domain in domains:
        yield tables.probability_table(results, domain).html()
    yield "<h2>Alarms at a promised rate of false alarms</h2>"
    yield _text(
        "Thresholds come from half of the calibration episodes, set aside; everything here is "
        "measured on the test episodes, with exact atoms, by a goal monitor with the paper's plain "
        "forest per step and by one with this library's defaults."
    )
    for domain in domains:
        yield tables.alarm_table(results, domain).html()
    yield "<h2>One guarantee for the whole episode</h2>"
    yield _text(
        "The paper asks for a guarantee over all steps at once. “Ruled out” and “assured” may be "
        "said at any step of an episode with one error rate for all of it, and the band of "
        "outcomes holds at every step together."
    )
    yield tables.guarantee_table(results).html()


def _distances(
    results: Mapping[str, Any], timing: Mapping[str, Any], drawn: Mapping[str, str]
) -> Iterator[str]:
    yield "<h2>Distance to the truth</h2>"
    yield _text(
        "On a simulator the probability itself is known, exactly or by many restarts from the same "
        "state (rollouts). The excess Brier score is what a method loses against it; |p − p_true| "
        "is how far off it is. Means over the steps, ± the standard deviation over the partitions; "
        "exact atoms throughout."
    )
    found = results.get("distance")
    if found is None:
        yield "<p>Not part of this run: <code>ontarget paper --distance</code> measures it.</p>"
        return
    costs = timing["distance"]
    yield f"<figure>{drawn['distance']}</figure>"
    yield distance_tables.overview_table(found, costs).html()
    yield _text(
        "Cart-pole and mountain car are Gymnasium's equations, step by step the same as its own "
        "environments, which need not be installed to run them. In Skirmish a state does not tell "
        "all that the simulator knows, so no method reaches its truth."
    )
    yield "<h3>What moves it, and what that costs</h3>"
    yield _text(
        "Fit: milliseconds of processor time for each step of an episode. Step: the median time of "
        "Watch.step in the quietest of ten rounds. MB: the size of the model for each step. The "
        "ratio is to the paper's forest. Rivals have the forest per step with leaves of 15, or "
        "linear quantile regression. The defaults of GoalMonitor are chosen from these tables."
    )
    for case, one in found.items():
        yield distance_tables.cost_table(case, one, costs[case]).html()
        yield distance_tables.steps_table(case, one).html()


def _times(timing: Mapping[str, Any]) -> Iterator[str]:
    yield "<h2>Time</h2>"
    load = timing["load_average"]
    yield _text(
        f"{timing['cores']} cores, {timing['threads']} threads"
        + (f", load average {load:.1f} at the end." if load is not None else ".")
        + " Seconds by the clock count whatever else the machine did; a run that was stopped and "
        "went on counts as one."
    )
    limits = checks.limits_table(timing)
    if limits.rows:
        yield limits.html()
    yield tables.time_table(timing).html()
    if any(timing["peer"].values()):
        yield _text(
            "The same steps of the first partition (noise mode: fit, rank, probabilities of the "
            "test episodes) through quantile-forest and NumPy:"
        )
        yield tables.peer_table(timing).html()


def _text(text: str) -> str:
    return f"<p>{escape(text)}</p>"


def _pair(domains: list[str], drawn: Mapping[str, str], name: str, caption: str) -> str:
    """The same figure of every domain, side by side where there is room."""
    figures = "\n".join(
        f"<figure><h3>{escape(LABELS[domain])}</h3>{drawn[f'{name}-{domain}']}</figure>"
        for domain in domains
    )
    tall = " tall" if name == "reliability" else ""  # two of them fit beside each other in print
    return f'<div class="pair{tall}">{figures}</div>\n<p class="note">{escape(caption)}</p>'
