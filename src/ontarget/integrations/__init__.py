"""Records and watches environments of Gymnasium and agents of Stable-Baselines3.

These packages are loaded only when they are used. If one is missing, the error says how to install
it.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
