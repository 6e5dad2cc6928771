"""Fitting a monitor: from a split of episodes to everything it needs to answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from ontarget._readonly import read_only
from ontarget._typing import AnyArray, BoolArray, IndexArray
from ontarget.episodes import Episodes, Schema, Split
from ontarget.episodes._dictionaries import learned_schema
from ontarget.episodes._fingerprints import fingerprints
from ontarget.episodes.schema import Unseen
from ontarget.errors import Argument, CalibrationError, EpisodesError, GroupError
from ontarget.fitted.blocks import Block, LawTable
from ontarget.fitted.fitted import Fitted, Trained
from ontarget.fitting.calibration import Part, blended_limits, rank_table, whole_run_excess
from ontarget.fitting.checkpoints import Checkpoint, digest_of
from ontarget.fitting.engines import Engine, run_tasks
from ontarget.fitting.tasks import BlockResult, BlockTask, fit_block, step_rows
from ontarget.models._entry import check_model, fresh_model, takes_missing

__all__ = ["Preset", "Recipe", "fit_monitor", "preset_model"]

Preset: TypeAlias = Literal["default", "paper"]


@dataclass(frozen=True)
class Recipe:
    """What to fit: an unfitted model, the blocks and the law of each step, and how to calibrate.

    ``parameters`` are the monitor's own, kept so that a loaded one can be fitted anew alike.
    ``steps`` are those that must be answered: a block without any of them is not fitted.
    """

    model: Any
    blocks: tuple[Block, ...]
    law: LawTable
    group: str | None
    min_calibration: int
    reward_bounds: tuple[float, float]
    seed: int
    parameters: Mapping[str, Any]
    steps: frozenset[int] | None = None
    unseen: Unseen = "error"


def preset_model(preset: Preset) -> Any:
    """The preset's unfitted model.

    The paper gives no leaf size; its forest has our forest's own, as in `ontarget paper`. The
    default's numbers come from the study of distances to the truth (`ontarget.paper.distance`).
    """
    if preset == "paper":
        from ontarget.models.forest.estimator import QuantileForest

        return QuantileForest()
    from ontarget.models.guided.estimator import GuidedForest

    return GuidedForest(min_leaf=7)


def fit_monitor(
    recipe: Recipe,
    split: Split,
    *,
    engine: Engine,
    progress: bool,
    checkpoint: str | Path | None,
) -> Fitted:
    """The fitted monitor's contents; the same whatever the engine.

    Phase one fits the blocks, wherever the engine runs them. Phase two blends what they say of the
    other parts, and forms ranks and excesses here.
    """
    check_model(recipe.model)
    _check_parts(split, recipe.reward_bounds)
    # The dictionary comes from train alone: no other part may add to it (M14).
    schema = learned_schema(split.train, _unseen(recipe))
    train, calibrate, assure = (
        None if part is None else part.recoded(schema) for part in split[:3]
    )
    assert train is not None
    assert calibrate is not None
    split = Split(train, calibrate, assure, None)
    _check_disjoint({"train": train, "calibrate": calibrate, "assure": assure})
    groups, may_miss = _groups(recipe, calibrate), _may_miss(train, schema)
    kept = None
    if checkpoint is not None:
        kept = Checkpoint(checkpoint, _digest(recipe, split))
    results: list[BlockResult] = run_tasks(
        fit_block,
        lambda index: _task(recipe, split, recipe.blocks[index]),
        len(recipe.blocks),
        engine=engine,
        checkpoint=kept,
        progress=progress,
    )
    n_groups = 1 if groups is None else len(groups)
    ranks = rank_table(
        blended_limits(results, recipe.law, "calibrate"),
        Part("calibrate", calibrate, _codes(calibrate, groups), may_miss),
        horizon=train.horizon,
        n_groups=n_groups,
        seed=recipe.seed,
    )
    excess = np.empty(0)
    if assure is not None:
        limits = blended_limits(results, recipe.law, "assure")
        excess = whole_run_excess(
            limits, Part("assure", assure, _codes(assure, groups), may_miss), ranks
        )
    seen = [np.sort(fingerprints(part)) for part in split[:3] if part is not None]
    return Fitted(
        schema=schema,
        behavior=train.behavior,
        horizon=train.horizon,
        horizon_declared=train.horizon_declared,
        grid=train.grid,
        reward_bounds=recipe.reward_bounds,
        blocks=recipe.blocks,
        law=recipe.law,
        models=tuple(result.model for result in results),
        ranks=ranks,
        groups=groups,
        min_calibration=recipe.min_calibration,
        may_miss=may_miss,
        assure=None if assure is None else assure.compact(),
        excess=excess,
        trained=Trained(
            parameters=recipe.parameters,
            seed=recipe.seed,
            sizes={
                "train": len(train),
                "calibrate": len(calibrate),
                "assure": 0 if assure is None else len(assure),
            },
            roles=train.roles,
            fingerprints=read_only(np.concatenate(seen)),
        ),
    )


def _task(recipe: Recipe, split: Split, block: Block) -> BlockTask:
    """The task of one block: rows to learn from, and rows to answer for."""
    reads_step = any(len(one.train_steps) > 1 for one in recipe.blocks)
    answers = recipe.law.steps_of(block.index)

    def rows(episodes: Episodes | None, steps: Sequence[int]) -> Any:
        asked = steps if recipe.steps is None or recipe.steps & set(answers) else ()
        return step_rows(episodes, asked, grid=split.train.grid, reads_step=reads_step)

    return BlockTask(
        index=block.index,
        model=fresh_model(
            recipe.model, seed=(recipe.seed, block.start), n_steps=len(block.train_steps)
        ),
        categorical=split.train.schema.categorical,
        train=rows(split.train, block.train_steps),
        asked={
            "calibrate": rows(split.calibrate, answers),
            "assure": rows(split.assure, answers),
        },
    )


def _check_parts(split: Split, bounds: tuple[float, float]) -> None:
    train = split.train
    if not len(train.schema):
        raise EpisodesError(
            "the episodes have no feature; a state needs at least one that is known before acting"
        )
    named = {"train": train, "calibrate": split.calibrate, "assure": split.assure}
    for name, part in named.items():
        if part is None:
            continue
        if name != "train":
            _check_alike(train, part)
        earned = part.reward_range
        if earned is not None and not bounds[0] <= earned[0] <= earned[1] <= bounds[1]:
            wrong = earned[0] if earned[0] < bounds[0] else earned[1]
            raise EpisodesError(
                Argument("reward_bounds", bounds),
                f" do not hold: an episode of {name} earned {wrong:g} in one step; declare wider "
                "bounds, or none",
            )


def _check_alike(train: Episodes, other: Episodes) -> None:
    pairs = {
        "horizon": (train.horizon, other.horizon),
        "behavior": (train.behavior.spec, other.behavior.spec),
        "list of features": (train.schema.names, other.schema.names),
        "kind of features": (_texts(train), _texts(other)),
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
        for t in range(one.horizon):
            if not here.size:
                break
            alike = _same_at(one.take(here), other.take(there), t)
            here, there = here[alike], there[alike]
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
        a, b = one.take(alive).at(t), other.take(alive).at(t, grid=one.grid)
        same[alive] &= a.outcomes == b.outcomes
        equal = np.all((a.states == b.states) | (np.isnan(a.states) & np.isnan(b.states)), axis=1)
        equal &= (a.behavior == b.behavior) | (np.isnan(a.behavior) & np.isnan(b.behavior))
        same[alive] &= equal
    return same


def _texts(episodes: Episodes) -> list[bool]:
    return [feature.categories is not None for feature in episodes.schema.features]


def _unseen(recipe: Recipe) -> Unseen:
    """What an unseen category is: missing only where the model takes missing values (M18)."""
    return "missing" if recipe.unseen == "missing" and takes_missing(recipe.model) else "error"


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


def _codes(episodes: Episodes, groups: Sequence[Any] | None) -> IndexArray:
    """The number of each episode's group; one that was not calibrated has none, -1."""
    if groups is None or episodes.groups is None:
        return np.zeros(len(episodes), dtype=np.intp)
    place = {name: number for number, name in enumerate(groups)}
    return np.array([place.get(name, -1) for name in episodes.groups.tolist()], dtype=np.intp)


def _may_miss(train: Episodes, schema: Schema) -> BoolArray:
    """The features that are ever missing in training, so that a missing one is no surprise.

    And those of which an unseen category is a missing value.
    """
    found = np.array([one.unseen == "missing" for one in schema.features], dtype=np.bool_)
    for t in range(train.horizon):
        found |= np.isnan(train.at(t).states).any(axis=0)
    return found


def _digest(recipe: Recipe, split: Split) -> str:
    parts = [part.compact() for part in split[:3] if part is not None]
    # What a model may do without changing what it learns has no part in the name.
    parameters: dict[str, Any] = getattr(recipe.model, "get_params", dict)()
    parameters = {name: one for name, one in parameters.items() if name != "n_jobs"}
    description = {
        "model": [type(recipe.model).__name__, repr(sorted(parameters.items()))],
        "blocks": [[b.start, b.stop, b.train_start, b.train_stop] for b in recipe.blocks],
        "law": [recipe.law.at(t) for t in range(recipe.law.horizon)],
        "group": recipe.group,
        "steps": None if recipe.steps is None else sorted(recipe.steps),
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
    return digest_of(description, arrays)
