"""Battles in JaxMARL's SMAX, an engine in the style of StarCraft II that is not ours."""

from typing import TYPE_CHECKING

from ontarget._lazy import lazy_names

if TYPE_CHECKING:
    from ontarget.domains.smax._simulator import Smax, SmaxBattle

__all__ = ["Smax", "SmaxBattle"]

__getattr__, __dir__ = lazy_names(
    __name__, dict.fromkeys(__all__, "ontarget.domains.smax._simulator")
)
