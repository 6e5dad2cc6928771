"""`RecordVectorEpisodes`, which records the runs of a vector of environments."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Unpack

import numpy as np

from ontarget._package import require
from ontarget._progress import progress_bar
from ontarget._typing import AnyArray, BoolArray, IndexArray
from ontarget.episodes import Episodes
from ontarget.episodes.censoring import Censored
from ontarget.episodes.judged import JudgedBy
from ontarget.integrations._autoreset import Autoreset
from ontarget.integrations._infos import infos_of_rows
from ontarget.integrations._observations import layout_of
from ontarget.integrations._recorder import (
    Recorder,
    RecorderOptions,
    kept_options,
    limited,
    shares,
    signals_in,
)
from ontarget.integrations._takeovers import tell_inside
from ontarget.integrations.policies import Actor

require("gymnasium", extra="gym")

import gymnasium.vector  # noqa: E402 - the line above says what to install
from gymnasium.utils import RecordConstructorArgs  # noqa: E402 - as above


# VectorWrapper takes no parameters before gymnasium 1.4.
class RecordVectorEpisodes(gymnasium.vector.VectorWrapper, RecordConstructorArgs):
    """A vector of environments that records its runs; `episodes` returns them.

    It works in every autoreset mode. Runs that have not ended are left out. So if you stop as soon
    as enough runs are over, you favour short runs. To avoid that, use `record`, or pass a ``share``
    and play until `complete`.

    Parameters
    ----------
    env
        The vector environment to record.
    share
        How many runs to keep from each environment; all of them by default.
    signals
        Keys of ``infos`` to record at each step, as for `RecordEpisodes`.
    **options
        ``horizon``, ``max_steps``, ``features`` and ``categorical``, as for `RecordEpisodes`.

    Examples
    --------
    >>> envs = RecordVectorEpisodes(gymnasium.make_vec("CartPole-v1", num_envs=2), share=[1, 1])
    >>> observations, infos = envs.reset(seed=0)
    >>> while not envs.complete:
    ...     observations, *_ = envs.step((observations[:, 2] > 0.0).astype(int))
    >>> len(envs.episodes())
    2
    """

    def __init__(
        self,
        env: gymnasium.vector.VectorEnv[Any, Any, Any],
        *,
        share: Sequence[int] | IndexArray | None = None,
        signals: Sequence[str] = (),
        **options: Unpack[RecorderOptions],
    ) -> None:
        RecordConstructorArgs.__init__(
            self, share=share, signals=tuple(signals), **kept_options(options)
        )
        gymnasium.vector.VectorWrapper.__init__(self, env)
        self._autoreset = Autoreset(env)
        layout = layout_of(env.single_observation_space)
        self._recorder = Recorder(layout, slots=self.num_envs, **limited(options, env))
        self._signals = tuple(signals)
        self._left = None if share is None else np.array(share, dtype=np.intp)
        self.began: BoolArray = np.zeros(self.num_envs, dtype=np.bool_)

    def reset(
        self,
        *,
        seed: int | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Any, dict[str, Any]]:
        """The first observations of new runs, in all environments or those of the reset mask."""
        mask = self._autoreset.reset(options)
        observations, infos = self.env.reset(seed=seed, options=options)
        self._begin(mask, self._rows(observations))
        return observations, infos

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """What the environments' own ``step`` returns; the step is recorded."""
        observations, rewards, terminated, truncated, infos = self.env.step(actions)
        rows = self._autoreset.step(terminated, truncated)
        states = self._rows(observations)
        told = infos_of_rows(infos, self._signals, rows.ended & self._autoreset.same_step)
        for i in np.flatnonzero(rows.moved).tolist():
            self._recorder.step(
                i,
                states[i],
                float(rewards[i]),
                terminated=bool(terminated[i]),
                truncated=bool(truncated[i]),
                signals=signals_in(told[i], self._signals),
            )
        self._begin(rows.began, states)
        return observations, rewards, terminated, truncated, infos

    def intervene(self, environments: Iterable[int]) -> None:
        """Note that somebody takes over the runs of these environments, given by their numbers.

        See `RecordEpisodes.intervene`.
        """
        chosen = list(environments)
        for i in chosen:
            self._recorder.intervene(i)
        tell_inside(self.env, chosen)

    @property
    def recorder(self) -> Recorder:
        """The object that collects the runs."""
        return self._recorder

    @property
    def complete(self) -> bool:
        """Whether every environment has played its share of runs."""
        return self._left is not None and not self._left.any() and self.idle

    @property
    def idle(self) -> bool:
        """Whether no run is being recorded."""
        return not any(self._recorder.in_progress(i) for i in range(self.num_envs))

    @property
    def finished(self) -> int:
        """The number of finished runs."""
        return len(self._recorder)

    def episodes(
        self,
        *,
        behavior: JudgedBy = "sum",
        censored: Censored = "refuse",
        label: str = "",
    ) -> Episodes:
        """The runs so far, in the order in which they began; see `RecordEpisodes.episodes`."""
        return self._recorder.episodes(behavior=behavior, censored=censored, label=label)

    def _begin(self, mask: BoolArray, states: AnyArray) -> None:
        self.began = mask
        for i in np.flatnonzero(mask).tolist():
            if self._left is not None:
                if not self._left[i]:
                    continue
                self._left[i] -= 1
            self._recorder.begin(i, states[i])

    def _rows(self, observations: Any) -> AnyArray:
        return self._recorder.layout.rows(observations, self.num_envs)


def play_vector(
    env: gymnasium.vector.VectorEnv[Any, Any, Any],
    actor: Actor,
    count: int,
    *,
    seed: int | None,
    progress: bool,
    signals: Sequence[str] = (),
    **options: Unpack[RecorderOptions],
) -> Recorder:
    """Play runs until each environment has played its share; returns the recorder."""
    share = shares(count, env.num_envs)
    recorder = RecordVectorEpisodes(env, share=share, signals=signals, **options)
    waits = env.metadata["autoreset_mode"] is gymnasium.vector.AutoresetMode.DISABLED
    observations, _ = recorder.reset(seed=seed)
    actor.begin(recorder.began)
    with progress_bar("recording", count, unit="episodes", shown=progress) as reached:
        while not recorder.complete:
            actions = actor(observations)
            observations, _, terminated, truncated, _ = recorder.step(actions)
            over = np.logical_or(terminated, truncated)
            if waits and over.any():
                observations, _ = recorder.reset(options={"reset_mask": over})
            elif recorder.idle and not recorder.complete:
                # Every run reached the horizon in environments that would go on.
                observations, _ = recorder.reset()
            if recorder.began.any():
                actor.begin(recorder.began)
            reached(recorder.finished)
    return recorder.recorder
