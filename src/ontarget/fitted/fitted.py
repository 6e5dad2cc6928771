"""The result of a fit: the law of every step, its ranks, and the assure episodes."""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from operator import index
from typing import Any, Protocol

import numpy as np

from ontarget._grid import scale_of
from ontarget._plain import plain
from ontarget._readonly import read_only
from ontarget._typing import BoolArray, FloatArray, IndexArray, KeyArray
from ontarget.episodes import Behavior, Episodes, Schema, Translation
from ontarget.episodes._clocks import Clocks, clocks_of
from ontarget.episodes._fingerprints import MOST_FINGERPRINTS
from ontarget.episodes._history import state_schema, state_width
from ontarget.episodes._store import Roles
from ontarget.episodes.reading._layout import AN_OUTCOME, FROM_NEXT
from ontarget.errors import Argument, CensoredError, EpisodesError, GroupError, InputError
from ontarget.fitted._curves import CurveTable
from ontarget.fitted._inputs import bad_readings
from ontarget.fitted.blocks import Block, LawTable
from ontarget.fitted.choices import Choices
from ontarget.fitted.law import NO_CURVE, StepLaw
from ontarget.fitted.paths._maps import NO_MAPS, PathMaps
from ontarget.fitted.ranks import NO_WEIGHTS, RankTable
from ontarget.fitted.recorded import RecordedRuns
from ontarget.fitted.rehearsal import Rehearsal
from ontarget.fitted.target_map import Calibrated

__all__ = ["Fitted", "Models", "Trained"]


class Models(Protocol):
    """The fitted model of each block, None where there is none; opened when it is first used."""

    def __getitem__(self, index: int) -> Any:
        """The model of a block."""
        ...


@dataclass(frozen=True)
class Trained:
    """How the monitor was made, so that a loaded monitor can be fitted again in the same way.

    ``parameters`` are the constructor's arguments, with the model as its kind and parameters.
    ``seed`` is that of the fit, ``sizes`` are the sizes of the split's parts in order, ``roles``
    the columns of the log. ``fingerprints`` are hashes of the episodes that it was fitted on (of
    very many, only some), part after part. ``chosen`` is what was chosen on the learning episodes.
    """

    parameters: Mapping[str, Any]
    seed: int
    sizes: Mapping[str, int]
    roles: Roles
    fingerprints: KeyArray
    chosen: Choices = field(default_factory=Choices)
    censoring: str = ""  # how episodes that were cut off were treated (M24)

    @property
    def in_words(self) -> str:
        """What the episodes of each part were used for, and how many there are."""
        used = {
            "learn": "learned from {:,}",
            "train": "trained on {:,}",
            "calibrate": "calibrated on {:,}",
            "assure": "promises rest on {:,}",
        }
        said = ", ".join(used[part].format(n) for part, n in self.sizes.items() if n)
        return f"{said} episodes" if self.sizes["assure"] else f"{said} episodes, nothing promised"

    def fingerprints_of(self, part: str) -> KeyArray:
        """The fingerprints of the episodes of one part."""
        kept = {name: min(size, MOST_FINGERPRINTS) for name, size in self.sizes.items()}
        start = sum(list(kept.values())[: list(kept).index(part)])
        return self.fingerprints[start : start + kept[part]]


