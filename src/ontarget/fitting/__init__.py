"""Fits a monitor to episodes: `fit.fit_monitor`, in two phases.

A `recipe.Recipe` says what to fit. `ground` checks the parts of a split. Phase one fits the blocks
(`tasks`), wherever one of the `engines` runs them, and `checkpoints` keep finished ones. Phase two
(`ranking`) mixes their predictions and computes curves, ranks and excesses. `recalibrating` gives
a fitted monitor new promises. The house words are those of `ontarget.fitted`.
"""
