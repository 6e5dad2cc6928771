"""The laws of several behaviors over the same episodes, and how their outcomes depend (M21).

Each behavior keeps its own law, as in a monitor of that behavior alone. The laws are joined by the
copula of ranks: where the outcomes of each learning episode lay in their laws, as predicted by
models that did not learn from it. If low outcomes in one behavior went with high ones in another, p
of a new run takes that into account. For a goal over one behavior, p is the same as p of its
target.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ontarget._readonly import read_only
from ontarget._threads import run_blocks
from ontarget._typing import FloatArray, IndexArray, KeyArray
from ontarget.conformal._ranks import draw_ranks
from ontarget.episodes import Episodes, Translation
from ontarget.episodes._judged import Reading
from ontarget.errors import InputError
from ontarget.fitted._kernels import DECIDED, NUMBERS
from ontarget.fitted._rehearsed import AskedStep, rehearsed_laws
from ontarget.fitted._spread import share_bounds
from ontarget.fitted.fitted import Fitted
from ontarget.fitted.joint._function import AskedLaw, answers_by_function
from ontarget.fitted.joint._joint_kernel import N_SIDES, goals_of_rows, pieces_of_rows
from ontarget.fitted.law import NO_CURVE, StepLaw
from ontarget.fitted.question import Question
from ontarget.fitted.rehearsal import Rehearsal
from ontarget.goal import Box, Goal
from ontarget.target import Target

__all__ = ["GoalAnswers", "GoalQuestion", "Joint"]

_BLOCK = 64
# A group with fewer rehearsed episodes shares those of all groups.
_ENOUGH_EPISODES = 100


class GoalAnswers(NamedTuple):
    """Outlooks on a goal, and on its target for each behavior.

    ``numbers`` are (rows, numbers), ``parts`` (behaviors, rows, numbers).
    """

    numbers: FloatArray
    parts: FloatArray


@dataclass(frozen=True, eq=False)
class GoalQuestion:
    """A goal as the kernels read it: the targets of each behavior, and the boxes made of them.

    The first target of each behavior holds all its values with which the goal can be met.
    """

    goal: Goal
    names: tuple[str, ...]
    questions: tuple[Question, ...]
    boxes: tuple[IndexArray, IndexArray]

    @classmethod
    def of(cls, goal: Goal, grids: Mapping[str, float]) -> GoalQuestion:
        """The question whether a run meets the goal."""
        names, kinds = goal.names, (goal.boxes, goal.disjoint())
        targets = {name: [goal.projection(name)] for name in names}
        for box in (*kinds[0], *kinds[1]):
            for name, target in box:
                if target not in targets[name]:
                    targets[name].append(target)
        return cls(
            goal=goal,
            names=names,
            questions=tuple(Question.of(targets[name], grids[name]) for name in names),
            boxes=tuple(_places(boxes, names, targets) for boxes in kinds),  # type: ignore[arg-type]
        )

    @property
    def is_function(self) -> bool:
        """Whether the goal is given by a function, so that it has no boxes."""
        return self.goal.is_function

    @property
    def shape(self) -> tuple[int, int]:
        """How many targets a behavior has, and how many pieces a target, at most."""
        pieces = max(int(np.diff(one.first).max()) for one in self.questions)
        return max(len(one.targets) for one in self.questions), pieces


def _places(
    boxes: Sequence[Box], names: Sequence[str], targets: Mapping[str, list[Target]]
) -> IndexArray:
    """(boxes, behaviors): the place of each box's target among those of its behavior, or -1."""
    found = np.full((len(boxes), len(names)), -1, dtype=np.intp)
    for b, box in enumerate(boxes):
        for name, target in box:
            found[b, names.index(name)] = targets[name].index(target)
    return read_only(found)


