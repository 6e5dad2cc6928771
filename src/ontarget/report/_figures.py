"""The figures of a report, and the runs whose p fell most: each from an evaluation alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import numpy as np

from ontarget._text import percent, plain
from ontarget._typing import FloatArray, IndexArray
from ontarget.episodes import Translation
from ontarget.errors import Argument, FewEpisodesError, InputError
from ontarget.evaluation import Reliability, pool, pooled_ece, reliability
from ontarget.evaluation.figures import (
    Curve,
    alarm_chart,
    came_true_chart,
    ece_chart,
    episodes_chart,
    outcome_fan,
    path_chart,
    pit_chart,
)
from ontarget.fitted.recorded import RecordedRuns
from ontarget.goal import Goal
from ontarget.live.explaining import Reading, explained
from ontarget.live.explanation import Explanation
from ontarget.live.rules import Promised
from ontarget.report.measured import Measured, outcome_ranks
from ontarget.target import Target

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LEVELS: Final = (0.05, 0.25, 0.5, 0.75, 0.95)
PATH_LEVEL: Final = 0.9
_PATH_LEVELS: Final = (
    PATH_LEVEL,
    0.8,
    0.5,
)  # few episodes hold the whole path with a low level only
_ENDLESS: Final = 0.1  # of a path's later steps without a limit make a picture that says nothing
_WIDE: Final = 4.0  # times as wide as the band for half of all paths: that limits nothing
_OF_ONE: Final = ("fan", "path", "pit")  # figures of one behavior's outcomes
_MOST_STEPS = 40  # that are measured each by itself
_DOUBTFUL = 0.9  # of the missed runs looked more hopeless than the example
_PER_BAR, _FEWEST_BARS, _MOST_BARS = 24, 4, 20  # of a histogram of outcomes
_FALLS = 4  # runs whose fall of p is explained
_MANY = 100  # runs, from which ten ranges of p hold enough each
_EACH = 5  # example episodes of a kind: more lines cannot be told apart


def draw(found: Measured, name: str, *, dark: bool = False) -> Figure:
    """The figure with this name, such as "reliability", drawn from an evaluation."""
    if name not in FIGURES:
        raise InputError(Argument("figure"), f" needs one of {', '.join(FIGURES)}, got {name!r}")
    if name in _OF_ONE and isinstance(found.target, Goal):
        raise InputError(
            f"figure {name!r} shows a single behavior, and the goal is about several; draw it "
            f"for one of them: evaluation.parts[{found.target.names[0]!r}].figure({name!r})"
        )
    if name in _OF_A_RUN:
        return draw_run(found, name, example_episode(found), dark=dark)
    return FIGURES[name](found, dark)


def draw_run(
    found: Measured, name: str, episode: int, *, unit: str = "", dark: bool = False
) -> Figure:
    """A figure of one run: ``"fan"`` or ``"path"``; ``unit`` is the unit of its outcome."""
    return _OF_A_RUN[name](found, dark, episode, _safe(unit or found.fitted.label))


def culprit_of(found: Measured, episode: int) -> str:
    """The name of the behavior that most likely made a run miss its goal."""
    parts = found.parts
    missed = [name for name, part in parts.items() if not part.met[episode]] or list(parts)
    return min(missed, key=lambda name: float(np.nanmean(parts[name].p[:, episode])))


def example_episodes(found: Measured) -> IndexArray:
    """The positions of some episodes that met the target and of some that missed it."""
    known = ~np.isnan(found.p).all(axis=0)
    lowest = np.fmin.reduce(np.where(np.isnan(found.p), np.inf, found.p), axis=0)
    chosen = []
    for kind in (found.met, ~found.met):
        places = np.flatnonzero(kind & known)
        ordered = places[np.argsort(lowest[places], kind="stable")]
        spots = np.linspace(0, ordered.size - 1, min(_EACH, ordered.size))
        chosen.append(ordered[spots.round().astype(np.intp)])
    return np.concatenate(chosen).astype(np.intp)


def example_episode(found: Measured) -> int:
    """One episode to show in detail: it missed the target, and its alarm came in time."""
    complete = np.isnan(found.p).sum(axis=0) == found.p.shape[0] - found.lengths
    missed = np.flatnonzero(~found.met & complete)
    if not missed.size:
        return int(np.argmax(complete))
    hopes = np.argsort(np.fmax.reduce(found.p[:, missed], axis=0), kind="stable")
    in_doubt = int(missed[hopes[int(_DOUBTFUL * (missed.size - 1))]])
    try:
        first = found.alarms(Promised()).first
    except FewEpisodesError:
        return in_doubt
    lead = found.answers.decided_at - first
    raised = missed[first[missed] >= 0]
    caught = raised[lead[raised] > 0] if (lead[raised] > 0).any() else raised
    if not caught.size:
        return in_doubt
    lead = lead[caught]
    return int(caught[np.argsort(lead, kind="stable")[(caught.size - 1) // 2]])


def pit_step(found: Measured) -> int:
    """The step for the histogram of outcomes: halfway through the shortest run."""
    known = np.flatnonzero(~np.isnan(found.p).all(axis=1))
    return int(min(known[-1], max(known[0], (found.lengths.min() - 1) // 2)))


def pit_bars(found: Measured) -> int:
    """The number of bars of the histogram of outcomes, so that each bar has enough runs."""
    ranks, recorded = outcome_ranks(found.fitted, found.episodes, pit_step(found))
    enough = min(ranks.size, int(recorded.min())) // _PER_BAR
    return min(_MOST_BARS, max(_FEWEST_BARS, enough))


def binned(found: Measured) -> Reliability:
    """How often the forecasts in each of ten ranges of p came true; five if there are few runs."""
    pooled = pool(found.p, found.met)
    bins = 10 if found.met.size >= _MANY else 5
    return reliability(pooled.p, pooled.met, bins, episode=pooled.episode)


def _reliability(found: Measured, dark: bool) -> Figure:
    return came_true_chart(binned(found), dark=dark)


def _ece(found: Measured, dark: bool) -> Figure:
    shown, every = _last_known(found) + 1, _pooled_steps(found)

    def measured(method: str) -> list[FloatArray]:
        """The ECE (expected calibration error) at each step, with three more arrays."""
        if every == 1:
            return [part[:shown] for part in found.ece_by_step(method)]
        panel = found.panel(method)
        each = [_ece_of(found, panel[t : t + every]) for t in range(0, shown, every)]
        return [np.repeat(column, every)[:shown] for column in np.array(each).T]

    value, low, high, floor = measured("p")
    curves = {
        "calibrated": Curve(value, low, high),
        # Without its band, which would hide the other.
        "common map" if isinstance(found.target, Goal) else "uncalibrated": Curve.of(
            measured("raw")[0]
        ),
    }
    return ece_chart(curves, floor=floor, band="95 % interval", points=True, dark=dark)


def _ece_of(found: Measured, panel: FloatArray) -> tuple[float, ...]:
    """The ECE (expected calibration error) of some steps together, with three more numbers."""
    if np.isnan(panel).all():
        return (np.nan,) * 4
    return pooled_ece(panel, found.met, ids=found.ids, resampling=found.resampling)


def _pooled_steps(found: Measured) -> int:
    """How many neighbouring steps are measured together, so that the figure shows less noise."""
    return -(-(_last_known(found) + 1) // _MOST_STEPS)


def pooled_in_words(found: Measured) -> str:
    """Words on how many steps are measured together in the figure of calibration errors."""
    every = _pooled_steps(found)
    return "for each step by itself" if every == 1 else f"for {every} steps at a time"


def _episodes(found: Measured, dark: bool) -> Figure:
    chosen = example_episodes(found)
    p = found.p[: _last_known(found) + 1, chosen]
    return episodes_chart(p, found.met[chosen], threshold=_threshold(found), dark=dark)


def _last_known(found: Measured) -> int:
    """The last step at which p is known for any episode."""
    return int(np.flatnonzero(~np.isnan(found.p).all(axis=1))[-1])


def _threshold(found: Measured) -> float | None:
    """The value of p below which an alarm has at most 5 % false alarms, as promised."""
    try:
        triggers = found.alarms(Promised()).triggers
    except FewEpisodesError:
        return None
    value = triggers[0].threshold
    return value if len(triggers) == 1 and np.isfinite(value) else None


def _fan(found: Measured, dark: bool, i: int, unit: str) -> Figure:
    quantiles, so_far = _predicted(found, i)
    return outcome_fan(
        quantiles,
        _LEVELS,
        target=_one_target(found),
        outcome=float(found.outcomes[i]),
        so_far=so_far if found.fitted.behavior.translation is Translation.SHIFT else None,
        unit=unit,
        dark=dark,
    )


def _path(found: Measured, dark: bool, i: int, unit: str) -> Figure:
    one, t = found.episodes.take([i]), path_step(found, i)
    level = path_level(found, i)
    lower, upper = _path_band(found, i, level)
    return path_chart(
        RecordedRuns.of(one, precedents=False, paths=True).paths[0],
        t,
        (lower, upper),
        level=level,
        target=_one_target(found),
        unit=unit,
        dark=dark,
    )


def path_level(found: Measured, episode: int) -> float:
    """The highest level (probability) at which an episode's path band is still narrow enough."""
    lower, upper = _path_band(found, episode, _PATH_LEVELS[-1])
    usual = upper - lower
    for level in _PATH_LEVELS:
        lower, upper = _path_band(found, episode, level)
        limited = np.isfinite(usual) & (upper - lower <= _WIDE * usual)
        endless = int(np.count_nonzero(~limited))
        if endless <= _ENDLESS * usual.size:
            return level
    raise FewEpisodesError(
        f"with so few runs, even a band for half of all paths has no limit at {endless:,} of "
        f"{usual.size:,} later steps; record more"
    )


