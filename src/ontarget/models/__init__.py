"""Conditional distributions F̂(y | x): one protocol, several models."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ontarget.models.base import ConditionalDistribution
    from ontarget.models.linear import LinearQuantiles
    from ontarget.models.forest import QuantileForest
    from ontarget.models.marginal import Marginal
    from ontarget.models.quantiles import RegressorQuantiles

# Public name -> the module that holds it; each loads scikit-learn and Numba only when asked for.
_PUBLIC = {
    "ConditionalDistribution": "ontarget.models.base",
    "LinearQuantiles": "ontarget.models.linear",
    "Marginal": "ontarget.models.marginal",
    "RegressorQuantiles": "ontarget.models.quantiles",
}

__all__ = ["ConditionalDistribution", "LinearQuantiles", "Marginal", "RegressorQuantiles"]
    "QuantileForest": "ontarget.models.forest",
}

__all__ = ["ConditionalDistribution", "Marginal", "QuantileForest"]


def __getattr__(name: str) -> object:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'ontarget.models' has no attribute {name!r}")
    value = getattr(import_module(_PUBLIC[name]), name)
    globals()[name] = value
    return value
