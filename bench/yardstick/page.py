"""The tables of docs/quality.md, written from the numbers of a run."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ontarget.evaluation import Difference, corrected_difference
from ontarget.study import standing_of
from yardstick.questions import REAL

RIVALS = {"boosted": "boosted classifier", "logistic": "logistic regression"}
_TABLE = re.compile(r"(<!-- table: (\w+)[^>]*-->\n).*?(?=<!-- end of table -->)", re.DOTALL)


def renewed(page: str, results: Mapping[str, Any]) -> str:
    """The page docs/quality.md with new tables; a table without new numbers stays as it is.

    ``<!-- table: real -->`` or ``<!-- table: truth -->`` marks the beginning of a table, and ``<!--
    end of table -->`` its end.
    """
    tables = {name: make(results[name]) for name, make in (("real", _real), ("truth", _truth))}

    def put(found: re.Match[str]) -> str:
        return found[1] + tables[found[2]] if tables[found[2]] else found[0]

    return _TABLE.sub(put, page)


def _real(found: Mapping[str, Any]) -> str:
    """A table with one row per log: the Brier scores, and how ours differs from each other one.

    The Brier score is the mean squared error of the probability.
    """
    head = ("log and target", "past, new", "ontarget", *RIVALS.values())
    head += tuple(f"beside {name}" for name in RIVALS.values())
    rows = []
    for name, own in found.items():
        if not {"ours", *RIVALS} <= own["scores"].keys():
            continue
        brier = {method: _mean(own["scores"][method], "brier") for method in ("ours", *RIVALS)}
        rows.append(
            (
                f"{name}: {REAL[name].says}",
                f"{own['n_past']:,}, {own['n_new']:,}",
                *_lowest_in_bold([brier[method] for method in brier], 4),
                *(_beside(own, rival) for rival in RIVALS),
            )
        )
    return _table(head, rows)


def _beside(own: Mapping[str, Any], rival: str) -> str:
    """The difference of two Brier scores with its 95 % interval, and who is better.

    The Brier score is the mean squared error of the probability.
    """
    told: list[Difference] = []
    for measure in ("brier", "log_loss"):
        pairs = zip(own["scores"]["ours"], own["scores"][rival], strict=True)
        drawn = [ours[measure] - theirs[measure] for ours, theirs in pairs]
        told.append(corrected_difference(drawn, n_past=own["n_past"], n_new=own["n_new"]))
    brier = told[0]
    return f"{brier.value:+.4f} ± {brier.reach:.4f}: {standing_of(told)}".replace("-", "−")


def _truth(found: Mapping[str, Any]) -> str:
    """A table with one row per process and number of past episodes: the excess Brier score · 10⁴.

    The excess is how much higher the score is than that of the true probability.
    """
    head = ("process", "past episodes", "ontarget", *RIVALS.values())
    rows = []
    for name, grown in found.items():
        for size, own in grown.items():
            if {"ours", *RIVALS} <= own.keys():
                excess = [1e4 * _mean(own[method], "excess") for method in ("ours", *RIVALS)]
                rows.append((name, f"{int(size):,}", *_lowest_in_bold(excess, 1)))
    return _table(head, rows)


def _lowest_in_bold(numbers: Sequence[float], digits: int) -> list[str]:
    texts = [f"{number:.{digits}f}" for number in numbers]
    return [f"**{text}**" if float(text) == min(map(float, texts)) else text for text in texts]


def _mean(each: Sequence[Mapping[str, Any]], measure: str) -> float:
    return float(np.mean([one[measure] for one in each]))


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return ""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
