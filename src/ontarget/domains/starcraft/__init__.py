"""Records battles in the real StarCraft II as episodes like those of the skirmish.

The game is not part of this package and must be installed by the user. No result in this project
comes from it: the adapter is tested against a server that speaks the game's protocol.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
