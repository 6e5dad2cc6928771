"""The paper's two domains as fast simulators, and the truth about them by nested rollouts.

Nothing here needs gymnasium; ``import ontarget.domains.envs`` registers the environments.
"""

from typing import TYPE_CHECKING

from ontarget._lazy import lazy_names

if TYPE_CHECKING:
    from ontarget.domains.domain import Domain
    from ontarget.domains.oracle import Truth, rollout_outcomes, true_probability
    from ontarget.domains.simulation import Simulation, simulate, simulate_with_snapshots
    from ontarget.domains.skirmish import Skirmish
    from ontarget.domains.tamarisk import Tamarisk, TamariskParameters

__all__ = [
    "Domain",
    "Simulation",
    "Skirmish",
    "Tamarisk",
    "TamariskParameters",
    "Truth",
    "rollout_outcomes",
    "simulate",
    "simulate_with_snapshots",
    "true_probability",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Domain": "ontarget.domains.domain",
        "Simulation": "ontarget.domains.simulation",
        "Skirmish": "ontarget.domains.skirmish",
        "Tamarisk": "ontarget.domains.tamarisk",
        "TamariskParameters": "ontarget.domains.tamarisk",
        "Truth": "ontarget.domains.oracle",
        "rollout_outcomes": "ontarget.domains.oracle",
        "simulate": "ontarget.domains.simulation",
        "simulate_with_snapshots": "ontarget.domains.simulation",
        "true_probability": "ontarget.domains.oracle",
    },
)
