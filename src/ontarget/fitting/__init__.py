"""Fits a monitor to episodes: blocks of steps, engines that run the work, checkpoints.

A block is a range of steps that share a model.
"""

from typing import TYPE_CHECKING

from ontarget._lazy import lazy_names

if TYPE_CHECKING:
    from ontarget.fitting.checkpoints import Checkpoint
    from ontarget.fitting.engines import Engine, Executor, run_tasks
    from ontarget.fitting.fit import Preset, fit_monitor
    from ontarget.fitting.ranking import rank_table
    from ontarget.fitting.recipe import Recipe
    from ontarget.fitting.tasks import BlockResult, BlockTask, fit_block

__all__ = [
    "BlockResult",
    "BlockTask",
    "Checkpoint",
    "Engine",
    "Executor",
    "Preset",
    "Recipe",
    "fit_block",
    "fit_monitor",
    "rank_table",
    "run_tasks",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "BlockResult": "ontarget.fitting.tasks",
        "BlockTask": "ontarget.fitting.tasks",
        "Checkpoint": "ontarget.fitting.checkpoints",
        "Engine": "ontarget.fitting.engines",
        "Executor": "ontarget.fitting.engines",
        "Preset": "ontarget.fitting.fit",
        "Recipe": "ontarget.fitting.recipe",
        "fit_block": "ontarget.fitting.tasks",
        "fit_monitor": "ontarget.fitting.fit",
        "rank_table": "ontarget.fitting.ranking",
        "run_tasks": "ontarget.fitting.engines",
    },
)
