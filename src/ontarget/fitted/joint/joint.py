"""Joins the predicted distributions of several behaviors over the same episodes (M21)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ontarget._arrays import read_only
from ontarget._typing import FloatArray, IndexArray, KeyArray
from ontarget.conformal.ranks import draw_ranks
from ontarget.episodes import Episodes, Translation
from ontarget.episodes.judged import Reading
from ontarget.episodes.rounding import check_goal_sides
from ontarget.errors import Argument, InputError
from ontarget.fitted.fitted import Fitted
from ontarget.fitted.law import NO_CURVE
from ontarget.fitted.recorded import Rehearsal
from ontarget.goal import Goal
from ontarget.target import Target

# A group with fewer rehearsed episodes shares those of all groups.
_ENOUGH_EPISODES = 100


@dataclass(frozen=True, eq=False)
class Joint:
    """The result of a fit: a fitted monitor of each behavior, by name."""

    parts: Mapping[str, Fitted]
    signals: Mapping[str, str | None]  # the column each behavior reads; None for the default one
    target: Target | Goal | None = None  # what was named at the fit

    def __post_init__(self) -> None:
        # A damaged file may hold anything; later code relies on all having the same episodes.
        if not self.parts:
            raise InputError("a monitor of several behaviors needs at least one behavior, got none")
        for name, one in self.parts.items():
            if not (self.is_single or _same_episodes(self.first, one)):
                raise InputError(
                    f"behavior {name!r} needs to be fitted on the same episodes as the others"
                )

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle only the fitted monitors and signals; other values can be computed again."""
        return Joint, (dict(self.parts), dict(self.signals), self.target)

    @property
    def first(self) -> Fitted:
        """The fitted monitor of the first behavior, for properties that all behaviors share."""
        return next(iter(self.parts.values()))

    @property
    def readings(self) -> dict[str, Reading]:
        """For each named behavior, how it is computed, and the signal that it reads."""
        if self.is_single:
            return {}
        return {name: Reading(one.behavior, self.signals[name]) for name, one in self.parts.items()}

    @property
    def grids(self) -> dict[str, float]:
        """For each behavior, the grid to which its outcomes are rounded."""
        return {name: one.grid for name, one in self.parts.items()}

    @property
    def is_single(self) -> bool:
        """Whether this is a monitor of one behavior without a name, which takes targets."""
        return "" in self.parts

    @classmethod
    def of(cls, fitted: Fitted) -> Joint:
        """The result of a fit on a single behavior, which needs no name."""
        return cls({"": fitted}, {"": None}, fitted.trained.target)

    def checked(self, target: Any) -> Target | Goal:
        """The target or goal itself; an `InputError` if this monitor does not take it."""
        if not self.is_single:
            return goal_over(tuple(self.parts), target)
        if isinstance(target, Goal):
            raise InputError(
                "this monitor has a single behavior without a name, so target needs a Target and "
                f"behavior a number, got {target!r}; fit on episodes with behavior={{NAME: …}} for "
                "goals"
            )
        return checked_target(target)

    def check_answerable(self, target: Target | Goal) -> None:
        """Raise an `InputError` if this monitor has no answers about this target or goal."""
        if not isinstance(self.checked(target), Goal):
            return
        for name in target.names:  # type: ignore[union-attr]
            own = self.parts[name]
            if own.curves is None:
                raise InputError(
                    "a goal over several behaviors needs a monitor with learn and assure parts, "
                    "got one with the paper's parts; fit with preset='default'"
                )
            if own.behavior.translation is Translation.OWN:
                raise InputError(
                    f"behavior {name!r} is a class with its own translate method, so a goal cannot "
                    f"combine it with other behaviors; use a goal over this behavior alone"
                )

    def alike(self, episodes: Episodes, *, any_horizon: bool = False) -> dict[str, Episodes]:
        """For each behavior, by name, the same episodes judged by this behavior alone."""
        if self.is_single:
            return {"": self.first.alike(episodes, any_horizon=any_horizon)}
        if tuple(sorted(episodes.names)) != tuple(sorted(self.parts)):
            raise InputError(
                f"the episodes need the monitor's behaviors {', '.join(self.parts)}, got "
                f"{', '.join(episodes.names) or 'one without a name'}; read them with like=monitor"
            )
        return {
            name: own.alike(episodes.only(name), any_horizon=any_horizon)
            for name, own in self.parts.items()
        }

    def check_sides(self, goal: Target | Goal) -> None:
        """Raise a `TargetError` if rounding changes whether a recorded run is a success (M1)."""
        if not isinstance(goal, Goal):
            self.first.check_sides(goal)
            return
        each = {name: self.parts[name] for name in goal.names}
        observed = {
            name: own for name, one in each.items() if (own := one.assured_runs) is not None
        }
        learned = {
            name: one.rehearsal.unrounded(self.n_rehearsed)
            for name, one in each.items()
            if one.rehearsal is not None
        }
        for runs in (observed, learned):
            if runs:
                check_goal_sides(runs, goal, self.grids)
        for name, one in each.items():
            if not one.unrounded:
                one.check_sides(goal.projection(name))

    @cached_property
    def excess(self) -> FloatArray:
        """(assure episodes,): the largest distance of the outcomes from their predicted medians."""
        return read_only(np.max([one.excess for one in self.parts.values()], axis=0))

    @cached_property
    def sorted_excess(self) -> tuple[FloatArray, ...]:
        """For each group, the values of `excess` of its assure episodes, ascending."""
        return tuple(read_only(np.sort(self.excess[own])) for own in self.first.members)

    def unknown(self, t: int, group: int) -> bool:
        """Whether at least one of the behaviors has no model that answers at this step."""
        return bool(self.trouble(t, group))

    def trouble(self, t: int, group: int) -> str:
        """Why a behavior has no model that answers at this step, as text; empty if all have."""
        key = ("trouble", t, group)
        if key not in self._kept:
            each = (one.unknown(t, group) for one in self.parts.values())
            self._kept[key] = next(filter(None, each), "")
        return self._kept[key]  # type: ignore[return-value]

    @property
    def n_rehearsed(self) -> int:
        """How many learning episodes are predicted, for each behavior, as if they were new."""
        return min(len(self.rehearsal(name)) for name in self.parts)

    def rehearsal(self, name: str) -> Rehearsal:
        """The rehearsal of a behavior: learning episodes, each predicted as if it were new."""
        found = self.parts[name].rehearsal
        assert found is not None  # with preset="paper" a question is an error before this
        return found

    def learned_places(self, names: tuple[str, ...], t: int, group: int) -> Members:
        """The episodes of a group, and their order by rank in each behavior, near step t."""
        steps = self.rehearsal(names[0]).steps
        place = int(np.argmin(np.abs(steps - t)))
        key = ("learned", names, place, group)
        if key not in self._kept:
            self._kept[key] = self._learned_at(names, place, group)
        return self._kept[key]  # type: ignore[return-value]

    def remainders(self, name: str, t: int, group: int) -> FloatArray:
        """The values at which a behavior's prediction is read near step t, ascending."""
        rehearsal = self.rehearsal(name)
        place = int(np.argmin(np.abs(rehearsal.steps - t)))
        key = ("remainders", name, place, group)
        if key not in self._kept:
            seen = np.unique(rehearsal.ladder[place])
            law = self.parts[name].at(int(rehearsal.steps[place]), group)
            self._kept[key] = read_only(law.remainders(seen))
        return self._kept[key]  # type: ignore[return-value]

    @cached_property
    def _kept(self) -> dict[tuple[object, ...], object]:
        return {}

    def _learned_at(self, names: tuple[str, ...], place: int, group: int) -> Members:
        n, ranks = self.n_rehearsed, []
        for name in names:
            rehearsal = self.rehearsal(name)
            rows, index = rehearsal.rows_at(place)
            own = np.full(n, np.nan)
            inside = index < n
            own[index[inside]] = rehearsal.ranks[rows][inside]
            ranks.append(own)
        known = ~np.isnan(np.stack(ranks)).any(axis=0)
        here = known & (self.rehearsal(names[0]).groups[:n] == group)
        who = np.flatnonzero(here if np.count_nonzero(here) >= _ENOUGH_EPISODES else known)
        if not who.size:  # nothing is known: treat the behaviors as independent
            return Members(who, read_only(np.zeros((len(names), 1))))
        places = [np.argsort(np.argsort(own[who], kind="stable")) for own in ranks]
        return Members(who, read_only(np.stack(places).astype(np.float64)))

    def assured_ranks(self, names: tuple[str, ...], t: int, group: int) -> FloatArray:
        """(episodes, behaviors): where outcomes fell in their predictions, from 0 to 1."""
        if self.unknown(t, group):
            return read_only(np.empty((0, len(names))))
        key = ("assured", names, t, group)
        if key not in self._kept:
            ranks = [self._ranks_of(self.parts[name], t, group) for name in names]
            self._kept[key] = read_only(np.stack(ranks, axis=1))
        return self._kept[key]  # type: ignore[return-value]

    def _ranks_of(self, fitted: Fitted, t: int, group: int) -> FloatArray:
        limits = assured_limits(fitted, t, group)
        if limits is None:
            return NO_CURVE
        # Ties are broken by the episodes' positions, because a model file does not store ids.
        keys: KeyArray = limits.episodes.astype(np.uint64)
        return draw_ranks(limits.left, limits.right, keys, seed=fitted.trained.seed, step=t)


