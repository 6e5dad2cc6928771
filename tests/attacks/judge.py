"""What becomes of a forged file: refused in one clear way, or answers that make sense."""

from __future__ import annotations

import warnings
from contextlib import suppress
from pathlib import Path

import numpy as np

from ontarget import Goal, Target
from ontarget.errors import (
    AlarmWarning,
    CalibrationError,
    FewEpisodesError,
    InputError,
    ModelFileError,
)
from ontarget.monitor.monitor import GoalMonitor

REFUSED, ANSWERED = "refused", "answered"
NESTED = (Target(-0.5, 0.5), Target(-2.0, 1.0), Target.at_least(-4.0) | Target.at_most(-5.0))
# What a linear model says of a category or a gap that its training did not hold.
UNSEEN = ("needs a category from training", "needs every feature")
# What a kernel with checked bounds raises, in the message of the refusal that is made of it.
OUT_OF_BOUNDS = "IndexError('index is out of bounds')"
# What a monitor says that has no paths to follow, whatever else was asked.
LEFT_OUT = ("paths=True", "predicts with recorded runs", "there is no path band")


class SenselessError(AssertionError):
    """A forged file gave numbers that no monitor may give."""


def ending(path: Path) -> str:
    """How a file ends: refused, answered, or the name of the fault."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", AlarmWarning)
            ask(GoalMonitor.load(path))
    except ModelFileError as error:
        return f"kernel: {error!s:.200}" if OUT_OF_BOUNDS in str(error) else REFUSED
    except MemoryError:
        return "out of memory"
    except Exception as error:
        if isinstance(error, InputError) and any(text in str(error) for text in UNSEEN):
            return ANSWERED
        return f"{type(error).__name__}: {error!s:.200}"
    return ANSWERED


def ask(monitor: GoalMonitor) -> None:
    """Everything that a user asks, on a few states; raises what is no answer."""
    rng = np.random.default_rng(3)
    columns = monitor.fitted.state_schema if not monitor.readings else monitor.schema
    states = rng.normal(size=(20, len(columns)))
    for place in columns.categorical:
        states[:, place] = rng.integers(0, 3, size=20)
    if monitor.readings:
        ask_goal(monitor, states)
        return
    group = None if monitor.groups is None else monitor.groups[-1]
    for t in sorted(
        {0, 1, monitor.horizon // 2, monitor.horizon - 1} & set(range(monitor.horizon))
    ):
        check_outlooks(monitor, t, states, group)
        check_intervals(monitor, t, states[:2], group)
        check_recorded_runs(monitor, t, states[:2], group)
    watch_runs(monitor, states[:, : len(monitor.schema)], group)


def ask_goal(monitor: GoalMonitor, states: np.ndarray) -> None:
    """What a user asks of a monitor of several behaviors."""
    # A forged file may hold another number of behaviors, under other names.
    names = list(monitor.readings)
    narrow, wide = (Goal({name: Target(-reach, reach) for name in names}) for reach in (1.0, 3.0))
    so_far = dict.fromkeys(names, 0.5)
    for t in {0, monitor.horizon - 1} & set(range(monitor.horizon)):
        found = [monitor.outlook(t, states, so_far, goal) for goal in (narrow, wide)]
        known = ~np.isnan(found[0].p)
        for run in np.flatnonzero(known).tolist():
            low, p, high, plausibility = (
                np.array([getattr(one, name)[run] for one in found])
                for name in ("low", "p", "high", "plausibility")
            )
            check_numbers(low, p, high)
            check_numbers(np.zeros(2), plausibility, np.ones(2))
        with suppress(CalibrationError):
            monitor.box(t, states[:2], so_far, 0.8)
    watch = monitor.watch(narrow, alarm_below=0.3)
    for t in range(min(monitor.horizon, 8)):
        watch.step(states[t], 0.0 if t == 0 else dict.fromkeys(names, 0.5))
    with suppress(FewEpisodesError):
        monitor.watch(narrow, false_alarm_rate=0.3)


def check_outlooks(monitor: GoalMonitor, t: int, states: np.ndarray, group: object) -> None:
    """One row, and enough rows for the kernels that take many at once."""
    for rows in (states[:1], states):
        found = monitor.outlook(t, rows, 0.5, NESTED, groups=group)
        known = ~np.isnan(found.p)
        # A target that arithmetic decides is known also where no model can answer the others.
        decided = (found.low == found.high) & ((found.p == 0.0) | (found.p == 1.0))
        if (known[~known.all(axis=1)] & ~decided[~known.all(axis=1)]).any():
            raise SenselessError("one target is known where another is not")
        least, most = np.zeros(len(NESTED)), np.ones(len(NESTED))
        for run in np.flatnonzero(known.all(axis=1)).tolist():
            check_numbers(found.low[run], found.p[run], found.high[run])
            check_numbers(least, found.plausibility[run], most)
            check_numbers(least, found.assurance[run], most)


def check_numbers(low: np.ndarray, p: np.ndarray, high: np.ndarray) -> None:
    """In order, in [0, 1], and never less for a wider target."""
    ordered = (low >= 0).all() and (low <= high).all() and (high <= 1).all()
    if not (ordered and ((p >= 0) & (p <= 1)).all()):
        raise SenselessError(f"low {low}, p {p}, high {high}")
    if any((np.diff(one) < 0).any() for one in (low, p, high)):
        raise SenselessError(f"not monotone in the target: low {low}, p {p}, high {high}")


def check_intervals(monitor: GoalMonitor, t: int, states: np.ndarray, group: object) -> None:
    for find in (monitor.interval, monitor.band):
        try:
            found = find(t, states, 0.5, 0.8, groups=group)
        except CalibrationError:  # too few episodes stand behind the step
            continue
        if np.isnan(found.lower).any() or not (found.lower <= found.upper).all():
            raise SenselessError(f"an interval from {found.lower} to {found.upper}")


def check_recorded_runs(monitor: GoalMonitor, t: int, states: np.ndarray, group: object) -> None:
    """The runs behind an answer, and the path to come."""
    try:
        why = monitor.explain(t, states[0], 0.5, NESTED[1], group=group)
        if why.missed is not None and not 0.0 <= why.missed <= 1.0 + 1e-9:
            raise SenselessError(f"precedents of which {why.missed} miss")
        monitor.path_band(t, states[:1], 0.5, 0.8, groups=group, all_steps=True)
        band = monitor.path_band(t, states, 0.5, 0.8, groups=group)
    except (CalibrationError, FewEpisodesError):  # too few episodes stand behind the step
        return
    except InputError as error:
        if isinstance(error, ModelFileError) or not any(one in str(error) for one in LEFT_OUT):
            raise
        return
    if np.isnan(band.lower).any() or not (band.lower <= band.upper).all():
        raise SenselessError(f"a path from {band.lower} to {band.upper}")


def watch_runs(monitor: GoalMonitor, states: np.ndarray, group: object) -> None:
    """A run to its end, a few steps of a fleet, and a promised alarm."""
    target = NESTED[1]
    watch = monitor.watch(target, alarm_below=0.3, group=group)
    for t in range(min(monitor.horizon, 8)):
        outlook = watch.step(states[t], 0.0 if t == 0 else 0.5)
        if not np.isnan(outlook.p):
            check_numbers(*(np.array([x]) for x in (outlook.low, outlook.p, outlook.high)))
    fleet = monitor.fleet(target, 20, groups=group, alarm_below=0.3)
    for _ in range(2):
        p = fleet.step(states).p
        if not ((p >= 0) & (p <= 1) | np.isnan(p)).all():
            raise SenselessError(f"a fleet's p {p}")
    with suppress(FewEpisodesError):
        monitor.watch(target, false_alarm_rate=0.3, group=group)
        own = monitor.watch_own(false_alarm_rate=0.3, group=group)
        own.reset(target)
        own.step(states[0])
