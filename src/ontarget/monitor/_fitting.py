"""What a fit does before and after the models: divides the episodes, and keeps the settings.

With a target, the share that is held out is chosen by method M34 in docs/methods.md.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from scipy.stats import betabinom

from ontarget._arguments import whole_number
from ontarget._typing import BoolArray, IndexArray
from ontarget.conformal.levels import needed_successes
from ontarget.episodes import Episodes, PaperSplit, Schema, Split
from ontarget.episodes.facts import MOST_FINGERPRINTS, fingerprints
from ontarget.episodes.rounding import outliers_in_words
from ontarget.episodes.splits import ByGroup, capped_parts
from ontarget.errors import (
    Argument,
    EpisodesError,
    EpisodesWarning,
    FewEpisodesError,
    InputError,
    ModelFileError,
)
from ontarget.fitted.blocks import plan_blocks
from ontarget.fitted.choices import HeldOut
from ontarget.fitted.fitted import Fitted
from ontarget.fitted.joint.joint import Joint, checked_target, goal_over
from ontarget.fitting.engines import Engine
from ontarget.fitting.fit import fit_monitor, preset_model
from ontarget.fitting.ground import with_learned_horizon
from ontarget.fitting.recalibrating import recalibrated
from ontarget.fitting.recipe import Recipe
from ontarget.goal import Goal
from ontarget.models.registry import model_named, unfitted_model
from ontarget.reading.prepared.manifest import is_prepared
from ontarget.target import Target

MAX_LEARN = 20_000
USUAL_SHARE = 0.2
_SHARES = (USUAL_SHARE, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5)
_RATE, _LIKELY = "0.05", 0.9
_FEWEST = 4  # episodes that can be halved
_WORTH = 50  # assure episodes: fewer make intervals and bands so wide that they say little

Parts: TypeAlias = Split | PaperSplit
Settings: TypeAlias = Mapping[str, Any]  # the arguments of the monitor's constructor


class FitOptions(NamedTuple):
    """How a fit is run, and what it keeps: arguments of `GoalMonitor.fit`."""

    seed: int
    engine: Engine
    progress: bool
    checkpoint: str | Path | None
    steps: Collection[int] | None
    precedents: bool
    paths: bool | None


def divide(
    settings: Settings,
    episodes: Any,
    split: Parts | None,
    target: Target | Goal | None,
    *,
    assure: float | None,
    seed: int,
    warm: Fitted | None,
    max_learn: int,
) -> tuple[Parts, HeldOut | None]:
    """The parts to fit to, and the share that was held out if the target decided it."""
    if isinstance(episodes, str | Path) and not is_prepared(Path(episodes)):
        episodes = Episodes.read(episodes)
    if episodes is not None and not isinstance(episodes, Episodes):
        settled = None if max_learn == MAX_LEARN else max_learn
        given = (split, assure, warm, settled)
        if any(one is not None for one in given) or settings["preset"] == "paper":
            raise InputError(
                "prepared episodes are divided already; fit them without split, assure, max_learn, "
                "warm and preset='paper', or prepare them again"
            )
        return _prepared_split(episodes), None
    if split is not None:
        for name, value in (("warm", warm), ("assure", assure)):
            if value is not None:
                raise InputError(
                    "pass ",
                    Argument(name),
                    " with episodes, not with a split, which is already divided",
                )
        return split, None
    if episodes is None:
        raise InputError(
            "fit needs ", Argument("episodes"), " or ", Argument("split"), ", got neither"
        )
    _check_default(target, episodes.names)
    most, held_out = whole_number("max_learn", max_learn, least=1), None
    in_groups, as_in_paper = settings["group"] is not None, settings["preset"] == "paper"
    before = 0 if warm is None else warm.trained.sizes["assure"]

    def divide_some(some: Episodes) -> Parts:
        nonlocal held_out
        share = assure
        chooses = not as_in_paper and some.censoring != "worst-case"
        if assure is None and target is not None and chooses:
            held_out = chosen_share(
                some, target, seed=seed, most=most, in_groups=in_groups, before=before
            )
            share = None if held_out is None else held_out.share
        share = USUAL_SHARE if share is None else share
        return divided(
            some, share, seed=seed, most=most, in_groups=in_groups, as_in_paper=as_in_paper
        )

    parts = divide_some(episodes) if warm is None else warm_split(warm, episodes, divide_some)
    return parts, held_out


def fit_parts(
    settings: Settings,
    split: Parts,
    options: FitOptions,
    target: Target | Goal | None = None,
    held_out: HeldOut | None = None,
) -> Joint:
    """Fit a monitor with these settings to the parts, or one for each of several behaviors."""
    if settings["preset"] == "paper" and isinstance(split, Split):
        raise InputError(
            "preset='paper' needs episodes split into train, calibrate and assure, got learn "
            "and assure; split with split(train=0.4, calibrate=0.4, assure=0.2)"
        )
    if settings["history"] is not None:
        split = _of_each(split, lambda part: part.with_history(settings["history"]))
    split = with_learned_horizon(split)
    names = split[0].names
    _check_default(target, names)
    if names:
        return _fit_each(settings, split, options, target, held_out)
    recipe = _recipe(settings, split, options)
    for name, part in split._asdict().items():
        used = part is not None and name != "rest"
        huge = outliers_in_words(part._unrounded) if used else ""
        if huge:
            warnings.warn(huge, EpisodesWarning, stacklevel=3)
    engine, progress, checkpoint = options.engine, options.progress, options.checkpoint
    fitted = fit_monitor(recipe, split, engine=engine, progress=progress, checkpoint=checkpoint)
    _refuse_unknown(fitted)
    aim = target if isinstance(target, Target) else None
    return Joint.of(_recorded(fitted, aim, held_out))


def _fit_each(
    settings: Settings,
    split: Parts,
    options: FitOptions,
    goal: Any,
    held_out: HeldOut | None,
) -> Joint:
    """Fit one monitor for each of several behaviors, and join them."""
    names = split[0].names
    if split[0].history:
        raise InputError(
            Argument("history"),
            f" needs episodes with a single behavior, got {', '.join(names)}; fit a "
            "monitor for each: episodes.only(…)",
        )
    parts = {}
    for name in names:
        bounds = _bounds_of(settings["reward_bounds"], name, names)
        # No history: the behaviors are joined by rows of the same states.
        alone = {**settings, "reward_bounds": bounds, "history": 0}
        folder = None if options.checkpoint is None else Path(options.checkpoint) / name
        own = _of_each(split, partial(_only, name))
        fitted = fit_parts(alone, own, options._replace(checkpoint=folder)).first
        parts[name] = _recorded(fitted, None, held_out)
    return Joint(parts, {name: one.signal for name, one in split[0].readings.items()}, goal)


def _only(name: str, part: Episodes) -> Episodes:
    return part.only(name)


def _of_each(split: Parts, change: Callable[[Episodes], Episodes]) -> Parts:
    """The same division with each part changed."""
    changed: list[Any] = [None if part is None else change(part) for part in split]
    found: Parts = type(split)(*changed)
    return found


def _recipe(settings: Settings, split: Parts, options: FitOptions) -> Recipe:
    """What a fit to these parts of a single behavior needs to know."""
    horizon, paper = split[0].horizon, settings["preset"] == "paper"
    per_model, model = settings["steps_per_model"], settings["model"]
    blocks, law = plan_blocks(
        horizon,
        steps_per_model=per_model or (1 if paper else "auto"),
        window=settings["window"],
    )
    if model is None:
        model = preset_model(settings["preset"])
    return Recipe(
        model=model_named(model) if isinstance(model, str) else model,
        blocks=blocks,
        law=law,
        group=settings["group"],
        min_calibration=whole_number("min_calibration", settings["min_calibration"], least=1),
        reward_bounds=_bounds(_bounds_of(settings["reward_bounds"], "", ())),
        seed=options.seed,
        parameters=kept_parameters(settings),
        steps=_asked_steps(options.steps, horizon),
        unseen=settings["unseen"],
        chooses_spacing=per_model in (None, "auto") and not paper,
        chooses_history=settings["history"] is None and not split[0].history,
        precedents=options.precedents,
        paths=options.paths,
    )


def recalibrated_parts(joint: Joint, episodes: Episodes, *, seed: int, renew_p: bool) -> Joint:
    """The same models, with promises that come from these episodes alone."""
    whole = whole_number("seed", seed, least=0)
    each, parts = {"": episodes} if joint.is_single else joint.alike(episodes), {}
    for name, one in joint.parts.items():
        parts[name] = recalibrated(one, each[name], seed=whole, renew_p=renew_p)
        _refuse_unknown(parts[name])
    return Joint(parts, joint.signals, joint.target)


def _prepared_split(episodes: Any) -> Split:
    """The two parts of prepared episodes, learn and assure (held out); they stay on disk."""
    from ontarget.reading.prepared.preparing import PreparedEpisodes

    if not isinstance(episodes, PreparedEpisodes | str | Path):
        raise InputError(f"fit needs Episodes or a path, got {type(episodes).__name__}")
    if not isinstance(episodes, PreparedEpisodes):
        episodes = PreparedEpisodes(episodes)
    found: Split = episodes.split
    return found


def _check_default(target: object, behaviors: Sequence[str]) -> None:
    """Raise an `InputError` if a monitor of these behaviors cannot keep this target."""
    if target is None:
        return
    if not behaviors:
        checked_target(target)
    elif goal_over(behaviors, target).is_function:
        raise InputError(
            Argument("target"),
            f" at fit needs a goal without a function, which a model file cannot hold, got "
            f"{target}; pass this goal to the methods instead",
        )


def _recorded(fitted: Fitted, target: Target | None, held_out: HeldOut | None) -> Fitted:
    """The result of a fit, with the target that was named and the share that was chosen by it."""
    chosen = replace(fitted.trained.chosen, held_out=held_out)
    return replace(fitted, trained=replace(fitted.trained, target=target, chosen=chosen))


def _bounds_of(bounds: Any, name: str, names: Sequence[str]) -> Any:
    """The reward bounds of the behavior ``name``."""
    if bounds is None:
        return None
    if not names:
        if isinstance(bounds, Mapping):
            raise InputError(
                Argument("reward_bounds"),
                " as a mapping needs episodes with several behaviors, got a single one; pass a "
                "pair",
            )
        return bounds
    if not isinstance(bounds, Mapping) or not set(bounds) <= set(names):
        raise InputError(
            Argument("reward_bounds"),
            f" needs a mapping from the names of the behaviors ({', '.join(names)}) to pairs, got "
            f"{bounds!r}",
        )
    return bounds.get(name)


def _refuse_unknown(fitted: Fitted) -> None:
    """Raise a `FewEpisodesError` if the monitor could not answer at any step."""
    everywhere = ((t, g) for t in range(fitted.horizon) for g in range(fitted.n_groups))
    if all(fitted.unknown(t, g) for t, g in everywhere):
        trained = [t for t in range(fitted.horizon) if fitted.is_trained(t)]
        n = int(fitted.learned[trained].max(initial=0))  # at the step with the most
        raise FewEpisodesError(
            f"too few episodes: {n:,} can be used to calibrate p, and a "
            f"step needs {fitted.min_calibration} (min_calibration); record more. `ontarget plan` "
            f"says how many"
        )


def _asked_steps(steps: Collection[int] | None, horizon: int) -> frozenset[int] | None:
    if steps is None:
        return None
    asked = frozenset(whole_number("steps", t, least=0) for t in steps)
    if not asked or max(asked) >= horizon:
        raise InputError(
            Argument("steps"), f" needs step numbers from 0 to {horizon - 1}, got {sorted(asked)}"
        )
    return asked


def _bounds(given: tuple[float | None, float | None] | None) -> tuple[float, float]:
    if given is None:
        return -math.inf, math.inf
    try:
        low, high = given
        least = -math.inf if low is None else float(low)
        most = math.inf if high is None else float(high)
    except (TypeError, ValueError) as error:
        raise InputError(
            Argument("reward_bounds"),
            f" needs a pair, the least and the most that one step can earn, got {given!r}",
        ) from error
    if not least <= most:
        raise InputError(
            Argument("reward_bounds"),
            f" needs the least reward first and the most second, got {given!r}",
        )
    return least, most


def divided(
    episodes: Episodes,
    assure: float,
    *,
    seed: int,
    most: int,
    in_groups: bool = False,
    as_in_paper: bool = False,
) -> Split | PaperSplit:
    """The episodes divided into learn and assure, or into the three parts of the paper."""
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
    """The first share whose held-out episodes probably have enough that meet the target, or 0."""
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


def check_settings(
    own: Mapping[str, Any], default: Mapping[str, Any], kept: Mapping[str, Any]
) -> None:
    """Raise an `InputError` if a setting differs both from its default and from the earlier fit."""
    for name, value in own.items():
        if value != default[name] and value != kept[name]:
            raise InputError(
                Argument("warm"),
                f" takes all settings from the earlier monitor, which has {name}={kept[name]!r}, "
                f"but this monitor has {name}={value!r}; leave the settings out, as in "
                f"GoalMonitor().fit(…, warm=…), or fit without ",
                Argument("warm"),
            )


def warm_split(
    fitted: Fitted, episodes: Episodes, divide: Callable[[Episodes], Split | PaperSplit]
) -> Split | PaperSplit:
    """The episodes divided into learn and assure (held out for promises)."""
    if episodes.schema.names != fitted.schema.names:
        raise EpisodesError(
            f"the episodes need the features of the earlier monitor (warm=), "
            f"({', '.join(fitted.schema.names)}), got ({', '.join(episodes.schema.names)}); read "
            "them with like=monitor"
        )
    if max(fitted.trained.sizes.values()) > MOST_FINGERPRINTS:
        raise InputError(
            Argument("warm"),
            f" needs a monitor that was fitted on at most {MOST_FINGERPRINTS:,} episodes per part, "
            f"because a model file can recognize no more; fit without an earlier monitor, and "
            f"assure only with episodes that no earlier monitor learned from",
        )
    known = Schema(tuple(replace(one, unseen="missing") for one in fitted.schema.features))
    marks = fingerprints(episodes.recoded(known))
    names = list(fitted.trained.sizes)
    places = {
        name: np.flatnonzero(np.isin(marks, fitted.trained.fingerprints_of(name))) for name in names
    }
    new = np.setdiff1d(np.arange(len(episodes)), np.concatenate(list(places.values())))
    if new.size:
        parts = divide(episodes.take(new))._asdict()
        for name in names:
            if parts[name] is not None:
                more = new[np.isin(episodes.ids[new], parts[name].ids)]
                places[name] = np.concatenate([places[name], more])
    kind: Any = Split if "learn" in places else PaperSplit
    found: Split | PaperSplit = kind(
        **{name: _taken(episodes, index) for name, index in places.items()}, rest=None
    )
    return found


def _taken(episodes: Episodes, index: IndexArray) -> Episodes | None:
    return episodes.take(np.sort(index)) if index.size else None


class LostModel:
    """Stands for a loaded monitor's unfitted model, if the model file could not store it."""

    def __init__(self, name: str) -> None:
        self.name = name

    def fit(self, *args: Any, **kwargs: Any) -> Any:
        """Raise an `InputError`, because the model to fit is not known."""
        raise InputError(
            f"the model file does not contain the parameters of {self.name}, so this monitor "
            f"cannot be fitted again; pass the model: GoalMonitor(model=…)"
        )

    cdf_limits = quantile = fit


