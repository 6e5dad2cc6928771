"""The reproduction's page and figures: files for print, and inline SVG."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from ontarget._whole_file import write_whole
from ontarget.evaluation import ece_by_step
from ontarget.evaluation.figures import (
    Curve,
    came_true_chart,
    ece_chart,
    episodes_chart,
    figure_bytes,
    mean_chart,
    svg_of,
)
from ontarget.paper.experiment import (
    LABELS,
    Part,
    Parts,
    Plan,
    open_share,
    pooled_reliability,
    ten_episodes,
)
from ontarget.report import Table, render

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_all(plan: Plan, parts: Parts) -> dict[str, Figure]:
    """All figures of the reproduction by name, ``<what>-<domain>``."""
    figures = {}
    for domain in plan.domains:
        noise, atoms = parts[domain, "noise"], parts[domain, "atoms"]
        figures[f"ece-{domain}"] = _ece(plan, noise)
        figures[f"reliability-{domain}"] = came_true_chart(pooled_reliability(plan, noise))
        figures[f"episodes-{domain}"] = _episodes(plan, noise[0])
        figures[f"mean-{domain}"] = _mean(noise)
        figures[f"episodes-atoms-{domain}"] = _episodes(plan, atoms[0])
        figures[f"open-{domain}"] = _open(noise, atoms)
    return figures


def write_figures(figures: Mapping[str, Figure], folder: Path) -> None:
    """Write each figure as SVG and PNG; the same figure gives the same bytes."""
    kinds: tuple[Literal["svg", "png"], ...] = ("svg", "png")
    folder.mkdir(parents=True, exist_ok=True)
    for name, figure in figures.items():
        for kind in kinds:
            write_whole(folder / f"{name}.{kind}", [figure_bytes(figure, kind)])


def _ece(plan: Plan, parts: Sequence[Part]) -> Figure:
    names = {"low": "lower bound", "high": "upper bound"}
    first = parts[0]
    chance = ece_by_step(first.p_low, first.met, bins=plan.bins, ids=first.ids).floor
    return ece_chart(
        {
            name: Curve.of_repeats([part.ece_by_step(method) for part in parts])
            for method, name in names.items()
        },
        floor=chance,
    )


def _episodes(plan: Plan, part: Part) -> Figure:
    chosen = ten_episodes(plan, part)
    return episodes_chart(part.p_low[:, chosen], part.met[chosen])


def _mean(parts: Sequence[Part]) -> Figure:
    rate = sum(part.met.mean() for part in parts) / len(parts)
    steps = parts[0].low.shape[0]
    return mean_chart(
        {"lower bound": Curve.of_repeats([part.mean_by_step("low") for part in parts])},
        rate=[rate] * steps,
    )


def _open(noise: Sequence[Part], atoms: Sequence[Part]) -> Figure:
    figure = mean_chart(
        {
            "with noise": Curve.of_repeats([open_share(part) for part in noise]),
            "exact atoms": Curve.of_repeats([open_share(part) for part in atoms]),
        }
    )
    figure.axes[0].set_ylabel("episodes still open")
    figure.set_label("Share of episodes whose lower bound lies between 5 % and 95 %, against time")
    return figure


Results = Mapping[str, Any]

_MODES: Final = {"noise": "noise", "atoms": "exact atoms"}
# The limits that we set ourselves; elsewhere the limit is what the paper reports.
_MOST_ECE: Final = {
    ("tamarisk", "noise"): 0.005,
    ("tamarisk", "atoms"): 0.002,
    ("skirmish", "noise"): 0.010,
    ("skirmish", "atoms"): 0.010,
}


def plus_minus(found: Mapping[str, Any], digits: int = 4, *, percent: bool = False) -> str:
    """The text of a mean and its standard deviation, joined by ±."""
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
        for where, one in _forecasts(results)
    ]
    return Table(("", "p_low", "p", "raw"), rows)


def brier_table(results: Results) -> Table:
    """A table of how calibration changes the Brier score."""
    rows = []
    for where, one in _forecasts(results):
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


def _forecasts(results: Results) -> Iterator[tuple[str, Results]]:
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
    """A row: whether the calibration error of p_low, over all steps, is at most a limit."""
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


def page_of(
    results: Mapping[str, Any], timing: Mapping[str, Any], figures: Mapping[str, Figure]
) -> str:
    """The report of a reproduction as one HTML page, which loads nothing from elsewhere."""
    full = not results["plan"]["quick"]  # the requirements are for the full size
    return render(
        "paper.html",
        "ontarget.paper",
        results=results,
        plan=results["plan"],
        timing=timing,
        labels=LABELS,
        figures={name: svg_of(one) for name, one in figures.items()},
        main=main_table(results),
        checks=checks_table(results) if full else None,
        calibration=calibration_table(results),
        brier=brier_table(results),
        open=open_table(results),
        times=time_table(timing),
    )
