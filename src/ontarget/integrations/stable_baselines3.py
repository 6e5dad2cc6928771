"""For Stable-Baselines3: a callback that logs the probability of success while a model learns.

Needs the extra ``sb3``: ``pip install 'ontarget[sb3]'``. To record a model, pass it to `record` as
the policy, with its environment or ``VecEnv``. If the model is stochastic, or the environment does
not normalise observations as in training, wrap the model in `ModelPolicy`.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from ontarget._package import require
from ontarget._typing import FloatArray
from ontarget.errors import MissingExtraError
from ontarget.goal import Goal
from ontarget.integrations.environments import MonitorView, layout_of, time_limit
from ontarget.integrations.fleets import FleetOptions, FleetRuns
from ontarget.live.outlook import Outlooks, Status
from ontarget.target import Target

if TYPE_CHECKING:
    from ontarget.monitor.monitor import GoalMonitor

# Without the package this module still imports; the callback says what to install when made.
_base: Any = object
with contextlib.suppress(MissingExtraError):
    _base = require("stable_baselines3.common.callbacks", extra="sb3").BaseCallback


class GoalCallback(_base):  # type: ignore[misc]  # its type is known only where it is installed
    """A callback that logs how likely the current episodes are to meet the target.

    ``goal/probability`` is the mean probability over the steps since the log was last written,
    ``goal/alarm`` the share of those steps in alarm, and ``goal/met`` the share of finished
    episodes that met the target. Observations and rewards are used as they were before
    ``VecNormalize``.

    Parameters
    ----------
    monitor
        A fitted monitor.
    target
        The outcomes that an episode should end in. By default the target named at the fit.
    verbose
        How much the callback prints, as for every callback of Stable-Baselines3.
    **fleet
        Options of `GoalMonitor.fleet`: ``alarm``, ``alarm_below``, ``false_alarm_rate``, …

    Notes
    -----
    The probability is calibrated for the recorded policy. While another policy learns, it says how
    likely *the recorded policy* would be to succeed from here. To get promises for the trained
    policy, record it and fit again.

    Examples
    --------
    ``model.learn(100_000, callback=GoalCallback(monitor, Target.at_least(450)))``
    """

    def __init__(
        self,
        monitor: GoalMonitor,
        target: Target | Goal | None = None,
        *,
        verbose: int = 0,
        **fleet: Unpack[FleetOptions],
    ) -> None:
        require("stable_baselines3", extra="sb3")
        super().__init__(verbose)
        self._monitor = monitor
        self._target = target
        self._options = fleet
        self._runs: FleetRuns | None = None
        self._view: MonitorView | None = None

    @property
    def outlook(self) -> Outlooks:
        """The monitor's latest answer about each environment's episode (`Outlooks`)."""
        return Outlooks.pending(0) if self._runs is None else self._runs.outlook

    def _on_training_start(self) -> None:
        env = self.training_env
        layout = layout_of(self._raw_space(env))
        self._view = MonitorView(layout, self._monitor.schema)
        self._runs = FleetRuns(
            self._monitor, self._target, env.num_envs, limit=time_limit(env), **self._options
        )
        # Training that goes on begins in the middle of episodes: of those nothing is known.
        begins = bool(self.locals.get("reset_num_timesteps", True))
        mask = np.full(env.num_envs, begins, dtype=np.bool_)
        self._runs.begin(mask, self._states(self.model._last_obs))

    def _on_step(self) -> bool:
        runs = self._runs
        assert runs is not None
        dones = np.asarray(self.locals["dones"], dtype=np.bool_)
        cut = [bool(info.get("TimeLimit.truncated", False)) for info in self.locals["infos"]]
        states = self._states(self.locals["new_obs"])
        truncated = dones & np.array(cut, dtype=np.bool_)
        runs.step(
            np.ones_like(dones),
            states,
            self._rewards(),
            terminated=dones & ~truncated,
            truncated=truncated,
            infos=self.locals["infos"],
        )
        ended = runs.outlook
        runs.begin(dones, states)
        now = runs.outlook
        if now.known.any():
            self.logger.record_mean("goal/probability", float(now.p[now.known].mean()))
            self.logger.record_mean("goal/alarm", float(now.alarm[now.known].mean()))
        for p in ended.p[dones & (ended.status == Status.DONE)]:
            self.logger.record_mean("goal/met", float(p))
        return True

    def _raw_space(self, env: Any) -> Any:
        normalizer = self.model.get_vec_normalize_env()
        return env.observation_space if normalizer is None else normalizer.venv.observation_space

    def _states(self, observations: Any) -> FloatArray:
        normalizer = self.model.get_vec_normalize_env()
        assert self._view is not None
        raw = observations if normalizer is None else normalizer.get_original_obs()
        return self._view.rows(raw, self.training_env.num_envs)

    def _rewards(self) -> FloatArray:
        normalizer = self.model.get_vec_normalize_env()
        rewards = self.locals["rewards"] if normalizer is None else normalizer.get_original_reward()
        return np.asarray(rewards, dtype=np.float64)