def kept_parameters(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of the monitor's constructor as plain values for JSON."""
    kept = {name: value for name, value in parameters.items() if name != "model"}
    model = parameters["model"]
    if kept["reward_bounds"] is not None:
        kept["reward_bounds"] = list(kept["reward_bounds"])
    kept["model"] = model if isinstance(model, str) else None
    if not (model is None or isinstance(model, str)):
        own = model.get_params(deep=False) if hasattr(model, "get_params") else None
        kept["model"] = {
            "name": type(model).__name__,
            "kind": getattr(model, "kind", None),
            "parameters": own if _is_plain(own) else None,
        }
    return kept


def restored_parameters(kept: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of the monitor's constructor, from what `kept_parameters` returned."""
    found = dict(kept)
    if found["reward_bounds"] is not None:
        found["reward_bounds"] = tuple(found["reward_bounds"])
    model = found["model"]
    if not (model is None or isinstance(model, str)):
        if model["kind"] is None or model["parameters"] is None:
            found["model"] = LostModel(str(model["name"]))
            return found
        try:
            found["model"] = unfitted_model(model["kind"], model["parameters"])
        except TypeError as error:
            raise ModelFileError(
                f"the model does not accept its stored parameters: {error}"
            ) from error
    return found


def _is_plain(value: Any) -> bool:
    try:
        return bool(json.loads(json.dumps(value, allow_nan=False)) is not None)
    except (TypeError, ValueError):
        return False
