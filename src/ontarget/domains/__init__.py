"""Fast simulators of the paper's two domains, and their true probabilities.

True probabilities are found by repeated simulation. `Smax` fights the paper's battles in SMAX, an
engine by the authors of JaxMARL (extra ``smax``). Nothing here needs gymnasium; ``import
ontarget.domains.envs`` registers the environments.
"""

from typing import TYPE_CHECKING

from ontarget._lazy import lazy_names

if TYPE_CHECKING:
    from ontarget.domains.domain import Domain, take
    from ontarget.domains.draws import episode_keys, uniforms
    from ontarget.domains.oracle import Truth, rollout_outcomes, true_probability
    from ontarget.domains.simulation import Simulation, simulate, simulate_with_snapshots
    from ontarget.domains.skirmish import Skirmish
    from ontarget.domains.smax import Smax
    from ontarget.domains.tamarisk import Rivers, Tamarisk, TamariskParameters
    from ontarget.domains.tamarisk.exact import ExactReturns

__all__ = [
    "Domain",
    "ExactReturns",
    "Rivers",
    "Simulation",
    "Skirmish",
    "Smax",
    "Tamarisk",
    "TamariskParameters",
    "Truth",
    "episode_keys",
    "rollout_outcomes",
    "simulate",
    "simulate_with_snapshots",
    "take",
    "true_probability",
    "uniforms",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Domain": "ontarget.domains.domain",
        "ExactReturns": "ontarget.domains.tamarisk.exact",
        "Rivers": "ontarget.domains.tamarisk",
        "Simulation": "ontarget.domains.simulation",
        "Skirmish": "ontarget.domains.skirmish",
        "Smax": "ontarget.domains.smax",
        "Tamarisk": "ontarget.domains.tamarisk",
        "TamariskParameters": "ontarget.domains.tamarisk",
        "Truth": "ontarget.domains.oracle",
        "episode_keys": "ontarget.domains.draws",
        "rollout_outcomes": "ontarget.domains.oracle",
        "simulate": "ontarget.domains.simulation",
        "simulate_with_snapshots": "ontarget.domains.simulation",
        "take": "ontarget.domains.domain",
        "true_probability": "ontarget.domains.oracle",
        "uniforms": "ontarget.domains.draws",
    },
)
