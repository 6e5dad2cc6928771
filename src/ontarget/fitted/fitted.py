"""The result of a fit: predictions and calibration of every step, and the assure episodes."""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import index
from typing import Any, Protocol

import numpy as np

from ontarget._arrays import read_only
from ontarget._grid import scale_of, snap
from ontarget._text import plain
from ontarget._typing import BoolArray, FloatArray, IndexArray, KeyArray
from ontarget.episodes import Behavior, Episodes, Schema, Translation
from ontarget.episodes.facts import MOST_FINGERPRINTS, Clocks, clocks_of
from ontarget.episodes.history import NO_HISTORY, History, state_schema, state_width
from ontarget.episodes.rounding import Unrounded, check_sides
from ontarget.episodes.store import Roles
from ontarget.errors import Argument, CensoredError, EpisodesError, GroupError, InputError
from ontarget.fitted.blocks import Block, LawTable
from ontarget.fitted.choices import Choices
from ontarget.fitted.curves import CurveTable, RankTable
from ontarget.fitted.law import NO_CURVE, StepLaw, bad_readings
from ontarget.fitted.paths.gains import NO_MAPS, PathMaps
from ontarget.fitted.recorded import RecordedRuns, Rehearsal
from ontarget.fitted.target_map import TargetMap
from ontarget.models.guided.run import RunGuide
from ontarget.reading.layout import AN_OUTCOME, FROM_NEXT
from ontarget.target import Target


class Models(Protocol):
    """The fitted model of each block (range of steps); loaded when first used, None if missing."""

    def __getitem__(self, index: int) -> Any:
        """The fitted model of the block (range of steps) with this number; None if it has none."""
        ...


@dataclass(frozen=True)
class Trained:
    """How the monitor was made, so that a loaded monitor can be fitted again in the same way.

    ``parameters`` are the arguments of the constructor; the model is given by its kind and its own
    parameters. ``seed`` is the seed of the fit. ``sizes`` has the number of episodes in each part
    of the split (such as learn and assure), in order. ``roles`` says what each column of the log
    is. ``fingerprints`` are hashes of the episodes, part after part (only of some episodes if there
    are very many). ``chosen`` records what the fit chose by trials on learning episodes. ``target``
    is the target named at the fit; a `Joint` keeps the goal of several behaviors.
    """

    parameters: Mapping[str, Any]
    seed: int
    sizes: Mapping[str, int]
    roles: Roles
    fingerprints: KeyArray
    chosen: Choices = field(default_factory=Choices)
    censoring: str = ""  # how the fit treated episodes that were cut off (M24)
    target: Target | None = None

    @property
    def in_words(self) -> str:
        """How many episodes each part (such as learn or assure) has and what they were used for."""
        used = {
            "learn": "learned from {:,}",
            "train": "trained on {:,}",
            "calibrate": "calibrated on {:,}",
            "assure": "promises rest on {:,}",
        }
        said = ", ".join(used[part].format(n) for part, n in self.sizes.items() if n)
        return f"{said} episodes" if self.sizes["assure"] else f"{said} episodes, nothing promised"

    def fingerprints_of(self, part: str) -> KeyArray:
        """The fingerprints (hashes) of the episodes in one part of the split, such as ``learn``."""
        kept = {name: min(size, MOST_FINGERPRINTS) for name, size in self.sizes.items()}
        start = sum(list(kept.values())[: list(kept).index(part)])
        return self.fingerprints[start : start + kept[part]]


