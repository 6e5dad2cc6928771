"""The kinds of models that a model file may contain, and the class of each kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar, overload

from ontarget.errors import Argument, InputError, ModelFileError
from ontarget.models.base import StoredDistribution

M = TypeVar("M", bound=type[StoredDistribution])

# The group of entry points by which an installed package offers its models: name = kind.
_GROUP = "ontarget.models"
# Imported only when a file or a user asks for that kind.
_BUILT_IN = {
    "distribution_regression": "ontarget.models.regression.estimator:DistributionRegression",
    "marginal": "ontarget.models.marginal:Marginal",
    "quantile_forest": "ontarget.models.forest.estimator:QuantileForest",
    "quantile_network": "ontarget.models.network.estimator:QuantileNetwork",
    "stacked_forest": "ontarget.models.stacked.estimator:StackedForest",
}
# Kinds of earlier versions that files may still name, and their classes.
_GONE = {
    "boosted_quantiles": "BoostedQuantiles",
    "guided_forest": "GuidedForest",
    "linear": "LinearQuantiles",
}
# Parameters of earlier versions that files may still name, with the value that asked for nothing.
_GONE_PARAMETERS = {"quantile_forest": {"successors": False}}
_registered: dict[str, type[StoredDistribution]] = {}


@overload
def register(kind: str) -> Callable[[M], M]: ...
@overload
def register(kind: str, model_class: M) -> M: ...
def register(kind: str, model_class: Any = None) -> Any:
    """Register a class of models, so that model files can contain its models; returns the class.

    Call this function, or use it as a class decorator. Instead, a package may list its models as
    entry points of the group ``ontarget.models``; then no call is needed.

    Parameters
    ----------
    kind
        The name in the file; the class attribute ``kind`` must be the same.
    model_class
        A class with fit, cdf_limits, quantile, to_arrays and from_arrays.

    Examples
    --------
    >>> from ontarget.models import QuantileForest, register
    >>> @register("deep_forest")
    ... class DeepForest(QuantileForest):
    ...     kind = "deep_forest"
    >>> model_of_kind("deep_forest") is DeepForest
    True
    """
    if model_class is None:
        return lambda decorated: register(kind, decorated)
    _check_class(kind, model_class)
    before = (
        _BUILT_IN.get(kind)
        or _GONE.get(kind)
        or (_home(_registered[kind]) if kind in _registered else None)
    )
    # A notebook's cell that runs again defines its class again: the newer one counts.
    if before not in (None, _home(model_class)):
        raise InputError(
            f"kind {kind!r} is registered already, for {before}; choose another kind for "
            f"{_home(model_class)}"
        )
    if kind not in _BUILT_IN:
        _registered[kind] = model_class
    return model_class


def model_of_kind(kind: str) -> type[StoredDistribution]:
    """The class of models that is registered under the name ``kind``."""
    check_kind(kind)
    if kind in _registered:
        return _registered[kind]
    if kind in _BUILT_IN:
        module, name = _BUILT_IN[kind].split(":")
        built_in: type[StoredDistribution] = getattr(import_module(module), name)
        return built_in
    offered = {point.value: point for point in entry_points(group=_GROUP, name=kind)}
    if not offered:
        raise ModelFileError(
            f"model kind needs one of {', '.join(kinds())}, got {kind!r}; import the module that "
            f"calls ontarget.models.register({kind!r}, …), or install the package that offers it "
            f"as an entry point of the group {_GROUP!r}"
        )
    if len(offered) > 1:
        raise ModelFileError(
            f"model kind {kind!r} is offered by several packages ({', '.join(sorted(offered))}); "
            "uninstall all but one"
        )
    (point,) = offered.values()
    return _loaded(point)


def model_named(kind: str) -> StoredDistribution:
    """An unfitted model of this kind, such as ``"quantile_network"``, with default parameters."""
    if kind not in kinds():
        raise InputError(Argument("model"), f" needs one of {', '.join(kinds())}, got {kind!r}")
    return model_of_kind(kind)()


def check_kind(kind: str) -> None:
    """Raise a `ModelFileError` if only earlier versions have this kind of model."""
    if kind in _GONE:
        raise ModelFileError(
            f"model kind {kind!r} ({_GONE[kind]}) is gone; fit the monitor again, or use ontarget "
            "0.2"
        )


def unfitted_model(kind: str, parameters: Mapping[str, Any]) -> StoredDistribution:
    """An unfitted model, from its kind and parameters in a file of this or an earlier version."""
    gone, model_class = _GONE_PARAMETERS.get(kind, {}), model_of_kind(kind)
    if "large_leaf" in parameters:  # of version 0.2, with a second forest and boosted guides
        others = [name for name in parameters["experts"] if not name.endswith("_leaves")]
        old = ("large_leaf", "n_boosted", "boosted_depth", "boosted_rate")
        parameters = {name: one for name, one in parameters.items() if name not in old}
        parameters["experts"] = ("forest", *others)
    for name, nothing in gone.items():
        if (value := parameters.get(name, nothing)) != nothing:
            raise ModelFileError(
                f"{model_class.__name__}({name}={value!r}) is gone; fit the monitor again, or use "
                "ontarget 0.2"
            )
    return model_class(**{name: own for name, own in parameters.items() if name not in gone})


def kinds() -> tuple[str, ...]:
    """The names of all kinds of models, including those of installed packages."""
    offered = (point.name for point in entry_points(group=_GROUP))
    return tuple(sorted({*_BUILT_IN, *_registered, *offered}))


def kind_of(model: object) -> str:
    """The name under which a file can load exactly this model's class, or a `ModelFileError`."""
    kind, own = getattr(model, "kind", None), type(model)
    found = model_of_kind(kind) if isinstance(kind, str) and kind in kinds() else None
    if kind is None or found is not own:
        raise ModelFileError(
            f"{own.__name__} cannot be saved: a model file could not load it again, because its "
            f"kind is {kind!r}, which is {_home(found) if found else 'not registered'}; give it "
            f"another kind and call ontarget.models.register(kind, {own.__name__})"
        )
    return str(kind)


def _loaded(point: EntryPoint) -> type[StoredDistribution]:
    try:
        loaded: type[StoredDistribution] = point.load()
        return register(point.name, loaded)
    except Exception as error:
        raise ModelFileError(
            f"model kind {point.name!r} cannot be loaded from {point.value}: "
            f"{type(error).__name__}: {error}; repair or update the package that offers it"
        ) from error


def _check_class(kind: str, model_class: Any) -> None:
    if not str(kind).isidentifier():
        raise InputError(
            Argument("kind"), f" needs a name of letters, digits and underscores, got {kind!r}"
        )
    if not isinstance(model_class, type):
        raise InputError(Argument("model_class"), f" needs a class, got {model_class!r}")
    wanted = ("fit", "cdf_limits", "quantile", "to_arrays", "from_arrays")
    missing = [name for name in wanted if not callable(getattr(model_class, name, None))]
    if missing:
        raise InputError(
            Argument("model_class"),
            f" needs a class with the methods {', '.join(wanted)}; "
            f"{model_class.__name__} lacks {', '.join(missing)}",
        )
    if getattr(model_class, "kind", None) != kind:
        raise InputError(
            f"{model_class.__name__}.kind needs to be {kind!r}, got "
            f"{getattr(model_class, 'kind', None)!r}; write kind = {kind!r} in the class"
        )


def _home(model_class: type) -> str:
    return f"{model_class.__module__}:{model_class.__qualname__}"
