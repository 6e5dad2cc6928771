"""Models that predict the distribution of the outcome from features; all follow one protocol.

`base` has the protocols, `registry` the kinds by name, `entry` how fits, monitors and files use
any model, and `stored` the checks of arrays from a file. `mixture` and `kernels` are what several
models and packages share; `forest.base` has the training rows behind a prediction.

House words: *limits* are P(Y < y) and P(Y <= y), the two sides of a distribution function at y. An
*atom* is an outcome with positive probability. An *expert* is a model of a mixture. A *guide* is a
prediction of the mean that other models read as a feature. A *honest* or out-of-bag answer about a
training episode comes from parts of the model that never saw it. A *live* model answers at every
step of a run and checks nothing.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
