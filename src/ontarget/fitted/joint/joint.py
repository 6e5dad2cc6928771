"""Joins the predicted distributions of several behaviors over the same episodes.

Each behavior keeps its own predicted distribution, as in a monitor of that behavior alone. How the
outcomes depend on each other is learned from ranks: where the outcomes of each learning episode
fell in the distributions predicted by models that did not learn from it (statisticians call this a
copula). If low outcomes in one behavior went with high ones in another, p of a new run takes that
into account. For a goal over one behavior, p is the same as p of its target. See method M21 in
docs/methods.md.
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
from ontarget.conformal.ranks import draw_ranks
from ontarget.episodes import Episodes, Translation
from ontarget.episodes.judged import Reading
from ontarget.episodes.rounding import check_goal_sides
from ontarget.errors import Argument, InputError
from ontarget.fitted._kernels import DECIDED, NUMBERS
from ontarget.fitted._rehearsed import AskedStep, rehearsed_laws
from ontarget.fitted.fitted import Fitted
from ontarget.fitted.joint._function import AskedLaw, answers_by_function
from ontarget.fitted.joint._joint_kernel import N_SIDES, goals_of_rows, pieces_of_rows
from ontarget.fitted.law import NO_CURVE, StepLaw
from ontarget.fitted.question import Question
from ontarget.fitted.rehearsal import Rehearsal
from ontarget.goal import Box, Goal
from ontarget.target import Target

_BLOCK = 64
# A group with fewer rehearsed episodes shares those of all groups.
_ENOUGH_EPISODES = 100


class GoalAnswers(NamedTuple):
    """The monitor's answers about a goal, and about the target that it implies for each behavior.

    ``numbers`` is (runs, numbers), ``parts`` is (behaviors, runs, numbers). The numbers of an
    answer, such as p, are listed in `ontarget.fitted._kernels`.
    """

    numbers: FloatArray
    parts: FloatArray


@dataclass(frozen=True, eq=False)
class GoalQuestion:
    """A goal as arrays for the kernels: the targets of each behavior, and boxes of such targets.

    A *box* asks several behaviors to meet one target each, all at once. A goal is met if any of its
    boxes is met. The first target of each behavior contains all values of the behavior with which
    the goal can be met. ``boxes`` has two arrays (boxes, behaviors) with the number of each
    behavior's target, or -1: the boxes of the goal itself, and disjoint boxes that cover the same
    set.
    """

    goal: Goal
    names: tuple[str, ...]
    questions: tuple[Question, ...]
    boxes: tuple[IndexArray, IndexArray]

    @classmethod
    def of(cls, goal: Goal, grids: Mapping[str, float]) -> GoalQuestion:
        """The goal as arrays; ``grids`` says how each behavior's outcomes are rounded."""
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
        """Whether the goal is given by a Python function and not by targets of behaviors."""
        return self.goal.is_function

    @property
    def shape(self) -> tuple[int, int]:
        """The most targets that a behavior has, and the most intervals (pieces) of a target."""
        pieces = max(int(np.diff(one.first).max()) for one in self.questions)
        return max(len(one.targets) for one in self.questions), pieces


def _places(
    boxes: Sequence[Box], names: Sequence[str], targets: Mapping[str, list[Target]]
) -> IndexArray:
    """(boxes, behaviors): the position of each box's target in its behavior's list; -1 for none.

    A *box* asks several behaviors to meet one target each. ``targets`` has the list of each
    behavior in ``names``.
    """
    found = np.full((len(boxes), len(names)), -1, dtype=np.intp)
    for b, box in enumerate(boxes):
        for name, target in box:
            found[b, names.index(name)] = targets[name].index(target)
    return read_only(found)


