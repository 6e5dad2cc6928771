"""Records runs: of one environment, of a vector of them, and by playing a policy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, SupportsFloat, TypeAlias, Unpack

import numpy as np

from ontarget._arguments import whole_number
from ontarget._package import require
from ontarget._progress import progress_bar
from ontarget._typing import AnyArray, BoolArray, IndexArray
from ontarget.episodes import Episodes
from ontarget.episodes.censoring import Censored
from ontarget.episodes.judged import Judged, JudgedBy
from ontarget.errors import Argument, InputError
from ontarget.integrations.environments import (
    Autoreset,
    infos_of_rows,
    layout_of,
    tell_inside,
    warn_of_no_limit,
)
from ontarget.integrations.recorder import (
    Actor,
    Recorder,
    RecorderOptions,
    actor_of,
    is_told,
    kept_options,
    limited,
    shares,
    signals_in,
    unread_value,
)

if TYPE_CHECKING:
    from ontarget.monitor.monitor import GoalMonitor

require("gymnasium", extra="gym")
import gymnasium  # noqa: E402 - the line above says what to install
import gymnasium.vector  # noqa: E402 - the line above says what to install
from gymnasium.utils import RecordConstructorArgs  # noqa: E402 - as above

# The behavior after a step, read from the step's observation and info.
BehaviorValue: TypeAlias = Callable[[Any, dict[str, Any]], float]


class _Recording:
    """What a recorded environment has, whether it is one or a vector."""

    _recorder: Recorder

    @property
    def recorder(self) -> Recorder:
        """The object that collects the runs."""
        return self._recorder

    def episodes(
        self,
        *,
        behavior: JudgedBy = "sum",
        censored: Censored = "refuse",
        label: str = "",
    ) -> Episodes:
        """The recorded runs so far, in the order in which they began.

        Runs that somebody took over are left out, and `Episodes.remarks` says so, because the other
        runs are then a selection. With ``censored="worst-case"`` or ``"drop"``, runs that were
        taken over count as cut off.

        Parameters
        ----------
        behavior, censored
            As for `Episodes.from_arrays`.
        label
            A text to put before each run's number in its id, so that ids of several recordings
            differ.
        """
        return self._recorder.episodes(behavior=behavior, censored=censored, label=label)


class RecordEpisodes(gymnasium.Wrapper[Any, Any, Any, Any], RecordConstructorArgs, _Recording):
    """An environment that records its runs; `episodes` returns them.

    Observations, rewards and infos pass through unchanged. A run that is still going on is left
    out. A run that was reset before its end counts as cut off.

    Parameters
    ----------
    env
        The environment to record.
    horizon
        The number of steps after which a run is complete; by default the environment's time
        limit, and without one the longest run.
    max_steps
        The number of steps after which a run counts as cut off, for environments whose runs may
        never end.
    features
        Names for the numbers in an observation; ``x0, x1, …`` by default.
    categorical
        Features whose numbers stand for categories, such as a type. Numbers of ``Discrete`` spaces
        always do.
    behavior_value
        For a behavior that is not computed from rewards: a function that returns the behavior's
        value after each step, from the observation and ``info``.
    signals
        Keys of ``info`` to record at each step besides the reward, for behaviors that are computed
        from them.

    Examples
    --------
    >>> env = RecordEpisodes(gymnasium.make("CartPole-v1"))
    >>> for episode in range(3):
    ...     observation, info = env.reset(seed=episode)
    ...     over = False
    ...     while not over:
    ...         action = int(observation[2] > 0.0)
    ...         observation, reward, terminated, truncated, info = env.step(action)
    ...         over = terminated or truncated
    >>> episodes = env.episodes()
    >>> len(episodes), episodes.horizon, episodes.schema.names
    (3, 500, ('x0', 'x1', 'x2', 'x3'))
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        *,
        behavior_value: BehaviorValue | None = None,
        signals: Sequence[str] = (),
        **options: Unpack[RecorderOptions],
    ) -> None:
        RecordConstructorArgs.__init__(
            self,
            _disable_deepcopy=True,  # what a callback holds is not ours to copy
            behavior_value=behavior_value,
            signals=tuple(signals),
            **kept_options(options),
        )
        gymnasium.Wrapper.__init__(self, env)
        self._recorder = Recorder(layout_of(env.observation_space), **limited(options, env))
        self._behavior_value = behavior_value
        self._signals = tuple(signals)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """The first observation of a new run."""
        observation, info = self.env.reset(seed=seed, options=options)
        self._recorder.begin(0, self._recorder.layout.row(observation))
        return observation, info

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """What the environment's own ``step`` returns; the step is recorded."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        if self._recorder.in_progress(0):
            read = self._behavior_value
            self._recorder.step(
                0,
                self._recorder.layout.row(observation),
                float(reward),
                terminated=bool(terminated),
                truncated=bool(truncated),
                value=None if read is None else read(observation, info),
                signals=signals_in(info, self._signals),
            )
        return observation, reward, terminated, truncated, info

    def intervene(self) -> None:
        """Note that somebody takes the run over now; the run is recorded up to here."""
        self._recorder.intervene(0)
        tell_inside(self.env)

    @property
    def recording(self) -> bool:
        """Whether a run is being recorded."""
        return self._recorder.in_progress(0)


def record(
    env: Any,
    policy: Any,
    episodes: int = 1000,
    *,
    seed: int | None = 0,
    like: GoalMonitor | Episodes | None = None,
    behavior: JudgedBy | None = None,
    behavior_value: BehaviorValue | None = None,
    censored: Censored = "refuse",
    progress: bool = True,
    **options: Unpack[RecorderOptions],
) -> Episodes:
    """Play a fixed policy in an environment and return the recorded episodes.

    The id of a run is ``SEED-NUMBER``, such as ``0-17``; without a seed, its number alone.

    Parameters
    ----------
    env
        A Gymnasium environment; or a vector of them, Gymnasium's or Stable-Baselines3's
        ``VecEnv``, which is played side by side. Behind ``VecNormalize`` the policy sees what it
        was trained on, and the original observations and rewards are recorded.
    policy
        A function from observation to action, or a model with Stable-Baselines3's ``predict``; for
        a vector of environments, from a batch of observations to a batch of actions. If a function
        has a ``reset`` method, it is called at the start of each run.
    episodes
        How many episodes to record. Each environment of a vector plays an equal share of them to
        the end, because stopping as soon as enough runs are over would favour short runs.
    seed
        The seed of the environment, and the first part of every run's id. Run i depends only on
        this seed, on i and on the policy, whose own random numbers you must seed yourself. Use
        another seed for each recording. None leaves the environment's random state as it is.
    like
        A fitted monitor or earlier episodes. Features, categorical, behavior and a declared horizon
        are taken from there, unless you pass others, so that both recordings can be compared.
    behavior, censored
        As for `Episodes.from_arrays`; the behavior is the sum of rewards by default. A signal that
        a named behavior reads, as in ``{"used": "sum:energy"}``, is taken from the ``info`` of each
        step.
    behavior_value
        As for `RecordEpisodes`.
    progress
        Whether to show a progress bar.
    **options
        ``horizon``, ``max_steps``, ``features`` and ``categorical``, as for `RecordEpisodes`. A run
        is stopped at the horizon. If the environment has no time limit and you pass neither
        horizon nor max_steps, a `HorizonWarning` says so.

    Examples
    --------
    >>> import gymnasium
    >>> env = gymnasium.make("CartPole-v1")
    >>> episodes = record(env, lambda seen: int(seen[2] > 0.0), episodes=20, progress=False)
    >>> len(episodes), bool((episodes.outcomes == episodes.lengths).all())
    (20, True)
    """
    single, sb3 = isinstance(env, gymnasium.Env), is_vec_env(env)
    if not (single or sb3 or isinstance(env, gymnasium.vector.VectorEnv)):
        raise InputError(
            Argument("env"),
            " needs a Gymnasium environment, or a vector of them, as gymnasium.make and "
            "gymnasium.make_vec return them, or a VecEnv of Stable-Baselines3, got "
            f"{type(env).__name__}",
        )
    count = whole_number("episodes", episodes, least=1)
    actor = actor_of(policy)
    if like is not None:
        options = _taken_from(like) | options
        behavior = (like.readings or like.behavior) if behavior is None else behavior
    judged: JudgedBy = "sum" if behavior is None else behavior
    if behavior_value is not None and single and not is_told(judged):
        raise unread_value(judged)
    told = limited(options, env)
    if told.get("horizon") is None and told.get("max_steps") is None:
        warn_of_no_limit(stacklevel=2)
    recorder: Recorder
    if single:
        signals = _signals_of(judged) if behavior_value is None else ()
        one = RecordEpisodes(env, behavior_value=behavior_value, signals=signals, **told)
        _play(one, actor, count, seed=seed, progress=progress)
        recorder = one.recorder
    else:
        signals = _signals_of(judged)
        if behavior_value is not None:
            raise InputError(
                Argument("behavior_value"),
                " needs a single environment, got a vector; for a vector, read a "
                "key of its infos: behavior={'NAME': 'last:KEY'}",
            )
        if sb3 and signals:
            raise InputError(
                "a signal in info needs a single environment or a vector of Gymnasium's, got a "
                "VecEnv"
            )
        play = play_vec_env if sb3 else partial(play_vector, signals=signals)
        recorder = play(env, actor, count, seed=seed, progress=progress, **told)
    label = "" if seed is None else f"{seed}-"
    return recorder.episodes(behavior=judged, censored=censored, label=label)


def _taken_from(like: GoalMonitor | Episodes) -> RecorderOptions:
    """The options that a recording takes from the monitor or the earlier episodes ``like``."""
    schema = like.schema
    return {
        "horizon": like.horizon if like.horizon_declared else None,
        "features": schema.names,
        "categorical": [schema.names[j] for j in schema.categorical],
    }


def _signals_of(behavior: JudgedBy) -> tuple[str, ...]:
    """The keys of ``info`` that the behaviors are computed from."""
    judged = Judged.of(behavior, ())
    if judged.several:
        return judged.columns
    if judged.first.signal is not None:
        # A monitor keeps the signals of named behaviors only; a live environment would be asked
        # about its rewards instead.
        raise InputError(
            f"a behavior that reads a key of info needs a name, got {behavior!r}; pass "
            f"behavior={{'NAME': {behavior!r}}}"
        )
    return ()


def _play(
    recorder: RecordEpisodes, actor: Actor, count: int, *, seed: int | None, progress: bool
) -> None:
    start = np.ones(1, dtype=np.bool_)
    with progress_bar("recording", count, unit="episodes", shown=progress) as reached:
        for i in range(count):
            observation, _ = recorder.reset(seed=run_seed(seed, i))
            actor.begin(start)
            while recorder.recording:
                observation, *_ = recorder.step(actor(observation))
            reached(i + 1)


def run_seed(seed: int | None, *numbers: int) -> int | None:
    """The seed of one run, computed from the recording's seed and the number of the run."""
    if seed is None:
        return None
    entropy = np.random.SeedSequence([whole_number("seed", seed, least=0), *numbers])
    return int(entropy.generate_state(1)[0] >> 1)


