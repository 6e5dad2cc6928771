"""Conformal calibration of predicted distributions: PCQR, the methods it competes with, planning.

A model predicts a distribution per row; episodes that it has not seen *calibrate* it. Planning says
how many episodes a given accuracy needs. Other packages may also import `levels` (which of n sorted
values attains a level), `ranks` (where outcomes fell in predicted distributions), `limits` (the CDF
at the bounds of a target) and the `kernels`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
