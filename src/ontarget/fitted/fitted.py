"""What a fit leaves behind: models and ranks by step, and the episodes that assure them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from ontarget._grid import scale_of
from ontarget._typing import AnyArray, BoolArray, FloatArray, KeyArray
from ontarget.conformal._limits import TargetEnds
from ontarget.episodes import Behavior, Episodes, Schema
from ontarget.episodes._store import Roles
from ontarget.errors import EpisodesError, GroupError, InputError, ModelFileError
from ontarget.fitted._inputs import bad_readings
from ontarget.fitted.blocks import Block
from ontarget.fitted.law import BlockDistribution, StepDistribution
from ontarget.fitted.target_calibration import TargetCalibration
from ontarget.models.registry import model_of_kind
from ontarget.target import Target

__all__ = ["Calibrated", "Sections", "SectionsInMemory", "block_name", "ends_with_complements"]


class Sections(Protocol):
    """Named groups of arrays: in memory, or in a model file."""

    def section(self, name: str) -> Mapping[str, AnyArray]:
        """The arrays of one section."""
        ...


@dataclass(frozen=True)
class SectionsInMemory:
    """Sections that a fit has just made."""

    arrays: Mapping[str, Mapping[str, AnyArray]]

    def section(self, name: str) -> Mapping[str, AnyArray]:
        """The arrays of one section."""
        return self.arrays[name]


def block_name(index: int) -> str:
    """The section that holds a block."""
    return f"block-{index:05d}"


@dataclass(frozen=True, eq=False)
class Calibrated:
    """A fitted monitor's contents; blocks are opened when first asked for."""

    schema: Schema
    behavior: Behavior
    horizon: int
    grid: float
    seed: int
    kind: str
    blocks: tuple[Block, ...]
    groups: tuple[Any, ...] | None
    min_calibration: int
    may_miss: BoolArray  # features that were missing in training, so that NaN is a reading
    policy: str
    sizes: Mapping[str, int]
    sections: Sections
    assure: Episodes | None
    excess: FloatArray  # M_i, one per assure episode (M9)
    roles: Roles  # the columns of the log that it was fitted on
    fingerprints: KeyArray  # of every episode it was fitted on; empty in older files

    _opened: dict[int, BlockDistribution] = field(init=False, repr=False, default_factory=dict)
    # What the assure episodes said of the last few targets (see `alarm`).
    panels: dict[tuple[Target, int, TargetCalibration | None], Any] = field(
        init=False, repr=False, default_factory=dict
    )

    @property
    def n_groups(self) -> int:
        """How many groups are calibrated by themselves; 1 without groups."""
        return 1 if self.groups is None else len(self.groups)

    def block(self, index: int) -> BlockDistribution:
        """A fitted block, opened and checked when first asked for."""
        found = self._opened.get(index)
        if found is None:
            found = self._opened[index] = self._open(index)
        return found

    def _open(self, index: int) -> BlockDistribution:
        arrays = self.sections.section(block_name(index))
        try:
            return BlockDistribution.of(
                self.blocks[index],
                arrays,
                model_class=model_of_kind(self.kind),
                n_groups=self.n_groups,
            )
        except ModelFileError:
            raise
        # Checksums guard against accidents; these are what a forged block may run into.
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise ModelFileError(f"block {index} does not hold a fitted model: {error}") from error

    @cached_property
    def block_of_step(self) -> tuple[int, ...]:
        """The block that answers for each step."""
        return tuple(block.index for block in self.blocks for _ in block.steps)

    def at(
        self, t: int, group: int = 0, calibration: TargetCalibration | None = None
    ) -> StepDistribution:
        """The calibrated distribution of step t in a group; for one target if it has its own."""
        if not 0 <= t < self.horizon:
            raise InputError(f"step needs 0 <= t < {self.horizon}, the horizon, got {t}")
        opened = self.block(self.block_of_step[t])
        step = StepDistribution(
            t=t,
            model=opened.model,
            ranks=opened.ranks[t - opened.block.start][group],
            additive=self.behavior.additive,
            pooled=opened.block.pooled,
            grid=self.grid,
        )
        return step if calibration is None else calibration.at(step, group)

    def unknown(self, step: StepDistribution) -> str:
        """Why the step is UNKNOWN by structure; empty if it is not."""
        if step.model is None:
            return "no training episode reaches this step"
        n = step.ranks.n
        if n < self.min_calibration:
            return f"{n} calibration episodes reach this step, fewer than {self.min_calibration}"
        return ""

    def group_of(self, group: Any) -> int:
        """The number of a group; without groups there is one."""
        if self.groups is None:
            if group is not None:
                raise GroupError(
                    f"this monitor was calibrated without groups, got group {group!r}; fit with "
                    "GoalMonitor(group=…) to calibrate each group"
                )
            return 0
        if group not in self.groups:
            known = ", ".join(repr(one) for one in self.groups[:10])
            raise GroupError(f"group needs one of the calibrated groups {known}, got {group!r}")
        return self.groups.index(group)

    def groups_of(self, groups: Sequence[Any] | AnyArray | None, n: int) -> AnyArray:
        """The number of each run's group."""
        if groups is None or self.groups is None:
            return np.full(n, self.group_of(groups))
        given = np.asarray(groups)
        if given.shape != (n,):
            raise InputError(f"groups need one value for each of {n} runs, got {given.shape}")
        place = {name: self.group_of(name) for name in set(given.tolist())}
        return np.array([place[name] for name in given.tolist()], dtype=np.intp)

    def check_alike(self, episodes: Episodes, *, any_horizon: bool = False) -> None:
        """Nothing, or an `EpisodesError` that says how the episodes differ from the monitor's."""
        same_horizon = any_horizon or episodes.horizon == self.horizon
        if not same_horizon or episodes.schema.names != self.schema.names:
            raise EpisodesError(
                f"the episodes need the monitor's horizon {self.horizon} and features "
                f"({', '.join(self.schema.names)}), got {episodes.horizon} and "
                f"({', '.join(episodes.schema.names)}); read them with like="
            )
        if episodes.behavior.spec != self.behavior.spec:
            raise EpisodesError(
                f"the episodes need the monitor's behavior {self.behavior.spec}, got "
                f"{episodes.behavior.spec}; read them with like="
            )
        # Codes of another dictionary would be taken for other categories without a word.
        for ours, theirs in zip(self.schema.features, episodes.schema.features, strict=True):
            if ours.categories != theirs.categories:
                raise EpisodesError(
                    f"feature {ours.name!r} needs the monitor's dictionary {ours.categories}, got "
                    f"{theirs.categories}; read the episodes with like="
                )

    def bad_readings(self, states: FloatArray) -> BoolArray:
        """Which states no probability may be given for: infinite, or missing what never was."""
        return bad_readings(states, self.may_miss)

    def bad_feature(self, state: FloatArray) -> str:
        """What is wrong with a bad reading; empty if it is none."""
        bad = np.isinf(state) | (np.isnan(state) & ~self.may_miss)
        if not bad.any():
            return ""
        j = int(np.argmax(bad))
        name = self.schema.names[j]
        if np.isnan(state[j]):
            return f"feature {name!r} is missing, and it never was in training"
        return f"feature {name!r} needs a number, got {state[j]}"

    def check_readings(self, states: FloatArray, behavior: FloatArray) -> None:
        """Nothing, or an `InputError` that says which run has a bad reading."""
        bad = self.bad_readings(states)
        if bad.any():
            i = int(np.argmax(bad))
            raise InputError(f"run {i}: {self.bad_feature(states[i])}")
        if self.behavior.additive and not np.isfinite(behavior).all():
            i = int(np.argmin(np.isfinite(behavior)))
            raise InputError(f"run {i}: behavior needs a number, got {behavior[i]}")

    @cached_property
    def grid_table(self) -> FloatArray:
        """The grid as the kernels read it: its spacing, and the power of ten to scale by or 0."""
        table = np.array([self.grid, scale_of(self.grid)])
        table.setflags(write=False)
        return table

    @cached_property
    def assure_groups(self) -> AnyArray:
        """The number of each assure episode's group."""
        if self.assure is None:
            return np.empty(0, dtype=np.intp)
        return self.groups_of(None if self.groups is None else self.assure.groups, len(self.assure))

    @cached_property
    def sorted_excess(self) -> tuple[FloatArray, ...]:
        """M_i of the assure episodes of each group, sorted and read-only."""
        found = []
        for g in range(self.n_groups):
            own = np.sort(self.excess[self.assure_groups == g])
            own.setflags(write=False)
            found.append(own)
        return tuple(found)


def ends_with_complements(targets: Target | Sequence[Target], grid: float) -> TargetEnds:
    """The ends of the targets and then of their complements, so that one descent serves both."""
    several = (targets,) if isinstance(targets, Target) else tuple(targets)
    snapped = [target.shift(0.0, grid) for target in several]
    return TargetEnds.of([*snapped, *(target.complement() for target in snapped)], grid)
