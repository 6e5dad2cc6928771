"""ontarget: the calibrated probability, at every step of a run, that it ends inside your target."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
