"""The parts of a split, checked and coded alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from ontarget._typing import BoolArray, IndexArray
from ontarget.episodes import Episodes, PaperSplit, Schema, Split
from ontarget.episodes.facts import learned_schema
from ontarget.episodes.history import History, state_schema
from ontarget.episodes.schema import Unseen
from ontarget.errors import (
    Argument,
    CalibrationError,
    CensoredError,
    EpisodesError,
    FewEpisodesError,
    GroupError,
)
from ontarget.fitting.ranking import Part, kept_episodes
from ontarget.fitting.recipe import Recipe
from ontarget.models.entry import check_model, takes_missing


@dataclass(frozen=True)
class Ground:
    """The parts of a split, checked against each other, and the groups of their episodes.

    ``named`` has the parts by name; models learn from the first part. ``own`` is the name of the
    first part if that part also calibrates p; with ``preset="paper"`` it does not, and ``own`` is
    None. ``ranked`` is the name of the part whose ranks (where outcomes fell in their predicted
    distributions) the monitor keeps. ``may_miss`` says for each column of a state whether values
    may be missing.
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
        """The number of groups, each of which is calibrated separately; 1 without groups."""
        return 1 if self.groups is None else len(self.groups)

    def part(self, name: str) -> Part:
        """One part of the split, as `rank_table` takes it."""
        return self.part_of(self.named[name])

    def part_of(self, episodes: Episodes) -> Part:
        """Some episodes of a part, as `rank_table` takes them."""
        return Part(episodes, self.codes(episodes), self.may_miss)

    def recalling(self, history: History) -> Ground:
        """The same parts, whose states also say this about the run so far."""
        named = {name: part.with_history(history) for name, part in self.named.items()}
        may_miss = _may_miss(next(iter(named.values())), self.schema)
        return replace(self, named=named, may_miss=may_miss)

    def codes(self, episodes: Episodes) -> IndexArray:
        """(episodes,): the number of each episode's group; -1 if that group was not calibrated."""
        return _codes(episodes, self.groups)


def with_learned_horizon(split: Split | PaperSplit) -> Split | PaperSplit:
    """The same split; if nobody declared the horizon, it is the longest run of the first part."""
    first = split[0]
    if first.horizon_declared:
        return split
    longest = int(first.lengths.max(initial=1))
    parts: list[Any] = [
        part if part is None or part.horizon_declared else part._with_horizon(longest)
        for part in split
    ]
    return type(split)(*parts)


def ground_of(recipe: Recipe, split: Split | PaperSplit) -> Ground:
    """The checked parts of a split; an error if the episodes or the model cannot be used."""
    check_model(recipe.model)
    named = _on_one_grid(_named(split))
    train = next(iter(named.values()))
    _check_parts(named, recipe.reward_bounds)
    # The list of categories comes from the first part alone; other parts must not add to it (M14).
    schema = learned_schema(train, _unseen(recipe))
    named = {name: part.recoded(schema) for name, part in named.items()}
    _check_disjoint(named)
    if "assure" in named and named["assure"].cut_off.any():  # all ranks have to be kept
        named["assure"] = kept_episodes(named["assure"], recipe.seed)
    own, ranked = None, "calibrate"
    if isinstance(split, Split):
        own, ranked = next(iter(named)), "assure"
    groups = _groups(recipe, named[own or ranked])
    may_miss = _may_miss(next(iter(named.values())), schema)
    return Ground(named, schema, own, ranked, groups, may_miss)


def _named(split: Split | PaperSplit) -> dict[str, Episodes]:
    """The parts of a split that exist, by name; models learn from the first."""
    # Episodes that were cut off, so that their outcome is unknown, are taken out of the first part.
    named = {
        name: part for name, part in split._asdict().items() if part is not None and name != "rest"
    }
    cut = [name for name, part in named.items() if part.cut_off.any()]
    if not cut:
        return named
    if not isinstance(split, Split):
        raise CensoredError(
            Argument("censored", "worst-case"),
            f" needs a split into learn and assure, got the paper's parts, with cut-off episodes "
            f"in {cut[0]}; split with split(learn=0.8, assure=0.2), or leave the cut-off episodes "
            "out",
        )
    # Estimates need known outcomes; promises count cut-off episodes as the worst case (M24).
    first = next(iter(named))
    if "assure" in cut and named["assure"].cut_off.all():
        raise FewEpisodesError(
            f"all {len(named['assure'])} assure episodes were cut off, so nothing can be promised; "
            "give the assure part a larger share, or record episodes to their end"
        )
    return {**named, first: named[first].take(~named[first].cut_off)}


