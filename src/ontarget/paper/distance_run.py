"""Runs the distance study in pieces; finished pieces are stored and not computed again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, TypeAlias

from ontarget.paper.cases import CASES, ORACLE_CODE, Case, build_case
from ontarget.paper.distance import (
    METHODS,
    methods_of,
    row_name,
    score,
    score_rivals,
    step_microseconds,
    summarize_case,
)
from ontarget.paper.keeping import Keeper, Piece, finish, missing_weight
from ontarget.paper.plan import Plan
from ontarget.paper.progress import Clock

__all__ = ["DistanceRun"]

# What a piece of a case is: its kind, then its method and partition where it has one.
Key: TypeAlias = tuple[str | int, ...]

# About the processor seconds of each piece at full size; they only move the progress bar.
_TRUTH: Final = {"tamarisk": 40.0, "skirmish": 80.0, "cartpole": 50.0, "mountaincar": 50.0}
_PIECE: Final = {"truth": 10.0, "score": 4.0, "rivals": 8.0, "step": 8.0}


class DistanceRun:
    """One run of the study of how far probabilities are from the truth.

    The true probabilities are stored separately, because they depend on no model.

    Parameters
    ----------
    plan
        Sizes and seed. A quick plan uses only the cases whose truth is fast to compute.
    out
        The folder of the whole run; the true probabilities are in its folder ``oracle``.
    keeper
        Stores the finished pieces.
    """

    def __init__(self, plan: Plan, out: Path, keeper: Keeper) -> None:
        self.plan, self.keeper = plan, keeper
        self._oracle = Keeper(out / "oracle", {}, ORACLE_CODE)
        self._built: dict[str, Case] = {}

    @property
    def cases(self) -> tuple[str, ...]:
        """The names of the processes that are studied."""
        return ("walk", "reservoir") if self.plan.quick else tuple(CASES)

    def missing_weight(self) -> float:
        """The total weight (expected work) of the pieces that are still to be computed."""
        return sum(
            missing_weight(self._pieces(case, None).values(), self.keeper) for case in self.cases
        )

    def measure(self, clock: Clock) -> tuple[dict[str, Any], dict[str, Any]]:
        """By process (case) and method: how far p is from the truth, and the running times.

        The distances are the same every time; the running times are not.
        """
        results: dict[str, Any] = {}
        costs: dict[str, Any] = {}
        for case in self.cases:
            found = {
                key: finish(piece, self.keeper, clock)
                for key, piece in self._pieces(case, clock).items()
            }
            about, scores = found["truth",], self._scores(case, found)
            results[case] = {
                **{name: value for name, value in about.items() if name != "seconds"},
                "methods": summarize_case(scores),
            }
            costs[case] = {
                "truth_seconds": about["seconds"],
                "fit_ms": {
                    name: 1e3 * sum(one["fit_seconds"] for one in each) / len(each)
                    for name, each in scores.items()
                    if each[0]["fit_seconds"] is not None
                },
                "step_us": {
                    row_name(name, calibration): float(micros)
                    for name in self._timed(case)
                    for calibration, micros in found["step", name].items()
                },
            }
            self._built.clear()  # one case's episodes at a time are enough
        return results, costs

    def _scores(
        self, case: str, found: Mapping[Key, dict[str, Any]]
    ) -> dict[str, list[dict[str, Any]]]:
        """The results of every method, one per random division (partition) of the episodes.

        Rivals of the paper's method come last.
        """
        numbers = range(self.plan.partitions)
        own = {
            row_name(name, calibration): [found["score", name, k][calibration] for k in numbers]
            for name in methods_of(case)
            for calibration in METHODS[name].calibrations
        }
        rivals = [found["rivals", k] for k in numbers]
        return own | {f"rival: {name}": [one[name] for one in rivals] for name in rivals[0]}

    def _timed(self, case: str) -> tuple[str, ...]:
        """The methods whose `Watch.step` is timed on this process (case); empty if none is."""
        return methods_of("walk") if case in ("tamarisk", "skirmish", "walk") else ()

    def _pieces(self, case: str, clock: Clock | None) -> dict[Key, Piece]:
        """All pieces of work for one process (case), by their keys, in the order they are done."""
        plan, numbers = self.plan, range(self.plan.partitions)
        make: dict[Key, Callable[[Case], dict[str, Any]]] = {("truth",): _about}
        for name in methods_of(case):
            for k in numbers:
                make["score", name, k] = partial(_score, plan, name, k)
        for k in numbers:
            make["rivals", k] = partial(_rivals, plan, k)
        for name in self._timed(case):
            make["step", name] = partial(_step, plan, name)
        return {
            key: Piece(
                file=_file(case, key),
                kind=f"distance: {key[0]}",
                text=f"{CASES[case].label}: distance to the truth, {key[0]}",
                weight=_weight(case, str(key[0])),
                needs=lambda: self._build(clock, case),
                make=made,
            )
            for key, made in make.items()
        }

    def _build(self, clock: Clock | None, case: str) -> Case:
        assert clock is not None  # nothing is made while the pieces are only counted
        if case not in self._built:
            with clock.timed("distance: truth", f"{CASES[case].label}: the truth", weight=0.0):
                self._built[case] = build_case(
                    case, self._oracle, n_episodes=self.plan.episodes, seed=self.plan.seed
                )
        return self._built[case]


def _about(case: Case) -> dict[str, Any]:
    return {
        "target": [case.target.lower, case.target.upper],
        "rollouts": case.rollouts,
        "steps": sorted(case.tests),
        "states": [case.tests[t].p_true.size for t in sorted(case.tests)],
        "seconds": case.truth_seconds,
    }


def _score(plan: Plan, name: str, partition: int, case: Case) -> dict[str, Any]:
    found = score(plan, METHODS[name], case, partition)
    return {calibration: one.describe() for calibration, one in found.items()}


def _rivals(plan: Plan, partition: int, case: Case) -> dict[str, Any]:
    return {name: one.describe() for name, one in score_rivals(plan, case, partition).items()}


def _step(plan: Plan, name: str, case: Case) -> dict[str, Any]:
    taken = step_microseconds(plan, METHODS[name], case)
    return {str(calibration): us for calibration, us in taken.items()}


def _file(case: str, key: Key) -> str:
    """A short file name for a method's results, because its name has commas and colons."""
    digest = blake2b(repr(key).encode(), digest_size=5).hexdigest()
    return f"distance-{case}-{key[0]}-{digest}"


def _weight(case: str, kind: str) -> float:
    return _TRUTH.get(case, _PIECE[kind]) if kind == "truth" else _PIECE[kind]
