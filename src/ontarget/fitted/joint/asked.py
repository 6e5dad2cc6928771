"""A fitted monitor with the target or goal that is asked about: the answers about any runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ontarget._arrays import read_only
from ontarget._threads import run_blocks
from ontarget._typing import BoolArray, FloatArray, IndexArray
from ontarget.episodes import Episodes
from ontarget.episodes.rounding import check_goal_sides, check_sides
from ontarget.fitted.fitted import Fitted
from ontarget.fitted.joint._function import AskedLaw, answers_by_function
from ontarget.fitted.joint._joint_kernel import N_SIDES, Pieces, goals_of_rows, pieces_of_rows
from ontarget.fitted.joint.joint import Joint
from ontarget.fitted.kernels import DECIDED, KNOTS, NUMBERS, P, Stored
from ontarget.fitted.law import NO_CURVE, Question, StepLaw
from ontarget.fitted.target_map import FOLDS, StepAnswers, TargetMap, fit_maps, folds_of
from ontarget.goal import Box, Goal
from ontarget.target import Target


class RehearsedStep(NamedTuple):
    """The monitor's answers (outlooks) about some learning episodes of one group at one step.

    ``episodes`` are positions in the rehearsal: the set of learning episodes that are predicted as
    if they were new. ``numbers`` is (episodes, numbers), the numbers of each outlook; bounds and
    plausibility are not filled in. The rehearsal stores a predicted distribution only at some
    values, and p is interpolated between these.
    """

    t: int
    group: int
    episodes: IndexArray
    numbers: FloatArray


class AskedStep(NamedTuple):
    """The predicted distributions of some learning episodes of one group at one step.

    ``episodes`` are positions in the rehearsal: the set of learning episodes that are predicted as
    if they were new. ``step`` gives the predicted distributions; the only feature that it reads is
    the position of an episode in ``episodes``. ``before`` is the behavior so far of each episode.
    """

    step: StepLaw
    group: int
    episodes: IndexArray
    before: FloatArray


def rehearsed_laws(fitted: Fitted, places: Iterable[int]) -> Iterator[AskedStep]:
    """Predicted distributions of learning episodes as if they were new, by step and group."""
    rehearsal, curves = fitted.rehearsal, fitted.curves
    assert rehearsal is not None
    assert curves is not None
    for place in places:
        t, (rows, index) = int(rehearsal.steps[place]), rehearsal.rows_at(place)
        known = ~np.isnan(rehearsal.ranks[rows])
        for g in range(fitted.n_groups):
            own = np.flatnonzero(known & (rehearsal.groups[index] == g))
            if not own.size or fitted.unknown(t, g):
                continue
            n = int(fitted.learned[t, g])
            law = rehearsal.law(place, rows.start + own, curves.at(t, g), n)
            # The stored distributions already give impossible outcomes probability 0.
            plain = replace(fitted.at(t, g), impossible=NO_CURVE)
            step = replace(plain, parts=((1.0, law),), curve=KNOTS)
            yield AskedStep(step, g, index[own], rehearsal.before[rows][own])


_BLOCK = 64
# For each bound of the targets: the predicted P(outcome < bound), and P(outcome <= bound).
Limits: TypeAlias = tuple[FloatArray, FloatArray]
_NOBODY = read_only(np.full(1, -1, dtype=np.intp))


class Said(NamedTuple):
    """The monitor's answers about some runs at one step, as numbers.

    ``numbers`` is (runs, targets, numbers); `ontarget.fitted.kernels` lists the numbers of an
    answer. ``parts`` is (behaviors, runs, numbers): the answers about each behavior by itself, and
    the target that the goal implies for it. A goal given by a function has no parts.
    """

    numbers: FloatArray
    parts: FloatArray


@dataclass(frozen=True, eq=False)
class Asked:
    """A target or a goal, asked of a fitted monitor.

    Attributes
    ----------
    joint
        The result of the fit.
    target
        A target; or a goal, if the monitor has several behaviors. Several targets of one behavior
        are answered together.
    own_map
        The calibration curve of p for this target alone; None if p is not corrected.
    """

    joint: Joint
    target: Target | Goal | tuple[Target, ...]
    own_map: TargetMap | None = None

    def __post_init__(self) -> None:
        for one in self.target if isinstance(self.target, tuple) else [self.target]:
            self.joint.check_answerable(one)

    def __reduce__(self) -> tuple[Any, ...]:
        return Asked, (self.joint, self.target, self.own_map)

    @property
    def is_joint(self) -> bool:
        """Whether behaviors are joined; otherwise the answer is that of the single behavior."""
        return isinstance(self.target, Goal)

    @property
    def is_function(self) -> bool:
        """Whether this is a goal given by a Python function, and not by targets of behaviors."""
        return isinstance(self.target, Goal) and self.target.is_function

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The behaviors that the target is about, by name."""
        return self.target.names if isinstance(self.target, Goal) else tuple(self.joint.parts)

    @property
    def parts(self) -> tuple[Fitted, ...]:
        """The fitted monitor of each behavior that the target is about."""
        return tuple(self.joint.parts[name] for name in self.names)

    @property
    def fitted(self) -> Fitted:
        """The fitted monitor of the first behavior, for what all behaviors have in common."""
        return self.joint.first

    @cached_property
    def targets(self) -> tuple[tuple[Target, ...], ...]:
        """For each behavior, the targets that its models are asked about."""
        goal = self.target
        if not isinstance(goal, Goal):
            return (goal if isinstance(goal, tuple) else (goal,),)
        found = {name: [goal.projection(name)] for name in self.names}
        for box in (*goal.boxes, *goal.disjoint()):
            for name, target in box:
                if target not in found[name]:
                    found[name].append(target)
        return tuple(map(tuple, found.values()))

    @cached_property
    def questions(self) -> tuple[Question, ...]:
        """For each behavior, its targets as arrays for the kernels."""
        each = zip(self.targets, self.parts, strict=True)
        return tuple(Question.of(targets, fitted.grid) for targets, fitted in each)

    @cached_property
    def boxes(self) -> tuple[IndexArray, IndexArray]:
        """(boxes, behaviors), twice: the number of each behavior's target in a box, or −1."""
        assert isinstance(self.target, Goal)
        return self._places(self.target.boxes), self._places(self.target.disjoint())

    def _places(self, boxes: Sequence[Box]) -> IndexArray:
        found = np.full((len(boxes), len(self.names)), -1, dtype=np.intp)
        for b, box in enumerate(boxes):
            for name, target in box:
                own = self.names.index(name)
                found[b, own] = self.targets[own].index(target)
        return read_only(found)

    def contains(self, outcomes: Sequence[FloatArray]) -> BoolArray:
        """Whether each run met the target, from its outcomes: one array (runs,) per behavior."""
        if isinstance(self.target, Goal):
            return self.target.contains(
                dict(zip(self.names, outcomes, strict=True)), self.joint.grids
            )
        return self.questions[0].targets[0].contains(outcomes[0], self.fitted.grid)

    def alike(self, episodes: Episodes, *, any_horizon: bool = False) -> tuple[Episodes, ...]:
        """The same episodes once for each behavior, coded and rounded as in the monitor."""
        found = self.joint.alike(episodes, any_horizon=any_horizon)
        return tuple(found[name] for name in self.names)

    @property
    def observed(self) -> tuple[Episodes, ...]:
        """The assure episodes with known outcomes, once for each behavior; empty without any."""
        return tuple(one.observed for one in self.parts if one.observed is not None)

    def met(self, episodes: Sequence[Episodes]) -> BoolArray:
        """Whether each of these episodes met the target; they are given once for each behavior."""
        self._check_sides(episodes)
        return self.contains([one.outcomes for one in episodes])

    def _check_sides(self, episodes: Sequence[Episodes]) -> None:
        runs = {name: one._unrounded for name, one in zip(self.names, episodes, strict=True)}
        if isinstance(self.target, Goal):
            check_goal_sides(runs, self.target, self.joint.grids)
        else:
            check_sides(next(iter(runs.values())), self.targets[0][0], self.fitted.grid)

    def trouble(self, t: int, group: int) -> str:
        """Why no model answers at this step, as text; empty if the model of each behavior does."""
        return self.joint.trouble(t, group)

    def own_knots(self, t: int, group: int) -> FloatArray:
        """The map that corrects p for this target at a step, as its values at `KNOTS`; or empty."""
        return NO_CURVE if self.own_map is None else self.own_map.knots_at(t, group)

    def said(self, t: int, group: int, states: FloatArray, so_far: Sequence[FloatArray]) -> Said:
        """The monitor's answers about several runs of one group at one step."""
        laws = [fitted.at(t, group) for fitted in self.parts]
        if not self.is_joint:
            law = laws[0] if self.own_map is None else self.own_map.at(laws[0], group)
            excess = self.fitted.sorted_excess[group]
            numbers = law.outlook(states, so_far[0], self.questions[0], excess)
            return Said(numbers, numbers[None, :, 0])
        unknown = self.trouble(t, group)
        if self.is_function:
            return self._said_by_function(t, group, laws, states, so_far, unknown=bool(unknown))
        each = zip(laws, so_far, self.questions, strict=True)
        limits = [law.limits_at(states, had, question) for law, had, question in each]
        found = self.joined(self.step(t, group), limits, so_far)
        if unknown:  # only what is decided is known (M18)
            for numbers in found:
                numbers[numbers[..., DECIDED] < 0.0] = np.nan
        return found

    def step(self, t: int, group: int) -> JointStep:
        """What the kernels read to join the behaviors at this step; it is made once and kept."""
        found = self._steps.get((t, group))
        if found is None:
            laws = [fitted.at(t, group) for fitted in self.parts]
            excess = [fitted.sorted_excess[group] for fitted in self.parts]
            members = self.joint.learned_places(self.names, t, group).ranks
            assured = self.joint.assured_ranks(self.names, t, group)
            rest = self.joint.sorted_excess[group], self.own_knots(t, group)
            found = self._prepared(laws, excess, (members, assured), rest)
            self._steps[t, group] = found
        return found

    @cached_property
    def _steps(self) -> dict[tuple[int, int], JointStep]:
        return {}

    def _prepared(
        self,
        laws: Sequence[StepLaw],
        excess: Sequence[FloatArray],
        ranks: tuple[FloatArray, FloatArray],
        rest: tuple[FloatArray, FloatArray],
    ) -> JointStep:
        parts = [
            (
                law.stored(one),
                question.components,
                int(law.behavior.translation),
                law.ahead,
                law.amounts,
            )
            for law, one, question in zip(laws, excess, self.questions, strict=True)
        ]
        return JointStep(parts, self.boxes, ranks, rest)

    def room(self, rows: int) -> Room:
        """Arrays of zeros for `JointStep.join` to work in, for this many runs."""
        k, targets = len(self.names), max(map(len, self.targets))
        pieces = max(int(np.diff(one.first).max()) for one in self.questions)
        whole = (
            np.zeros((k, rows, targets, NUMBERS)),
            np.zeros((k, rows, targets, pieces, N_SIDES)),
            np.zeros((k, rows, targets, 2)),
        )
        return Room(whole, tuple(zip(*whole, strict=True)))

    def joined(
        self,
        step: JointStep,
        limits: Sequence[Limits],
        so_far: Sequence[FloatArray],
        own: IndexArray | None = None,
    ) -> Said:
        """The answers about some runs at one step, from the limits for each behavior."""
        rows = so_far[0].size
        numbers, parts = np.empty((rows, NUMBERS)), np.empty((len(so_far), rows, NUMBERS))
        who = np.full(rows, -1, dtype=np.intp) if own is None else own

        def answer(a: int, b: int) -> None:
            room = self.room(b - a)
            some = [(left[a:b], right[a:b]) for left, right in limits]
            step.join(some, [had[a:b] for had in so_far], room, numbers[a:b], who[a:b])
            parts[:, a:b] = room.whole[0][:, :, 0]

        run_blocks(answer, rows, block=_BLOCK)
        return Said(numbers[:, None], parts)

    def _said_by_function(
        self,
        t: int,
        group: int,
        laws: Sequence[StepLaw],
        states: FloatArray,
        so_far: Sequence[FloatArray],
        *,
        unknown: bool,
    ) -> Said:
        """`said` for a goal given by a function; arithmetic cannot decide a run for it."""
        nothing = np.empty((0, so_far[0].size, NUMBERS))
        if unknown:
            return Said(np.full((so_far[0].size, 1, NUMBERS), np.nan), nothing)
        episodes = (
            self.joint.learned_places(self.names, t, group).ranks,
            np.full(so_far[0].size, -1, dtype=np.intp),
            self.joint.assured_ranks(self.names, t, group),
        )
        rest = self.fitted.stopped[group], self.own_knots(t, group)
        numbers = self._by_function(t, group, laws, [states] * len(laws), so_far, episodes, rest)
        return Said(numbers[:, None], nothing)

    def _by_function(
        self,
        t: int,
        group: int,
        laws: Sequence[StepLaw],
        states: Sequence[FloatArray],
        so_far: Sequence[FloatArray],
        episodes: tuple[FloatArray, IndexArray, FloatArray],
        rest: tuple[int, FloatArray],
    ) -> FloatArray:
        assert isinstance(self.target, Goal)
        asked = {
            name: AskedLaw(law, one, had, self.joint.remainders(name, t, group))
            for name, law, one, had in zip(self.names, laws, states, so_far, strict=True)
        }
        return answers_by_function(self.target, asked, episodes, rest, self.joint.grids)

    @property
    def rehearsed_met(self) -> BoolArray:
        """Whether each learning episode that is predicted as if it were new met the target."""
        n = self.joint.n_rehearsed
        return self.contains([self.joint.rehearsal(name).outcomes[:n] for name in self.names])

    def rehearsed(self, places: Sequence[int]) -> Iterator[RehearsedStep]:
        """The monitor's answers about learning episodes, each as if it were a new run (M17)."""
        for place in places:
            each = [
                {one.group: one for one in rehearsed_laws(fitted, [place])} for fitted in self.parts
            ]
            for group in sorted(set.intersection(*(set(one) for one in each))):
                found = self._rehearsed_at([one[group] for one in each])
                if found is not None:
                    yield RehearsedStep(each[0][group].step.t, group, *found)

    def _rehearsed_at(self, asked: Sequence[AskedStep]) -> tuple[IndexArray, FloatArray] | None:
        """The episodes that every behavior predicts at a step, and the answers about them."""
        if not self.is_joint:
            (one,) = asked
            states = np.arange(one.episodes.size, dtype=np.float64)[:, None]
            found = one.step.outlook(states, one.before, self.questions[0], NO_CURVE)
            return one.episodes, found[:, 0]
        who = asked[0].episodes
        for one in asked[1:]:
            who = np.intersect1d(who, one.episodes)
        who = who[who < self.joint.n_rehearsed]
        if not who.size:
            return None
        places = [np.searchsorted(one.episodes, who) for one in asked]
        rows = [own[:, None].astype(np.float64) for own in places]
        so_far = [one.before[own] for one, own in zip(asked, places, strict=True)]
        laws, t, group = [one.step for one in asked], asked[0].step.t, asked[0].group
        members = self.joint.learned_places(self.names, t, group)
        own = np.searchsorted(members.who, who)
        own[~np.isin(who, members.who)] = -1
        nobody = read_only(np.empty((0, len(asked))))
        if self.is_function:
            episodes = members.ranks, own, nobody
            return who, self._by_function(t, group, laws, rows, so_far, episodes, (0, NO_CURVE))
        each = zip(laws, rows, so_far, self.questions, strict=True)
        limits = [law.limits_at(row, had, question) for law, row, had, question in each]
        ranks, rest = (members.ranks, nobody), (NO_CURVE, NO_CURVE)
        step = self._prepared(laws, [NO_CURVE] * len(laws), ranks, rest)
        return who, self.joined(step, limits, so_far, own).numbers[:, 0]


