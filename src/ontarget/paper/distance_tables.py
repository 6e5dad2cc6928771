"""Tables of how far each method's probabilities are from the truth."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ontarget.paper.cases import CASES
from ontarget.paper.distance import BEFORE, DEFAULT, OWN_MAP, SMALL_LEAF, UNIT
from ontarget.report import Table

__all__ = ["cost_table", "overview_table", "steps_table"]

Study = Mapping[str, Any]


def overview_table(found: Study, costs: Study) -> Table:
    """A table with one row per process: how far p is from the truth.

    It compares the paper's forest, an earlier default of this library, and today's default.
    """
    rows = []
    for case, one in found.items():
        shown = [one["methods"][m] for m in (UNIT, SMALL_LEAF, BEFORE, DEFAULT, OWN_MAP)]
        rollouts = one["rollouts"]
        truth = "exact" if rollouts is None else f"{rollouts} rollouts"
        before, default = (method["excess"]["mean"] for method in shown[2:4])
        rows.append(
            (
                CASES[case].label,
                f"{truth} of {one['states'][0]:,} states, {costs[case]['truth_seconds']:.0f} s",
                *(_excess(method) for method in shown),
                f"{default / before:.2f}",
                " → ".join(f"{shown[k]['absolute']['mean']:.4f}" for k in (0, 2, 3)),
            )
        )
    head = ("", "truth", "leaf 15", "leaf 5", "default before", "default", "own map")
    return Table(
        (*head, "default / before", "|p − p_true|"),
        rows,
        "Excess Brier score · 10⁴ of a forest per step with leaves of 15 episodes (“paper”) and of "
        "5, of the default before and of the default, whose p is calibrated by one curve for all "
        "targets (“default”) or by this target's own curve (“own map”). |p − p_true|: leaf 15 → "
        "default before → default",
    )


def cost_table(case: str, found: Study, costs: Study) -> Table:
    """A table of every method on one process: its distance to the truth, and its cost."""
    unit = found["methods"][UNIT]["excess"]["mean"]
    rows = []
    for name, one in found["methods"].items():
        step = costs["step_us"].get(name)
        own = name in costs["fit_ms"]
        rows.append(
            (
                name,
                _excess(one),
                f"{one['excess']['mean'] / unit:.2f}",
                f"{1e3 * one['absolute']['mean']:.1f} ± {1e3 * one['absolute']['sd']:.1f}",
                f"{costs['fit_ms'][name]:.0f}" if own else "–",
                f"{step:.0f}" if step is not None else "–",
                f"{one['bytes_per_step'] / 1e6:.2f}" if own else "–",
            )
        )
    head = ("", "excess Brier · 10⁴", "ratio", "|p − p_true| · 10³", "fit, ms", "step, µs", "MB")
    low, high = found["target"]
    return Table(head, rows, f"{CASES[case].label}, target [{low:g}, {high:g}]")


def steps_table(case: str, found: Study) -> Table:
    """A table of how far every method's p is from the truth on one process, step by step."""
    rows = [
        (
            name,
            *(
                f"{_short(1e4 * excess)} / {_short(1e3 * absolute)}"
                for excess, absolute in zip(
                    one["excess_by_step"], one["absolute_by_step"], strict=True
                )
            ),
        )
        for name, one in found["methods"].items()
    ]
    head = ("", *(f"t = {t}" for t in found["steps"]))
    return Table(
        head, rows, f"{CASES[case].label}: excess Brier score · 10⁴ / |p − p_true| · 10³, by step"
    )


def _excess(one: Mapping[str, Any]) -> str:
    return f"{1e4 * one['excess']['mean']:.2f} ± {1e4 * one['excess']['sd']:.2f}"


def _short(value: float) -> str:
    """The number as text with at most three digits: 183, 10.2, 4.0."""
    return f"{value:.0f}" if abs(value) >= 99.95 else f"{value:.1f}"
