"""How often promises break: with the library as it is, and with a planted bug (a trap).

    python bench/traps.py [M20] [M24] [M25] [M26]

The arguments choose sections of docs/methods.md: promises with confidence (M20), runs that were
stopped (M24), another policy (M25), after drift (M26). The output is the table in section M13 of
that page. The tests in tests/validity compare each rate with its promise, by an exact binomial
bound or by an identity, and fail for each trap.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from scipy.special import betaincinv

from ontarget import Episodes, GoalMonitor
from ontarget.conformal import levels, pcqr
from ontarget.conformal.levels import bounds_at_once
from ontarget.fitted import guarantee

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from validity import test_after_drift as drift
from validity import test_confidence as confidence
from validity import test_stopped_runs as stopped
from validity.turns import outcome
from yardstick.figures import keep

SETS = confidence.REPLICATES


class Planted(AbstractContextManager):
    """A context in which some functions of the library are replaced by wrong ones."""

    def __init__(self, *bugs: tuple[ModuleType, str, Any]) -> None:
        self._bugs, self._patch = bugs, pytest.MonkeyPatch()

    def __enter__(self) -> None:
        for module, name, bug in self._bugs:
            self._patch.setattr(module, name, bug)

    def __exit__(self, *_: object) -> None:
        self._patch.undo()


def confident() -> Iterator[tuple[object, ...]]:
    """Table rows on how often promises with a confidence break (method M20 in docs/methods.md)."""
    rank, ceil, score, tail = (
        levels.rank_within,
        levels.ceil_rank,
        pcqr.score_rank,
        pcqr.tail_rank,
    )
    average = Planted((guarantee, "rank_within", lambda share, n, _: rank(share, n)))
    band = Planted((guarantee, "ceil_rank", lambda level, n, _: ceil(level, n)))
    of_one_row = Planted(
        (pcqr, "score_rank", lambda level, n, kind, *, unbounded, confidence: score(
            level, n, kind, unbounded=unbounded)),
        (pcqr, "tail_rank", lambda level, n, _: tail(level, n)),
    )  # fmt: skip
    k = np.arange(1, 201)
    for what, trap, planted, count, n in (
        ("alarms", "a rate that holds on average", average,
         lambda: confidence.sets_with_too_many_alarms(ties=None), SETS),
        ("ruled out", "a band that holds on average", band,
         confidence.sets_that_rule_out_too_often, SETS),
        ("intervals", "levels that hold on average", of_one_row,
         lambda: int(confidence.uncovered_sets(power=3.0).max()), SETS // 3),
    ):  # fmt: skip
        yield "M20", what, 0.1, count() / n, trap, within(planted, count) / n
    chosen = confidence.chosen_too_optimistically
    yield (
        "M20", "a rate chosen after looking", 0.1,
        chosen(bounds_at_once(200, confidence.CONFIDENCE)) / SETS,
        "bounds of one rate at a time", chosen(betaincinv(k, 201 - k, 0.9)) / SETS,
    )  # fmt: skip


def within(planted: AbstractContextManager, count: Callable[[], int]) -> int:
    """The result of ``count()`` inside the context ``planted``, in which the library has a bug."""
    with planted:
        return count()


def stops() -> Iterator[tuple[object, ...]]:
    """Table rows on how often promises break if some runs were stopped (M24 in docs/methods.md)."""
    share = {}
    for way in ("worst-case", "drop"):
        found = [one for seed in range(2) for one in stopped.turns(seed, way, atoms=False)]
        share[way] = np.mean([too_low(*one) for one in found])
    held, trapped = share.values()
    yield "M24", "worst case, promises", 0.3, held, "stopped runs left out", trapped
    for what, trap, broken, ways, n in (
        ("stop probabilities", "runs that happened not to be stopped",
         stopped.broken_promises_of_walks, ("weights", "drop"), 500),
        ("recorded cut-off", "finished runs alone",
         stopped.broken_promises_of_lives, ("horizon", "drop"), 600),
    ):  # fmt: skip
        held, trapped = (broken(way) / n for way in ways)
        yield "M24", what, 0.1, held, trap, trapped


def too_low(monitor: GoalMonitor, run: Episodes) -> bool:
    """Whether a run ends below what was promised at its start; nobody stopped this run."""
    step = run.at(0)
    return bool(outcome(run) < monitor.promise(0, step.states, step.behavior, stopped.LEVEL)[0])


def policies() -> Iterator[tuple[object, ...]]:
    """A table row on runs thinned for another policy (M25 in docs/methods.md)."""
    episodes, ratios = stopped.recorded_actions()
    fair = episodes.thinned(ratios, bound=1.6**3).outcomes
    last = episodes.thinned(ratios[:, 2].copy(), bound=1.6).outcomes
    yield ("M25", "thinned runs, share below 2 (truth)", 0.104, np.mean(fair < 2),
           "by the last action alone", np.mean(last < 2))  # fmt: skip


def changes() -> Iterator[tuple[object, ...]]:
    """Table rows on how often promises break after drift is noticed (M26 in docs/methods.md)."""
    n = 1000
    for move in (2.0, 1.0):
        held, trapped = (
            sum(drift.missed_after_an_alarm(run, restarts=one, move=move) for run in range(n)) / n
            for one in (True, False)
        )
        yield "M26", f"restart after a move of {move:g} sd", 0.1, held, "runs before it", trapped
    yield ("M26", "harm, p always .05 too high", 0.05, drift.harm_alarms(300, 400) / 300,
           "a bet that p is calibrated",
           drift.alarms_of_a_bet_that_p_is_calibrated(300, 400) / 300)  # fmt: skip


def main() -> None:
    """Print the whole table, or only the rows of the methods that are named as arguments."""
    parts = {"M20": confident, "M24": stops, "M25": policies, "M26": changes}
    print("| | promise | at most | measured | trap | measured |\n|---|---|---|---|---|---|")
    for name in sys.argv[1:] or parts:
        for method, what, promised, held, trap, broken in parts[name]():
            row = (method, what, f"{promised:g}", f"{held:.3f}", trap, f"{broken:.3f}")
            print("|", " | ".join(map(str, row)), "|", flush=True)
            beside = f"{trap}: {broken:.3f}"
            keep(f"promises broken: {what}", held, "", asked=f"≤ {promised:g}", beside=beside)


if __name__ == "__main__":
    main()
