"""Simulated battles of Marines, our replacement for the paper's StarCraft II domain.

No data of the game are used.
"""

from typing import TYPE_CHECKING

from ontarget._lazy import lazy_names

if TYPE_CHECKING:
    from ontarget.domains.skirmish._simulator import Armies, Battle, Order, Skirmish

__all__ = ["Armies", "Battle", "Order", "Skirmish"]

__getattr__, __dir__ = lazy_names(
    __name__, dict.fromkeys(__all__, "ontarget.domains.skirmish._simulator")
)
