"""Environments whose ``info`` has the monitor's answers: one environment, or a vector of them."""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable, Iterable
from typing import Any, SupportsFloat, TypeAlias, Unpack

import numpy as np

from ontarget._package import require
from ontarget._typing import FloatArray
from ontarget.client import Client
from ontarget.episodes.judged import Judged
from ontarget.errors import InputError, OntargetError
from ontarget.goal import Goal
from ontarget.integrations.environments import (
    Autoreset,
    MonitorView,
    gone_past,
    infos_of_rows,
    layout_of,
    tell_inside,
    time_limit,
    too_short,
    warn_of_limit,
)
from ontarget.integrations.fleets import FleetOptions, FleetRuns
from ontarget.integrations.recording import BehaviorValue
from ontarget.live.outlook import Outlook, Status
from ontarget.live.reasons import OVER
from ontarget.live.rules import AlarmOptions
from ontarget.live.watch import OnBad, Watch
from ontarget.monitor.monitor import GoalMonitor
from ontarget.target import Target

require("gymnasium", extra="gym")
import gymnasium  # noqa: E402 - the line above says what to install
import gymnasium.vector  # noqa: E402 - the line above says what to install
from gymnasium.utils import RecordConstructorArgs  # noqa: E402 - as above

OnAlarm: TypeAlias = Callable[[Outlook, "GoalWrapper"], object]


class WatchOptions(AlarmOptions, total=False):
    """The options of `GoalMonitor.watch`."""

    group: Any
    on_bad: OnBad


