"""Watches runs while they happen: one run, many runs at once, or runs of agents known by name.

`setting` says how an alarm is set, for Python, the commands and the service.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
