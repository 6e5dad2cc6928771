"""The figures of a report, each drawn from an evaluation alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import numpy as np

from ontarget._typing import FloatArray, IndexArray
from ontarget.episodes import Behavior, Column, DiscountedSum, Last, Max, Mean, Min, Sum
from ontarget.errors import CalibrationError, InputError
from ontarget.evaluation.figures import (
    Curve,
    alarm_chart,
    ece_chart,
    episodes_chart,
    outcome_fan,
    pit_chart,
    reliability_diagram,
)
from ontarget.report.evaluation import Evaluation

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["FIGURES", "draw", "example_episode", "example_episodes", "outcome_name", "pit_step"]

_LEVELS: Final = (0.05, 0.25, 0.5, 0.75, 0.95)
_EACH = 5  # example episodes of a kind: more lines cannot be told apart


def draw(found: Evaluation, name: str, *, dark: bool = False) -> Figure:
    """The figure of that name."""
    if name not in FIGURES:
        raise InputError(f"figure needs one of {', '.join(FIGURES)}, got {name!r}")
    return FIGURES[name](found, dark)


def example_episodes(found: Evaluation) -> IndexArray:
    """Some episodes that met the target and some that missed it, from plain to close ones."""
    known = ~np.isnan(found.p).all(axis=0)
    lowest = np.fmin.reduce(np.where(np.isnan(found.p), np.inf, found.p), axis=0)
    chosen = []
    for kind in (found.met, ~found.met):
        places = np.flatnonzero(kind & known)
        ordered = places[np.argsort(lowest[places], kind="stable")]
        spots = np.linspace(0, ordered.size - 1, min(_EACH, ordered.size))
        chosen.append(ordered[spots.round().astype(np.intp)])
    return np.concatenate(chosen).astype(np.intp)


def example_episode(found: Evaluation) -> int:
    """One episode to look at closely: a miss whose alarm came as early as it usually does."""
    complete = np.isnan(found.p).sum(axis=0) == found.p.shape[0] - found.lengths
    missed = np.flatnonzero(~found.met & complete)
    if not missed.size:
        return int(np.argmax(complete))
    try:
        first = found.promised_alarms().first
    except (CalibrationError, InputError):
        return int(missed[0])
    caught = missed[first[missed] >= 0]
    if not caught.size:
        return int(missed[0])
    lead = (found.lengths - first)[caught]
    return int(caught[np.argsort(lead, kind="stable")[(caught.size - 1) // 2]])


def pit_step(found: Evaluation) -> int:
    """The step whose outcomes are ranked: halfway through the shortest known run."""
    known = np.flatnonzero(~np.isnan(found.p).all(axis=1))
    return int(min(known[-1], max(known[0], (found.lengths.min() - 1) // 2)))


def _reliability(found: Evaluation, dark: bool) -> Figure:
    return reliability_diagram({"calibrated": found.reliability}, dark=dark)


def _ece(found: Evaluation, dark: bool) -> Figure:
    curves = {}
    for name, method in (("calibrated", "p"), ("uncalibrated", "raw")):
        by_step = found.ece_by_step(method)
        curves[name] = Curve(by_step.value, by_step.low, by_step.high)
    return ece_chart(curves, floor=found.ece_by_step().floor, dark=dark)


def _episodes(found: Evaluation, dark: bool) -> Figure:
    chosen = example_episodes(found)
    return episodes_chart(
        found.p[:, chosen], found.met[chosen], threshold=_threshold(found), dark=dark
    )


def _threshold(found: Evaluation) -> float | None:
    """The promised threshold where there is one for all episodes."""
    try:
        rules = found.promised_alarms().rules
    except (CalibrationError, InputError):
        return None
    value = rules[0].threshold
    return value if len(rules) == 1 and np.isfinite(value) else None


def _fan(found: Evaluation, dark: bool) -> Figure:
    i = example_episode(found)
    quantiles, so_far = _predicted(found, i)
    components = found.target.components
    target = (components[0].lower, components[0].upper) if len(components) == 1 else None
    return outcome_fan(
        quantiles,
        _LEVELS,
        target=target,
        outcome=float(found.outcomes[i]),
        so_far=so_far if found.fitted.behavior.additive else None,
        unit=outcome_name(found.fitted.behavior),
        dark=dark,
    )


def _predicted(found: Evaluation, i: int) -> tuple[FloatArray, FloatArray]:
    """The calibrated quantiles of one episode's outcome at each of its steps, and what it had."""
    fitted, one = found.fitted, found.episodes.take([i])
    quantiles, so_far = [], []
    for t in range(int(found.lengths[i])):
        step, rows = fitted.at(t, int(found.groups[i])), one.at(t, grid=fitted.grid)
        if fitted.unknown(step):
            break
        X, offset = step.inputs(rows.states, rows.behavior), step.offset(rows.behavior)
        n = step.ranks.n
        assert step.model is not None
        # The rank itself stands for its share of outcomes: never an infinite end, unlike a promise.
        ranks = [step.ranks.order(min(max(round(q * (n + 1)), 1), n)) for q in _LEVELS]
        quantiles.append(step.model.quantile(X, ranks)[0] + offset[0])
        so_far.append(rows.behavior[0])
    return np.array(quantiles), np.array(so_far)


def outcome_name(behavior: Behavior) -> str:
    """What the outcome of a run is called."""
    kinds = {Sum: "total reward", DiscountedSum: "discounted reward", Last: "last reward"}
    kinds |= {Max: "highest reward", Min: "lowest reward", Mean: "mean reward"}
    if isinstance(behavior, Column):
        return behavior.column
    return kinds.get(type(behavior), "outcome")


def _alarms(found: Evaluation, dark: bool) -> Figure:
    return alarm_chart(found.alarm_curve(), dark=dark)


def _pit(found: Evaluation, dark: bool) -> Figure:
    return pit_chart(found.pit(pit_step(found)), dark=dark)


FIGURES: Final[Mapping[str, Callable[[Evaluation, bool], Figure]]] = MappingProxyType(
    {
        "reliability": _reliability,
        "ece": _ece,
        "episodes": _episodes,
        "fan": _fan,
        "alarms": _alarms,
        "pit": _pit,
    }
)