class GoalWrapper(gymnasium.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """An environment whose ``info["goal"]`` is the monitor's answer about the run (`Outlook`).

    The answer is there after ``reset`` and after each step. Observations, rewards and the flags
    ``terminated`` and ``truncated`` pass through unchanged. When a run terminates, its status is
    DONE and p is exactly 0 or 1. A run that is cut off before the monitor's horizon is UNKNOWN,
    because its outcome is unknown. A run that continues after the horizon is UNKNOWN too: at a
    declared horizon it has been judged already, and after an inferred horizon (the longest recorded
    run) nothing is known until the run ends. If the environment's time limit does not fit the
    monitor's horizon, a `HorizonWarning` says so when the wrapper is made.

    Parameters
    ----------
    env
        The environment to watch.
    monitor
        A fitted monitor.
    target
        The outcomes that a run should end in; for a monitor of several behaviors a goal, whose
        signals are taken from the ``info`` of each step. By default the target named at the fit.
    on_alarm
        A function that is called with the answer (`Outlook`) and this environment when an alarm is
        raised, and again only after the alarm has cleared. It may call `intervene`.
    behavior_value
        For a monitor whose behavior is not computed from rewards: a function that returns the
        behavior's value after each step, from the observation and ``info``.
    key
        The key of the monitor's answer in ``info``.
    client
        A client of ``ontarget serve``, to report every step to the service too. The answers in
        ``info`` still come from ``monitor``, so the environment does not depend on the service.
    agent
        The name of this environment in the service; several environments need different names.
    **watch
        Options of `GoalMonitor.watch`: ``alarm``, ``alarm_below``, ``false_alarm_rate``, …

    Examples
    --------
    >>> from ontarget import GoalMonitor, Target
    >>> from ontarget.integrations import record
    >>> env = gymnasium.make("CartPole-v1", max_episode_steps=60)
    >>> def policy(seen):
    ...     return int(seen[2] > 0.0)
    >>> episodes = record(env, policy, episodes=200, progress=False)
    >>> monitor = GoalMonitor().fit(episodes, progress=False)
    >>> watched = GoalWrapper(env, monitor, Target.at_least(40), alarm_below=0.5)
    >>> observation, info = watched.reset(seed=7)
    >>> over = False
    >>> while not over:
    ...     observation, reward, terminated, truncated, info = watched.step(policy(observation))
    ...     over = terminated or truncated
    >>> str(info["goal"].status), info["goal"].p in (0.0, 1.0)
    ('DONE', True)
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        monitor: GoalMonitor,
        target: Target | Goal | None = None,
        *,
        on_alarm: OnAlarm | None = None,
        behavior_value: BehaviorValue | None = None,
        key: str = "goal",
        client: Client | None = None,
        agent: str = "env",
        **watch: Unpack[WatchOptions],
    ) -> None:
        # A monitor may be large and a callback may hold anything: a copy of neither is wanted.
        RecordConstructorArgs.__init__(
            self,
            _disable_deepcopy=True,
            monitor=monitor,
            target=target,
            on_alarm=on_alarm,
            behavior_value=behavior_value,
            key=key,
            client=client,
            agent=agent,
            **watch,
        )
        gymnasium.Wrapper.__init__(self, env)
        fitted = monitor.contracts.fitted
        self._signals = Judged(monitor.readings).columns if monitor.readings else None
        if self._signals is None and fitted.behavior.told and behavior_value is None:
            raise InputError(
                f"this monitor's behavior {fitted.behavior.spec!r} is not computed from rewards; "
                "pass behavior_value, a function of the observation and info that returns its value"
            )
        self._view = MonitorView(layout_of(env.observation_space), fitted.schema)
        self._horizon, self._declared = fitted.horizon, fitted.horizon_declared
        limit = time_limit(env)
        self._too_short = too_short(limit, fitted.horizon)
        warn_of_limit(limit, fitted.horizon, declared=self._declared, stacklevel=2)
        self.watch: Watch = monitor.watch(target, **watch)
        self._on_alarm = on_alarm
        self._behavior_value = behavior_value
        self._key = key
        self._client, self._agent = client, agent
        self._run = ""  # each run's own name, of this process and moment
        self._t = 0
        self._over = True
        self._alarmed = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """The first observation of a new run, with the monitor's answer in ``info``."""
        observation, info = self.env.reset(seed=seed, options=options)
        self.watch.reset()
        self._run = uuid.uuid4().hex
        self._t, self._over, self._alarmed = 0, False, False
        return observation, self._told(info, self._look(observation, 0.0, None))

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """What the environment's own ``step`` returns, with the monitor's answer in ``info``."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._t += 1
        read = self._behavior_value
        behavior: Any = None if read is None else float(read(observation, info))
        brought = self._brought(float(reward), info)
        if self._over:
            outlook = unknown(self._t, OVER)
        elif self._declared and self._t > self._horizon:
            outlook = unknown(self._t, gone_past(self._horizon))
        elif terminated or (self._t == self._horizon and (self._declared or truncated)):
            outlook = self.watch.end(brought, behavior=behavior)
            self._report(None, float(reward), behavior)
        elif truncated:
            outlook = self.watch.end(brought, behavior=behavior, truncated=True)
        else:
            outlook = self._look(observation, brought, behavior)
        self._over = self._over or bool(terminated) or bool(truncated)
        return observation, reward, terminated, truncated, self._told(info, outlook)

    def intervene(self) -> Outlook:
        """Note that somebody, such as an operator or a safe policy, took the run over."""
        found = self.watch.intervene()
        tell_inside(self.env)
        return found

    def _brought(self, reward: float, info: dict[str, Any]) -> Any:
        """The reward; for several behaviors, a mapping with the reward and the signals by name."""
        if self._signals is None:
            return reward
        return {"reward": reward} | {name: info[name] for name in self._signals if name in info}

    def _look(self, observation: Any, reward: Any, behavior: Any) -> Outlook:
        try:
            row = self._view.row(observation)
        except OntargetError as error:
            # The watch still counts the step and its reward; a state of no features is bad.
            outlook = self.watch.step(np.empty(0), reward, behavior=behavior)
            self._report([], reward, behavior)
            since = f"{outlook.reason.partition('; ')[0]}; " if outlook.alarm else ""
            return outlook._replace(reason=f"{since}{error}")
        outlook = self.watch.step(row, reward, behavior=behavior)
        self._report(row, reward, behavior)
        return unknown(self._t, self._too_short) if self._too_short else outlook

    def _report(self, state: Any, reward: float, behavior: float | None) -> None:
        """Report this step, or the run's end, to the service."""
        if self._client is None:
            return
        more: dict[str, Any] = {} if behavior is None else {"behavior": behavior}
        if self.watch.intervened_at is not None:
            more["intervened"] = True
        agent, run, t = self._agent, self._run, self._t
        if state is None:
            self._client.end(agent, run, t, reward, **more)
        else:
            self._client.step(agent, run, t, state, reward, **more)

    def _told(self, info: dict[str, Any], outlook: Outlook) -> dict[str, Any]:
        # An alarm stays raised while nothing is known, so on_alarm is not called again afterwards.
        raised = outlook.alarm and not self._alarmed
        self._alarmed = outlook.alarm
        if raised and self._on_alarm is not None:
            self._on_alarm(outlook, self)
            if self.watch.intervened_at is not None:
                outlook = self.watch.peek()
        return {**info, self._key: outlook}


def unknown(t: int, reason: str) -> Outlook:
    """An answer about a run at step t with the status UNKNOWN and this reason."""
    nothing = math.nan
    return Outlook(
        t,
        nothing,
        (nothing, nothing),
        nothing,
        nothing,
        nothing,
        nothing,
        0,
        Status.UNKNOWN,
        reason,
    )


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
        """Note that somebody takes over the runs of these environments, given by their numbers."""
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
