"""Simulates episodes of a domain; the same seed gives the same bits on any number of threads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any, Final, Generic, NamedTuple, TypeVar, overload

import numpy as np

from ontarget._arguments import whole_number
from ontarget._grid import grid_of
from ontarget._keyed import keyed_hash, keys_of
from ontarget._progress import announce_compiling, progress_bar
from ontarget._threads import run_blocks
from ontarget._typing import ArrayLike, FloatArray
from ontarget.domains.domain import Domain, count, domain_of, join, take
from ontarget.domains.draws import episode_keys
from ontarget.episodes import Episodes
from ontarget.errors import Argument, InputError
from ontarget.target import Target

S = TypeVar("S")

# Small enough for a block's arrays to stay in cache, large enough that a step's call costs nothing.
_BLOCK: Final = 512
# Episodes that are rolled out at a time; bounds the memory, never the result.
_AT_ONCE: Final = 2048


@dataclass(frozen=True)
class Simulation(Generic[S]):
    """Simulated episodes, and snapshots: the simulator's full states at chosen steps.

    Row i of a snapshot is the state of episode i at that step, before acting.
    """

    episodes: Episodes
    snapshots: Mapping[int, S]


class _Record(NamedTuple, Generic[S]):
    states: FloatArray
    rewards: FloatArray
    snapshots: dict[int, S]


def simulate(
    domain: Domain[Any] | str, episodes: int, seed: int = 0, *, progress: bool = True
) -> Episodes:
    """Simulated episodes of the domain under its fixed policy.

    Episode i depends only on the domain, the seed and i. So a longer simulation begins with the
    episodes of a shorter one, and the number of threads changes nothing.

    Parameters
    ----------
    domain
        The domain, or its name: ``"skirmish"``, ``"smax"`` (extra ``smax``) or ``"tamarisk"``.
    episodes
        The number of episodes to simulate.
    seed
        The same seed gives the same episodes.
    progress
        Whether to show a progress bar.

    Examples
    --------
    >>> from ontarget.domains import simulate
    >>> runs = simulate("tamarisk", 100, seed=0)
    >>> len(runs), runs.horizon
    (100, 50)
    """
    announce_compiling()
    return simulate_with_snapshots(domain, episodes, seed, progress=progress).episodes


@overload
def simulate_with_snapshots(
    domain: Domain[S],
    episodes: int,
    seed: int = 0,
    *,
    snapshots: Iterable[int] = (),
    progress: bool = True,
) -> Simulation[S]: ...
@overload
def simulate_with_snapshots(
    domain: str,
    episodes: int,
    seed: int = 0,
    *,
    snapshots: Iterable[int] = (),
    progress: bool = True,
) -> Simulation[Any]: ...
def simulate_with_snapshots(
    domain: Domain[S] | str,
    episodes: int,
    seed: int = 0,
    *,
    snapshots: Iterable[int] = (),
    progress: bool = True,
) -> Simulation[S]:
    """The episodes that `simulate` returns, and the simulator's full states at some steps.

    A snapshot is the full state of all episodes at one step. Features may show only part of the
    state, as in a battle. So an episode can be restarted only from a snapshot, as
    `true_probability` does.

    Examples
    --------
    >>> from ontarget.domains import Tamarisk, simulate_with_snapshots
    >>> run = simulate_with_snapshots(Tamarisk("paper"), 100, seed=0, snapshots=[0, 10])
    >>> run.snapshots[10].edges.shape
    (100, 7)
    """
    domain = domain_of(domain)
    record = _run(domain, episodes, seed, sorted(set(snapshots)), progress)
    recorded = Episodes.from_arrays(
        record.states,
        record.rewards,
        horizon=domain.horizon,
        features=domain.features,
        categorical=domain.categorical,
    )
    return Simulation(recorded, record.snapshots)


def _run(
    domain: Domain[S], episodes: int, seed: int, steps: list[int], progress: bool
) -> _Record[S]:
    whole_number("episodes", episodes, least=1)
    if steps and not (steps[0] >= 0 and steps[-1] < domain.horizon):
        raise InputError(
            Argument("snapshots"),
            f" needs steps from 0 to {domain.horizon - 1}, the horizon of {domain.name} "
            f"less one; got {steps}",
        )
    states = np.empty((episodes, domain.horizon, len(domain.features)))
    rewards = np.empty((episodes, domain.horizon))
    kept: dict[int, dict[int, S]] = {step: {} for step in steps}
    done, lock = 0, Lock()

    def block(start: int, stop: int) -> None:
        nonlocal done
        keys = episode_keys(seed, start, stop, "simulate", domain.name)
        state = domain.start(keys)
        for t in range(domain.horizon):
            if t in kept:
                kept[t][start] = take(state, np.arange(count(state)))
            states[start:stop, t] = domain.observe(state)
            rewards[start:stop, t] = domain.step(state, t, keys)
        with lock:
            done += stop - start
            reached(done)

    doing = f"simulating {domain.name}"
    with progress_bar(doing, episodes, unit="episodes", shown=progress) as reached:
        run_blocks(block, episodes, block=_BLOCK)
    joined = {step: join([parts[start] for start in sorted(parts)]) for step, parts in kept.items()}
    return _Record(states, rewards, joined)


class Truth(NamedTuple):
    """For each state, the estimated true probability of the target, and its standard error."""

    p: FloatArray
    standard_error: FloatArray


def rollout_outcomes(
    domain: Domain[S] | str,
    states: S,
    behavior: ArrayLike,
    t: int,
    *,
    rollouts: int = 400,
    seed: int = 0,
    ids: ArrayLike | None = None,
) -> FloatArray:
    """The outcomes of independent simulations that continue from each state: (states, rollouts).

    Parameters
    ----------
    domain
        The domain, or its name.
    states
        Full simulator states at step t: a snapshot of `simulate_with_snapshots`, or part of one.
    behavior
        The sum of the rewards before step t: one number, or one per state. Later rewards are added
        to it from left to right, as in a recorded episode.
    t
        The step of the states, before acting; at the horizon nothing more happens.
    rollouts
        The number of simulations (continuations) per state.
    seed, ids
        The random numbers of a continuation depend on the seed, t, the state's id and the
        continuation's number. Without ids, the number of a state's row is its id.
    """
    domain, n = domain_of(domain), count(states)
    if not 0 <= t <= domain.horizon:
        raise InputError(
            Argument("t"), f" needs a step from 0 to the horizon {domain.horizon}, got {t}"
        )
    whole_number("rollouts", rollouts, least=1)
    so_far = _per_state("behavior", behavior, n)
    if not np.isfinite(so_far).all():
        raise InputError(
            Argument("behavior"), f" needs finite sums, got {so_far[~np.isfinite(so_far)][0]}"
        )
    named = np.arange(n) if ids is None else np.asarray(ids)
    if named.shape != (n,):
        raise InputError(
            Argument("ids"), f" needs one id per state, shape ({n},), got {named.shape}"
        )
    state_keys = keys_of(named)
    keys = np.stack(
        [keyed_hash(state_keys, seed, "oracle", domain.name, t, m) for m in range(rollouts)], axis=1
    )
    outcomes = np.empty((n, rollouts))

    def block(start: int, stop: int) -> None:
        index = np.repeat(np.arange(start, stop), rollouts)
        state = take(states, index)
        total, of_block = so_far[index], keys[start:stop].ravel()
        for step in range(t, domain.horizon):
            total = total + domain.step(state, step, of_block)
        outcomes[start:stop] = total.reshape(stop - start, rollouts)

    run_blocks(block, n, block=max(1, _AT_ONCE // rollouts))
    return outcomes


def true_probability(
    domain: Domain[S] | str,
    states: S,
    behavior: ArrayLike,
    t: int,
    target: Target,
    *,
    rollouts: int = 400,
    seed: int = 0,
    ids: ArrayLike | None = None,
    grid: float | None = None,
) -> Truth:
    """The probability that each state's episode ends inside the target, with its standard error.

    It uses the full state of the simulator. If the features show only part of the state, as in a
    battle, no model that reads only the features can be as good as this probability.

    Parameters
    ----------
    domain, states, behavior, t, rollouts, seed, ids
        As in `rollout_outcomes`.
    target
        The outcomes that count as success.
    grid
        Outcomes and the limits of the target are rounded to multiples of this number. By default it
        follows from the size of the outcomes. To compare with a monitor, pass the monitor's grid.

    Notes
    -----
    With R rollouts, the estimate is an unbiased binomial mean with the standard error ``sqrt(p (1 -
    p) / (R - 1))``, whose square is an unbiased estimate of the variance. If all rollouts agree,
    the standard error is 0, but the truth may still differ by about 3 / R. For a single rollout,
    the standard error is NaN.

    Examples
    --------
    >>> from ontarget import Target
    >>> from ontarget.domains import Tamarisk, simulate_with_snapshots, true_probability
    >>> domain = Tamarisk("paper")
    >>> run = simulate_with_snapshots(domain, 3, seed=0, snapshots=[0])
    >>> truth = true_probability(domain, run.snapshots[0], 0.0, 0, Target.at_least(-40))
    >>> truth.p.shape
    (3,)
    """
    outcomes = rollout_outcomes(domain, states, behavior, t, rollouts=rollouts, seed=seed, ids=ids)
    inside = target.contains(outcomes, grid_of(outcomes) if grid is None else grid)
    p = inside.mean(axis=1)
    spread = rollouts - 1 if rollouts > 1 else np.nan
    return Truth(p, np.sqrt(p * (1.0 - p) / spread))


def _per_state(name: str, values: Any, n: int) -> FloatArray:
    array = np.asarray(values, dtype=np.float64)
    if array.shape not in {(), (n,)}:
        raise InputError(
            Argument(name),
            f" needs one number, or one per state in shape ({n},); got {array.shape}",
        )
    return np.broadcast_to(array, (n,))
