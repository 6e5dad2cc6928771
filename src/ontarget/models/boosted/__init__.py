"""Boosted trees that predict the location and the spread of a row's outcome."""

from typing import TYPE_CHECKING

from ontarget._lazy import lazy_names

if TYPE_CHECKING:
    from ontarget.models.boosted.estimator import BoostedQuantiles

__all__ = ["BoostedQuantiles"]

__getattr__, __dir__ = lazy_names(
    __name__, {"BoostedQuantiles": "ontarget.models.boosted.estimator"}
)
