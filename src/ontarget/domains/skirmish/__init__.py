"""Simulated battles of Marines, our replacement for the paper's StarCraft II domain.

No data of the game are used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
