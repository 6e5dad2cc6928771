"""Small monitors of every kind that must keep its answers, fitted in a second or two each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from ontarget import Episodes, Goal, GoalMonitor, QuantileForest, StackedForest, Target

STEPS = 6
FEATURES = ("place", "kind", "wobble")
# The default model with fewer trees, so that a kept file is small.
LEAN = StackedForest(n_trees=8)
Question = Target | Goal


@dataclass(frozen=True)
class Case:
    """A monitor, what it is asked, and the new runs that it is asked about."""

    fit: Callable[[], GoalMonitor]
    new: Callable[[], Episodes]
    target: Question
    more: tuple[Question, ...] = ()
    own_targets: bool = False
    alarm: dict[str, Any] = field(default_factory=lambda: {"false_alarm_rate": 0.2})


def runs(
    n: int,
    seed: int,
    *,
    behavior: Any = "sum",
    decimals: int | None = 1,
    ragged: bool = False,
    horizon: int | None = STEPS,
    groups: bool = False,
    cut: str | None = None,
) -> Episodes:
    """Runs of a number that wanders, a category, and a reading that is missing now and then.

    Rewards have as many decimals as asked for, or are continuous. Runs that are ``cut`` are told
    as `Episodes.from_arrays` is to take them: "worst-case", "weights" or "horizon".
    """
    rng = np.random.default_rng(seed)
    longest = rng.integers(3, STEPS + 1, n) if ragged else np.full(n, STEPS)
    stopped = np.full(n, STEPS)
    if cut in ("worst-case", "weights"):  # each step but the first may be the last
        draws = rng.random((n, STEPS)) < 0.03
        draws[:, 0] = False
        stopped = np.where(draws.any(axis=1), draws.argmax(axis=1), STEPS)
    cutoff = np.where(rng.random(n) < 0.8, STEPS, 3) if cut == "horizon" else np.full(n, STEPS)
    lengths = np.minimum(np.minimum(longest, stopped), cutoff)
    place = np.cumsum(rng.normal(size=(n, STEPS)), axis=1) / 2.0
    kind = rng.integers(0, 3, (n, STEPS)).astype(float)
    wobble = rng.normal(size=(n, STEPS))
    group = rng.integers(0, 2, n)
    gain = place + 0.5 * kind - 0.4 + 0.6 * group[:, None] + rng.normal(size=(n, STEPS))
    wobble[rng.random((n, STEPS)) < 0.05] = np.nan
    gain = gain if decimals is None else np.round(gain, decimals)
    states = np.stack((place, kind, wobble), axis=2)
    own = isinstance(behavior, str) and behavior.startswith(("column:", "total:"))
    return Episodes.from_arrays(
        [one[:length] for one, length in zip(states, lengths, strict=True)],
        None if own else [one[:length] for one, length in zip(gain, lengths, strict=True)],
        behavior_values=[np.cumsum(one[:length]) for one, length in zip(gain, lengths, strict=True)]
        if own
        else None,
        ids=[f"run {seed}-{i}" for i in range(n)],
        truncated=(lengths < longest) if cut else None,
        groups=np.where(group == 0, "calm", "storm") if groups else None,
        horizon=4 if cut == "horizon" else horizon,
        behavior=behavior,
        features=FEATURES,
        categorical=["kind"],
        censored=cut or "refuse",
        stop_probability=(
            [np.where(np.arange(length) > 0, 0.03, 0.0) for length in lengths]
            if cut == "weights"
            else None
        ),
        stop_bound=2.0 if cut == "weights" else None,
        cutoff=cutoff if cut == "horizon" else None,
    )


def frame_of(n: int, seed: int) -> pl.DataFrame:
    """A log with an end and a column that tells at which step somebody stepped in."""
    found = runs(n, seed, ragged=True).to_frame()
    rng = np.random.default_rng(seed)
    stepped_in = pl.Series("stepped_in", rng.random(found.height) < 0.01)
    return found.with_columns(stepped_in)


def _fitted(monitor: GoalMonitor, *args: Any, **options: Any) -> Callable[[], GoalMonitor]:
    """How to fit this monitor to runs such as these."""
    return lambda: monitor.fit(runs(*args, **options), progress=False)


def _simple(target: Question, *more: Question, model: Any = None, **options: Any) -> Case:
    """A case that differs from the default in its runs or its model only."""
    monitor = GoalMonitor(LEAN) if model is None else model
    return Case(_fitted(monitor, 150, 1, **options), lambda: runs(60, 2, **options), target, more)


def _recalibrated(renew_p: bool) -> GoalMonitor:
    monitor = GoalMonitor(LEAN).fit(runs(150, 1), progress=False)
    return monitor.recalibrate(runs(100, 3), renew_p=renew_p)


def _aimed(n: int, seed: int) -> Episodes:
    """Runs that each have a target of their own; every fifth has none."""
    targets = [Target.at_least(2.0), Target.at_most(9.5), Target(-2.0, 6.0), None]
    return runs(n, seed).aimed([targets[i % 5] if i % 5 < 4 else None for i in range(n)])


def _measured() -> GoalMonitor:
    split = runs(80, 1).split(assure=0)
    return GoalMonitor(LEAN, min_calibration=5).fit(split=split, progress=False)


def _stepped_in() -> GoalMonitor:
    log = frame_of(170, 1)
    episodes = Episodes.from_frame(log, intervened="stepped_in", horizon=STEPS, censored="drop")
    return GoalMonitor(LEAN).fit(episodes, progress=False)


TWO = {"total": "sum", "peak": "max"}
FAR = Target.at_most(-8.0) | Target.at_least(12.0)
BOTH = Goal({"total": Target.at_least(2.0), "peak": Target.at_most(4.5)})
EITHER = BOTH | Goal({"total": Target.at_least(9.0)})

CASES: dict[str, Case] = {
    "default": _simple(Target.at_least(2.0), Target(-1.0, 6.0), FAR, model=GoalMonitor()),
    "continuous": _simple(Target.at_least(2.0), Target(-1.0, 6.0), FAR, decimals=None),
    "integers": _simple(Target.at_least(2.0), Target(3.0, 3.0), FAR, decimals=0),
    "paper": _simple(
        Target.at_least(2.0),
        Target(-1.0, 6.0),
        FAR,
        model=GoalMonitor(QuantileForest(n_trees=20, min_leaf=5), preset="paper"),
    ),
    "forest": _simple(
        Target.at_least(2.0), model=GoalMonitor(QuantileForest(n_trees=20, min_leaf=5))
    ),
    "last": _simple(Target.at_least(0.5), behavior="last"),
    "max": _simple(Target.at_most(3.5), Target.at_least(4.0), behavior="max"),
    "min": _simple(Target.at_least(-2.5), behavior="min"),
    "mean": _simple(Target.at_least(0.5), behavior="mean"),
    "discounted": _simple(Target.at_least(1.0), behavior="discounted:0.9"),
    "first": _simple(Target.at_most(4.0), behavior="first:>2:9"),
    "share": _simple(Target.at_least(0.25), behavior="share:>1"),
    "column": _simple(Target.at_least(2.0), behavior="column:fuel"),
    "total": _simple(Target.at_least(2.0), behavior="total:fuel"),
    "ragged": _simple(Target.at_least(2.0), FAR, ragged=True),
    "inferred": _simple(Target.at_least(2.0), ragged=True, horizon=None),
    "history": _simple(Target.at_least(2.0), model=GoalMonitor(LEAN, history=1), ragged=True),
    "bounded": _simple(
        Target.at_least(2.0), model=GoalMonitor(LEAN, reward_bounds=(-12.0, 12.0)), ragged=True
    ),
    "groups": _simple(Target.at_least(2.0), model=GoalMonitor(LEAN, group="group"), groups=True),
    "worst-case": Case(
        _fitted(GoalMonitor(LEAN), 200, 1, ragged=True, cut="worst-case"),
        lambda: runs(60, 2, ragged=True),
        Target.at_least(2.0),
        alarm={"alarm_below": 0.4},
    ),
    "weights": Case(
        _fitted(GoalMonitor(LEAN), 180, 1, cut="weights"), lambda: runs(60, 2), Target.at_least(2.0)
    ),
    "cut-off": Case(
        _fitted(GoalMonitor(LEAN), 200, 1, cut="horizon"),
        lambda: runs(60, 2, cut="horizon"),
        Target.at_least(2.0),
    ),
    "stepped-in": Case(_stepped_in, lambda: runs(60, 2, ragged=True), Target.at_least(2.0)),
    "own-targets": Case(
        lambda: GoalMonitor(LEAN).fit(_aimed(160, 1), progress=False),
        lambda: _aimed(60, 2),
        Target.at_least(2.0),
        own_targets=True,
    ),
    "recalibrated": Case(
        lambda: _recalibrated(renew_p=False), lambda: runs(60, 2), Target.at_least(2.0)
    ),
    "renewed": Case(lambda: _recalibrated(renew_p=True), lambda: runs(60, 2), Target.at_least(2.0)),
    "measured": Case(_measured, lambda: runs(60, 2), Target.at_least(2.0)),
    "goal": _simple(BOTH, EITHER, behavior=TWO),
    "goal-groups": Case(
        _fitted(GoalMonitor(LEAN, group="group"), 260, 1, behavior=TWO, groups=True, ragged=True),
        lambda: runs(60, 2, behavior=TWO, groups=True, ragged=True),
        BOTH,
    ),
}
