"""The cases of the distance study: processes with episodes to learn from and known truth."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from ontarget import Target
from ontarget.domains import (
    ExactReturns,
    Simulation,
    Skirmish,
    Tamarisk,
    simulate_with_snapshots,
    take,
    true_probability,
)
from ontarget.episodes import Episodes
from ontarget.errors import InputError
from ontarget.paper.arrays import AnyArray, BoolArray, FloatArray
from ontarget.paper.keeping import Keeper
from ontarget.paper.processes import (
    CartPole,
    DriftingWalk,
    MountainCar,
    Reservoir,
    States,
    Storm,
    Walk,
)

__all__ = ["CASES", "ORACLE_CODE", "Case", "CasePlan", "TestStates", "build_case"]

# What the truth depends on; the models that are measured against it are not among it.
ORACLE_CODE: Final = (
    "_grid.py",
    "_keyed.py",
    "domains/",
    "episodes/",
    "paper/cases.py",
    "paper/processes.py",
    "target.py",
)


@dataclass(frozen=True)
class CasePlan:
    """How a case is made: its domain, the steps to ask about, and how the truth is computed.

    A case is a process on which models are studied; the truth is the true probabilities.
    """

    label: str
    domain: Callable[[], Any]
    steps: tuple[int, ...]
    rollouts: int | None  # None where the truth is exact
    n_states: int = 1_000
    quantiles: tuple[float, float] = (0.1, 0.9)  # of the outcomes: the target's ends


CASES: Final[dict[str, CasePlan]] = {
    "tamarisk": CasePlan("Tamarisk", lambda: Tamarisk("paper"), (0, 1, 2, 3, 5, 10, 25, 45), None),
    "skirmish": CasePlan(
        "Skirmish (surrogate)", Skirmish, (0, 5, 10, 14, 15, 20, 30, 45), 100, n_states=500
    ),
    "walk": CasePlan("Walk in the wind", Walk, (0, 1, 2, 5, 10, 15, 20, 27), None),
    "reservoir": CasePlan("Reservoir", Reservoir, (0, 1, 2, 5, 10, 20, 30, 37), None),
    "storm": CasePlan("Storm", Storm, (0, 1, 2, 5, 10, 20, 30, 37), 400),
    "drifting": CasePlan("Drifting walk", DriftingWalk, (0, 1, 2, 5, 10, 20, 30, 37), None),
    "cartpole": CasePlan(
        "Gymnasium's CartPole", CartPole, (0, 2, 5, 10, 20, 40, 60, 90), 400, quantiles=(0.5, 1.0)
    ),
    "mountaincar": CasePlan(
        "Gymnasium's MountainCar",
        MountainCar,
        (0, 5, 20, 40, 80, 120, 150, 180),
        400,
        quantiles=(0.5, 1.0),
    ),
}


@dataclass(frozen=True)
class TestStates:
    """States at one step, with their true probabilities; no model learns from their episodes."""

    states: FloatArray
    behavior: FloatArray
    p_true: FloatArray


@dataclass(frozen=True)
class Case:
    """A process on which models are studied: its episodes, its target and its test states."""

    name: str
    episodes: Episodes
    target: Target
    tests: dict[int, TestStates]
    rollouts: int | None
    truth_seconds: float  # how long finding the truth took, when it was found


def build_case(
    name: str,
    keeper: Keeper,
    *,
    n_episodes: int = 10_000,
    seed: int = 0,
    target: Target | None = None,
) -> Case:
    """The case (a process to study) of this name.

    Its true probabilities are stored in a file, because computing them may take minutes.

    Parameters
    ----------
    name
        One of `CASES`.
    keeper
        Stores the true probabilities, by name, size, seed and target.
    n_episodes
        How many episodes models may learn from.
    seed
        The seed of the episodes; the test episodes have the next seed.
    target
        The target; by default the range between two quantiles of the outcomes.
    """
    if name not in CASES:
        raise InputError(f"`case` needs one of {', '.join(CASES)}, got {name!r}")
    plan = CASES[name]
    domain = plan.domain()
    episodes = _ended(simulate_with_snapshots(domain, n_episodes, seed, progress=False), domain)
    if target is None:
        # The quantile that is an outcome, so that the target's ends are atoms where outcomes are.
        target = Target(*np.quantile(episodes.outcomes, plan.quantiles, method="inverted_cdf"))
    asked = simulate_with_snapshots(
        domain, plan.n_states, seed + 1, snapshots=plan.steps, progress=False
    )
    label = f"truth-{name}-{n_episodes}-{seed}-{target.lower:g}to{target.upper:g}"
    truth = keeper.arrays(label)
    if truth is None:
        truth = _truth(domain, plan, asked, (target, episodes.grid))
        keeper.keep_arrays(label, truth)
    tests = {}
    for t in plan.steps:
        alive = _alive(domain, asked, t)
        step = asked.episodes.at(t)
        tests[t] = TestStates(step.states[alive], step.behavior[alive], truth[str(t)][alive])
    return Case(name, episodes, target, tests, plan.rollouts, float(truth["seconds"]))


def _truth(
    domain: Any, plan: CasePlan, asked: Simulation[Any], goal: tuple[Target, float]
) -> dict[str, AnyArray]:
    """The true probability of each state at each step, and how many seconds it took."""
    started = time.perf_counter()
    truth: dict[str, AnyArray] = {
        str(t): np.clip(p, 0.0, 1.0)  # sums of chances may pass 1 in the last bits
        for t, p in _probabilities(domain, plan, asked, goal)
    }
    truth["seconds"] = np.array(time.perf_counter() - started)
    return truth


def _probabilities(
    domain: Any, plan: CasePlan, asked: Simulation[Any], goal: tuple[Target, float]
) -> Iterator[tuple[int, FloatArray]]:
    target, grid = goal
    exact = None
    if isinstance(domain, Tamarisk):
        exact = ExactReturns(domain, steps=plan.steps, lowest=target.lower)
    for t in plan.steps:
        states, behavior = asked.snapshots[t], asked.episodes.at(t).behavior
        if exact is not None:
            yield t, exact.probability(states, behavior, t, target, grid=grid)
        elif plan.rollouts is None:
            yield t, domain.probability(states, behavior, t, target, grid)
        else:
            found = true_probability(
                domain, states, behavior, t, target, rollouts=plan.rollouts, grid=grid
            )
            yield t, found.p


def _alive(domain: Any, run: Simulation[Any], t: int) -> BoolArray:
    over = getattr(domain, "over", None)
    if over is None:
        return np.ones(len(run.episodes), dtype=np.bool_)
    ended: BoolArray = over(take(run.snapshots[t], np.arange(len(run.episodes))))
    return ~ended


def _ended(run: Simulation[Any], domain: Any) -> Episodes:
    """The episodes, each cut at the step where it terminated."""
    if not hasattr(domain, "over"):
        return run.episodes
    steps = [run.episodes.at(t) for t in range(domain.horizon)]
    states = np.stack([step.states for step in steps], axis=1)
    rewards = np.stack([run.episodes.rewards_at(t) for t in range(domain.horizon)], axis=1)
    over = np.stack([domain.over(States(step.states)) for step in steps], axis=1)
    lengths = np.where(over.any(axis=1), np.maximum(over.argmax(axis=1), 1), domain.horizon)
    return Episodes.from_arrays(
        [own[:n] for own, n in zip(states, lengths, strict=True)],
        [own[:n] for own, n in zip(rewards, lengths, strict=True)],
        horizon=domain.horizon,
        features=domain.features,
        categorical=domain.categorical,
    )
