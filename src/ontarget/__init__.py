"""ontarget: the calibrated probability, at every step of a run, that it ends inside your target."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version as _version
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ontarget.conformal.groups import GroupedPCQR
    from ontarget.conformal.pcqr import PCQR
    from ontarget.conformal.predictive_system import ConformalPredictiveSystem
    from ontarget.conformal.results import Interval, Probability
    from ontarget.conformal.rivals import CQR, QuantileRegression, RawInverse, SplitConformal
    from ontarget.conformal.venn_abers import VennAbers
    from ontarget.episodes.episodes import Episodes
    from ontarget.errors import OntargetError
    from ontarget.models.linear import LinearQuantiles
    from ontarget.models.quantiles import RegressorQuantiles
    from ontarget.target import Target

# Public name -> the module that holds it. Nothing below is imported before it is asked for.
_PUBLIC = {
    "Episodes": "ontarget.episodes.episodes",
    "CQR": "ontarget.conformal.rivals",
    "PCQR": "ontarget.conformal.pcqr",
    "ConformalPredictiveSystem": "ontarget.conformal.predictive_system",
    "GroupedPCQR": "ontarget.conformal.groups",
    "Interval": "ontarget.conformal.results",
    "LinearQuantiles": "ontarget.models.linear",
    "OntargetError": "ontarget.errors",
    "Probability": "ontarget.conformal.results",
    "QuantileRegression": "ontarget.conformal.rivals",
    "RawInverse": "ontarget.conformal.rivals",
    "RegressorQuantiles": "ontarget.models.quantiles",
    "SplitConformal": "ontarget.conformal.rivals",
    "Target": "ontarget.target",
    "VennAbers": "ontarget.conformal.venn_abers",
}

__all__ = [
    "CQR",
    "PCQR",
    "ConformalPredictiveSystem",
    "Episodes",
    "GroupedPCQR",
    "Interval",
    "LinearQuantiles",
    "OntargetError",
    "Probability",
    "QuantileRegression",
    "RawInverse",
    "RegressorQuantiles",
    "SplitConformal",
    "Target",
    "VennAbers",
    "__version__",
]


def __getattr__(name: str) -> object:
    if name == "__version__":
        value: object = _version("ontarget")
    elif name in _PUBLIC:
        value = getattr(import_module(_PUBLIC[name]), name)
    else:
        raise AttributeError(f"module 'ontarget' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
