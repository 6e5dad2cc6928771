"""From episodes to a fitted monitor: blocks of steps, the engines that fit them, checkpoints."""

from typing import TYPE_CHECKING

from ontarget._lazy import lazy_names

if TYPE_CHECKING:
    from ontarget.fitting.engines import Checkpoint, Engine, run_tasks
    from ontarget.fitting.fit import Preset, Recipe, fit_monitor
    from ontarget.fitting.tasks import BlockTask, fit_block

__all__ = [
    "BlockTask",
    "Checkpoint",
    "Engine",
    "Preset",
    "Recipe",
    "fit_block",
    "fit_monitor",
    "run_tasks",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "BlockTask": "ontarget.fitting.tasks",
        "Checkpoint": "ontarget.fitting.engines",
        "Engine": "ontarget.fitting.engines",
        "Preset": "ontarget.fitting.fit",
        "Recipe": "ontarget.fitting.fit",
        "fit_block": "ontarget.fitting.tasks",
        "fit_monitor": "ontarget.fitting.fit",
        "run_tasks": "ontarget.fitting.engines",
    },
)