def checked_target(target: object) -> Target:
    """The target itself; an `InputError` if it is not a `Target`."""
    if not isinstance(target, Target):
        raise InputError(
            Argument("target"),
            f" needs a Target, got {target!r}; Target.at_least(60), Target.at_most(60) and "
            'Target.parse("60:") make one',
        )
    return target


def goal_over(behaviors: Sequence[str], goal: object) -> Goal:
    """The goal itself; an `InputError` if it is not a `Goal` over these behaviors."""
    known = ", ".join(behaviors)
    if not isinstance(goal, Goal):
        raise InputError(
            f"this monitor has the behaviors {known}, so target needs a Goal, got {goal!r}; "
            f'Goal.parse("{behaviors[0]} >= 60") makes one'
        )
    for name in goal.names:
        if name not in behaviors:
            raise InputError(
                Argument("goal"), f" needs behaviors among {known}, got {name!r} in {goal}"
            )
    return goal


def _same_episodes(one: Fitted, other: Fitted) -> bool:
    """Whether two behaviors were fitted on the same episodes, as far as the file shows."""
    alike = (
        one.horizon == other.horizon
        and not one.history
        and not other.history
        and one.schema == other.schema
        and one.groups == other.groups
        and np.array_equal(one.assure_groups, other.assure_groups)
        and np.array_equal(np.isinf(one.excess), np.isinf(other.excess))
    )
    if one.assure is not None and other.assure is not None:
        alike = alike and np.array_equal(one.assure.lengths, other.assure.lengths)
    a, b = one.rehearsal, other.rehearsal
    if a is None or b is None:
        return alike and a is b
    n = min(len(a), len(b))
    same = [(a.steps, b.steps), (a.lengths[:n], b.lengths[:n]), (a.groups[:n], b.groups[:n])]
    return alike and all(np.array_equal(*pair) for pair in same)


class Members(NamedTuple):
    """Positions of learning episodes, and their order by rank in each behavior."""

    who: IndexArray
    ranks: FloatArray


class AssuredLimits(NamedTuple):
    """Positions of assure episodes (held-out runs), and predicted probabilities at one step.

    ``left`` is the predicted P(outcome < y) at each episode's own outcome y, ``right`` is P(outcome
    <= y).
    """

    episodes: IndexArray
    left: FloatArray
    right: FloatArray


def assured_limits(fitted: Fitted, t: int, group: int) -> AssuredLimits | None:
    """The predicted probabilities at the outcomes of a group's assure episodes, at step t."""
    observed: Episodes | None = fitted.observed
    if observed is None or t >= observed.horizon:
        return None
    rows = observed.at(t, grid=fitted.grid)
    groups = fitted.assure_groups[fitted.known_outcomes][rows.index]
    own = np.flatnonzero(~fitted.bad_readings(rows.states) & (groups == group))
    law = fitted.at(t, group)
    X = law.inputs(rows.states[own], rows.behavior[own])
    left, right = law.cdf_limits(X, rows.remaining[own])
    return AssuredLimits(rows.index[own], left, right)
