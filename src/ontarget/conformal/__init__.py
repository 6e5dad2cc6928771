"""Conformal calibration of predicted distributions: PCQR, the methods it competes with, planning.

Planning says how many episodes a given accuracy needs.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
