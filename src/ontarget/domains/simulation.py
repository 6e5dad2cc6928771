"""Simulates episodes of a domain; the same seed gives the same bits on any number of threads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any, Final, Generic, NamedTuple, TypeVar, overload

import numpy as np

from ontarget._arguments import whole_number
from ontarget._progress import announce_compiling, progress_bar
from ontarget._threads import run_blocks
from ontarget._typing import FloatArray
from ontarget.domains.catalogue import domain_of
from ontarget.domains.domain import Domain, count, join, take
from ontarget.domains.draws import episode_keys
from ontarget.episodes import Episodes
from ontarget.errors import Argument, InputError

S = TypeVar("S")

# Small enough for a block's arrays to stay in cache, large enough that a step's call costs nothing.
_BLOCK: Final = 512


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
