"""Recorded episodes: reading them, choosing the number they are judged by, splitting them."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
