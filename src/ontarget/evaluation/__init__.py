"""Measures and figures of how good probabilities and intervals are, computed from plain arrays.

Figures are in `ontarget.evaluation.figures`, which loads matplotlib when a figure is drawn.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
