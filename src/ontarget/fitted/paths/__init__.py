"""Path bands: ranges for every later step of a run, from the recorded runs most like it."""

from typing import TYPE_CHECKING

from ontarget._lazy import lazy_names

if TYPE_CHECKING:
    from ontarget.fitted.paths.bands import PathBand, PathBands

__all__ = ["PathBand", "PathBands"]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "PathBand": "ontarget.fitted.paths.bands",
        "PathBands": "ontarget.fitted.paths.bands",
    },
)