def _on_one_grid(named: dict[str, Episodes]) -> dict[str, Episodes]:
    """The parts rounded as the first one demands; nothing comes from the others (M1, M16)."""
    train = next(iter(named.values()))
    if train._settled:
        return named
    return {name: one._rounded_to(train._own_grid) for name, one in named.items()}


def _check_parts(named: Mapping[str, Episodes], bounds: tuple[float, float]) -> None:
    train = next(iter(named.values()))
    if not len(train.schema):
        raise EpisodesError(
            "the episodes have no features; a state needs at least one feature that is known "
            "before acting"
        )
    for name, part in named.items():
        if part is not train:
            _check_alike(train, part)
        # Without bounds there is nothing to check, and all rows need not be read.
        earned = None if bounds == (-np.inf, np.inf) else part.reward_range
        if earned is not None and not bounds[0] <= earned[0] <= earned[1] <= bounds[1]:
            wrong = earned[0] if earned[0] < bounds[0] else earned[1]
            raise EpisodesError(
                Argument("reward_bounds", bounds),
                f" do not hold: an episode in the {name} part earned {wrong:g} in one step; "
                "declare wider bounds, or none",
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
                f"the parts of a split need the same {what}, got {one} and {another}; make them "
                "from one recording, or read the second one with like="
            )


def _check_disjoint(named: Mapping[str, Episodes]) -> None:
    """Raise a `CalibrationError` if an episode is in two parts, because no promise would hold."""
    for (name, one), (other_name, other) in combinations(named.items(), 2):
        _, here, there = np.intersect1d(one.ids, other.ids, return_indices=True)
        # Two recordings may use the same ids. It is the same episode only if all steps are equal.
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
    """(pairs,): whether the two episodes of a pair are equal at step t, or both ended before it."""
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
    """How to treat a category that was not in training, by what the model accepts."""
    # It counts as a missing value if the recipe asks for that and the model accepts missing values;
    # otherwise it is an error.
    return "missing" if recipe.unseen == "missing" and takes_missing(recipe.model) else "error"


def _groups(recipe: Recipe, calibrating: Episodes) -> tuple[Any, ...] | None:
    if recipe.group is None:
        return None
    if calibrating.groups is None or calibrating.roles.group != recipe.group:
        raise GroupError(
            Argument("group", recipe.group),
            f" needs episodes with that group column, the group column of these is "
            f"{calibrating.roles.group!r}",
        )
    names, counts = np.unique(calibrating.groups, return_counts=True)
    small = counts < recipe.min_calibration
    if small.any():
        i = int(np.argmax(small))
        raise GroupError(
            f"group {names[i]!s} has {counts[i]} episodes to calibrate it, fewer than "
            f"min_calibration={recipe.min_calibration}; record more episodes of this group, or "
            "leave it out"
        )
    return tuple(names.tolist())


def _codes(episodes: Episodes, groups: Sequence[Any] | None) -> IndexArray:
    """(episodes,): the number of each episode's group; -1 if that group was not calibrated."""
    if groups is None or episodes.groups is None:
        return np.zeros(len(episodes), dtype=np.intp)
    place = {name: number for number, name in enumerate(groups)}
    return np.array([place.get(name, -1) for name in episodes.groups.tolist()], dtype=np.intp)


def _may_miss(train: Episodes, schema: Schema) -> BoolArray:
    """(columns,): whether a column of the state may have missing values later."""
    columns = state_schema(schema, train.history).features
    found = np.array([one.unseen == "missing" for one in columns], dtype=np.bool_)
    for t in range(train.horizon):
        found |= np.isnan(train.at(t).states).any(axis=0)
    return found
