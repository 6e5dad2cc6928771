"""Four models (experts) that answer together: two forests, a shifted shape and a regression."""

from typing import TYPE_CHECKING

from ontarget._lazy import lazy_names

if TYPE_CHECKING:
    from ontarget.models.stacked.estimator import StackedForest

__all__ = ["StackedForest"]

__getattr__, __dir__ = lazy_names(__name__, {"StackedForest": "ontarget.models.stacked.estimator"})
