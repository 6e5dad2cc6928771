"""Records battles in the real StarCraft II as episodes like those of the skirmish.

The game is not part of this package and must be installed by the user. No result in this project
comes from it: the adapter is tested against a server that speaks the game's protocol.
"""

from typing import TYPE_CHECKING

from ontarget._lazy import lazy_names

if TYPE_CHECKING:
    from ontarget.domains.starcraft._game import Recording, StarcraftGame

__all__ = ["Recording", "StarcraftGame"]

__getattr__, __dir__ = lazy_names(
    __name__, dict.fromkeys(__all__, "ontarget.domains.starcraft._game")
)
