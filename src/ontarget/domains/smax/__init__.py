"""Battles in SMAX, an engine in the style of StarCraft II by the authors of JaxMARL."""

from typing import TYPE_CHECKING

from ontarget._lazy import lazy_names

if TYPE_CHECKING:
    from ontarget.domains.smax._simulator import Smax, SmaxBattle

__all__ = ["Smax", "SmaxBattle"]

__getattr__, __dir__ = lazy_names(
    __name__, dict.fromkeys(__all__, "ontarget.domains.smax._simulator")
)