class Room(NamedTuple):
    """Working arrays of the kernels for some runs, and each behavior's part of them."""

    whole: Pieces
    each: tuple[Pieces, ...]


class JointStep(NamedTuple):
    """What the kernels read at one step and group to join the limits of several behaviors.

    ``parts`` has, for each behavior, the first arguments of `pieces_of_rows`. ``boxes``, ``ranks``
    (of the learning and of the assure episodes) and ``rest`` are those of `goals_of_rows`.
    """

    parts: Sequence[tuple[Stored, Any, int, tuple[float, float], FloatArray]]
    boxes: tuple[IndexArray, IndexArray]
    ranks: tuple[FloatArray, FloatArray]
    rest: tuple[FloatArray, FloatArray]

    def join(
        self,
        limits: Sequence[Limits],
        so_far: Sequence[FloatArray],
        room: Room,
        out: FloatArray,
        own: IndexArray = _NOBODY,
    ) -> None:
        """Write the numbers of the answer about each run, from the limits for each behavior."""
        each = zip(self.parts, limits, so_far, room.each, strict=True)
        for (kept, components, translation, (least, most), amounts), here, had, into in each:
            pieces_of_rows(kept, here, components, (translation, had, least, most), amounts, into)
        episodes = self.ranks[0], own, self.ranks[1]
        goals_of_rows(room.whole, self.boxes, episodes, self.rest, out)


