"""The tables of the reproduction's results, for the page and the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from ontarget.paper.plan import LABELS
from ontarget.report import Table

__all__ = [
    "alarm_table",
    "brier_table",
    "calibration_table",
    "guarantee_table",
    "interval_tables",
    "main_table",
    "open_table",
    "peer_table",
    "plus_minus",
    "probability_table",
    "time_table",
]

Results = Mapping[str, Any]

_MODES: Final = {"noise": "noise", "atoms": "exact atoms"}


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
    """A table of the expected calibration errors of both presets and of the true probabilities.

    Those of the true probabilities are shown where they are known.
    """
    rows = []
    for domain, mode, preset, one in _forecasts(results):
        truth = results.get("studies", {}).get(domain, {}).get("truth")
        floor = "–"
        if truth is not None and mode == "atoms":  # with noise the noise is part of the truth
            floor = _both(truth["ece"], truth["ece_all_partitions"])
        rows.append(
            (
                f"{LABELS[domain]}, {_MODES[mode]}, {preset}",
                *(_both(one["ece"][m], one["ece_all_partitions"][m]) for m in ("low", "p", "raw")),
                floor,
            )
        )
    return Table(("", "p_low", "p", "raw", "the truth itself"), rows)


def brier_table(results: Results) -> Table:
    """A table of how calibration changes the Brier score.

    The last column is the increase that the paper's method causes even with a perfect model.
    """
    rows = []
    for domain, mode, preset, one in _forecasts(results):
        difference = one["brier_minus_raw"]
        rows.append(
            (
                f"{LABELS[domain]}, {_MODES[mode]}, {preset}",
                f"{one['brier']['p']['mean']:.5f}",
                f"{one['brier']['raw']['mean']:.5f}",
                f"{1e5 * difference['mean']:+.1f} ± {1e5 * difference['se']:.1f}",
                "–" if difference["price"] is None else f"{1e5 * difference['price']:.1f}",
            )
        )
    head = ("", "calibrated", "raw", "difference · 10⁵ ± standard error", "price of ranks · 10⁵")
    return Table(head, rows)


def _forecasts(results: Results) -> Iterator[tuple[str, str, str, Results]]:
    """Each domain, mode (with noise or without) and preset, with the measures of its forecasts."""
    for domain, found in results["domains"].items():
        default = results.get("studies", {}).get(domain, {}).get("default", {})
        for mode in _MODES:
            yield domain, mode, "paper", found[mode]
            if mode in default:
                yield domain, mode, "default", default[mode]


def _both(by_partition: Mapping[str, Any], together: float) -> str:
    return f"{plus_minus(by_partition)}; {together:.4f}"


def interval_tables(results: Results, domain: str) -> Iterator[Table]:
    """Tables of the coverage and width of every method's intervals, by level and by step."""
    found = results["studies"][domain]["rivals"]["noise"]
    levels, steps = found["levels"], found["steps"]
    yield Table(
        ("", *(f"{100 * level:g} %" for level in levels)),
        [
            (
                name,
                *(
                    _cover_width(_mean(one["coverage"], i), _mean(one["width"], i))
                    for i in range(len(levels))
                ),
            )
            for name, one in found["intervals"].items()
        ],
        f"{LABELS[domain]}: coverage (%) / mean width by level, mean over the steps",
    )
    for at, level in enumerate(levels):
        yield Table(
            ("", *(f"t = {t}" for t in steps)),
            [
                (
                    name,
                    *(
                        _cover_width(c[at], w[at])
                        for c, w in zip(one["coverage"], one["width"], strict=True)
                    ),
                )
                for name, one in found["intervals"].items()
            ],
            f"{LABELS[domain]}: coverage (%) / mean width of {100 * level:g} % intervals by step",
        )


def _mean(table: Sequence[Sequence[float]], column: int) -> float:
    return sum(row[column] for row in table) / len(table)


def _cover_width(coverage: float, width: float) -> str:
    return f"{100 * coverage:.1f} / {width:.3g}"


def probability_table(results: Results, domain: str) -> Table:
    """A table of calibration error, Brier score and log loss of every method, in both modes."""
    rivals = results["studies"][domain]["rivals"]
    rows = []
    for name in rivals["noise"]["scores"]:
        cells = [name]
        for mode in ("noise", "atoms"):
            scores = rivals[mode]["scores"][name]
            cells += [plus_minus(scores["ece"])]
            cells += [f"{scores[measure]['mean']:.4f}" for measure in ("brier", "log_loss")]
        rows.append(cells)
    head = (
        "",
        *(f"{m}, {mode}" for mode in ("noise", "atoms") for m in ("ECE", "Brier", "log loss")),
    )
    return Table(head, rows, f"{LABELS[domain]}: probability of the target")


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


def alarm_table(results: Results, domain: str) -> Table:
    """A table of how well alarms with promised rates of false alarms did on the test episodes."""
    rows = []
    for preset, found in results["studies"][domain]["watches"].items():
        for rate, one in found["alarms"].items():
            rows.append(
                (
                    f"{preset}, {100 * float(rate):g} % promised",
                    plus_minus(one["threshold"], 3),
                    plus_minus(one["false_alarms"], 2, percent=True),
                    plus_minus(one["detections"], 1, percent=True),
                    plus_minus(one["lead_steps"], 1),
                )
            )
    return Table(
        ("", "alarm below", "false alarms", "failures detected", "median lead, steps"),
        rows,
        f"{LABELS[domain]}: alarms",
    )


def guarantee_table(results: Results) -> Table:
    """A table of how often the guarantees for whole episodes held on the test episodes."""
    rows = []
    for domain, study in results["studies"].items():
        for preset, found in study["watches"].items():
            one = found["whole_episode"]
            rows.append(
                (
                    f"{LABELS[domain]}, {preset}",
                    plus_minus(one["ruled_out_wrongly"], 2, percent=True),
                    plus_minus(one["assured_wrongly"], 2, percent=True),
                    plus_minus(one["band_coverage"], 1, percent=True),
                    plus_minus(one["decided"], 1, percent=True),
                    plus_minus(one["decided_at_step"], 1),
                )
            )
    head = (
        "",
        "ruled out wrongly, 5 % promised",
        "assured wrongly, 5 % promised",
        "90 % band holds at all steps",
        "episodes decided",
        "median step of decision",
    )
    return Table(head, rows)


def time_table(timing: Mapping[str, Any]) -> Table:
    """The table of the time that each kind of work took."""
    rows = [
        (kind, f"{one['wall']:.1f} s", f"{one['cpu']:.1f} s")
        for kind, one in timing["seconds"].items()
    ]
    return Table(("", "by the clock", "processor"), rows)


def peer_table(timing: Mapping[str, Any]) -> Table:
    """A table of the time for the same steps with quantile-forest and NumPy."""
    rows = [
        (
            f"{LABELS[domain]}, t = {', '.join(map(str, one['steps']))}",
            f"{one['ours']:.2f} s",
            f"{one['peer']:.2f} s",
            f"{one['ratio']:.0f}×",
        )
        for domain, one in timing["peer"].items()
        if one  # empty where the peer is not installed
    ]
    return Table(("", "ours", "quantile-forest + NumPy", "ratio"), rows)
