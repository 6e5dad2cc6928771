"""Divides the episodes of a fit into learn and assure, and chooses how many to hold out (M34)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.stats import betabinom

from ontarget._typing import BoolArray
from ontarget.conformal.levels import needed_successes
from ontarget.episodes import Episodes, PaperSplit, Split
from ontarget.episodes.splits import ByGroup, capped_parts
from ontarget.errors import Argument, InputError
from ontarget.fitted.choices import HeldOut
from ontarget.goal import Goal
from ontarget.target import Target

USUAL_SHARE = 0.2
_SHARES = (USUAL_SHARE, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5)
_RATE, _LIKELY = "0.05", 0.9
_FEWEST = 4  # episodes that can be halved
_WORTH = 50  # assure episodes: fewer make intervals and bands so wide that they say little


def divided(
    episodes: Episodes,
    assure: float,
    *,
    seed: int,
    most: int,
    in_groups: bool = False,
    as_in_paper: bool = False,
) -> Split | PaperSplit:
    """The episodes divided into learn and assure, or into the three parts of the paper.

    ``most`` is the largest number of learn episodes. With ``in_groups``, each group is divided in
    the same way.
    """
    if not 0.0 <= assure < 1.0:
        raise InputError(
            Argument("assure"), f" needs a share of the episodes, 0 to below 1, got {assure}"
        )
    by_group: ByGroup | None = "stratify" if in_groups else None
    if as_in_paper:
        rest = (1.0 - assure) / 2
        return episodes.split(
            train=rest, calibrate=rest, assure=assure, seed=seed, by_group=by_group
        )
    shares = capped_parts(len(episodes), assure, most)
    return episodes.split(**shares, seed=seed, by_group=by_group)


def chosen_share(
    episodes: Episodes,
    target: Target | Goal,
    *,
    seed: int,
    most: int,
    in_groups: bool = False,
    before: int = 0,
) -> HeldOut | None:
    """Which share of the episodes to hold out, so that 5 % false alarms can be promised.

    The choice is made by the learn episodes of the largest share, ½: they are for learning whatever
    is chosen, so the promises stay exact. Chosen is the smallest share with which, given how many
    of these met the target, enough of the held-out episodes meet it with a probability of 90 %. If
    there is none, the usual share is held out for the other promises, or nothing if that would be
    fewer than 50 episodes. ``before`` is how many assure episodes there are already.
    The result is None if there are too few episodes to choose by. See method M34 in
    docs/methods.md.
    """
    if len(episodes) < _FEWEST:
        return None
    parts = divided(episodes, max(_SHARES), seed=seed, most=most, in_groups=in_groups)
    learn = parts[0]
    met, known = _met(learn, target), ~learn.cut_off
    every, own = np.zeros(len(episodes), np.intp), np.zeros(len(learn), np.intp)
    if in_groups and episodes.groups is not None and learn.groups is not None:
        names, every = np.unique(episodes.groups, return_inverse=True)
        own = np.searchsorted(names, learn.groups)
    found = []
    for group in np.unique(every).tolist():
        here = (own == group) & known
        counts = (int((met & here).sum()), int(here.sum()))
        n = int((every == group).sum())
        sizes = [
            before + round(n * capped_parts(len(episodes), share, most)["assure"])
            for share in _SHARES
        ]
        found.append(_enough(*counts, sizes))
    share, enough = max(found), any(found)
    if not enough and (before or USUAL_SHARE * len(episodes) >= _WORTH):
        share = USUAL_SHARE
    return HeldOut(share, int((met & known).sum()), int(known.sum()), enough)


def _enough(met: int, seen: int, sizes: Sequence[int]) -> float:
    """The first share whose held-out episodes probably have enough that meet the target, or 0.

    Of n further episodes, the number that meet the target is beta-binomial, given that ``met`` of
    ``seen`` did (with Jeffreys' prior).
    """
    needed = needed_successes(_RATE)
    for share, n in zip(_SHARES, sizes, strict=True):
        if betabinom.sf(needed - 1, n, met + 0.5, seen - met + 0.5) >= _LIKELY:
            return share
    return 0.0


def _met(episodes: Episodes, target: Target | Goal) -> BoolArray:
    if isinstance(target, Target):
        return target.contains(episodes.outcomes, episodes.grid)
    alone = {name: episodes.only(name) for name in target.names}
    outcomes = {name: one.outcomes for name, one in alone.items()}
    return target.contains(outcomes, {name: one.grid for name, one in alone.items()})