def _path_band(found: Measured, i: int, level: float) -> tuple[FloatArray, FloatArray]:
    """The lower and upper ends of the ranges in which an episode stays at all later steps."""
    fitted, t, group = found.fitted, path_step(found, i), int(found.groups[i])
    if fitted.unknown(t, group):
        raise FewEpisodesError(f"step {t} is unknown: {fitted.unknown(t, group)}")
    rows = found.episodes.take([i]).at(t, grid=fitted.grid)
    lower, upper = found.contracts.paths.band(t, rows.states, rows.behavior, group, level=level)
    return lower[0], upper[0]


def path_step(found: Measured, episode: int) -> int:
    """The step from which the rest of an episode is predicted: after a third of its steps."""
    return int(found.lengths[episode]) // 3


def _one_target(found: Measured) -> tuple[float, float] | None:
    """The lower and upper end of the target, if it is a single interval; else None."""
    assert isinstance(found.target, Target)  # see `draw`
    components = found.target.components
    return (components[0].lower, components[0].upper) if len(components) == 1 else None


def _safe(text: str) -> str:
    # Between two dollar signs matplotlib reads mathematics, and may fail on it.
    return plain(text).replace("$", r"\$")


def _predicted(found: Measured, i: int) -> tuple[FloatArray, FloatArray]:
    """The predicted outcome of one episode at each step, and what it has reached so far."""
    fitted, one = found.fitted, found.episodes.take([i])
    quantiles, so_far = [], []
    for t in range(int(found.lengths[i])):
        group, rows = int(found.groups[i]), one.at(t, grid=fitted.grid)
        if fitted.unknown(t, group):
            break
        law = fitted.at(t, group)
        quantiles.append(law.likely(rows.states, rows.behavior, _LEVELS)[0])
        so_far.append(rows.behavior[0])
    return np.array(quantiles), np.array(so_far)


