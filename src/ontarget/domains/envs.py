"""The two domains as Gymnasium environments, which importing this module registers.

They are ``ontarget/Tamarisk-v0``, in which you choose the crew's actions, and
``ontarget/Skirmish-v0``, in which you give blue's orders. Gymnasium has no plugin entry points, so
this is the one module whose import has an effect. Gymnasium imports this module by itself when it
is part of the name: ``gymnasium.make("ontarget.domains.envs:ontarget/Tamarisk-v0")``.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ontarget._package import require
from ontarget._typing import FloatArray
from ontarget.domains._skirmish_kernels import HEALTH
from ontarget.domains.domain import take
from ontarget.domains.draws import episode_keys
from ontarget.domains.skirmish import FIELD, Battle, Order, Skirmish
from ontarget.domains.tamarisk import ACTIONS, EDGE_STATES, Rivers, Tamarisk, TamariskParameters
from ontarget.errors import Argument, InputError

_registration = require("gymnasium.envs.registration", extra="gym")

import gymnasium  # noqa: E402 - the line above says what to install
from gymnasium.spaces import Box, Discrete, MultiDiscrete  # noqa: E402 - as above

ENVIRONMENTS: Final = {
    "ontarget/Tamarisk-v0": "ontarget.domains.envs:TamariskEnv",
    "ontarget/Skirmish-v0": "ontarget.domains.envs:SkirmishEnv",
}
Codes = NDArray[np.int64]


def _keys(env: Any, seed: int | None, options: dict[str, Any], known: tuple[str, ...]) -> Any:
    """The key of a new episode: that of a simulated one if the options name it, or a random one."""
    unknown = sorted(set(options) - set(known))
    if unknown:
        names = " and ".join(map(repr, known))
        raise InputError(Argument("options"), f" takes only {names}, got {unknown[0]!r}")
    if "episode" not in options:
        return env.np_random.integers(2**64, size=1, dtype=np.uint64)
    if seed is None:
        raise InputError(Argument("options"), " with 'episode' needs `seed` too, got seed=None")
    number = int(options["episode"])
    return episode_keys(seed, number, number + 1, "simulate", env.domain.name)


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
        """The first observation of a new episode."""
        super().reset(seed=seed)
        self._begin(_keys(self, seed, options or {}, ("episode",)))
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


class TamariskEnv(gymnasium.Env[Codes, Codes]):
    """A river to keep free of tamarisk, registered as ``ontarget/Tamarisk-v0``.

    An observation holds a code for each edge (0 native, 1 empty, 2 tamarisk), and an action one
    code per edge (0 nothing, 1 eradicate, 2 restore, 3 eradicate-and-restore). If an action is
    illegal, or all together exceed the budget, the reward is the penalty and the river does not
    change. An episode is truncated at the horizon and never ends earlier.

    ``info`` holds ``legal`` (whether all actions were legal and within the budget), ``spent``
    (their cost) and ``action_mask``, of shape (edges, 4): the actions that are legal at each edge
    now.

    Parameters
    ----------
    parameters
        The name of a preset of `Tamarisk`, or parameters.

    Examples
    --------
    >>> import gymnasium, ontarget.domains.envs
    >>> env = gymnasium.make("ontarget/Tamarisk-v0")
    >>> observation, info = env.reset(seed=0)
    >>> observation, reward, terminated, truncated, info = env.step(env.unwrapped.policy())
    >>> info["legal"]
    True
    """

    def __init__(self, parameters: str | TamariskParameters = "paper") -> None:
        self.domain = Tamarisk(parameters)
        n_edges = self.domain.parameters.edges
        self.observation_space = MultiDiscrete([len(EDGE_STATES)] * n_edges)
        self.action_space = MultiDiscrete([len(ACTIONS)] * n_edges)
        self._river = Rivers(np.zeros((1, n_edges), dtype=np.int8))
        self._keys = episode_keys(0, 0, 1)
        self._t = -1

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Codes, dict[str, Any]]:
        """The first observation of a new episode."""
        super().reset(seed=seed)
        options = options or {}
        self._keys = _keys(self, seed, options, ("episode", "edges"))
        self._river = self.domain.start(self._keys)
        if "edges" in options:
            self._river = Rivers(self._checked("edges", options["edges"], len(EDGE_STATES))[None])
        self._t = 0
        return self._observation(), self._info(legal=True, spent=0.0)

    def step(self, action: Codes) -> tuple[Codes, float, bool, bool, dict[str, Any]]:
        """Advance by one step; returns observation, reward, terminated, truncated and info."""
        if not 0 <= self._t < self.domain.horizon:
            raise InputError("step needs an episode under way, call reset() first")
        actions = self._checked("action", action, len(ACTIONS))
        edges, tables = self._river.edges[0], self.domain.tables
        costs = tables.action_cost[edges, actions]
        spent = int(np.maximum(costs, 0).sum())
        legal = bool((costs >= 0).all()) and spent <= tables.budget
        reward = float(self.domain.apply(self._river, actions[None], self._t, self._keys)[0])
        self._t += 1
        info = self._info(legal=legal, spent=spent / tables.units)
        return self._observation(), reward, False, self._t == self.domain.horizon, info

    def policy(self) -> Codes:
        """The actions of the domain's fixed policy in the current state."""
        actions: Codes = self.domain.act(self._river)[0].astype(np.int64)
        return actions

    def state(self) -> Rivers:
        """A copy of the simulator's full state, for `true_probability`."""
        return take(self._river, np.arange(1))

    def _observation(self) -> Codes:
        codes: Codes = self._river.edges[0].astype(np.int64)
        return codes

    def _info(self, *, legal: bool, spent: float) -> dict[str, Any]:
        mask = self.domain.tables.action_cost[self._river.edges[0]] >= 0
        return {"legal": legal, "spent": spent, "action_mask": mask}

    def _checked(self, name: str, codes: Any, n_codes: int) -> NDArray[np.int8]:
        array = np.asarray(codes)
        n_edges = self.domain.parameters.edges
        valid = array.shape == (n_edges,) and array.dtype.kind in "iu"
        if not valid or array.min() < 0 or array.max() >= n_codes:
            raise InputError(
                Argument(name),
                f" needs {n_edges} whole numbers from 0 to {n_codes - 1}, one per edge; "
                f"got {codes!r}",
            )
        return array.astype(np.int8)


for _name, _entry_point in ENVIRONMENTS.items():
    _registration.register(id=_name, entry_point=_entry_point)
