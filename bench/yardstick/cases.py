"""Processes whose true probabilities are known, with episodes to learn from."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

import numpy as np

import ontarget
from ontarget import Target
from ontarget._typing import BoolArray, FloatArray
from ontarget.domains import (
    Simulation,
    Skirmish,
    Tamarisk,
    simulate_with_snapshots,
    take,
    true_probability,
)
from ontarget.episodes import Episodes
from yardstick.exact import ExactReturns
from yardstick.processes import (
    CartPole,
    DriftingWalk,
    MountainCar,
    Reservoir,
    States,
    Storm,
    Walk,
)

# What the truth depends on: these files of the package, and these beside this one.
_PACKAGE: Final = Path(ontarget.__file__).parent
_CODE: Final = (
    *(_PACKAGE / "domains").rglob("*.py"),
    *(_PACKAGE / name for name in ("_grid.py", "_keyed.py", "target.py")),
    *(Path(__file__).parent / name for name in ("cases.py", "exact.py", "processes.py")),
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


def build_case(
    name: str, cache: Path | None = None, *, n_episodes: int = 10_000, seed: int = 0
) -> Case:
    """The case of this name: its episodes, a target, and test states with true probabilities.

    ``cache`` is a folder that stores the true probabilities, which may take a minute. The test
    episodes have the seed after that of the episodes.
    """
    plan = CASES[name]
    domain = plan.domain()
    episodes = ended(simulate_with_snapshots(domain, n_episodes, seed, progress=False), domain)
    # The quantile that is an outcome, so that the target's ends are atoms where outcomes are.
    target = Target(*np.quantile(episodes.outcomes, plan.quantiles, method="inverted_cdf"))
    asked = simulate_with_snapshots(
        domain, plan.n_states, seed + 1, snapshots=plan.steps, progress=False
    )
    file = None if cache is None else cache / f"{name}-{n_episodes}-{seed}-{_digest()}.npz"
    if file is not None and file.exists():
        with np.load(file) as found:
            truth = dict(found)
    else:
        truth = {
            str(t): np.clip(p, 0.0, 1.0)  # sums of chances may pass 1 in the last bits
            for t, p in _probabilities(domain, plan, asked, (target, episodes.grid))
        }
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
            part = file.with_suffix(f".{os.getpid()}.npz")  # several runs may share a cache
            np.savez_compressed(part, **truth)
            part.rename(file)
    tests = {}
    for t in plan.steps:
        alive = _alive(domain, asked, t)
        step = asked.episodes.at(t)
        tests[t] = TestStates(step.states[alive], step.behavior[alive], truth[str(t)][alive])
    return Case(name, episodes, target, tests, plan.rollouts)


def excess(p: FloatArray, p_true: FloatArray, rollouts: int | None) -> float:
    """How much higher the Brier score of p is than that of the true probability.

    ``rollouts`` is how many simulations each ``p_true`` was estimated from; None if it is exact.
    The error of an estimate makes the squares too large; on average this is subtracted.
    """
    error = 0.0 if rollouts is None else p_true * (1.0 - p_true) / (rollouts - 1)
    return float((np.square(p - p_true) - error).mean())


@functools.cache
def _digest() -> str:
    """A hash of the code that the truth depends on."""
    digest = blake2b(digest_size=6)
    for path in sorted(_CODE):
        digest.update(path.read_bytes())
    return digest.hexdigest()


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


def ended(run: Simulation[Any], domain: Any) -> Episodes:
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
