"""Fitting a monitor: from a split of episodes to everything it needs to answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from ontarget._typing import AnyArray, BoolArray
from ontarget.episodes import Episodes, Split
from ontarget.episodes._fingerprints import fingerprints
from ontarget.errors import Argument, CalibrationError, EpisodesError, GroupError
from ontarget.fitted.blocks import Block
from ontarget.fitted.fitted import Calibrated, SectionsInMemory, block_name
from ontarget.fitting.engines import Checkpoint, Engine, fingerprint, run_tasks
from ontarget.fitting.tasks import BlockTask, task_of

if TYPE_CHECKING:
    from ontarget.models.base import ConditionalDistribution

__all__ = ["Preset", "Recipe", "fit_monitor", "preset_model"]

Preset: TypeAlias = Literal["default", "paper"]


@dataclass(frozen=True)
class Recipe:
    """What to fit: an unfitted model, the blocks of steps, and how to calibrate.

    ``leaf_per_step`` says that the model's ``min_leaf`` counts episodes, so that it grows with the
    number of pooled steps (M14).
    """

    model: Any
    leaf_per_step: bool
    blocks: tuple[Block, ...]
    group: str | None
    min_calibration: int
    policy: str
    seed: int

    def model_of(self, block: Block) -> Any:
        """The block's unfitted model."""
        if not self.leaf_per_step:
            return self.model
        from sklearn.base import clone

        return clone(self.model).set_params(min_leaf=self.model.min_leaf * len(block.train_steps))


def preset_model(preset: Preset) -> ConditionalDistribution:
    """The preset's unfitted model; its leaves count episodes (`Recipe.leaf_per_step`).

    The numbers come from the study of distances to the truth (`ontarget.paper.distance`).
    """
    if preset == "paper":
        from ontarget.models.forest.estimator import QuantileForest

        return QuantileForest(min_leaf=5)
    from ontarget.models.guided.estimator import GuidedForest

    return GuidedForest(min_leaf=7)


def fit_monitor(
    recipe: Recipe,
    split: Split,
    *,
    engine: Engine,
    progress: bool,
    checkpoint: str | Path | None,
) -> Calibrated:
    """The fitted monitor's contents; the same whatever the engine."""
    train, calibrate, assure = split.train, split.calibrate, split.assure
    if not len(train.schema):
        raise EpisodesError(
            "the episodes have no feature; a state needs at least one that is known before acting"
        )
    _check_alike(train, calibrate, assure)
    _check_disjoint({"train": train, "calibrate": calibrate, "assure": assure})
    groups = _groups(recipe, calibrate)
    may_miss = _may_miss(train)

    def task(index: int) -> BlockTask:
        return task_of(
            recipe.blocks[index],
            recipe.model_of(recipe.blocks[index]),
            (train, calibrate, assure),
            seed=recipe.seed,
            grid=train.grid,
            groups=groups,
            may_miss=may_miss,
        )

    kept = None if checkpoint is None else Checkpoint(checkpoint, _fingerprint(recipe, split))
    fitted = run_tasks(task, len(recipe.blocks), engine=engine, checkpoint=kept, progress=progress)
    excess = np.max([arrays["excess"] for arrays in fitted], axis=0)
    sections = {
        block_name(index): _read_only({n: a for n, a in arrays.items() if n != "excess"})
        for index, arrays in enumerate(fitted)
    }
    return Calibrated(
        schema=train.schema,
        behavior=train.behavior,
        horizon=train.horizon,
        grid=train.grid,
        seed=recipe.seed,
        kind=recipe.model.kind,
        blocks=recipe.blocks,
        groups=groups,
        min_calibration=recipe.min_calibration,
        may_miss=may_miss,
        policy=recipe.policy,
        sizes={
            "train": len(train),
            "calibrate": len(calibrate),
            "assure": 0 if assure is None else len(assure),
        },
        sections=SectionsInMemory(sections),
        assure=None if assure is None else assure.compact(),
        excess=excess,
        roles=train.roles,
        fingerprints=_read_only(
            {"all": np.sort(np.concatenate([fingerprints(p) for p in split[:3] if p is not None]))}
        )["all"],
    )


