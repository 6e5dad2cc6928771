"""For the time after a fit: has the process changed, and does that do harm."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
