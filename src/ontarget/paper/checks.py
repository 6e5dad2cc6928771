"""What the reproduction must achieve, what was measured, and whether it was achieved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from ontarget.paper.cases import CASES
from ontarget.paper.distance import DEFAULT, OWN_MAP, UNIT
from ontarget.paper.plan import LABELS
from ontarget.paper.tables import plus_minus
from ontarget.report import Table

__all__ = ["checks_table", "first_items_seconds", "limits_table"]

Results = Mapping[str, Any]

_MODES: Final = (("noise", "with noise"), ("atoms", "exact atoms"))
_MOST_ECE: Final = {
    ("tamarisk", "noise"): 0.005,
    ("tamarisk", "atoms"): 0.002,
    ("skirmish", "noise"): 0.010,
    ("skirmish", "atoms"): 0.010,
    ("smax", "noise"): 0.013,
    ("smax", "atoms"): 0.013,
}
# Excess Brier score · 10⁴ that the default may have on each process.
_MOST_EXCESS: Final = {
    "tamarisk": 4.6,
    "skirmish": 117.0,
    "walk": 5.6,
    "reservoir": 7.0,
    "storm": 10.0,
    "drifting": 12.0,
    "cartpole": 62.0,
    "mountaincar": 30.0,
}
_MOST_EXCESS_OWN_MAP: Final = {"cartpole": 20.0}
_MOST_SECONDS, _LEAST_RATIO, _MOST_MICROSECONDS = 180.0, 10.0, 60.0


def checks_table(results: Results) -> Table:
    """A table of the requirements on the results, what was measured, and whether they are met."""
    rows = [*_calibration(results), *_distances(results.get("distance", {}))]
    return Table(("asked", "measured", "met"), rows, sentences=True)


def limits_table(timing: Mapping[str, Any]) -> Table:
    """A table of the time limits, what was measured, and whether they were kept."""
    return Table(("asked", "measured", "met"), list(_times(timing)), sentences=True)


def first_items_seconds(timing: Mapping[str, Any]) -> float | None:
    """The seconds for simulation, main table and figures; None if not all of them were made."""
    seconds = timing["seconds"]
    kinds = ("simulation", "noise", "exact atoms", "figures")
    if any(kind not in seconds for kind in kinds):
        return None
    return float(sum(seconds[kind]["wall"] for kind in kinds))


def _calibration(results: Results) -> Iterator[tuple[str, str, str]]:
    for domain, found in results["domains"].items():
        label, noise = LABELS[domain], found["noise"]
        low, high = noise["coverage_band"]
        each = ", ".join(f"{100 * share:.1f}" for share in noise["coverage"]["each"])
        yield (
            f"{label}: coverage in its 99 % Beta-binomial band, every partition",
            f"{each} % in {100 * low:.1f} to {100 * high:.1f} %",
            _yes(all(noise["coverage_in_band"])),
        )
        study = results.get("studies", {}).get(domain, {})
        for mode, name in _MODES:
            truth = study.get("truth") if mode == "atoms" else None
            yield _ece_check(f"{label}, {name}", found[mode], _MOST_ECE[domain, mode], truth)
            yield _brier_check(f"{label}, {name}", found[mode])
            if mode in study.get("default", {}):
                yield _brier_check(f"{label}, {name}, default monitor", study["default"][mode])


def _ece_check(
    where: str, found: Results, limit: float, truth: Results | None
) -> tuple[str, str, str]:
    """A row of the table: whether the expected calibration error (ECE) is below its limit.

    The ECE is that of the forecasts of all steps together. If ``truth`` is given, the row also
    shows the ECE of the true probabilities.
    """
    ece, together = found["ece"]["low"], found["ece_all_partitions"]["low"]
    shown = f"{plus_minus(ece)}; all partitions together {together:.4f}"
    verdict = _yes(ece["mean"] <= limit)
    if truth is not None:
        shown += f" (the truth itself: {plus_minus(truth['ece'])}; "
        shown += f"{truth['ece_all_partitions']:.4f})"
        if ece["mean"] > limit and truth["ece"]["mean"] > limit:
            verdict = f"{_yes(together <= limit)} together; no by partition, like the truth itself"
    return f"{where}: pooled ECE of p_low at most {limit}", shown, verdict


def _brier_check(where: str, found: Results) -> tuple[str, str, str]:
    """A row of the table: whether calibration raised the Brier score.

    The Brier score of calibrated forecasts is compared with that of raw forecasts of the same
    episodes.
    """
    difference = found["brier_minus_raw"]
    price: float | None = difference["price"]
    verdict = _yes(difference["mean"] <= 0.0)
    # Even with a perfect model, calibration costs the price of ranks known from n episodes only.
    for extra, words in (
        (price or 0.0, "no, by the price of ranks"),
        (0.0, "within 2 standard errors"),
    ):
        if 0.0 < difference["mean"] <= extra + 2.0 * difference["se"]:
            verdict = words
    return (
        f"{where}: calibrated Brier score no worse than raw",
        f"{found['brier']['p']['mean']:.5f} against {found['brier']['raw']['mean']:.5f}, "
        f"difference {1e5 * difference['mean']:+.1f} ± {1e5 * difference['se']:.1f} · 10⁻⁵"
        + (f" (price of ranks {1e5 * price:.1f})" if price is not None else ""),
        verdict,
    )


def _distances(found: Results) -> Iterator[tuple[str, str, str]]:
    for case, one in found.items():
        for method, limits in ((DEFAULT, _MOST_EXCESS), (OWN_MAP, _MOST_EXCESS_OWN_MAP)):
            if case in limits:
                excess, unit = (one["methods"][m]["excess"]["mean"] for m in (method, UNIT))
                yield (
                    f"{CASES[case].label}: excess Brier score · 10⁴ at most {limits[case]:g}, "
                    f"{method}",
                    f"{1e4 * excess:.1f}, {excess / unit:.2f} of the paper's forest",
                    _yes(1e4 * excess <= limits[case]),
                )


def _times(timing: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    seconds = first_items_seconds(timing)
    if seconds is not None:
        yield (
            f"table and figures, simulation included, in {_MOST_SECONDS:.0f} s on 2 cores",
            f"{seconds:.0f} s",
            _yes(seconds <= _MOST_SECONDS),
        )
    for domain, one in timing["peer"].items():
        if one:
            yield (
                f"{LABELS[domain]}: at least {_LEAST_RATIO:.0f} times as fast as quantile-forest",
                f"{one['ratio']:.0f} times",
                _yes(one["ratio"] >= _LEAST_RATIO),
            )
    for case, one in timing.get("distance", {}).items():
        if DEFAULT in one["step_us"]:
            micros = one["step_us"][DEFAULT]
            yield (
                f"{CASES[case].label}: Watch.step of the default in {_MOST_MICROSECONDS:.0f} µs",
                f"{micros:.0f} µs, forest per step {one['step_us'][UNIT]:.0f} µs",
                _yes(micros <= _MOST_MICROSECONDS),
            )


def _yes(flag: bool) -> str:
    return "yes" if flag else "no"