def _check_alike(train: Episodes, *others: Episodes | None) -> None:
    for other in others:
        if other is None:
            continue
        pairs = {
            "horizon": (train.horizon, other.horizon),
            "behavior": (train.behavior.spec, other.behavior.spec),
            "list of features": (train.schema.names, other.schema.names),
            "dictionary": (_dictionaries(train), _dictionaries(other)),
        }
        for what, (one, another) in pairs.items():
            if one != another:
                raise EpisodesError(
                    f"the parts of a split need one {what}, got {one} and {another}; build them "
                    "from one recording, or with like="
                )


def _check_disjoint(parts: dict[str, Episodes | None]) -> None:
    """No episode may both train and calibrate: that would void every guarantee."""
    named = [(name, part) for name, part in parts.items() if part is not None]
    for (name, one), (other_name, other) in combinations(named, 2):
        _, here, there = np.intersect1d(one.ids, other.ids, return_indices=True)
        # Recordings may number their episodes alike: one and the same is the same throughout.
        alike = one.outcomes[here] == other.outcomes[there]
        for t in range(one.horizon):
            here, there = here[alike], there[alike]
            if not here.size:
                break
            alike = _same_at(one.take(here), other.take(there), t)
        here = here[alike] if here.size else here
        if here.size:
            raise CalibrationError(
                f"{here.size} episodes are both in {name} and in {other_name} (first: episode "
                f"{one.ids[here[0]]!s}); split whole episodes, each into one part"
            )


def _same_at(one: Episodes, other: Episodes, t: int) -> BoolArray:
    """Which episodes, pairwise, have the same state and behavior at step t, or are both over."""
    same: BoolArray = (one.lengths > t) == (other.lengths > t)
    alive = np.flatnonzero((one.lengths > t) & (other.lengths > t))
    if alive.size:
        a, b = one.take(alive).at(t), other.take(alive).at(t)
        equal = np.all((a.states == b.states) | (np.isnan(a.states) & np.isnan(b.states)), axis=1)
        equal &= (a.behavior == b.behavior) | (np.isnan(a.behavior) & np.isnan(b.behavior))
        same[alive] &= equal
    return same


def _dictionaries(episodes: Episodes) -> list[tuple[str, ...] | None]:
    return [feature.categories for feature in episodes.schema.features]


def _groups(recipe: Recipe, calibrate: Episodes) -> tuple[Any, ...] | None:
    if recipe.group is None:
        return None
    if calibrate.groups is None or calibrate.roles.group != recipe.group:
        raise GroupError(
            Argument("group", recipe.group),
            f" needs episodes with that group column, these have {calibrate.roles.group!r}",
        )
    names, counts = np.unique(calibrate.groups, return_counts=True)
    small = counts < recipe.min_calibration
    if small.any():
        i = int(np.argmax(small))
        raise GroupError(
            f"group {names[i]!s} has {counts[i]} calibration episodes, fewer than "
            f"min_calibration={recipe.min_calibration}; record more of it, or leave it out"
        )
    return tuple(names.tolist())


def _may_miss(train: Episodes) -> BoolArray:
    """The features that are ever missing in training, so that a missing one is no surprise."""
    found = np.zeros(len(train.schema), dtype=np.bool_)
    for t in range(train.horizon):
        found |= np.isnan(train.at(t).states).any(axis=0)
    return found


def _fingerprint(recipe: Recipe, split: Split) -> str:
    parts = [part.compact() for part in split[:3] if part is not None]
    description = {
        "model": [recipe.model.kind, repr(sorted(recipe.model.get_params().items()))],
        "leaf_per_step": recipe.leaf_per_step,
        "blocks": [[b.start, b.stop, b.train_start, b.train_stop] for b in recipe.blocks],
        "group": recipe.group,
        "seed": recipe.seed,
        "ids": [[str(one) for one in part.ids.tolist()] for part in parts],
        "groups": [None if p.groups is None else p.groups.tolist() for p in parts],
        "features": [part.schema.to_json() for part in parts],
        "behavior": [part.behavior.spec for part in parts],
    }
    stores = [part._store for part in parts]
    arrays: Sequence[AnyArray] = [
        array for s in stores for array in (s.states, s.before, s.outcomes, s.lengths)
    ]
    return fingerprint(description, arrays)


def _read_only(arrays: dict[str, AnyArray]) -> dict[str, AnyArray]:
    for array in arrays.values():
        array.setflags(write=False)
    return arrays
