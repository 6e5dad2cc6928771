"""The tables that bench/quality.py prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ontarget.evaluation import corrected_difference
from yardstick.measures import PHASES, Scores
from yardstick.truth import Distance

Found = Mapping[str, Sequence[Scores]]  # by method, one per split


def lines(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of text: the first column to the left, the others to the right."""
    table = [list(head), *map(list, rows)]
    widths = [max(len(row[k]) for row in table) for k in range(len(head))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if k == 0 else cell.rjust(width)
            for k, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in table
    )


def score_table(found: Found) -> str:
    """A text table: the mean of each measure over all splits, for each method."""
    head = ("", "Brier", "log loss", "ECE pooled", "ECE by step", "no answer", "CPU seconds")
    names = ("brier", "log_loss", "ece", "ece_by_step")
    rows = []
    for method, each in found.items():
        cells = [f"{_mean(each, name):.4f}" for name in names]
        no_answer, seconds = _mean(each, "unanswered"), _mean(each, "seconds")
        rows.append((method, *cells, f"{100 * no_answer:.1f} %", f"{seconds:.1f}"))
    return lines(head, rows)


def difference_table(found: Found, n_new: int, n_past: int) -> str:
    """A text table: each measure of the first method minus that of each other one, · 10⁴.

    Below 0, the first method is better.
    """
    first, *others = found
    head = (f"{first} minus", "Brier", "log loss", "ECE pooled", *PHASES)
    rows = []
    for other in others:
        pairs = list(zip(found[first], found[other], strict=True))
        drawn = [
            [getattr(a, name) - getattr(b, name) for a, b in pairs]
            for name in ("brier", "log_loss", "ece")
        ]
        drawn += [[a.brier_by_phase[k] - b.brier_by_phase[k] for a, b in pairs] for k in range(3)]
        rows.append((other, *(_difference(np.array(one), n_new, n_past) for one in drawn)))
    return lines(head, rows)


def jump_table(found: Found) -> str:
    """A text table: how much p changes from step to step, and how much more where models change.

    p is the probability of meeting the target.
    """
    head = ("mean |Δp|", "old blocks", "new blocks", "elsewhere", "old ratio", "new ratio")
    rows = []
    for method, each in found.items():
        old, new, rest = (float(np.mean([one.jumps[place] for one in each])) for place in head[1:4])
        rows.append(
            (
                method,
                f"{old:.4f}",
                f"{new:.4f}",
                f"{rest:.4f}",
                f"{old / rest:.2f}",
                f"{new / rest:.2f}",
            )
        )
    return lines(head, rows)


def distance_table(found: Mapping[str, Mapping[str, Sequence[Distance]]], first: str) -> str:
    """A text table of how far each method is from the truth, by process or by number of episodes.

    It has the excess Brier score · 10⁴ (how much higher the score is than that of the true
    probability) and |p − p_true| · 10³.
    """
    names = list(next(iter(found.values())))
    rows = [
        (row, *(_distance(each[name]) if name in each else "–" for name in names))
        for row, each in found.items()
    ]
    return lines((first, *names), rows)


def _distance(each: Sequence[Distance]) -> str:
    excess, absolute = (
        np.array([getattr(d, name) for d in each]) for name in ("excess", "absolute")
    )
    no_answer = np.mean([d.unanswered for d in each])
    note = f" ({100 * no_answer:.0f} % none)" if no_answer > 0.005 else ""
    return f"{1e4 * excess.mean():.1f} / {1e3 * absolute.mean():.0f}{note}"


def _difference(drawn: np.ndarray, n_new: int, n_past: int) -> str:
    found = corrected_difference(drawn, n_past=n_past, n_new=n_new)
    return f"{1e4 * found.value:+.0f} ± {1e4 * found.error:.0f}{'*' if found.shows else ' '}"


def _mean(each: Sequence[Scores], name: str) -> float:
    return float(np.mean([getattr(one, name) for one in each]))
