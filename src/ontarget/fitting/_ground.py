"""What a fit starts from: the checked parts of a split, and facts about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from ontarget._typing import BoolArray, IndexArray
from ontarget.episodes import Behavior, Episodes, PaperSplit, Schema, Split, Translation
from ontarget.episodes._dictionaries import learned_schema
from ontarget.episodes._history import state_schema
from ontarget.episodes.schema import Unseen
from ontarget.errors import (
    Argument,
    CalibrationError,
    CensoredError,
    EpisodesError,
    FewEpisodesError,
    GroupError,
    InputError,
)
from ontarget.fitting._answering import kept_episodes
from ontarget.fitting.ranking import Part
from ontarget.fitting.recipe import Recipe
from ontarget.models._entry import check_model, takes_missing

__all__ = ["Ground", "ground_of"]


@dataclass(frozen=True)
class Ground:
    """The parts of a split, checked against each other, and the groups of their episodes.

    Models learn from the first part. ``own`` names it if it is also used to calibrate p, as always
    except with ``preset="paper"``. ``ranked`` names the part whose ranks are kept. ``may_miss``
    marks the columns of states that may have missing values.
    """

    named: Mapping[str, Episodes]
    schema: Schema
    own: str | None
    ranked: str
    groups: tuple[Any, ...] | None
    may_miss: BoolArray

    @property
    def train(self) -> Episodes:
        """The episodes that models learn from."""
        return next(iter(self.named.values()))

    @property
    def n_groups(self) -> int:
        """How many groups are calibrated by themselves; 1 without groups."""
        return 1 if self.groups is None else len(self.groups)

    def part(self, name: str) -> Part:
        """A part with the group of each of its episodes."""
        return self.part_of(name, self.named[name])

    def part_of(self, name: str, episodes: Episodes) -> Part:
        """Some episodes of a part, with their groups."""
        return Part(name, episodes, self.codes(episodes), self.may_miss)

    def codes(self, episodes: Episodes) -> IndexArray:
        """The number of each episode's group; -1 for a group that was not calibrated."""
        return _codes(episodes, self.groups)


def ground_of(recipe: Recipe, split: Split | PaperSplit) -> Ground:
    """What a fit starts from, or an error that says what is wrong with the episodes or model."""
    check_model(recipe.model)
    named = _named(split)
    train = next(iter(named.values()))
    _check_parts(named, recipe.reward_bounds)
    _check_successors(recipe.model, train.behavior)
    # The dictionary comes from the first part alone: no other may add to it (M14).
    schema = learned_schema(train, _unseen(recipe))
    named = {name: part.recoded(schema) for name, part in named.items()}
    _check_disjoint(named)
    if "assure" in named and _counts_others(named["assure"]):
        named["assure"] = kept_episodes(named["assure"], recipe.seed)
    own, ranked = None, "calibrate"
    if isinstance(split, Split):
        own, ranked = next(iter(named)), "assure"
    groups = _groups(recipe, named[own or ranked])
    may_miss = _may_miss(next(iter(named.values())), schema)
    return Ground(named, schema, own, ranked, groups, may_miss)


def _named(split: Split | PaperSplit) -> dict[str, Episodes]:
    """The parts of a split that have episodes, by name; models are fitted on the first."""
    named = {
        name: part for name, part in split._asdict().items() if part is not None and name != "rest"
    }
    cut = [name for name, part in named.items() if part.cut_off.any()]
    _check_weights(named, cut)
    if not cut:
        return named
    if not isinstance(split, Split):
        raise CensoredError(
            Argument("censored", "worst-case"),
            f" needs learn and assure, got the paper's parts with cut-off episodes in {cut[0]}; "
            "split with split(learn=0.8, assure=0.2), or leave them out",
        )
    # What is estimated needs outcomes; what is promised counts those that are missing (M24).
    first = next(iter(named))
    if "assure" in cut and named["assure"].cut_off.all():
        raise FewEpisodesError(
            f"all {len(named['assure'])} assure episodes were cut off, so that nothing can be "
            "promised; give assure a larger share, or record episodes to their end"
        )
    return {**named, first: named[first].take(~named[first].cut_off)}


