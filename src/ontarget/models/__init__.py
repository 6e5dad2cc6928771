"""Models that predict the distribution of the outcome from features; all follow one protocol."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
