"""What the study of distances runs on: episodes to learn from, and states whose truth is known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from ontarget.domains import Skirmish, Tamarisk, simulate_with_snapshots, true_probability
from ontarget.domains.domain import take
from ontarget.domains.simulation import Simulation
from ontarget.domains.tamarisk_exact import ExactReturns
from ontarget.episodes import Episodes
from ontarget.errors import InputError
from ontarget.paper.processes import CartPole, MountainCar, Reservoir, States, Storm, Walk
from ontarget.target import Target
from ontarget.typing import BoolArray, FloatArray

__all__ = ["CASES", "Case", "Plan", "TestStates", "build_case"]


@dataclass(frozen=True)
class Plan:
    """How a case is made: its domain, the steps asked about, and how the truth is found."""

    domain: Callable[[], Any]
    steps: tuple[int, ...]
    rollouts: int | None  # None where the truth is exact
    n_states: int = 1_000
    quantiles: tuple[float, float] = (0.1, 0.9)  # of the outcomes: the target's ends


CASES: Final[dict[str, Plan]] = {
    "tamarisk": Plan(lambda: Tamarisk("paper"), (0, 1, 2, 3, 5, 10, 25, 45), None),
    "skirmish": Plan(Skirmish, (0, 5, 10, 14, 15, 20, 30, 45), 100, n_states=500),
    "walk": Plan(Walk, (0, 1, 2, 5, 10, 15, 20, 27), None),
    "reservoir": Plan(Reservoir, (0, 1, 2, 5, 10, 20, 30, 37), None),
    "storm": Plan(Storm, (0, 1, 2, 5, 10, 20, 30, 37), 400),
    "cartpole": Plan(CartPole, (0, 2, 5, 10, 20, 40, 60, 90), 400, quantiles=(0.5, 1.0)),
    "mountaincar": Plan(MountainCar, (0, 5, 20, 40, 80, 120, 150, 180), 400, quantiles=(0.5, 1.0)),
}


@dataclass(frozen=True)
class TestStates:
    """States at one step of episodes that no model sees, and the truth about them."""

    states: FloatArray
    behavior: FloatArray
    p_true: FloatArray


@dataclass(frozen=True)
class Case:
    """A process to study models on."""

    name: str
    episodes: Episodes
    target: Target
    tests: dict[int, TestStates]
    rollouts: int | None


def build_case(
    name: str,
    folder: Path,
    *,
    n_episodes: int = 10_000,
    seed: int = 0,
    target: Target | None = None,
) -> Case:
    """The case of this name; the truth is kept in the folder, because it may take minutes.

    Parameters
    ----------
    name
        One of `CASES`.
    folder
        Where the truth is kept; the same name, size, seed and target find it again.
    n_episodes
        How many episodes models may learn from.
    seed
        Of the episodes; those that are asked about have the seed after it.
    target
        By default from the plan's quantiles of the outcomes.
    """
    if name not in CASES:
        raise InputError(f"case needs one of {', '.join(CASES)}, got {name!r}")
    plan = CASES[name]
    domain = plan.domain()
    episodes = _ended(simulate_with_snapshots(domain, n_episodes, seed), domain)
    if target is None:
        # The quantile that is an outcome, so that the target's ends are atoms where outcomes are.
        target = Target(*np.quantile(episodes.outcomes, plan.quantiles, method="inverted_cdf"))
    asked = simulate_with_snapshots(domain, plan.n_states, seed + 1, snapshots=plan.steps)
    label = f"{name}-{n_episodes}-{seed}-{target.lower:g}:{target.upper:g}"
    kept = folder / f"truth-{label}.npz"
    if kept.exists():
        with np.load(kept) as arrays:
            truth = {t: arrays[str(t)] for t in plan.steps}
    else:
        truth = _truth(domain, plan, asked, (target, episodes.grid))
        folder.mkdir(parents=True, exist_ok=True)
        np.savez(kept, **{str(t): p for t, p in truth.items()})  # type: ignore[arg-type]
    tests = {}
    for t in plan.steps:
        alive = _alive(domain, asked, t)
        step = asked.episodes.at(t)
        tests[t] = TestStates(step.states[alive], step.behavior[alive], truth[t][alive])
    return Case(name, episodes, target, tests, plan.rollouts)


def _truth(
    domain: Any, plan: Plan, asked: Simulation[Any], goal: tuple[Target, float]
) -> dict[int, FloatArray]:
    target, grid = goal
    exact = None
    if isinstance(domain, Tamarisk):
        exact = ExactReturns(domain, steps=plan.steps, lowest=target.lower)
    truth = {}
    for t in plan.steps:
        states, behavior = asked.snapshots[t], asked.episodes.at(t).behavior
        if exact is not None:
            truth[t] = exact.probability(states, behavior, t, target, grid=grid)
        elif plan.rollouts is None:
            truth[t] = domain.probability(states, behavior, t, target, grid)
        else:
            truth[t] = true_probability(
                domain, states, behavior, t, target, rollouts=plan.rollouts, grid=grid
            ).p
        truth[t] = np.clip(truth[t], 0.0, 1.0)  # sums of chances may pass 1 in the last bits
    return truth


def _alive(domain: Any, run: Simulation[Any], t: int) -> BoolArray:
    over = getattr(domain, "over", None)
    if over is None:
        return np.ones(len(run.episodes), dtype=np.bool_)
    ended: BoolArray = over(take(run.snapshots[t], np.arange(len(run.episodes))))
    return ~ended


def _ended(run: Simulation[Any], domain: Any) -> Episodes:
    """The episodes, each cut off where it was over: it terminated there."""
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