@dataclass(frozen=True, eq=False)
class Joint:
    """The result of a fit on several behaviors: a fitted monitor of each, by name."""

    parts: Mapping[str, Fitted]
    signals: Mapping[str, str | None]  # what each reads; None for the reward, or its own column

    def __post_init__(self) -> None:
        # A file may hold anything; later, the same episodes are taken for granted.
        if not self.parts:
            raise InputError("a monitor of several behaviors needs at least one")
        for name, one in self.parts.items():
            if not _same_episodes(self.first, one):
                raise InputError(f"behavior {name!r} needs the episodes of the others")

    def __reduce__(self) -> tuple[Any, ...]:
        """Unpickling computes the derived values again."""
        return Joint, (dict(self.parts), dict(self.signals))

    @property
    def first(self) -> Fitted:
        """The fitted monitor of the first behavior, for what all have in common."""
        return next(iter(self.parts.values()))

    @property
    def readings(self) -> dict[str, Reading]:
        """The signal that each behavior reads."""
        return {name: Reading(one.behavior, self.signals[name]) for name, one in self.parts.items()}

    @property
    def grids(self) -> dict[str, float]:
        """The grid of each behavior's outcomes."""
        return {name: one.grid for name, one in self.parts.items()}

    def question(self, goal: Goal) -> GoalQuestion:
        """The goal as the kernels read it; refused where it cannot be asked."""
        self.checked(goal)
        for name in goal.names:
            own = self.parts[name]
            if own.curves is None:
                raise InputError(
                    "a goal over several behaviors needs a monitor with learn and assure parts, "
                    "got one with the paper's parts; fit with preset='default'"
                )
            if own.behavior.translation is Translation.OWN:
                raise InputError(
                    f"behavior {name!r} defines its own translate, so a goal cannot combine it "
                    f"with others; use a goal over it alone"
                )
        return GoalQuestion.of(goal, self.grids)

    def checked(self, goal: object) -> Goal:
        """The goal; an `InputError` if it is not a goal over these behaviors."""
        known = ", ".join(self.parts)
        if not isinstance(goal, Goal):
            raise InputError(
                f"this monitor has the behaviors {known}, so target needs a Goal, got {goal!r}; "
                f'Goal.parse("{next(iter(self.parts))} >= 60") makes one'
            )
        for name in goal.names:
            if name not in self.parts:
                raise InputError(f"goal needs behaviors among {known}, got {name!r} in {goal}")
        return goal

    def alike(self, episodes: Episodes, *, any_horizon: bool = False) -> dict[str, Episodes]:
        """The episodes under the name of each behavior, in the monitor's dictionaries."""
        if tuple(sorted(episodes.names)) != tuple(sorted(self.parts)):
            raise InputError(
                f"the episodes need the monitor's behaviors {', '.join(self.parts)}, got "
                f"{', '.join(episodes.names) or 'one without a name'}; read them with like=monitor"
            )
        return {
            name: own.alike(episodes.only(name), any_horizon=any_horizon)
            for name, own in self.parts.items()
        }

    @cached_property
    def excess(self) -> FloatArray:
        """M_i of each assure episode: the largest over its steps and behaviors (M21)."""
        return read_only(np.max([one.excess for one in self.parts.values()], axis=0))

    @cached_property
    def sorted_excess(self) -> tuple[FloatArray, ...]:
        """M_i of the assure episodes of each group, sorted."""
        return tuple(read_only(np.sort(self.excess[own])) for own in self.first.members)

    def unknown(self, t: int, group: int) -> bool:
        """Whether no model answers at this step for at least one of the behaviors."""
        return bool(self.trouble(t, group))

    def trouble(self, t: int, group: int) -> str:
        """Why no model answers at this step; empty if models do."""
        return next(filter(None, (one.unknown(t, group) for one in self.parts.values())), "")

    def outlook(
        self,
        question: GoalQuestion,
        t: int,
        group: int,
        states: FloatArray,
        so_far: Sequence[FloatArray],
        own_map: FloatArray = NO_CURVE,
    ) -> GoalAnswers:
        """Outlooks on a goal at one step; ``so_far`` are in the order of the question's names."""
        unknown = self.unknown(t, group)
        if unknown and question.is_function:  # arithmetic decides nothing about a function
            return GoalAnswers(
                np.full((so_far[0].size, NUMBERS), np.nan), np.empty((0, so_far[0].size, NUMBERS))
            )
        laws = [self.parts[name].at(t, group) for name in question.names]
        assured = self.assured_ranks(question.names, t, group)
        members = self.learned_places(question.names, t, group).ranks
        nobody = np.full(so_far[0].size, -1, dtype=np.intp)
        if question.is_function:
            asked = {
                name: AskedLaw(law, states, had, self._remainders(name, t, group))
                for name, law, had in zip(question.names, laws, so_far, strict=True)
            }
            known = len(assured) / max(1, len(assured) + self.first.stopped[group])
            bounds = share_bounds(len(assured))
            numbers = answers_by_function(
                question.goal,
                asked,
                (members, nobody, assured),
                (known, bounds, own_map),
                self.grids,
            )
            return GoalAnswers(numbers, np.empty((0, len(numbers), NUMBERS)))
        limits = [
            law.limits_at(states, had, asked)
            for law, had, asked in zip(laws, so_far, question.questions, strict=True)
        ]
        excess = [self.parts[name].sorted_excess[group] for name in question.names]
        rest = (self.sorted_excess[group], share_bounds(len(assured)), own_map)
        found = _answers(question, laws, limits, so_far, excess, (members, nobody, assured), rest)
        if unknown:  # only what is decided is known (M18)
            for numbers in (found.numbers, *found.parts):
                numbers[numbers[:, DECIDED] < 0.0] = np.nan
        return found

    @property
    def n_rehearsed(self) -> int:
        """How many learning episodes every behavior has rehearsed; the same ones, in one order."""
        return min(len(self.rehearsal(name)) for name in self.parts)

    def rehearsal(self, name: str) -> Rehearsal:
        """The rehearsed learning episodes of one behavior."""
        found = self.parts[name].rehearsal
        assert found is not None  # a question is refused in the paper's way
        return found

    def learned_places(self, names: tuple[str, ...], t: int, group: int) -> Members:
        """The learning episodes of a group at the rehearsed step nearest to t."""
        steps = self.rehearsal(names[0]).steps
        place = int(np.argmin(np.abs(steps - t)))
        key = ("learned", names, place, group)
        if key not in self._kept:
            self._kept[key] = self._learned_at(names, place, group)
        return self._kept[key]  # type: ignore[return-value]

    def _remainders(self, name: str, t: int, group: int) -> FloatArray:
        """The remainders at which a function asks a behavior's law near step t, ascending."""
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
        if not who.size:  # as if the behaviors had nothing to do with each other
            return Members(who, read_only(np.zeros((len(names), 1))))
        places = [np.argsort(np.argsort(own[who], kind="stable")) for own in ranks]
        return Members(who, read_only(np.stack(places).astype(np.float64)))

    def assured_ranks(self, names: tuple[str, ...], t: int, group: int) -> FloatArray:
        """(episodes, behaviors): the ranks of the group's assure episodes at step t (M3).

        There are none if no model answers at this step.
        """
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
        # Keyed on positions: a model file does not hold the ids.
        keys: KeyArray = limits.episodes.astype(np.uint64)
        return draw_ranks(limits.left, limits.right, keys, seed=fitted.trained.seed, step=t)

    def rehearsed(
        self, question: GoalQuestion, places: Sequence[int]
    ) -> Iterator[tuple[int, int, IndexArray, FloatArray]]:
        """Outlooks on the learning episodes, each as if it were a new run: t, group, who, numbers.

        There are no bounds and no plausibility (M17).
        """
        for place in places:
            each = [
                {one.group: one for one in rehearsed_laws(self.parts[name], [place])}
                for name in question.names
            ]
            for group in sorted(set.intersection(*(set(one) for one in each))):
                asked = [one[group] for one in each]
                found = self._rehearsed_at(question, asked)
                if found is not None:
                    yield asked[0].step.t, group, *found

    def _rehearsed_at(
        self, question: GoalQuestion, asked: Sequence[AskedStep]
    ) -> tuple[IndexArray, FloatArray] | None:
        """The episodes that every behavior has rehearsed at a step, and the outlooks on them."""
        who = asked[0].episodes
        for one in asked[1:]:
            who = np.intersect1d(who, one.episodes)
        who = who[who < self.n_rehearsed]
        if not who.size:
            return None
        rows = [np.searchsorted(one.episodes, who) for one in asked]
        so_far = [one.before[own] for one, own in zip(asked, rows, strict=True)]
        members = self.learned_places(question.names, asked[0].step.t, asked[0].group)
        own_place = np.searchsorted(members.who, who)
        own_place[~np.isin(who, members.who)] = -1
        nobody = read_only(np.empty((0, len(asked))))
        if question.is_function:
            t, group = asked[0].step.t, asked[0].group
            laws = {
                name: AskedLaw(
                    one.step,
                    own[:, None].astype(np.float64),
                    had,
                    self._remainders(name, t, group),
                )
                for name, one, own, had in zip(question.names, asked, rows, so_far, strict=True)
            }
            return who, answers_by_function(
                question.goal,
                laws,
                (members.ranks, own_place, nobody),
                (1.0, share_bounds(0), NO_CURVE),
                self.grids,
            )
        limits = [
            one.step.limits_at(own[:, None].astype(np.float64), had, targets)
            for one, own, had, targets in zip(asked, rows, so_far, question.questions, strict=True)
        ]
        found = _answers(
            question,
            [one.step for one in asked],
            limits,
            so_far,
            [NO_CURVE] * len(asked),
            (members.ranks, own_place, nobody),
            (NO_CURVE, share_bounds(0), NO_CURVE),
        )
        return who, found.numbers