def _check_weights(named: Mapping[str, Episodes], cut: Sequence[str]) -> None:
    """Refuse weights where they are not supported (M25)."""
    if all(part.weights is None for part in named.values()):
        return
    if "calibrate" in named or "assure" not in named or named["assure"].weights is None:
        raise InputError(
            "weights need assure episodes that have them, and learn, not the paper's parts; split "
            "the weighted episodes with split(learn=0.8, assure=0.2)"
        )
    if cut:
        raise InputError(
            "weights need episodes that all ended, got some that were cut off; leave them out, or "
            "do without weights"
        )


def _counts_others(assure: Episodes) -> bool:
    """Whether there are cut-off episodes or weights, so that ranks cannot be thinned."""
    return assure.weights is not None or bool(assure.cut_off.any())


def _check_parts(named: Mapping[str, Episodes], bounds: tuple[float, float]) -> None:
    train = next(iter(named.values()))
    if not len(train.schema):
        raise EpisodesError(
            "the episodes have no feature; a state needs at least one that is known before acting"
        )
    for name, part in named.items():
        if part is not train:
            _check_alike(train, part)
        # Rewards that may be anything are not looked at: all rows would be read for it.
        earned = None if bounds == (-np.inf, np.inf) else part.reward_range
        if earned is not None and not bounds[0] <= earned[0] <= earned[1] <= bounds[1]:
            wrong = earned[0] if earned[0] < bounds[0] else earned[1]
            raise EpisodesError(
                Argument("reward_bounds", bounds),
                f" do not hold: an episode of {name} earned {wrong:g} in one step; declare wider "
                "bounds, or none",
            )


def _check_successors(model: Any, behavior: Behavior) -> None:
    """Refuse ``successors`` for a behavior that is not a plain sum (M23)."""
    extreme = behavior.translation in (Translation.FLOOR, Translation.CEILING)
    if getattr(model, "successors", False) and (extreme or behavior.scale(1) != 1.0):
        raise InputError(
            Argument("successors"),
            f" needs a plain sum, or a behavior that does not add up at all, got {behavior.spec}; "
            f"fit with successors=False",
        )


def _check_alike(train: Episodes, other: Episodes) -> None:
    pairs = {
        "horizon": (train.horizon, other.horizon),
        "behavior": (train.behavior.spec, other.behavior.spec),
        "history": (train.history, other.history),
        "list of features": (train.schema.names, other.schema.names),
        "kind of features": (_texts(train), _texts(other)),
    }
    for what, (one, another) in pairs.items():
        if one != another:
            raise EpisodesError(
                f"the parts of a split need one {what}, got {one} and {another}; build them "
                "from one recording, or with like="
            )


def _check_disjoint(named: Mapping[str, Episodes]) -> None:
    """Refuse an episode that is in two parts, which would break every guarantee."""
    for (name, one), (other_name, other) in combinations(named.items(), 2):
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
    """How to treat an unseen category: as missing only if the model takes missing values (M18)."""
    return "missing" if recipe.unseen == "missing" and takes_missing(recipe.model) else "error"


def _groups(recipe: Recipe, calibrating: Episodes) -> tuple[Any, ...] | None:
    if recipe.group is None:
        return None
    if calibrating.groups is None or calibrating.roles.group != recipe.group:
        raise GroupError(
            Argument("group", recipe.group),
            f" needs episodes with that group column, these have {calibrating.roles.group!r}",
        )
    names, counts = np.unique(calibrating.groups, return_counts=True)
    small = counts < recipe.min_calibration
    if small.any():
        i = int(np.argmax(small))
        raise GroupError(
            f"group {names[i]!s} has {counts[i]} episodes to calibrate it, fewer than "
            f"min_calibration={recipe.min_calibration}; record more of it, or leave it out"
        )
    return tuple(names.tolist())


def _codes(episodes: Episodes, groups: Sequence[Any] | None) -> IndexArray:
    """The number of each episode's group; -1 for a group that was not calibrated."""
    if groups is None or episodes.groups is None:
        return np.zeros(len(episodes), dtype=np.intp)
    place = {name: number for number, name in enumerate(groups)}
    return np.array([place.get(name, -1) for name in episodes.groups.tolist()], dtype=np.intp)


def _may_miss(train: Episodes, schema: Schema) -> BoolArray:
    """The columns of states that have missing values in training, and may have them later.

    Also the columns whose unseen categories count as missing values.
    """
    columns = state_schema(schema, train.history).features
    found = np.array([one.unseen == "missing" for one in columns], dtype=np.bool_)
    for t in range(train.horizon):
        found |= np.isnan(train.at(t).states).any(axis=0)
    return found