def _alarms(found: Measured, dark: bool) -> Figure:
    return alarm_chart(found.alarm_curve(), dark=dark)


def _pit(found: Measured, dark: bool) -> Figure:
    return pit_chart(found.pit(pit_step(found), pit_bars(found)), dark=dark)


_OF_A_RUN: Final[Mapping[str, Callable[[Measured, bool, int, str], Figure]]] = MappingProxyType(
    {"fan": _fan, "path": _path}
)
FIGURES: Final[Mapping[str, Callable[..., Figure]]] = MappingProxyType(
    {
        "reliability": _reliability,
        "ece": _ece,
        "episodes": _episodes,
        **_OF_A_RUN,
        "alarms": _alarms,
        "pit": _pit,
    }
)


def falls(found: Measured) -> list[tuple[int, Explanation]]:
    """For the runs that missed the target and whose p fell furthest, why it fell (M28)."""
    p = np.where(found.answered, found.p, np.nan)  # only a model's answer can be explained
    fall = np.nan_to_num(p[:-1] - p[1:], nan=0.0)
    fall[:, found.met] = 0.0
    if not fall.size or fall.max() <= 0.0:
        return []
    order = np.argsort(-fall.max(axis=0), kind="stable")[:_FALLS]
    chosen = [i for i in order.tolist() if fall[:, i].max() > 0.0]
    return [(i, _explained(found, i, int(fall[:, i].argmax()) + 1)) for i in chosen]


def fall_rows(found: Measured) -> list[list[str]]:
    """Rows of text about the runs whose p fell furthest: run, step, p before, p, and why."""
    return [
        [
            plain(found.ids[i]),
            str(why.t),
            percent(float("nan") if why.p_before is None else why.p_before),
            percent(why.p),
            "; ".join(filter(None, [_culprit(why), why.causes, why.rests_on])),
        ]
        for i, why in falls(found)
    ]


def _culprit(why: Explanation) -> str:
    return f"{plain(why.culprit)} is the likely culprit" * bool(why.culprit)


def _explained(found: Measured, episode: int, t: int) -> Explanation:
    asked = found.contracts.asked(found.target, found.calibration)
    own = found.episodes.take([episode])
    each = [own.only(name) for name in asked.names] if asked.is_joint else [own]

    def reading(step: int) -> Reading:
        pairs = zip(asked.parts, each, strict=True)
        rows = [run.at(step, grid=fitted.grid) for fitted, run in pairs]
        so_far = tuple(float(row.behavior[0]) for row in rows)
        return Reading(step, rows[0].states[0], so_far)

    return explained(asked, reading(t), reading(t - 1), group=int(found.groups[episode]))