@dataclass(frozen=True, eq=False)
class Fitted:
    """Everything that a fitted monitor contains. It never changes, so watched runs can share it."""

    schema: Schema
    behavior: Behavior
    horizon: int
    horizon_declared: bool
    grid: float
    reward_bounds: tuple[float, float]
    blocks: tuple[Block, ...]
    law: LawTable
    models: Models
    ranks: RankTable  # of the assure episodes; with preset="paper" of the calibration episodes
    curves: CurveTable | None  # from the learning episodes; None with preset="paper"
    groups: tuple[Any, ...] | None
    min_calibration: int
    may_miss: BoolArray  # features that were missing in training, so that NaN is a good reading
    assure: Episodes | None
    # One per assure episode: how far its outcome ever was from the middle of its predicted
    # distributions (M_i of M9); +inf for an episode that was cut off (M24).
    excess: FloatArray
    trained: Trained
    guide: RunGuide | None = None  # of the mean at all steps; the models read its prediction
    pace: float = 0.0  # what nearly every step earns: models learn the remainder plus this times t
    impossible: FloatArray = field(default_factory=lambda: NO_CURVE)  # probability 0, ascending
    rehearsal: Rehearsal | None = None  # of the learning episodes; None with preset="paper"
    runs: RecordedRuns = field(default_factory=RecordedRuns)  # those that the models learned from
    path_maps: PathMaps = NO_MAPS  # calibrate path bands; from the learning episodes
    history: History = NO_HISTORY  # what the models read about the run so far
    # False for a file of 0.2: rounded outcomes in its rehearsal, and target maps that do not fade.
    unrounded: bool = True

    def __post_init__(self) -> None:
        # A damaged file may hold anything, and these lengths are not checked again during a run.
        assured = 0 if self.assure is None else len(self.assure)
        for name, n in (("may_miss", self.state_width), ("excess", assured)):
            shape = getattr(self, name).shape
            if shape != (n,):
                raise InputError(f"{name} needs shape ({n},), got {shape}")
        added = self.behavior.translation is Translation.SHIFT and self.behavior.scale(1) == 1.0
        if self.impossible.size and not added:
            raise InputError(
                "impossible outcomes need a behavior that is a plain sum of rewards, got "
                f"{self.behavior.label}"
            )

    @property
    def n_groups(self) -> int:
        """The number of groups, each of which is calibrated separately; 1 without groups."""
        return 1 if self.groups is None else len(self.groups)

    @property
    def label(self) -> str:
        """What an outcome is, as text, such as "sum of rewards" or "sum of hours"."""
        column = self.trained.roles.reward or "reward"
        if column == "reward":
            return self.behavior.label
        named = plain(column.removeprefix(AN_OUTCOME).removeprefix(FROM_NEXT))
        if column.startswith(AN_OUTCOME):
            return named
        return re.sub(r"\brewards?\b", lambda _: named, self.behavior.label)

    @cached_property
    def reads_step(self) -> bool:
        """Whether the models read the step number, because each model learns from several steps."""
        return any(len(block.train_steps) > 1 for block in self.blocks)

    @cached_property
    def state_schema(self) -> Schema:
        """The columns of a state as models read it: the features, and columns about past steps."""
        return state_schema(self.schema, self.history)

    @property
    def state_width(self) -> int:
        """The number of columns of a state."""
        return state_width(self.schema, self.history)

    @property
    def width(self) -> int:
        """How many numbers the models read of a run."""
        plain = self.state_width + self.behavior.reads_so_far + self.reads_step
        return plain + (self.guide is not None)

    @cached_property
    def ahead(self) -> FloatArray:
        """(steps, 2): the least and the most that can still be earned from each step on (M18)."""
        ends = (
            end
            for t in range(self.horizon)
            for end in self.behavior.ahead(
                t,
                bounds=self.reward_bounds,
                horizon=self.horizon,
                declared=self.horizon_declared,
            )
        )
        found = np.fromiter(ends, dtype=np.float64, count=2 * self.horizon).reshape(-1, 2)
        near, scale = snap(found, self.grid), self.amounts[1] or 1.0 / self.grid
        with np.errstate(over="ignore", invalid="ignore"):
            # Rounded outwards, so that rounding never excludes a remainder that is possible.
            outer = np.stack([np.floor(found[:, 0] * scale), np.ceil(found[:, 1] * scale)], axis=1)
            snapped = outer / scale
            noise = np.abs(near - found) <= 1e-6 * self.grid
        return read_only(np.where(noise, near, np.where(np.isfinite(snapped), snapped, found)))

    @cached_property
    def amounts(self) -> FloatArray:
        """Four numbers for the kernels: the rounding of outcomes, then the bounds of a reward."""
        # First the grid (the distance between two neighbouring rounded values), then 1/grid if that
        # is a whole power of ten and otherwise 0, then the smallest and the largest possible
        # reward.
        return read_only(np.array([self.grid, scale_of(self.grid), *self.reward_bounds]))

    def at(self, t: int, group: int = 0, calibration: TargetMap | None = None) -> StepLaw:
        """The predicted distribution at step t in a group, with the given calibration, if any."""
        try:
            known = 0 <= index(t) < self.horizon
        except TypeError:  # not even a whole number
            known = False
        if not known:
            raise InputError(
                Argument("t"), f" needs a step from 0 to {self.horizon - 1}, got {t!r:.80}"
            )
        weighted = [(weight, self.models[block]) for weight, block in self.law.at(t)]
        least, most = self.ahead[t].tolist()
        step = StepLaw(
            t=t,
            parts=tuple(weighted) if all(model is not None for _, model in weighted) else (),
            ranks=self.ranks.at(t, group),
            curve=NO_CURVE if self.curves is None else self.curves.at(t, group),
            behavior=self.behavior,
            reads_step=self.reads_step,
            guide=self.guide,
            amounts=self.amounts,
            ahead=(least, most),
            moved=self.pace * t,
            impossible=self.impossible,
            stopped=self.stopped[group],
            is_known=not self.unknown(t, group),
        )
        return step if calibration is None else calibration.at(step, group)

    @property
    def only_measures(self) -> bool:
        """Whether there are no assure episodes, the held-out runs that back promises (M16)."""
        return self.assure is None and self.rehearsal is not None

    @cached_property
    def counts(self) -> IndexArray:
        """(steps, groups): how many episodes ``low``, ``high`` and intervals are computed from."""
        return self.ranks.counts

    @property
    def learned(self) -> IndexArray:
        """(steps, groups): the number of episodes on which p of each step was calibrated."""
        return self.counts if self.curves is None else self.curves.counts

    @property
    def learned_outcomes(self) -> tuple[FloatArray, ...]:
        """The outcomes of the runs that p learned from, as far as the fit keeps them."""
        found = [] if self.runs.outcomes is None else [self.runs.outcomes]
        newer = sum(map(len, found)) != self.trained.sizes.get("learn")
        if self.rehearsal is not None and (newer or not found):
            found.append(self.rehearsal.outcomes)
        if not found and self.observed is not None:
            found.append(self.observed.outcomes)
        return tuple(found)

    @property
    def calibrated_by(self) -> str:
        """Which episodes calibrate p, as a word for messages: ``calibration`` or ``learning``."""
        return "calibration" if self.curves is None else "learning"

    def is_trained(self, t: int) -> bool:
        """Whether there is a trained model for step t."""
        return all(self.models[block] is not None for _, block in self.law.at(t))

    @cached_property
    def trained_steps(self) -> BoolArray:
        """(steps,): whether there is a trained model for each step; loads every model."""
        trained = np.array([self.models[block.index] is not None for block in self.blocks])
        law = self.law
        found: BoolArray = np.logical_and.reduceat(trained[law.blocks], law.starts[:-1])
        return found

    @cached_property
    def answered(self) -> BoolArray:
        """(steps, groups): whether a model answers at this step for this group."""
        return self.trained_steps[:, None] & (self.learned >= self.min_calibration)

    def unknown(self, t: int, group: int = 0) -> str:
        """Why no model answers at a step, as text; empty if one does (M18)."""
        if not self.is_trained(t):
            return "no model was fitted for this step"
        n = int(self.learned[t, group])
        if n < self.min_calibration:
            return (
                f"{n} {self.calibrated_by} episodes reach this step, fewer than "
                f"{self.min_calibration}"
            )
        return ""

    def group_of(self, group: Any) -> int:
        """The number of a group, given its name; 0 if the monitor has no groups."""
        if self.groups is None:
            if group is not None:
                raise GroupError(
                    f"this monitor was calibrated without groups, got group {group!r}; fit with "
                    "GoalMonitor(group=…) to calibrate each group"
                )
            return 0
        found = self._places.get(group) if isinstance(group, Hashable) else None
        if found is None:
            known = ", ".join(repr(one) for one in self.groups[:10])
            raise GroupError(
                Argument("group"), f" needs one of the calibrated groups {known}, got {group!r}"
            )
        return found

    @cached_property
    def _places(self) -> dict[Any, int]:
        return {name: k for k, name in enumerate(self.groups or ())}

    @cached_property
    def members(self) -> tuple[IndexArray, ...]:
        """For each group, the positions of its episodes among the assure episodes, ascending."""
        order = np.argsort(self.assure_groups, kind="stable")
        ends = np.searchsorted(self.assure_groups[order], np.arange(1, self.n_groups))
        return tuple(np.split(order, ends))

    def groups_of(self, groups: Any, n: int) -> IndexArray:
        """(n,): the number of each run's group, given one name for all runs or one name per run."""
        if n == 0 and groups is None:  # nobody whose group would be needed
            return np.empty(0, dtype=np.intp)
        if groups is None or self.groups is None or np.ndim(groups) == 0:
            return np.full(n, self.group_of(groups), dtype=np.intp)
        given = np.asarray(groups)
        if given.shape != (n,):
            raise InputError(
                Argument("groups"),
                f" needs one value for each of {n} runs, got shape {given.shape}",
            )
        place = {name: self.group_of(name) for name in set(given.tolist())}
        return np.array([place[name] for name in given.tolist()], dtype=np.intp)

    def groups_in(self, episodes: Episodes) -> IndexArray:
        """The number of each episode's group."""
        return self.groups_of(None if self.groups is None else episodes.groups, len(episodes))

    def alike(
        self, episodes: Episodes, *, any_horizon: bool = False, cut_off: bool = False
    ) -> Episodes:
        """The episodes coded and rounded as in this monitor; an error if they do not match it."""
        # A category that no training episode had becomes a missing value, or an error if that
        # feature was never missing (method M18 in docs/methods.md). Episodes that were cut off are
        # an error too, unless ``cut_off`` is true.
        cut = int(np.count_nonzero(episodes.cut_off))
        if cut and not cut_off:
            raise CensoredError(
                f"{cut:,} of these {len(episodes):,} episodes were cut off, so their outcomes are "
                "unknown; leave them out with episodes.take(~episodes.cut_off)"
            )
        # If neither horizon was declared, each is only the longest run that was seen (M18).
        inferred = not (self.horizon_declared or episodes.horizon_declared)
        if not (any_horizon or inferred or episodes.horizon == self.horizon):
            remedy = f"record them with horizon={self.horizon}"
            if not self.horizon_declared:
                remedy = f"fit the monitor on episodes with horizon={episodes.horizon}"
            raise EpisodesError(
                f"the episodes need the monitor's horizon of {self.horizon} steps, got "
                f"{episodes.horizon}; {remedy}, or read the episodes with like=monitor"
            )
        if episodes.schema.names != self.schema.names:
            raise EpisodesError(
                f"the episodes need the monitor's features ({', '.join(self.schema.names)}), got "
                f"({', '.join(episodes.schema.names)}); record them with the same features=, or "
                "read them with like=monitor"
            )
        if episodes.behavior.spec != self.behavior.spec:
            raise EpisodesError(
                f"the episodes need the monitor's behavior {self.behavior.spec}, got "
                f"{episodes.behavior.spec}; record them with the same behavior=, or read them with "
                "like=monitor"
            )
        for ours, theirs in zip(self.schema.features, episodes.schema.features, strict=True):
            if (ours.categories is None) != (theirs.categories is None):
                kinds = ["numbers" if one.categories is None else "text" for one in (ours, theirs)]
                raise EpisodesError(
                    f"feature {ours.name!r} needs {kinds[0]}, as in the monitor, got {kinds[1]}; "
                    "read the episodes with like=monitor"
                )
        coded = episodes._rounded_to(self.grid).recoded(self.schema)
        return coded.with_history(self.history)

    def bad_readings(self, states: FloatArray) -> BoolArray:
        """(runs,): whether a state has an infinite feature, or an unexpectedly missing one."""
        # Unexpectedly missing means: it was never missing in training.
        return bad_readings(states, self.may_miss)

    def lost_since(self, episodes: Episodes) -> IndexArray:
        """(episodes,): the step from which nothing is known, after a reward outside the bounds."""
        # It is the number of steps of the episode if no reward was outside the declared bounds, as
        # a watch of the run would have it (method M18 in docs/methods.md).
        found, (low, high) = np.array(episodes.lengths), self.reward_bounds
        unbounded = (low, high) == (-math.inf, math.inf)
        if unbounded or not found.size or episodes._store.rewards is None:
            return found
        for t in range(int(found.max())):
            earned, alive = episodes.rewards_at(t), np.flatnonzero(episodes.lengths > t)
            outside = alive[(earned < low) | (earned > high)]
            found[outside] = np.minimum(found[outside], t + 1)
        return found

    def bad_feature(self, state: FloatArray) -> tuple[int, float] | None:
        """The position and value of the first unusable feature of a state, or None."""
        # A feature is unusable if it is infinite, or if it is missing although it was never missing
        # in training.
        bad = np.isinf(state) | (np.isnan(state) & ~self.may_miss)
        if not bad.any():
            return None
        j = int(np.argmax(bad))
        return j, float(state[j])

    def feature_in_words(self, feature: int, value: float) -> str:
        """What is wrong with this feature of a state (infinite, or missing), as text."""
        name = self.state_schema.names[feature]
        if math.isnan(value):
            return f"feature {name!r} is missing, and it was never missing in training"
        if self.state_schema.features[feature].codes is not None:
            return f"feature {name!r} has a category that no training episode had"
        return f"feature {name!r} needs a number, got {value}"

    def check_readings(self, states: FloatArray, so_far: FloatArray) -> None:
        """Raise an `InputError` that names the first infinite or unexpectedly missing feature."""
        for i in np.flatnonzero(self.bad_readings(states))[:1].tolist():
            found = self.bad_feature(states[i])
            assert found is not None
            raise InputError(f"run {i}: {self.feature_in_words(*found)}")
        if not self.behavior.reads_so_far and not np.isfinite(so_far).all():
            i = int(np.argmin(np.isfinite(so_far)))
            raise InputError(f"run {i}: behavior needs a number, got {so_far[i]}")

    @cached_property
    def assure_groups(self) -> IndexArray:
        """(assure episodes,): the number of each episode's group."""
        if self.assure is None:
            return np.empty(0, dtype=np.intp)
        return self.groups_in(self.assure)

    @cached_property
    def known_outcomes(self) -> IndexArray:
        """The positions of the assure episodes (held-out runs) that were not cut off."""
        return np.flatnonzero(np.isfinite(self.excess))

    @cached_property
    def observed(self) -> Episodes | None:
        """The assure episodes that were not cut off, so that their outcome is known (M24)."""
        if self.assure is None or self.known_outcomes.size == self.excess.size:
            return self.assure
        return self.assure.take(self.known_outcomes)

    @property
    def assured_runs(self) -> Unrounded | None:
        """The outcomes of the assure episodes before rounding; None if there are none."""
        if self.observed is None:
            return None
        runs = self.observed._unrounded
        assert self.assure is not None
        numbered = np.array_equal(self.assure.ids, np.arange(len(self.assure)))
        return replace(runs, ids=None) if numbered else runs

    def check_sides(self, target: Target) -> None:
        """Raise a `TargetError` if rounding changes whether a recorded run meets the target."""
        if self.assured_runs is not None:
            check_sides(self.assured_runs, target, self.grid)
        if self.rehearsal is not None:
            check_sides(self.rehearsal.unrounded(), target, self.grid, rounded=not self.unrounded)

    @cached_property
    def clocks(self) -> Clocks:
        """The features that behave like a clock: they only rise, or only fall, in every run."""
        return clocks_of(self.assure, self.state_schema)

    @cached_property
    def stopped(self) -> tuple[int, ...]:
        """For each group, how many assure episodes (held-out runs) were cut off (M24)."""
        return tuple(int(np.count_nonzero(np.isinf(own))) for own in self.sorted_excess)

    @cached_property
    def sorted_excess(self) -> tuple[FloatArray, ...]:
        """For each group, the excesses of its assure episodes, ascending and read-only (M9)."""
        return tuple(read_only(np.sort(self.excess[own])) for own in self.members)