@dataclass(frozen=True, eq=False)
class Joint:
    """The result of a fit on several behaviors: a fitted monitor of each, by name."""

    parts: Mapping[str, Fitted]
    signals: Mapping[str, str | None]  # the column each behavior reads; None for the default one
    target: Goal | None = None  # the goal that was named at the fit

    def __post_init__(self) -> None:
        # A damaged file may hold anything; later code relies on all having the same episodes.
        if not self.parts:
            raise InputError("a monitor of several behaviors needs at least one behavior, got none")
        for name, one in self.parts.items():
            if not _same_episodes(self.first, one):
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
        """For each behavior, how it is computed and the signal (reward or column) that it reads."""
        return {name: Reading(one.behavior, self.signals[name]) for name, one in self.parts.items()}

    @property
    def grids(self) -> dict[str, float]:
        """For each behavior, the grid to which its outcomes are rounded."""
        return {name: one.grid for name, one in self.parts.items()}

    def question(self, goal: Goal) -> GoalQuestion:
        """The goal as arrays for the kernels; an `InputError` if this monitor cannot answer it."""
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
                    f"behavior {name!r} is a class with its own translate method, so a goal cannot "
                    f"combine it with other behaviors; use a goal over this behavior alone"
                )
        return GoalQuestion.of(goal, self.grids)

    def checked(self, goal: object) -> Goal:
        """The goal itself; an `InputError` if it is not a `Goal` over behaviors of this monitor."""
        return goal_over(tuple(self.parts), goal)

    def alike(self, episodes: Episodes, *, any_horizon: bool = False) -> dict[str, Episodes]:
        """For each behavior, by name, the same episodes judged by this behavior alone.

        Categories are coded as in the monitor.
        """
        if tuple(sorted(episodes.names)) != tuple(sorted(self.parts)):
            raise InputError(
                f"the episodes need the monitor's behaviors {', '.join(self.parts)}, got "
                f"{', '.join(episodes.names) or 'one without a name'}; read them with like=monitor"
            )
        return {
            name: own.alike(episodes.only(name), any_horizon=any_horizon)
            for name, own in self.parts.items()
        }

    def check_sides(self, goal: Goal) -> None:
        """Raise a `TargetError` if rounding changes whether a recorded run meets the goal (M1)."""
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
        """(assure episodes,): the largest distance of the outcomes from their predicted medians.

        Assure episodes are the held-out runs that back the promises. For each episode, the largest
        distance over all steps and all behaviors counts. The distance is measured in probability,
        from 0 to ½ (method M21 in docs/methods.md).
        """
        return read_only(np.max([one.excess for one in self.parts.values()], axis=0))

    @cached_property
    def sorted_excess(self) -> tuple[FloatArray, ...]:
        """For each group, the values of `excess` of its assure episodes, ascending.

        Assure episodes are held-out runs. The excess of an episode is the largest distance, over
        all steps and behaviors, of its outcomes from the middle of their predictions.
        """
        return tuple(read_only(np.sort(self.excess[own])) for own in self.first.members)

    def unknown(self, t: int, group: int) -> bool:
        """Whether at least one of the behaviors has no model that answers at this step."""
        return bool(self.trouble(t, group))

    def trouble(self, t: int, group: int) -> str:
        """Why a behavior has no model that answers at this step, as text; empty if all have."""
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
        """The monitor's answers about a goal at one step, for several runs of one group.

        ``states`` is (runs, features). ``so_far`` has one array (runs,) per behavior, in the order
        of the question's names. ``own_map`` corrects p for this goal: it has the corrected p for
        each p in `KNOTS`, fixed numbers from 0 to 1.
        """
        unknown = self.unknown(t, group)
        if unknown and question.is_function:  # for a function, arithmetic cannot decide a run
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
            numbers = answers_by_function(
                question.goal,
                asked,
                (members, nobody, assured),
                (self.first.stopped[group], own_map),
                self.grids,
            )
            return GoalAnswers(numbers, np.empty((0, len(numbers), NUMBERS)))
        limits = [
            law.limits_at(states, had, asked)
            for law, had, asked in zip(laws, so_far, question.questions, strict=True)
        ]
        excess = [self.parts[name].sorted_excess[group] for name in question.names]
        rest = (self.sorted_excess[group], own_map)
        found = _answers(question, laws, limits, so_far, excess, (members, nobody, assured), rest)
        if unknown:  # only what is decided is known (M18)
            for numbers in (found.numbers, *found.parts):
                numbers[numbers[:, DECIDED] < 0.0] = np.nan
        return found

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
        """The learning episodes of a group, and their order by rank in each behavior, near step t.

        A rank is where an episode's outcome fell in its predicted distribution. It is taken at the
        step nearest to t at which learning episodes are predicted as if they were new.
        """
        steps = self.rehearsal(names[0]).steps
        place = int(np.argmin(np.abs(steps - t)))
        key = ("learned", names, place, group)
        if key not in self._kept:
            self._kept[key] = self._learned_at(names, place, group)
        return self._kept[key]  # type: ignore[return-value]

    def _remainders(self, name: str, t: int, group: int) -> FloatArray:
        """The values at which a behavior's predicted distribution is read near step t, ascending.

        They are remainders (what a run may still earn), and are used for goals given by a function.
        """
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
        """(episodes, behaviors): where outcomes fell in their predicted distributions, from 0 to 1.

        These are the ranks of the group's assure episodes (held-out runs) in the predictions of
        step t. There are none if no model answers at this step. See method M3 in docs/methods.md.
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
        # Ties are broken by the episodes' positions, because a model file does not store ids.
        keys: KeyArray = limits.episodes.astype(np.uint64)
        return draw_ranks(limits.left, limits.right, keys, seed=fitted.trained.seed, step=t)

    def rehearsed(
        self, question: GoalQuestion, places: Sequence[int]
    ) -> Iterator[tuple[int, int, IndexArray, FloatArray]]:
        """The monitor's answers (outlooks) about learning episodes, each as if it were a new run.

        For each step and group, this yields t, group, the positions of the episodes, and an array
        (episodes, numbers) with the answers. Bounds and plausibility are not filled in. Such
        predictions exist only at the *rehearsed* steps; ``places`` are positions in the list of
        these steps. See method M17 in docs/methods.md.
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
        """The episodes with predictions for every behavior at a step, and the answers about them.

        Episodes are given by position. ``asked`` has the predicted distributions of each behavior.
        The result is None if no episode has predictions for every behavior.
        """
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
                (0, NO_CURVE),
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
            (NO_CURVE, NO_CURVE),
        )
        return who, found.numbers


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
    """Positions of learning episodes, and their order by rank in each behavior.

    A rank is where an episode's outcome fell in its predicted distribution. The order is an array
    (behaviors, episodes): the episode with the lowest rank in a behavior has the number 0, the next
    one 1, and so on.
    """

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
    """The predicted probabilities at the outcomes of a group's assure episodes, at step t.

    Assure episodes are the held-out runs that back the promises. Only episodes that reach step t
    and have a usable state there are included. The result is None if no assure episode is that
    long.
    """
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
    stored: tuple[FloatArray, FloatArray],
) -> GoalAnswers:
    """The monitor's answers about a goal, from the predicted distributions of the behaviors.

    It first finds where each behavior's targets lie in its predicted distribution, and then joins
    the behaviors row by row with `goals_of_rows`, which explains ``episodes`` and ``stored``.
    """
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
    """Arrays of zeros for `pieces_of_rows` to write to, for all behaviors and this many runs."""
    k, (targets, pieces) = len(question.names), question.shape
    return (
        np.zeros((k, rows, targets, NUMBERS)),
        np.zeros((k, rows, targets, pieces, N_SIDES)),
        np.zeros((k, rows, targets, 2)),
    )
