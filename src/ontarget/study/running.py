"""Runs a study: a monitor and classifiers learn from the same episodes and forecast new ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ontarget._arguments import fraction, whole_number
from ontarget._progress import progress_bar
from ontarget._typing import AnyArray, BoolArray, FloatArray
from ontarget.episodes import Episodes
from ontarget.episodes._fingerprints import fingerprints, seen_before
from ontarget.episodes._splits import ByGroup
from ontarget.episodes.looking._sides import check_goal_sides, check_sides
from ontarget.errors import (
    Argument,
    EpisodesError,
    FewEpisodesError,
    InputError,
    Placeholder,
)
from ontarget.goal import Goal
from ontarget.live.goals.contract import GoalContracts
from ontarget.monitor.monitor import GoalMonitor
from ontarget.report import Evaluation
from ontarget.study.classifiers import RIVALS, Classify
from ontarget.study.compared import OURS, Trial
from ontarget.study.rows import rows_of
from ontarget.study.study import Study
from ontarget.target import Target

_FEWEST, _FEWEST_OF_A_KIND = 60, 10


def run_study(
    episodes: Episodes,
    target: Target | Goal,
    *,
    monitor: GoalMonitor | None = None,
    splits: int = 5,
    past: float = 2 / 3,
    seed: int = 0,
    rivals: Mapping[str, Classify] = RIVALS,
    progress: bool = True,
) -> Study:
    """Compare a monitor with two classifiers, on random splits of your own episodes.

    In every split all methods learn from the same past episodes and forecast the same new episodes
    at every step. The monitor keeps a part of the past episodes for its promises; the classifiers
    learn from all of them.

    Parameters
    ----------
    episodes
        Recorded episodes.
    target
        The outcomes that count as success; for episodes with several behaviors, a goal.
    monitor
        An unfitted monitor, `GoalMonitor()` by default; each split fits a copy of it.
    splits
        How many random splits of the episodes to make.
    past
        The share of the episodes that a split learns from.
    seed
        The same episodes and seed give the same study.
    rivals
        The classifiers, by name.
    progress
        Whether to show a progress bar.

    Examples
    --------
    >>> import numpy as np
    >>> from ontarget import Episodes, Target
    >>> from ontarget.study import run_study
    >>> rng = np.random.default_rng(0)
    >>> walks = Episodes.from_arrays(rng.normal(size=(120, 3, 1)), rng.normal(size=(120, 3)))
    >>> found = run_study(walks, Target.at_least(0.0), splits=2, progress=False)
    >>> found.rivals
    ('boosted classifier', 'logistic regression')
    >>> print(found.verdicts[0].standing)
    no difference shown
    """
    whole_number("splits", splits, least=2)
    fraction("past", past)
    check_episodes(episodes, target)
    if isinstance(target, Goal) and target.only is not None:
        name, target = target.only
        episodes = episodes.only(name)
    asked = GoalMonitor() if monitor is None else monitor
    by_group: ByGroup | None = None if asked.group is None else "stratify"
    trials = []
    methods = 1 + len(rivals)
    with progress_bar("fitting", splits * methods, unit="fits", shown=progress) as reached:
        for k in range(splits):

            def telling(place: int, name: str, split: int = k) -> None:
                reached(split * methods + place, f"split {split + 1}, {name}")

            telling(0, OURS)
            parts = episodes.split(past, 1.0 - past, seed=seed + k, by_group=by_group)
            new = parts.assure
            assert new is not None  # an empty part would have been refused
            own = type(asked)(**asked.get_params(deep=False))
            found = own.fit(parts.learn, seed=seed + k, progress=False).evaluate(
                new, target, resamples=2
            )
            trials.append(_trial(found, parts.learn, new, rivals, seed=seed + k, telling=telling))
    return Study(target, tuple(trials))


def study_beside(
    found: Evaluation, past: Episodes, *, seed: int = 0, rivals: Mapping[str, Classify] = RIVALS
) -> Study:
    """Compare an evaluated monitor with classifiers that learn from the episodes ``past``.

    Confidence intervals of the differences come from resampling the evaluated episodes. Unlike
    those of `run_study`, they do not include the chance of which past episodes happened to be
    recorded.
    """
    target = found.target
    if isinstance(target, Goal):
        assert isinstance(found.contracts, GoalContracts)
        found.contracts.joint.alike(past, any_horizon=True)
        own, name = past, target.names[0]
        shared = seen_before(found.episodes.only(name), fingerprints(past.only(name))).size
    else:
        own = found.fitted.alike(past, any_horizon=True)
        shared = seen_before(found.episodes, fingerprints(own)).size
    if shared:
        raise EpisodesError(
            f"{shared:,} of the {len(found.episodes):,} evaluated episodes are also past "
            "episodes, and a classifier that learned from them would look better than it is; "
            "leave them out"
        )
    check_episodes(past, target)
    return Study(target, (_trial(found, own, found.episodes, rivals, seed=seed),))


def expected_seconds(episodes: Episodes, splits: int = 5, past: float = 2 / 3) -> float:
    """Roughly how many seconds a study of these episodes takes on an ordinary machine."""
    cells = past * float(episodes.lengths.sum()) * (len(episodes.schema) + 2)
    return splits * (4.0 + 5e-5 * cells)


def check_episodes(episodes: Episodes, target: Target | Goal) -> None:
    """Raise an error for episodes that could not show a difference between methods."""
    if not len(episodes.schema):
        raise EpisodesError(
            "the episodes have no feature, so no method can know more than the step and the "
            "behavior so far; name columns that are known before acting with ",
            Argument("features", Placeholder("NAMES")),
        )
    n = len(episodes)
    if n < _FEWEST:
        raise FewEpisodesError(
            f"a comparison needs at least {_FEWEST} episodes, got {n:,}; record more. `ontarget "
            f"plan` says how many a monitor needs"
        )
    met = int(np.count_nonzero(met_by(episodes, target)))
    fewest = min(met, n - met)
    if fewest >= _FEWEST_OF_A_KIND:
        return
    how = "met" if met < n - met else "missed"
    count = {0: "none"}.get(fewest, f"only {fewest}")
    each = {name: episodes.only(name).outcomes for name in episodes.names}
    told = []
    for name, outcomes in each.items() if each else (("outcomes", episodes.outcomes),):
        low, middle, high = np.quantile(outcomes, [0.0, 0.5, 1.0])
        are = "is" if each else "are"
        told.append(f"{name} {are} {low:.4g} to {high:.4g}, half of them above {middle:.4g}")
    raise FewEpisodesError(
        f"{count} of the {n:,} episodes {how} the {'goal' if each else 'target'} {target}, and a "
        f"comparison needs at least {_FEWEST_OF_A_KIND} that met it and as many that missed it; "
        f"{'; '.join(told)}: choose a {'goal' if each else 'target'} in between"
    )


def met_by(episodes: Episodes, target: Target | Goal) -> BoolArray:
    """(episodes,): whether each episode met the target or goal.

    A plain target is refused if the episodes have named behaviors. A goal is refused if it names a
    behavior that the episodes do not have.
    """
    if not isinstance(target, Goal):
        if episodes.names:
            raise InputError(
                f"the episodes have the behaviors {', '.join(episodes.names)}, so `target` needs "
                f"a Goal, got {target!r}"
            )
        check_sides(episodes._unrounded, target, episodes.grid)
        return target.contains(episodes.outcomes, episodes.grid)
    for name in target.names:
        if name not in episodes.names:
            known = ", ".join(episodes.names) or "one behavior without a name"
            raise InputError(f"`target` needs behaviors among {known}, got {name!r} in {target}")
    each = {name: episodes.only(name) for name in target.names}
    grids = {name: one.grid for name, one in each.items()}
    check_goal_sides({name: one._unrounded for name, one in each.items()}, target, grids)
    return target.contains({name: one.outcomes for name, one in each.items()}, grids)


def _trial(
    found: Evaluation,
    past: Episodes,
    new: Episodes,
    rivals: Mapping[str, Classify],
    *,
    seed: int,
    telling: Callable[[int, str], None] = lambda place, name: None,
) -> Trial:
    """The forecasts of all methods for the new episodes.

    The classifiers (``rivals``) learn from the episodes ``past``; the group of an episode is one of
    their features.
    """
    groups, contracts = _groups(found, past, new), found.contracts
    grid: Any = found.fitted.grid
    if isinstance(contracts, GoalContracts):
        grid = contracts.joint.grids
    learn, asked = (rows_of(part, found.target, grid=grid, groups=groups) for part in (past, new))
    known, ours = asked.t < len(found.p), np.full(len(asked), np.nan)  # later steps: no answer
    ours[known] = found.p[asked.t[known], asked.episode[known]]
    answers: dict[str, FloatArray] = {OURS: ours}
    for place, (name, classify) in enumerate(rivals.items(), start=1):
        telling(place, name)
        answers[name] = classify(learn, asked, seed=seed)
    return replace(Trial.of(learn, asked, answers, new.ids), why=found.unanswered.why)


def _groups(found: Evaluation, past: Episodes, new: Episodes) -> AnyArray | None:
    if found.fitted.n_groups == 1 or past.groups is None or new.groups is None:
        return None
    return np.unique(np.concatenate([past.groups, new.groups]))
