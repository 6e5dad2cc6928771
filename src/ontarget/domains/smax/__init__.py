"""Battles in SMAX, an engine in the style of StarCraft II by the authors of JaxMARL."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
