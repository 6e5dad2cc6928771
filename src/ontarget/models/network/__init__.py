"""Neural networks that predict quantiles; a fitted network answers without PyTorch."""

from typing import TYPE_CHECKING

from ontarget._lazy import lazy_names

if TYPE_CHECKING:
    from ontarget.models.network.estimator import QuantileNetwork

__all__ = ["QuantileNetwork"]

__getattr__, __dir__ = lazy_names(
    __name__, {"QuantileNetwork": "ontarget.models.network.estimator"}
)