# A target map is learned at this many steps at most. A group with fewer episodes than this
# shares the map of all groups.
_MOST_STEPS, _ENOUGH_EPISODES = 20, 100


def map_target(asked: Asked) -> TargetMap | None:
    """The target map, which corrects p for this target; None with ``preset="paper"`` (M17)."""
    first = asked.parts[0]
    if first.rehearsal is None:
        return None
    steps = first.rehearsal.steps
    places = _map_places(steps.size)
    return _learned_map(first, asked.rehearsed_met, steps[places], asked.rehearsed(places))


def _map_places(n: int) -> list[int]:
    """The steps at which a correction of p is learned, as positions among n rehearsed steps."""
    found: list[int] = np.unique(np.linspace(0, n - 1, _MOST_STEPS).round().astype(int)).tolist()
    return found


def _learned_map(
    fitted: Fitted,
    met: BoolArray,
    steps: IndexArray,
    answers: Iterable[RehearsedStep],
) -> TargetMap:
    """The function that corrects p for a target or goal, learned from learning episodes."""
    place_of = {int(t): place for place, t in enumerate(steps)}
    said: list[list[StepAnswers]] = [[] for _ in steps]
    for one in answers:
        undecided = one.numbers[:, DECIDED] < 0.0
        said[place_of[one.t]].append(
            StepAnswers(one.episodes[undecided], one.numbers[undecided, P])
        )
    pooled = [_together(answers) for answers in said]
    shape = (FOLDS + 1, steps.size, fitted.n_groups, KNOTS.size)
    tables, identity, folds = np.empty(shape), np.empty(shape[1:3]), folds_of(met)
    for g in range(fitted.n_groups):
        assert fitted.rehearsal is not None  # the answers are about its episodes
        inside = fitted.rehearsal.groups[: met.size] == g
        few = np.count_nonzero(inside) < _ENOUGH_EPISODES
        own = pooled if few else [_among(answers, inside) for answers in pooled]
        # A file of 0.2 keeps the maps that it had.
        maps = fit_maps(own, met, folds, fading=fitted.unrounded)
        tables[:, :, g], identity[:, g] = maps.tables, maps.weights[:, 0]
    return TargetMap(
        horizon=fitted.horizon,
        steps=steps,
        tables=read_only(tables),
        identity=read_only(identity),
        folds=read_only(folds),
    )


def _together(answers: list[StepAnswers]) -> StepAnswers:
    """The p values of all groups at one step, merged in the order of the episodes."""
    episodes = np.concatenate([np.empty(0, dtype=np.intp), *(one.episodes for one in answers)])
    p = np.concatenate([np.empty(0), *(one.p for one in answers)])
    order = np.argsort(episodes)
    return StepAnswers(episodes[order], p[order])


def _among(answers: StepAnswers, inside: BoolArray) -> StepAnswers:
    own = inside[answers.episodes]
    return StepAnswers(answers.episodes[own], answers.p[own])
