"""The study of models as tables, figures and one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import TYPE_CHECKING, Any, Final

from ontarget.evaluation.figures import dot_chart, svg_of
from ontarget.paper.cases import CASES
from ontarget.paper.models.study import FOREST, INTERVALS, PROBABILITIES
from ontarget.report import Table, figure, page, paragraph, section

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw_models", "models_page", "overview_table", "process_tables"]

Study = Mapping[str, Any]

_TITLE: Final = "Which model under PCQR and PCQR⁻¹?"
_NETWORK: Final = "quantile network"
_SCORES: Final = ("ECE", "Brier", "|p − p_true|", "excess · 10⁴")


def overview_table(processes: Study) -> Table:
    """A table of every process and model: how far p is from the true probability.

    The distance is the excess Brier score of PCQR⁻¹, the paper's method for probabilities.
    """
    models = list(next(iter(processes.values())))
    rows = []
    for case, found in processes.items():
        each = [found[name]["forecasts"]["PCQR⁻¹"]["excess"]["mean"] for name in models]
        best = min(each)
        shown = [f"{1e4 * one:.1f}" + " *" * (one == best) for one in each]
        rows.append((CASES[case].label, *shown))
    return Table(
        ("", *models), rows, "Excess Brier score · 10⁴ of PCQR⁻¹ over the truth; * marks the least"
    )


def process_tables(case: str, found: Study, costs: Study) -> tuple[Table, Table]:
    """Two tables of every model on one process: intervals and running times; probabilities."""
    intervals, forecasts = [], []
    for name, one in found.items():
        widths = [_interval(one["intervals"][kind]) for kind in INTERVALS]
        spent = costs[name]
        times = (f"{1e3 * spent['fit_seconds']:.0f}", f"{spent['answer_us']:.0f}")
        intervals.append((name, *(cell for pair in widths for cell in pair), *times))
        scores = [_forecast(one["forecasts"][kind]) for kind in PROBABILITIES]
        forecasts.append((name, *(cell for four in scores for cell in four)))
    measures = [f"{kind}: {what}" for kind in INTERVALS for what in ("coverage, %", "width")]
    scored = [f"{kind}: {what}" for kind in PROBABILITIES for what in _SCORES]
    label = CASES[case].label
    return (
        Table(("", *measures, "fit, ms", "answer, µs"), intervals, f"{label}: intervals and time"),
        Table(("", *scored), forecasts, f"{label}: probabilities"),
    )


def draw_models(processes: Study) -> dict[str, Figure]:
    """Two charts: how far PCQR⁻¹ is from the truth, and how wide PCQR's intervals are.

    PCQR is the paper's method for intervals, and PCQR⁻¹ its inverse for probabilities.
    """
    everywhere = all(_NETWORK in found for found in processes.values())
    # A chart tells four apart, and a line leads from the first to the last.
    drawn = {
        FOREST: "forest (paper)",
        **({_NETWORK: "network"} if everywhere else {"linear quantiles": "linear quantiles"}),
        "boosted quantiles": "boosted",
        "stacked forest (the default's)": "stacked",
    }
    rows = [CASES[case].label for case in processes]

    def values(read: Any) -> dict[str, list[float]]:
        return {
            label: [max(read(found[name]), 1e-6) for found in processes.values()]
            for name, label in drawn.items()
        }

    return {
        "models-excess": dot_chart(
            rows,
            values(lambda one: one["forecasts"]["PCQR⁻¹"]["excess"]["mean"]),
            label="Excess Brier score of PCQR⁻¹ over the truth on every process, by model",
            measure="excess Brier score (smaller is nearer to the truth)",
        ),
        "models-width": dot_chart(
            rows,
            values(lambda one: one["intervals"]["PCQR"]["width"]["mean"]),
            label="Width of PCQR's intervals on every process, by model",
            measure="width, the paper's forest = 1 (smaller says more)",
        ),
    }


def models_page(results: Study, timing: Study, figures: Mapping[str, Figure]) -> str:
    """The results as one HTML page, which loads nothing from elsewhere."""
    drawn = {name: svg_of(one) for name, one in figures.items()}
    return page(_TITLE, _parts(results, timing, drawn))


def _parts(results: Study, timing: Study, drawn: Mapping[str, str]) -> Iterator[str]:
    plan, processes = results["plan"], results["processes"]
    yield f"<h1>{escape(_TITLE)}</h1>"
    if plan["quick"]:
        yield (
            '<p class="warning"><strong>A quick run</strong> of few episodes and processes; its '
            "figures only show that everything works. Run <code>ontarget paper --models</code> "
            "without <code>--quick</code> for the real ones.</p>"
        )
    yield paragraph(
        "The paper calibrates a quantile forest, and names linear quantile regression and implicit "
        "quantile networks as the next models to study. Here each model takes the forest's place, "
        "one model per step, with everything else as in the paper."
    )
    yield paragraph(
        f"{plan['train']:,} episodes to train, {plan['calibrate']:,} to calibrate and up to 1,000 "
        f"to test, in {_counted(plan['partitions'], 'random partition')}, at eight steps of each "
        "process; exact atoms. The truth is known exactly or by rollouts. "
        + _left_out(results["left_out"])
        + f"Made by ontarget {results['version']}, commit {results['commit']}, seed "
        f"{plan['seed']}."
    )
    yield section(
        "Distance to the truth", [figure(drawn["models-excess"]), overview_table(processes).html()]
    )
    yield section("Widths of intervals", [figure(drawn["models-width"])])
    tables = (
        table
        for case, one in processes.items()
        for table in process_tables(case, one, timing["processes"][case])
    )
    note = paragraph(
        f"Coverage of {100 * plan['level']:.0f} % intervals, which is larger if outcomes repeat, "
        "and their width as a multiple of that of PCQR on the paper's forest. Raw is the model's "
        "own probability. Fit: milliseconds of processor time for one step; answer: microseconds "
        "for one row among many.",
        "note",
    )
    yield section("Every process", [note, *(one.html() for one in tables)])


def _counted(n: int, what: str) -> str:
    return f"one {what}" if n == 1 else f"{n} {what}s"


def _left_out(names: list[str]) -> str:
    return f"Left out, because PyTorch is not installed: {', '.join(names)}. " if names else ""


def _interval(one: Study) -> tuple[str, str]:
    return f"{100 * one['coverage']['mean']:.1f}", f"{one['width']['mean']:.2f}"


def _forecast(one: Study) -> tuple[str, ...]:
    mean = {name: value["mean"] for name, value in one.items()}
    return (
        f"{mean['ece']:.3f}",
        f"{mean['brier']:.4f}",
        f"{mean['absolute']:.3f}",
        f"{1e4 * mean['excess']:.1f}",
    )
