"""`VectorGoalWrapper`: a vector environment whose ``infos`` have the answers about all runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias, Unpack

import numpy as np

from ontarget._package import require
from ontarget._typing import FloatArray
from ontarget.goal import Goal
from ontarget.integrations._autoreset import Autoreset
from ontarget.integrations._features import MonitorView
from ontarget.integrations._fleets import FleetOptions, FleetRuns
from ontarget.integrations._horizons import time_limit
from ontarget.integrations._infos import infos_of_rows
from ontarget.integrations._observations import layout_of
from ontarget.integrations._takeovers import tell_inside
from ontarget.live.outlook import Outlook
from ontarget.monitor.monitor import GoalMonitor
from ontarget.target import Target

require("gymnasium", extra="gym")

import gymnasium.vector  # noqa: E402 - the line above says what to install
from gymnasium.utils import RecordConstructorArgs  # noqa: E402 - as above

OnVectorAlarm: TypeAlias = Callable[[Outlook, "VectorGoalWrapper", int], object]


# VectorWrapper takes no parameters before gymnasium 1.4.
class VectorGoalWrapper(gymnasium.vector.VectorWrapper, RecordConstructorArgs):
    """A vector of environments whose ``infos["goal"]`` has the monitor's answers (`Outlooks`).

    Each environment gets the answers that its own `GoalWrapper` would give, in every autoreset
    mode. In SAME_STEP mode, ``infos["goal"]`` belongs to the observations: if a run has just ended,
    the answer is about the new run. The last answer about the old run is in
    ``infos["final_goal"]``, for the environments marked in ``infos["_final_goal"]``.

    Parameters
    ----------
    env
        The vector environment to watch.
    monitor
        A fitted monitor.
    target
        The outcomes that every run should end in; for a monitor of several behaviors a goal, whose
        signals are taken from ``infos``. By default the target named at the fit.
    on_alarm
        A function that is called with the answer (`Outlook`), this vector and the environment's
        number when an alarm is raised. It may call `intervene`.
    key
        The key of the monitor's answers in ``infos``.
    **fleet
        Options of `GoalMonitor.fleet`: ``alarm``, ``alarm_below``, ``false_alarm_rate``, …

    Examples
    --------
    >>> from ontarget import GoalMonitor, Target
    >>> from ontarget.integrations import record
    >>> envs = gymnasium.make_vec(
    ...     "CartPole-v1", num_envs=8, vectorization_mode="sync", max_episode_steps=60
    ... )
    >>> def policy(seen):
    ...     return (seen[:, 2] > 0.0).astype(int)
    >>> episodes = record(envs, policy, episodes=200, progress=False)
    >>> monitor = GoalMonitor().fit(episodes, progress=False)
    >>> watched = VectorGoalWrapper(envs, monitor, Target.at_least(40), alarm_below=0.5)
    >>> observations, infos = watched.reset(seed=1)
    >>> observations, *_, infos = watched.step(policy(observations))
    >>> bool(np.all((infos["goal"].p > 0.0) & (infos["goal"].p < 1.0)))
    True
    """

    def __init__(
        self,
        env: gymnasium.vector.VectorEnv[Any, Any, Any],
        monitor: GoalMonitor,
        target: Target | Goal | None = None,
        *,
        on_alarm: OnVectorAlarm | None = None,
        key: str = "goal",
        **fleet: Unpack[FleetOptions],
    ) -> None:
        # A monitor may be large and a callback may hold anything: a copy of neither is wanted.
        RecordConstructorArgs.__init__(
            self,
            _disable_deepcopy=True,
            monitor=monitor,
            target=target,
            on_alarm=on_alarm,
            key=key,
            **fleet,
        )
        gymnasium.vector.VectorWrapper.__init__(self, env)
        self._autoreset = Autoreset(env)
        self._view = MonitorView(layout_of(env.single_observation_space), monitor.schema)
        self._runs = FleetRuns(monitor, target, env.num_envs, limit=time_limit(env), **fleet)
        self._on_alarm = on_alarm
        self._key = key

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """The first observations of new runs, with the monitor's answers in ``infos``."""
        mask = self._autoreset.reset(options)
        observations, infos = self.env.reset(seed=seed, options=options)
        self._runs.begin(mask, self._states(observations))
        self._tell_alarms()
        return observations, {**infos, self._key: self._runs.outlook}

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """What the environments' own ``step`` returns, with the monitor's answers in ``infos``."""
        observations, rewards, terminated, truncated, infos = self.env.step(actions)
        rows = self._autoreset.step(terminated, truncated)
        states = self._states(observations)
        self._runs.step(
            rows.moved,
            states,
            np.asarray(rewards, dtype=np.float64),
            terminated=terminated,
            truncated=truncated,
            infos=infos_of_rows(infos, self._runs.signals, rows.ended & self._autoreset.same_step),
        )
        self._tell_alarms()
        told = dict(infos)
        if self._autoreset.same_step and rows.ended.any():
            told[f"final_{self._key}"] = self._runs.outlook
            told[f"_final_{self._key}"] = rows.ended
        self._runs.begin(rows.began, states)
        self._tell_alarms()
        told[self._key] = self._runs.outlook
        return observations, rewards, terminated, truncated, told

    def intervene(self, environments: Iterable[int]) -> None:
        """Note that somebody takes over the runs of these environments, given by their numbers.

        See `Watch.intervene` for what this means. Recorders inside this wrapper are told too.
        """
        chosen = list(environments)
        self._runs.intervene(chosen)
        tell_inside(self.env, chosen)

    def _states(self, observations: Any) -> FloatArray:
        return self._view.rows(observations, self.num_envs)

    def _tell_alarms(self) -> None:
        if self._on_alarm is None or not self._runs.raised.any():
            return
        outlook = self._runs.outlook
        for i in np.flatnonzero(self._runs.raised).tolist():
            self._on_alarm(outlook.of(i), self, i)
