"""The tables of the reproduction's results, for the page and the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import TYPE_CHECKING, Any, Final

from ontarget.evaluation.figures import svg_of
from ontarget.paper.plan import LABELS
from ontarget.report import Table, figure, page, pair, paragraph, section

Results = Mapping[str, Any]

_MODES: Final = {"noise": "noise", "atoms": "exact atoms"}
# The limits that we set ourselves; elsewhere the limit is what the paper reports.
_MOST_ECE: Final = {
    ("tamarisk", "noise"): 0.005,
    ("tamarisk", "atoms"): 0.002,
    ("skirmish", "noise"): 0.010,
    ("skirmish", "atoms"): 0.010,
}
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


def plus_minus(found: Mapping[str, Any], digits: int = 4, *, percent: bool = False) -> str:
    """The text of a mean and its standard deviation, joined by ±.

    Examples
    --------
    >>> plus_minus({"mean": 0.80321, "sd": 0.0107}, 2, percent=True)
    '80.32 ± 1.07 %'
    """
    scale, unit = (100.0, " %") if percent else (1.0, "")
    if found["mean"] is None:
        return "–"
    return f"{scale * found['mean']:.{digits}f} ± {scale * found['sd']:.{digits}f}{unit}"


def main_table(results: Results) -> Table:
    """A table of the paper's two main results beside ours, for both domains and modes."""
    rows = []
    for domain, found in results["domains"].items():
        paper, label = found["paper"], LABELS[domain]
        reported = {
            "coverage": {"mean": paper["coverage"], "sd": paper["coverage_sd"]},
            "ece": {"mean": paper["ece"], "sd": paper["ece_sd"]},
        }
        rows.append(
            (
                f"{label}: coverage of the 80 % interval at t = 0",
                f"{plus_minus(reported['coverage'], 2, percent=True)} ({paper['name']})",
                *(plus_minus(found[m]["coverage"], 2, percent=True) for m in ("noise", "atoms")),
            )
        )
        rows.append(
            (
                f"{label}: pooled ECE of p_low, {results['plan']['bins']} bins",
                f"{plus_minus(reported['ece'])} ({paper['name']})",
                *(plus_minus(found[m]["ece"]["low"]) for m in ("noise", "atoms")),
            )
        )
    return Table(("", "paper", "ours, with the paper's noise", "ours, exact atoms"), rows)


def calibration_table(results: Results) -> Table:
    """A table of the expected calibration errors of the lower bound, of p and of the raw forest."""
    rows = [
        (
            where,
            *(
                f"{plus_minus(one['ece'][m])}; {one['ece_all_partitions'][m]:.4f}"
                for m in ("low", "p", "raw")
            ),
        )
        for where, one in _by_mode_and_domain(results)
    ]
    return Table(("", "p_low", "p", "raw"), rows)


def brier_table(results: Results) -> Table:
    """A table of how calibration changes the Brier score.

    The last column is the increase that the paper's method causes even with a perfect model.
    """
    rows = []
    for where, one in _by_mode_and_domain(results):
        difference = one["brier_minus_raw"]
        rows.append(
            (
                where,
                f"{one['brier']['p']['mean']:.5f}",
                f"{one['brier']['raw']['mean']:.5f}",
                f"{1e5 * difference['mean']:+.1f} ± {1e5 * difference['se']:.1f}",
                f"{1e5 * difference['price']:.1f}",
            )
        )
    head = ("", "calibrated", "raw", "difference · 10⁵ ± standard error", "price of ranks · 10⁵")
    return Table(head, rows)


def _by_mode_and_domain(results: Results) -> Iterator[tuple[str, Results]]:
    """Each domain and mode (with noise or without), with the measures of its forecasts."""
    for domain, found in results["domains"].items():
        for mode, name in _MODES.items():
            yield f"{LABELS[domain]}, {name}", found[mode]


def open_table(results: Results) -> Table:
    """A table of the episodes whose probability is not close to 0 or 1 at the end, by mode."""
    rows = []
    for domain, found in results["domains"].items():
        shares = [
            f"{100 * found[mode]['open_share']['mean'][-1]:.2f} ± "
            f"{100 * found[mode]['open_share']['sd'][-1]:.2f} %"
            for mode in ("noise", "atoms")
        ]
        near = plus_minus(found["noise"]["open_at_an_end"], 1, percent=True)
        rows.append((LABELS[domain], *shares, near))
    return Table(
        ("", "open at the last step, noise", "open, exact atoms", "of the former, at a target end"),
        rows,
    )