def _same_episodes(one: Fitted, other: Fitted) -> bool:
    """Whether two behaviors were fitted over the same episodes, as far as can be seen."""
    alike = (
        one.horizon == other.horizon
        and one.history == other.history == 0
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
    """Learning episodes by position, and the places of their ranks: (behaviors, episodes)."""

    who: IndexArray
    ranks: FloatArray


class AssuredLimits(NamedTuple):
    """Assure episodes by position, and both limits of a step's law at their outcomes."""

    episodes: IndexArray
    left: FloatArray
    right: FloatArray


def assured_limits(fitted: Fitted, t: int, group: int) -> AssuredLimits | None:
    """The law of step t at the group's assure episodes that are alive and have good readings."""
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


def _answers(
    question: GoalQuestion,
    laws: Sequence[StepLaw],
    limits: Sequence[tuple[FloatArray, FloatArray]],
    so_far: Sequence[FloatArray],
    excess: Sequence[FloatArray],
    episodes: tuple[FloatArray, IndexArray, FloatArray],
    stored: tuple[FloatArray, FloatArray, FloatArray],
) -> GoalAnswers:
    """Each behavior's pieces of its law, joined row by row."""
    rows, k = so_far[0].size, len(laws)
    numbers = np.empty((rows, NUMBERS))
    parts = np.empty((k, rows, NUMBERS))
    members, own, assured = episodes
    kept = [law.stored(one) for law, one in zip(laws, excess, strict=True)]

    def answer(a: int, b: int) -> None:
        room = pieces_room(question, b - a)
        for c, law in enumerate(laws):
            had = so_far[c][a:b]
            pieces_of_rows(
                kept[c],
                (limits[c][0][a:b], limits[c][1][a:b]),
                question.questions[c].components,
                (int(law.behavior.translation), had, *law.ahead),
                law.amounts,
                (room[0][c], room[1][c], room[2][c]),
            )
        goals_of_rows(room, question.boxes, (members, own[a:b], assured), stored, numbers[a:b])
        parts[:, a:b] = room[0][:, :, 0]

    run_blocks(answer, rows, block=_BLOCK)
    return GoalAnswers(numbers, parts)


def pieces_room(question: GoalQuestion, rows: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Arrays for the pieces of each behavior's targets, filled with zeros where it has fewer."""
    k, (targets, pieces) = len(question.names), question.shape
    return (
        np.zeros((k, rows, targets, NUMBERS)),
        np.zeros((k, rows, targets, pieces, N_SIDES)),
        np.zeros((k, rows, targets, 2)),
    )