@dataclass(frozen=True, eq=False)
class Fitted:
    """A fitted monitor's contents; they never change, so they can be shared."""

    schema: Schema
    behavior: Behavior
    horizon: int
    horizon_declared: bool
    grid: float
    reward_bounds: tuple[float, float]
    blocks: tuple[Block, ...]
    law: LawTable
    models: Models
    ranks: RankTable  # of the assure episodes; in the paper's way of the calibration episodes
    curves: CurveTable | None  # from the learning episodes; None in the paper's way
    groups: tuple[Any, ...] | None
    min_calibration: int
    may_miss: BoolArray  # features that were missing in training, so that NaN is a reading
    assure: Episodes | None
    excess: FloatArray  # M_i, one per assure episode (M9); +inf for one that was cut off (M24)
    trained: Trained
    pace: float = 0.0  # what nearly every step earns: models learn the remainder plus this times t
    impossible: FloatArray = field(default_factory=lambda: NO_CURVE)  # without mass, ascending
    rehearsal: Rehearsal | None = None  # of the learning episodes; None in the paper's way
    runs: RecordedRuns = field(default_factory=RecordedRuns)  # those that the models learned from
    path_maps: PathMaps = NO_MAPS  # of the learning episodes' own paths
    history: int = 0  # how many earlier steps the models read beside the state

    def __post_init__(self) -> None:
        # A file may hold anything; live, the lengths are taken for granted.
        assured = 0 if self.assure is None else len(self.assure)
        for name, n in (("may_miss", self.state_width), ("excess", assured)):
            shape = getattr(self, name).shape
            if shape != (n,):
                raise InputError(f"{name} needs shape ({n},), got {shape}")
        added = self.behavior.translation is Translation.SHIFT and self.behavior.scale(1) == 1.0
        if self.impossible.size and not added:
            raise InputError("impossible outcomes need a behavior that adds up")
        ranks = self.ranks
        if self.is_weighted and ranks.weights.size != ranks.values.size:
            raise InputError("ranks need weights where the assure episodes have some")

    @property
    def n_groups(self) -> int:
        """How many groups are calibrated by themselves; 1 without groups."""
        return 1 if self.groups is None else len(self.groups)

    @property
    def label(self) -> str:
        """What an outcome is: "sum of rewards", or "sum of hours" if the reward has that name."""
        column = self.trained.roles.reward or "reward"
        if column == "reward":
            return self.behavior.label
        named = plain(column.removeprefix(AN_OUTCOME).removeprefix(FROM_NEXT))
        if column.startswith(AN_OUTCOME):
            return named
        return re.sub(r"\brewards?\b", lambda _: named, self.behavior.label)

    @cached_property
    def reads_step(self) -> bool:
        """Whether each model learns from more than one step, and so takes t as a feature."""
        return any(len(block.train_steps) > 1 for block in self.blocks)

    @cached_property
    def state_schema(self) -> Schema:
        """The columns that the models read: the features, and what a history adds."""
        return state_schema(self.schema, self.history)

    @property
    def state_width(self) -> int:
        """The number of columns of a state."""
        return state_width(self.schema, self.history)

    @property
    def width(self) -> int:
        """How many numbers the models read of a run: its state, behavior so far, step."""
        return self.state_width + self.behavior.reads_so_far + self.reads_step

    @cached_property
    def ahead(self) -> FloatArray:
        """(steps, 2): the least and most that may remain at each step, on the grid (M18)."""
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
        scale = self.amounts[1] or 1.0 / self.grid
        with np.errstate(over="ignore", invalid="ignore"):
            # Outwards, so that rounding never makes a remainder impossible that is not.
            outer = np.stack([np.floor(found[:, 0] * scale), np.ceil(found[:, 1] * scale)], axis=1)
            snapped = outer / scale
        return read_only(np.where(np.isfinite(snapped), snapped, found))

    @cached_property
    def amounts(self) -> FloatArray:
        """Numbers for the kernels: the grid's spacing, its scale or 0, and the reward bounds."""
        return read_only(np.array([self.grid, scale_of(self.grid), *self.reward_bounds]))

    def at(self, t: int, group: int = 0, calibration: Calibrated | None = None) -> StepLaw:
        """The law of step t in a group, with the calibration of one target if it is given."""
        try:
            known = 0 <= index(t) < self.horizon
        except TypeError:  # not even a whole number
            known = False
        if not known:
            raise InputError(f"t needs a step from 0 to {self.horizon - 1}, got {t!r:.80}")
        weighted = [(weight, self.models[block]) for weight, block in self.law.at(t)]
        least, most = self.ahead[t].tolist()
        step = StepLaw(
            t=t,
            parts=tuple(weighted) if all(model is not None for _, model in weighted) else (),
            ranks=self.ranks.at(t, group),
            curve=NO_CURVE if self.curves is None else self.curves.at(t, group),
            behavior=self.behavior,
            reads_step=self.reads_step,
            amounts=self.amounts,
            ahead=(least, most),
            moved=self.pace * t,
            impossible=self.impossible,
            stopped=self.stopped[group],
            rank_weights=self.ranks.upto_at(t, group) if self.is_weighted else NO_WEIGHTS,
            excess_weights=self.excess_weights[group],
            is_known=not self.unknown(t, group),
        )
        return step if calibration is None else calibration.at(step, group)

    @property
    def only_measures(self) -> bool:
        """Whether there are no assure episodes, so that alarms rest on learning episodes (M16)."""
        return self.assure is None and self.rehearsal is not None

    @cached_property
    def counts(self) -> IndexArray:
        """(steps, groups): how many episodes the bounds of each step rest on."""
        return self.ranks.counts

    @property
    def learned(self) -> IndexArray:
        """(steps, groups): how many episodes p of each step was calibrated on."""
        return self.counts if self.curves is None else self.curves.counts

    @property
    def calibrated_by(self) -> str:
        """The name of the part that calibrates p."""
        return "calibration" if self.curves is None else "learning"

    def is_trained(self, t: int) -> bool:
        """Whether any episode trained the law of step t."""
        return all(self.models[block] is not None for _, block in self.law.at(t))

    @cached_property
    def trained_steps(self) -> BoolArray:
        """Whether any episode trained the law, for each step; opens every model."""
        trained = np.array([self.models[block.index] is not None for block in self.blocks])
        law = self.law
        found: BoolArray = np.logical_and.reduceat(trained[law.blocks], law.starts[:-1])
        return found

    @cached_property
    def answered(self) -> BoolArray:
        """(steps, groups): whether a model answers; elsewhere only decided runs have a p."""
        return self.trained_steps[:, None] & (self.learned >= self.min_calibration)

    def unknown(self, t: int, group: int = 0) -> str:
        """Why no model answers at a step, so that runs are UNKNOWN there; empty if one does.

        Runs that arithmetic decides have a p even there: exactly 0 or 1 (M18).
        """
        if not self.is_trained(t):
            return "no model was fitted for this step"
        n = int(self.learned[t, group])
        if n < self.min_calibration:
            return (
                f"{n} {self.calibrated_by} episodes reach this step, fewer than "
                f"{self.min_calibration}"
            )
        return ""

    def known_steps(
        self, episodes: Episodes, groups: IndexArray
    ) -> Iterator[tuple[int, int, Any, IndexArray]]:
        """Each step and group with good readings: t, group, the step's rows, and which of them."""
        for t in range(min(self.horizon, episodes.horizon)):
            rows = episodes.at(t, grid=self.grid)
            good = ~self.bad_readings(rows.states)
            for g in range(self.n_groups):
                own = np.flatnonzero(good & (groups[rows.index] == g))
                if own.size and not self.unknown(t, g):
                    yield t, g, rows, own

    def group_of(self, group: Any) -> int:
        """The number of a group; without groups there is one."""
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
            raise GroupError(f"group needs one of the calibrated groups {known}, got {group!r}")
        return found

    @cached_property
    def _places(self) -> dict[Any, int]:
        return {name: k for k, name in enumerate(self.groups or ())}

    @cached_property
    def members(self) -> tuple[IndexArray, ...]:
        """The assure episodes of each group, in their order."""
        order = np.argsort(self.assure_groups, kind="stable")
        ends = np.searchsorted(self.assure_groups[order], np.arange(1, self.n_groups))
        return tuple(np.split(order, ends))

    def groups_of(self, groups: Any, n: int) -> IndexArray:
        """The number of each run's group: one group for all of them, or one per run."""
        if n == 0 and groups is None:  # nobody whose group would be needed
            return np.empty(0, dtype=np.intp)
        if groups is None or self.groups is None or np.ndim(groups) == 0:
            return np.full(n, self.group_of(groups), dtype=np.intp)
        given = np.asarray(groups)
        if given.shape != (n,):
            raise InputError(f"groups need one value for each of {n} runs, got {given.shape}")
        place = {name: self.group_of(name) for name in set(given.tolist())}
        return np.array([place[name] for name in given.tolist()], dtype=np.intp)

    def groups_in(self, episodes: Episodes) -> IndexArray:
        """The number of each episode's group."""
        return self.groups_of(None if self.groups is None else episodes.groups, len(episodes))

    def alike(
        self, episodes: Episodes, *, any_horizon: bool = False, cut_off: bool = False
    ) -> Episodes:
        """The episodes coded by the monitor's dictionaries; refused if they do not fit the monitor.

        A category that no training episode had is a missing value, or refused (M18). Episodes of
        unknown outcome are refused, unless some may be ``cut_off``.
        """
        cut = int(np.count_nonzero(episodes.cut_off))
        if cut and not cut_off:
            raise CensoredError(
                f"{cut:,} of these {len(episodes):,} episodes were cut off, so their outcome is "
                "unknown; leave them out: episodes.take(~episodes.cut_off)"
            )
        # Two longest runs need not agree: neither is a limit (M18).
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
        return episodes.recoded(self.schema).with_history(self.history)

    def bad_readings(self, states: FloatArray) -> BoolArray:
        """Which states are bad readings: infinite, or lacking what was never missing before."""
        return bad_readings(states, self.may_miss)

    def bad_feature(self, state: FloatArray) -> tuple[int, float] | None:
        """The first feature of a state that makes it a bad reading, and its value."""
        bad = np.isinf(state) | (np.isnan(state) & ~self.may_miss)
        if not bad.any():
            return None
        j = int(np.argmax(bad))
        return j, float(state[j])

    def feature_in_words(self, feature: int, value: float) -> str:
        """What is wrong with a feature of a bad reading."""
        name = self.state_schema.names[feature]
        if math.isnan(value):
            return f"feature {name!r} is missing, and it was never missing in training"
        return f"feature {name!r} needs a number, got {value}"

    def check_readings(self, states: FloatArray, so_far: FloatArray) -> None:
        """Refuse, with an `InputError`, a run that has a bad reading, and say which."""
        for i in np.flatnonzero(self.bad_readings(states))[:1].tolist():
            found = self.bad_feature(states[i])
            assert found is not None
            raise InputError(f"run {i}: {self.feature_in_words(*found)}")
        if not self.behavior.reads_so_far and not np.isfinite(so_far).all():
            i = int(np.argmin(np.isfinite(so_far)))
            raise InputError(f"run {i}: behavior needs a number, got {so_far[i]}")

    @cached_property
    def assure_groups(self) -> IndexArray:
        """The number of each assure episode's group."""
        if self.assure is None:
            return np.empty(0, dtype=np.intp)
        return self.groups_in(self.assure)

    @cached_property
    def known_outcomes(self) -> IndexArray:
        """The positions of the assure episodes that were not cut off."""
        return np.flatnonzero(np.isfinite(self.excess))

    @cached_property
    def observed(self) -> Episodes | None:
        """The assure episodes whose outcome is known: all but those that were cut off (M24)."""
        if self.assure is None or self.known_outcomes.size == self.excess.size:
            return self.assure
        return self.assure.take(self.known_outcomes)

    @cached_property
    def clocks(self) -> Clocks:
        """What moves one way at every step of the assure episodes, as time does."""
        return clocks_of(self.assure, self.state_schema)

    @cached_property
    def stopped(self) -> tuple[int, ...]:
        """How many assure episodes of each group were cut off (M24)."""
        return tuple(int(np.count_nonzero(np.isinf(own))) for own in self.sorted_excess)

    @property
    def weights(self) -> FloatArray | None:
        """The weight of each assure episode; None where they have none (M25)."""
        return None if self.assure is None else self.assure.weights

    @property
    def is_weighted(self) -> bool:
        """Whether the assure episodes have weights, so that every new run needs one too."""
        return self.weights is not None

    @property
    def n_eff(self) -> float | None:
        """How many unweighted assure episodes the weighted ones are worth: (Σw)²/Σw²."""
        w = self.weights
        return None if w is None else float(w.sum() ** 2 / (w**2).sum())

    def checked_weights(self, weights: Any, n: int) -> FloatArray:
        """The weights of n new runs; refused if they are missing or not needed."""
        if not self.is_weighted:
            if weights is not None:
                raise InputError(
                    Argument("weight"),
                    " is for a monitor whose assure episodes have weights, and this one's have "
                    "none; fit on episodes.weighted(…)",
                )
            return np.ones(n)
        if weights is None:
            raise InputError(
                "this monitor's assure episodes have weights, so a new run needs one too; pass ",
                Argument("weight"),
                ": the probability of its start now, divided by that in the recording, times the "
                "same factor as the episodes' weights",
            )
        try:
            found = np.asarray(weights, dtype=np.float64)
        except (TypeError, ValueError):
            found = np.full((), np.nan)
        if found.shape not in ((), (n,)) or not np.all(np.isfinite(found) & (found > 0.0)):
            each = f", one for all or one for each of {n:,} runs" * (n > 1)
            raise InputError(
                Argument("weight"), f" needs a finite number above 0{each}, got {weights!r}"
            )
        return np.array(np.broadcast_to(found, (n,)))

    def refuse_weights(self, what: str, remedy: str) -> None:
        """Raise an `InputError` for something that weighted assure episodes do not allow."""
        if self.is_weighted:
            raise InputError(
                f"this monitor's assure episodes have weights, so there is no {what}; {remedy}"
            )

    @cached_property
    def excess_weights(self) -> tuple[FloatArray, ...]:
        """For each group, the total weight up to each excess, in the order of `sorted_excess`."""
        if self.weights is None:
            return (NO_WEIGHTS,) * self.n_groups
        found = []
        for own in self.members:
            order = np.argsort(self.excess[own], kind="stable")
            found.append(read_only(np.cumsum(self.weights[own][order])))
        return tuple(found)

    @cached_property
    def sorted_excess(self) -> tuple[FloatArray, ...]:
        """M_i of the assure episodes of each group, sorted and read-only."""
        return tuple(read_only(np.sort(self.excess[own])) for own in self.members)