def checks_table(results: Results) -> Table:
    """A table of the requirements on the results, what was measured, and whether they are met."""
    rows = []
    for domain, found in results["domains"].items():
        label, noise = LABELS[domain], found["noise"]
        low, high = noise["coverage_band"]
        each = ", ".join(f"{100 * share:.1f}" for share in noise["coverage"]["each"])
        rows.append(
            (
                f"{label}: coverage in its 99 % Beta-binomial band, every partition",
                f"{each} % in {100 * low:.1f} to {100 * high:.1f} %",
                _yes(all(noise["coverage_in_band"])),
            )
        )
        for mode, name in _MODES.items():
            limit = _MOST_ECE.get((domain, mode), found["paper"]["ece"])
            rows.append(_ece_check(f"{label}, {name}", found[mode], limit))
            rows.append(_brier_check(f"{label}, {name}", found[mode]))
    return Table(("asked", "measured", "met"), rows, sentences=True)


def _ece_check(where: str, found: Results, limit: float) -> tuple[str, str, str]:
    """A row: whether the expected calibration error of p_low, over all steps, is at most a limit.

    Few episodes show some error even if forecasts are perfect. So all partitions together may be
    within the limit where single ones are not.
    """
    ece, together = found["ece"]["low"], found["ece_all_partitions"]["low"]
    verdict = _yes(ece["mean"] <= limit)
    if ece["mean"] > limit >= together:
        verdict = "no by partition; yes together"
    shown = f"{plus_minus(ece)}; all partitions together {together:.4f}"
    return f"{where}: pooled ECE of p_low at most {limit}", shown, verdict


def _brier_check(where: str, found: Results) -> tuple[str, str, str]:
    """A row: whether the Brier score of calibrated forecasts is no higher than that of raw ones."""
    difference = found["brier_minus_raw"]
    price: float = difference["price"]
    verdict = _yes(difference["mean"] <= 0.0)
    # Even with a perfect model, calibration costs the price of ranks known from n episodes only.
    for extra, words in ((price, "no, by the price of ranks"), (0.0, "within 2 standard errors")):
        if 0.0 < difference["mean"] <= extra + 2.0 * difference["se"]:
            verdict = words
    return (
        f"{where}: calibrated Brier score no worse than raw",
        f"{found['brier']['p']['mean']:.5f} against {found['brier']['raw']['mean']:.5f}, "
        f"difference {1e5 * difference['mean']:+.1f} ± {1e5 * difference['se']:.1f} · 10⁻⁵ "
        f"(price of ranks {1e5 * price:.1f})",
        verdict,
    )


def _yes(flag: bool) -> str:
    return "yes" if flag else "no"


def time_table(timing: Mapping[str, Any]) -> Table:
    """The table of the time that each kind of work took."""
    seconds = timing["seconds"]
    total = {kind: sum(one[kind] for one in seconds.values()) for kind in ("wall", "cpu")}
    rows = [
        (kind, f"{one['wall']:.1f} s", f"{one['cpu']:.1f} s")
        for kind, one in {**seconds, "all": total}.items()
    ]
    return Table(("", "by the clock", "processor"), rows)


if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
    yield main_table(results).html()
    yield paragraph(_SURROGATE)
    yield paragraph(
        "“Exact atoms” means that no noise is added to the outcomes. An atom is an outcome that "
        "many episodes share. An interval contains all of these episodes or none, so it covers "
        "more than 80 %: a coverage of at least the level is promised, not the level itself."
    )
    if not results["plan"]["quick"]:  # the requirements are for the full size
        yield checks_table(results).html()


def _forecasts(results: Mapping[str, Any]) -> Iterator[str]:
    yield paragraph(
        "Pooled over all steps: first the mean over the partitions ± their standard deviation, "
        "then the error of all partitions' forecasts together. Perfect forecasts show an error "
        "too, by chance."
    )
    yield calibration_table(results).html()
    yield paragraph(
        "Calibrated (p) and raw (the model's own probability) Brier scores of the same forecasts. "
        "The paper's p is computed from the ranks of only n calibration episodes. Even for a "
        "perfect model, this raises the Brier score by the price in the last column: the Brier "
        "score divided by n + 2. Calibration helps where the model is wrong in the same way for "
        "all states, because it corrects the distribution of outcomes as a whole and not any "
        "single target. Partitions share episodes, so the true standard error is somewhat larger."
    )
    yield brier_table(results).html()


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
    yield open_table(results).html()
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
    yield time_table(timing).html()


def _by_domain(
    domains: list[str], drawn: Mapping[str, str], name: str, caption: str
) -> Iterator[str]:
    """The same figure for every domain as HTML, side by side if there is room, with a caption."""
    yield pair(*(figure(drawn[f"{name}-{domain}"], title=LABELS[domain]) for domain in domains))
    yield paragraph(caption, "note")
