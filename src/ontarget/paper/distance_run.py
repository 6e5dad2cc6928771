"""The study of distances to the truth, piece by piece: what is kept, and what is still to do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

from ontarget.paper.cases import CASES, ORACLE_CODE, Case, build_case
from ontarget.paper.distance import (
    METHODS,
    methods_of,
    score,
    score_rivals,
    step_microseconds,
    summarize_case,
)
from ontarget.paper.keeping import Keeper, plain
from ontarget.paper.plan import Plan
from ontarget.paper.progress import Clock

__all__ = ["DistanceRun"]

# About the processor seconds of each piece at full size; they only move the progress bar.
_TRUTH: Final = {"tamarisk": 40.0, "skirmish": 80.0, "cartpole": 50.0, "mountaincar": 50.0}
_PIECE: Final = {"truth": 10.0, "score": 4.0, "rivals": 8.0, "step": 8.0}


class DistanceRun:
    """One run of the study; the truth is kept apart, because it depends on no model.

    Parameters
    ----------
    plan
        Sizes and seed. A quick one asks about the cases alone whose truth takes no time.
    out
        The folder of the whole run: the truth is in its ``oracle``.
    keeper
        Keeps the finished pieces.
    """

    def __init__(self, plan: Plan, out: Path, keeper: Keeper) -> None:
        self.plan, self.keeper = plan, keeper
        self._oracle = Keeper(out / "oracle", {}, ORACLE_CODE)
        self._built: dict[str, Case] = {}

    @property
    def cases(self) -> tuple[str, ...]:
        """The processes that are asked about."""
        return ("walk", "reservoir") if self.plan.quick else tuple(CASES)

    def missing(self) -> Iterator[tuple[str, float]]:
        """The pieces that are not kept yet, each with its weight."""
        for case in self.cases:
            for name, kind in self._pieces(case):
                if not self.keeper.has(name, "json"):
                    yield kind, _weight(case, kind)

    def measure(self, clock: Clock) -> tuple[dict[str, Any], dict[str, Any]]:
        """The distances by case and method, and their costs, which differ from run to run."""
        results: dict[str, Any] = {}
        costs: dict[str, Any] = {}
        for case in self.cases:
            about = self._piece(clock, case, "truth", _file(case, "truth"), self._about)
            scores = self._scores(clock, case)
            micros = {name: self._step(clock, case, name) for name in self._timed(case)}
            results[case] = {
                **{name: value for name, value in about.items() if name != "seconds"},
                "methods": summarize_case(scores),
            }
            costs[case] = {
                "truth_seconds": about["seconds"],
                "fit_ms": {
                    name: 1e3 * sum(one["fit_seconds"] for one in each) / len(each)
                    for name, each in scores.items()
                    if name in METHODS
                },
                "step_us": micros,
            }
            self._built.clear()  # one case's episodes at a time are enough
        return results, costs

    def _scores(self, clock: Clock, case: str) -> dict[str, list[dict[str, Any]]]:
        """Every method's scores, one per partition; the rivals come last."""
        numbers = range(self.plan.partitions)
        found = {
            name: [self._score(clock, case, name, k) for k in numbers] for name in methods_of(case)
        }
        rivals = [self._rivals(clock, case, k) for k in numbers]
        for name in rivals[0]:
            found[f"rival: {name}"] = [one[name] for one in rivals]
        return found

    def _score(self, clock: Clock, case: str, name: str, k: int) -> dict[str, Any]:
        return self._piece(
            clock,
            case,
            "score",
            _file(case, name, k),
            lambda built: score(self.plan, METHODS[name], built, k).describe(),
        )

    def _rivals(self, clock: Clock, case: str, k: int) -> dict[str, Any]:
        return self._piece(
            clock,
            case,
            "rivals",
            _file(case, "rivals", k),
            lambda built: {
                name: one.describe() for name, one in score_rivals(self.plan, built, k).items()
            },
        )

    def _step(self, clock: Clock, case: str, name: str) -> float:
        found = self._piece(
            clock,
            case,
            "step",
            _file(case, name, "step"),
            lambda built: {"us": step_microseconds(self.plan, METHODS[name], built)},
        )
        return float(found["us"])

    def _timed(self, case: str) -> tuple[str, ...]:
        """Whose live step is timed; that takes a monitor of every step of the horizon."""
        if case == "tamarisk":
            return methods_of(case)
        return methods_of("walk") if case in ("skirmish", "walk") else ()

    def _pieces(self, case: str) -> Iterator[tuple[str, str]]:
        numbers = range(self.plan.partitions)
        yield _file(case, "truth"), "truth"
        for name in methods_of(case):
            yield from ((_file(case, name, k), "score") for k in numbers)
        yield from ((_file(case, "rivals", k), "rivals") for k in numbers)
        yield from ((_file(case, name, "step"), "step") for name in self._timed(case))

    def _piece(
        self,
        clock: Clock,
        case: str,
        kind: str,
        file: str,
        make: Callable[[Case], dict[str, Any]],
    ) -> dict[str, Any]:
        """The kept piece, or a new one that is kept."""
        kept = self.keeper.table(file)
        if kept is None:
            self._build(clock, case)
            text = f"{CASES[case].label}: distance to the truth, {kind}"
            with clock.timed(f"distance: {kind}", text, weight=_weight(case, kind)):
                kept = plain(make(self._built[case]))
            self.keeper.keep_table(file, kept)
        return kept

    def _build(self, clock: Clock, case: str) -> None:
        if case not in self._built:
            with clock.timed("distance: truth", f"{CASES[case].label}: the truth", weight=0.0):
                self._built[case] = build_case(
                    case, self._oracle, n_episodes=self.plan.episodes, seed=self.plan.seed
                )

    @staticmethod
    def _about(case: Case) -> dict[str, Any]:
        return {
            "target": [case.target.lower, case.target.upper],
            "rollouts": case.rollouts,
            "steps": sorted(case.tests),
            "states": [case.tests[t].p_true.size for t in sorted(case.tests)],
            "seconds": case.truth_seconds,
        }


def _file(case: str, *name: object) -> str:
    """A short file name; method names hold commas and colons."""
    if name == ("truth",):
        return f"distance-{case}-truth"
    digest = blake2b(repr(name).encode(), digest_size=5).hexdigest()
    return f"distance-{case}-{digest}"


def _weight(case: str, kind: str) -> float:
    return _TRUTH.get(case, _PIECE[kind]) if kind == "truth" else _PIECE[kind]
