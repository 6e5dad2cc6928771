"""How fits, monitors and files use any model: its checks, copies, fits and live form."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags

from ontarget._keyed import keyed_hash, keys_of
from ontarget._typing import AnyArray, ArrayLike, FloatArray
from ontarget.errors import Argument, InputError, ModelFileError
from ontarget.models.base import ConditionalDistribution, LiveModel
from ontarget.models.mixture import mixture_limits
from ontarget.models.pipeline import PipelineDistribution, accepted

_METHODS = ("fit", "cdf_limits", "quantile")


def check_model(model: object) -> None:
    """Raise an `InputError` that names the required methods that the model lacks, if any."""
    if isinstance(model, type):
        raise InputError(
            Argument("model"),
            f" needs an object, got the class {model.__name__}; write {model.__name__}()",
        )
    asked = _distribution(model)
    asked = asked.last_step if isinstance(asked, PipelineDistribution) else asked
    missing = [name for name in _METHODS if not callable(getattr(asked, name, None))]
    if missing:
        whose = "" if asked is model else f", the last step of a {type(model).__name__},"
        raise InputError(
            Argument("model"),
            f" needs an object with the methods {', '.join(_METHODS)}; "
            f"{type(asked).__name__}{whose} lacks {', '.join(missing)}. StackedForest() has them "
            "all; a regressor that predicts quantiles gets them as RegressorQuantiles(regressor)",
        )


def takes_missing(model: object) -> bool:
    """Whether a model says, by its scikit-learn tags, that it accepts missing values."""
    try:
        return bool(get_tags(_distribution(model)).input_tags.allow_nan)
    except (AttributeError, TypeError, ValueError):
        return False  # it has no tags: nothing says so


def honest_model(model: Any) -> Any:
    """The unfitted model, set so that its out-of-bag answers have not seen the outcome (M29)."""
    return clone(model).set_params(category_order="bag") if _has(model, "category_order") else model


def takes_weights(model: object) -> bool:
    """Whether the model's ``fit`` takes the weight of each training row."""
    return bool(accepted(_distribution(model).fit, {"sample_weight": None}))


def fits_side_by_side(model: object) -> bool:
    """Whether copies of this model may be fitted in several threads at the same time."""
    unlimited = getattr(model, "n_jobs", None) in (None, -1)
    return unlimited and bool(getattr(model, "fits_side_by_side", False))


def serves_whole_run(model: object) -> bool:
    """Whether one copy of the model is meant to answer at all steps of a run."""
    return bool(getattr(_distribution(model), "whole_run", False))


def trees_of(model: object) -> int:
    """How many trees store training rows in their leaves; 1 for a model without trees."""
    trees: int = getattr(model, "n_trees", 1)
    return trees


def check_width(model: object, width: int) -> None:
    """Raise a `ModelFileError` if a fitted model reads another number of features."""
    reads = getattr(model, "n_features_in_", width)
    if reads != width:
        raise ModelFileError(
            f"{type(model).__name__} reads {reads} numbers per row, but the monitor passes {width} "
            f"(the features, the behavior so far unless it is a sum, and the step if several steps "
            f"share a model); restore the file from a copy, or fit the monitor again"
        )


def check_rows(model: object, n_episodes: int, n_steps: int) -> None:
    """Raise a `ModelFileError` if a forest's training rows refer to unknown episodes or steps."""
    for name, most in (("episode", n_episodes), ("step", n_steps)):
        numbers = getattr(model, f"training_{name}s_", None)
        if numbers is not None and int(numbers.max(initial=0)) >= most:
            raise ModelFileError(f"the model's array `row_{name}` needs numbers below {most}")


def fresh_model(
    model: ConditionalDistribution | Pipeline, *, seed: tuple[int, ...], n_steps: float
) -> ConditionalDistribution:
    """An unfitted copy of the model with this seed, for one block of steps (M14)."""
    given = _distribution(model)
    fresh = clone(given) if hasattr(given, "get_params") else copy.deepcopy(given)
    if hasattr(fresh, "pooled_over"):
        fresh = fresh.pooled_over(n_steps)
    _set_seed(fresh, seed)
    checked: ConditionalDistribution = fresh
    return checked


def fit_model(
    model: ConditionalDistribution | Pipeline,
    X: FloatArray,
    y: FloatArray,
    *,
    ids: ArrayLike,
    steps: ArrayLike,
    categorical: Sequence[int],
    sample_weight: FloatArray | None = None,
) -> ConditionalDistribution:
    """The fitted model; its ``fit`` gets only those keywords that it has parameters for."""
    asked = _distribution(model)
    keywords: dict[str, Any] = {"ids": ids, "steps": steps, "categorical": categorical}
    if sample_weight is not None:
        keywords["sample_weight"] = sample_weight
    fitted = asked.fit(X, y, **accepted(asked.fit, keywords))
    found: ConditionalDistribution = asked if fitted is None else fitted
    return found


def live_model(model: ConditionalDistribution) -> LiveModel:
    """The fitted model as a `LiveModel`, prepared to be asked at every step of a run."""
    # It is the result of the model's own ``live()`` if it has one, otherwise a wrapper.
    own = getattr(model, "live", None)
    live: LiveModel = _LiveLimits(model) if own is None else own()
    return live


def model_arrays(model: ConditionalDistribution) -> dict[str, AnyArray]:
    """Everything the fitted model needs to answer, as arrays by name, for a model file."""
    missing = [name for name in ("kind", "to_arrays", "from_arrays") if not hasattr(model, name)]
    if missing:
        name = type(model).__name__
        raise ModelFileError(
            f"{name} cannot be saved: it lacks {', '.join(missing)}; implement kind, to_arrays "
            f"and from_arrays, and call ontarget.models.register(kind, {name})"
        )
    arrays: dict[str, AnyArray] = model.to_arrays()  # type: ignore[attr-defined]
    return arrays


class _LiveLimits:
    """A model without ``live()``, wrapped as a `LiveModel` that calls the model's `cdf_limits`."""

    __slots__ = ("_model",)

    takes_threads = False  # it may run threads itself, or not be safe with several

    def __init__(self, model: ConditionalDistribution) -> None:
        self._model = model

    def limits(self, X: FloatArray, y: FloatArray, left: FloatArray, right: FloatArray) -> None:
        """Write ``P(Y < y | x)`` into ``left`` and ``P(Y <= y | x)`` into ``right``."""
        if y.size:
            left[...], right[...] = mixture_limits([(1.0, self._model)], [X], y)


def _distribution(model: Any) -> Any:
    return PipelineDistribution(model) if isinstance(model, Pipeline) else model


def _set_seed(model: Any, seed: tuple[int, ...]) -> None:
    seeded = model.last_step if isinstance(model, PipelineDistribution) else model
    if _has(seeded, "seed"):
        seeded.seed = seed
    one = int(keyed_hash(keys_of(np.zeros(1, dtype=np.int64)), *seed, "random_state")[0] >> 33)
    if _has(seeded, "random_state"):
        seeded.random_state = one
    if hasattr(model, "get_params"):
        names = [name for name in model.get_params() if name.split("__")[-1] == "random_state"]
        model.set_params(**dict.fromkeys(names, one))


def _has(model: Any, name: str) -> bool:
    """Whether ``name`` is a parameter of an estimator, or an attribute of any other object."""
    if hasattr(model, "get_params"):
        return name in model.get_params(deep=False)
    return hasattr(model, name) and not callable(getattr(model, name))