# VectorWrapper takes no parameters before gymnasium 1.4.
class RecordVectorEpisodes(gymnasium.vector.VectorWrapper, RecordConstructorArgs, _Recording):
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
        """Note that somebody takes over the runs of these environments, given by their numbers."""
        chosen = list(environments)
        for i in chosen:
            self._recorder.intervene(i)
        tell_inside(self.env, chosen)

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


def is_vec_env(env: Any) -> bool:
    """Whether this is a ``VecEnv`` of Stable-Baselines3, judged by its methods."""
    return all(callable(getattr(env, name, None)) for name in ("step_async", "step_wait", "seed"))


def play_vec_env(
    env: Any,
    actor: Actor,
    count: int,
    *,
    seed: int | None,
    progress: bool,
    **options: Unpack[RecorderOptions],
) -> Recorder:
    """Play each environment's share of runs in a ``VecEnv``; returns the recorder."""
    n = env.num_envs
    left, began = shares(count, n), np.ones(n, dtype=np.bool_)
    normalizer = env if hasattr(env, "get_original_obs") else None
    space = env.observation_space if normalizer is None else env.venv.observation_space
    recorder = Recorder(layout_of(space), slots=n, **options)

    def begin(mask: BoolArray, seen: Any) -> None:
        """Begin runs where the mask is true, if the environment has not played its share yet."""
        states = recorder.layout.rows(seen if normalizer is None else env.get_original_obs(), n)
        for i in np.flatnonzero(mask & (left > 0)).tolist():
            left[i] -= 1
            recorder.begin(i, states[i])
        actor.begin(mask)

    if seed is not None:
        env.seed(seed)
    seen = env.reset()
    begin(began, seen)
    with progress_bar("recording", count, unit="episodes", shown=progress) as reached:
        while left.any() or any(recorder.in_progress(i) for i in range(n)):
            seen, rewards, dones, infos = env.step(actor(seen))
            earned = rewards if normalizer is None else env.get_original_reward()
            states = recorder.layout.rows(seen if normalizer is None else env.get_original_obs(), n)
            for i in range(n):
                recorder.step(
                    i,
                    states[i],  # where a run ended that of the next run, which nobody reads
                    float(earned[i]),
                    terminated=bool(dones[i]) and not infos[i].get("TimeLimit.truncated", False),
                    truncated=bool(dones[i]),
                )
            if left.any() and not any(recorder.in_progress(i) for i in range(n)) and not any(dones):
                # Every run reached the horizon in environments that would go on.
                seen, dones = env.reset(), np.ones(n, dtype=np.bool_)
            if np.any(dones):
                begin(np.asarray(dones, dtype=np.bool_), seen)
            reached(len(recorder))
    return recorder
