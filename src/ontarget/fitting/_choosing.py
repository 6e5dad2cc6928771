"""Chooses the model of a fit (``model="auto"``), on the learning episodes alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any, Final

import numpy as np

from ontarget._keyed import keyed_hash
from ontarget._progress import progress_bar
from ontarget._typing import FloatArray
from ontarget.episodes import Episodes
from ontarget.errors import Argument, InputError
from ontarget.fitted.choices import ModelTrial
from ontarget.models.registry import kinds, model_of_kind

__all__ = ["best_model", "candidates", "model_named"]

# The kinds that are tried; the first is the default.
_TRIED: Final = (
    "stacked_forest",
    "quantile_forest",
    "quantile_network",
    "distribution_regression",
)
# At most _MOST_EPISODES are used; with fewer than _FEWEST_EPISODES, the choice would be chance.
_MOST_EPISODES, _FEWEST_EPISODES = 2_000, 100


def model_named(kind: str) -> Any:
    """An unfitted model of this kind, such as ``"quantile_network"``, with default parameters."""
    if kind not in kinds():
        known = ", ".join(("auto", *kinds()))
        raise InputError(Argument("model"), f" needs one of {known}, got {kind!r}")
    return model_of_kind(kind)()


def candidates() -> dict[str, Any]:
    """The unfitted models to try, by kind; the network only if PyTorch is installed."""
    here = [one for one in _TRIED if one != "quantile_network" or find_spec("torch") is not None]
    return {kind: model_named(kind) for kind in here}


def best_model(
    learn: Episodes,
    losses: Callable[[Any, Episodes], FloatArray],
    *,
    seed: int,
    progress: bool,
) -> tuple[Any, tuple[ModelTrial, ...]]:
    """The unfitted model that predicts held-out outcomes best, and the trials, best first.

    ``losses`` is called with a model and episodes and returns (episodes, steps): the model's CRPS,
    a score of predicted distributions (lower is better), in units of the outcomes' spread. The
    predictions come from fits that have not seen the episode. If there are few episodes, the
    default model is used and there are no trials.
    """
    if len(learn) < _FEWEST_EPISODES:
        return model_named(_TRIED[0]), ()
    order = np.argsort(keyed_hash(learn.keys, seed, "model"), kind="stable")
    some, tried = learn.take(np.sort(order[:_MOST_EPISODES])), candidates()
    found: dict[str, FloatArray] = {}
    with progress_bar("choosing a model", len(tried), unit="models", shown=progress) as reached:
        for name, model in tried.items():
            found[name] = losses(model, some)
            reached(len(found))
    trials = _ranked(found)
    return tried[trials[0].name], trials


def _ranked(losses: Mapping[str, FloatArray]) -> tuple[ModelTrial, ...]:
    """The models ordered by their mean CRPS (a score; lower is better), best first.

    ``losses`` has (episodes, steps) for each model. Only episodes and steps for which every model
    has a prediction are counted.
    """
    every = np.stack(list(losses.values()))
    known = np.isfinite(every).all(axis=0)
    answered = known.sum(axis=1)
    some = answered > 0
    means = np.where(known, every, 0.0).sum(axis=2)[:, some] / answered[some]
    best = means[means.mean(axis=1).argmin()]
    errors = (means - best).std(axis=1) / np.sqrt(best.size)
    trials = map(ModelTrial, losses, means.mean(axis=1).tolist(), errors.tolist())
    return tuple(sorted(trials, key=lambda trial: trial.crps))
