"""Every kind of model that a file may hold, by name."""

from __future__ import annotations

from importlib import import_module

from ontarget.errors import ModelFileError
from ontarget.models.base import ConditionalDistribution

__all__ = ["KINDS", "model_of_kind"]

# A model's `kind` -> the module and the class, imported only when a file asks for it.
KINDS = {
    "quantile_forest": ("ontarget.models.forest.estimator", "QuantileForest"),
    "guided_forest": ("ontarget.models.guided.estimator", "GuidedForest"),
    "linear": ("ontarget.models.linear", "LinearQuantiles"),
    "marginal": ("ontarget.models.marginal", "Marginal"),
}


def model_of_kind(kind: str) -> type[ConditionalDistribution]:
    """The class of a kind; the name comes from a file, so nothing but these is ever imported."""
    if kind not in KINDS:
        raise ModelFileError(f"model kind needs one of {', '.join(KINDS)}, got {kind!r}")
    module, name = KINDS[kind]
    found: type[ConditionalDistribution] = getattr(import_module(module), name)
    return found
