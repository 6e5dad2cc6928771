"""The skirmish as a Gymnasium environment, in which you give blue's orders."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ontarget._extras import require
from ontarget._typing import FloatArray
from ontarget.domains.domain import take
from ontarget.domains.draws import episode_keys
from ontarget.domains.skirmish._kernels import HEALTH
from ontarget.domains.skirmish._simulator import FIELD, Battle, Order, Skirmish
from ontarget.errors import Argument, InputError

require("gymnasium", extra="gym")

import gymnasium  # noqa: E402 - the line above says what to install
from gymnasium.spaces import Box, Discrete  # noqa: E402 - as above


class SkirmishEnv(gymnasium.Env[FloatArray, np.int64]):
    """A battle in which you command blue, registered as ``ontarget/Skirmish-v0``.

    An observation holds the features of `Skirmish`. An action is blue's order for the step: 0 hold,
    1 attack-move toward red (the fixed policy), 2 retreat. An episode is truncated at the horizon.
    It never terminates, even if a side has no unit left. The battle is our own simulation, not
    StarCraft data.

    Parameters
    ----------
    scenario
        The battle's parameters; the paper's by default.

    Examples
    --------
    >>> import gymnasium, ontarget.domains.envs
    >>> env = gymnasium.make("ontarget/Skirmish-v0")
    >>> observation, info = env.reset(seed=0)
    >>> observation, reward, terminated, truncated, info = env.step(env.unwrapped.policy())
    >>> reward, terminated, truncated
    (0.0, False, False)
    """

    def __init__(self, scenario: Skirmish | None = None) -> None:
        self.domain = Skirmish() if scenario is None else scenario
        most_red = self.domain.red[1] + self.domain.most_reinforcements
        most = np.array([self.domain.blue[1], most_red], dtype=np.float64)
        high = np.concatenate([most, HEALTH * most, [np.hypot(*FIELD), 1.0]])
        self.observation_space = Box(np.zeros_like(high), high, dtype=np.float64)
        self.action_space = Discrete(len(Order))
        self._begin(episode_keys(0, 0, 1))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[FloatArray, dict[str, Any]]:
        """The first observation of a new episode.

        Parameters
        ----------
        options
            ``{"episode": i}`` with a seed replays episode i of ``simulate(domain, n, seed)``: under
            the fixed policy it is the same episode.
        """
        super().reset(seed=seed)
        options = options or {}
        unknown = set(options) - {"episode"}
        if unknown:
            raise InputError(
                Argument("options"), f" takes only 'episode', got {sorted(unknown)[0]!r}"
            )
        if "episode" in options:
            if seed is None:
                raise InputError(
                    Argument("options"), " with 'episode' needs `seed` too, got seed=None"
                )
            number = int(options["episode"])
            self._begin(episode_keys(seed, number, number + 1, "simulate", self.domain.name))
        else:
            self._begin(self.np_random.integers(2**64, size=1, dtype=np.uint64))
        return self._observation(), {}

    def step(self, action: np.int64 | int) -> tuple[FloatArray, float, bool, bool, dict[str, Any]]:
        """Advance by one step; returns observation, reward, terminated, truncated and info."""
        if not self.action_space.contains(action):
            raise InputError(
                Argument("action"), f" needs 0 (hold), 1 (attack) or 2 (retreat), got {action!r}"
            )
        order = Order(int(action))
        reward = self.domain.command(self._battle, self._t, self._keys, blue=order)
        self._t += 1
        truncated = self._t >= self.domain.horizon
        return self._observation(), float(reward[0]), False, truncated, {}

    def policy(self) -> int:
        """The order of the domain's fixed policy: attack."""
        return int(Order.ATTACK)

    def state(self) -> Battle:
        """A copy of the simulator's full state, for `true_probability`."""
        return take(self._battle, np.arange(1))

    def _begin(self, keys: NDArray[np.uint64]) -> None:
        self._keys, self._t = keys, 0
        self._battle = self.domain.start(keys)

    def _observation(self) -> FloatArray:
        features: FloatArray = self.domain.observe(self._battle)[0]
        return features
