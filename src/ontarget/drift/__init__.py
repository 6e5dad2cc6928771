"""For the time after a fit: has the process changed, and does that do harm.

New episodes are compared with the assure episodes (those held out for promises). A *guard* bets on
each finished episode, so that one may look after every one of them. Other packages may also import
`comparing`, which compares recorded episodes at one step.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
