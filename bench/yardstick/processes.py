"""Small simulated processes on which models are studied, besides the paper's two domains.

Each process is a `Domain`: it simulates many episodes at once, and every random number depends only
on the episode and the step. Cart-pole and mountain car follow Gymnasium's equations, under simple
policies with random actions. A fallen pole or an arrived car stays as it is and earns nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import gammaincinv, ndtr, ndtri, stdtr

from ontarget import Target
from ontarget._typing import BoolArray, FloatArray, KeyArray
from ontarget.domains import uniforms

__all__ = [
    "CartPole",
    "DriftingWalk",
    "MountainCar",
    "Reservoir",
    "States",
    "Storm",
    "Walk",
]


@dataclass(frozen=True)
class States:
    """The full state of many episodes: one row each."""

    values: FloatArray


def _normals(keys: KeyArray, t: int, n: int) -> FloatArray:
    normals: FloatArray = ndtri(np.maximum(uniforms(keys, t, n), 2.0**-54))
    return normals


class _Process:
    """The common part of all processes. By default the features are the full state."""

    name: ClassVar[str]
    horizon: ClassVar[int]
    features: ClassVar[tuple[str, ...]]
    categorical: ClassVar[tuple[str, ...]] = ()

    def observe(self, state: States) -> FloatArray:
        """The features of each episode that are known before acting: one row per episode."""
        return state.values.copy()

    def over(self, state: States) -> BoolArray:
        """(episodes,): whether each episode has ended before the horizon."""
        return np.zeros(state.values.shape[0], dtype=np.bool_)


class Walk(_Process):
    """A walk on whole numbers whose drift follows the wind, which has three states.

    The wind is a Markov chain.
    """

    name = "walk"
    horizon = 30
    features = ("wind", "gust")
    categorical = ("wind",)
    # Chances of -1, 0 and +1 in each wind, and of the next wind.
    moves = np.array([[0.6, 0.3, 0.1], [0.2, 0.6, 0.2], [0.1, 0.2, 0.7]])
    winds = np.array([[0.9, 0.08, 0.02], [0.1, 0.8, 0.1], [0.02, 0.08, 0.9]])

    def start(self, keys: KeyArray) -> States:
        """The state at t = 0: the wind is random.

        The feature "gust" is noise, which a model should learn to ignore.
        """
        drawn = uniforms(keys, -1, 2)
        return States(np.stack([np.floor(3.0 * drawn[:, 0]), drawn[:, 1]], axis=1))

    def step(self, state: States, t: int, keys: KeyArray) -> FloatArray:
        """The rewards of step t, which are the moves. The wind in ``state`` is updated in place."""
        drawn = uniforms(keys, t, 3)
        wind = state.values[:, 0].astype(np.intp)
        move: FloatArray = (drawn[:, :1] > np.cumsum(self.moves, axis=1)[wind][:, :2]).sum(
            axis=1
        ) - 1.0
        turned = (drawn[:, 1:2] > np.cumsum(self.winds, axis=1)[wind][:, :2]).sum(axis=1)
        state.values[:, 0], state.values[:, 1] = turned, drawn[:, 2]
        return move

    def probability(
        self, state: States, behavior: FloatArray, t: int, target: Target, grid: float
    ) -> FloatArray:
        """The exact probability of the target from each state.

        It is computed by recursion over the remaining steps.
        """
        n = self.horizon
        chances = np.zeros((3, 2 * n + 1))  # by wind and remaining sum, from -n to n
        chances[:, n] = 1.0
        for _ in range(t, n):
            ahead = self.winds @ chances
            # Nothing reaches the ends of the array within the horizon, so rolling drops nothing.
            moved = [self.moves[:, [k]] * np.roll(ahead, k - 1, axis=1) for k in range(3)]
            chances = np.sum(moved, axis=0)
        outcomes = behavior[:, None] + np.arange(-n, n + 1.0)
        inside = target.contains(outcomes, grid)
        found: FloatArray = (chances[state.values[:, 0].astype(np.intp)] * inside).sum(axis=1)
        return found


class Reservoir(_Process):
    """Six coupled water levels that return to 0, with noise.

    Rewards are linear in the levels. Everything is Gaussian, so the true probability is known.
    Outcomes are continuous.
    """

    name = "reservoir"
    horizon = 40
    features = tuple(f"level_{k}" for k in range(6))
    pull, coupling, shake, noise = 0.93, 0.04, 0.35, 0.5
    gain = np.array([1.0, 0.8, -0.6, 0.4, 0.2, 0.0])

    def __init__(self) -> None:
        size = len(self.features)
        self.matrix = self.pull * np.eye(size) + self.coupling * np.eye(size, k=1)

    def start(self, keys: KeyArray) -> States:
        """The state at t = 0: random levels around 0."""
        return States(_normals(keys, -1, len(self.features)))

    def step(self, state: States, t: int, keys: KeyArray) -> FloatArray:
        """The rewards of step t: linear in the levels, plus noise.

        The levels are updated in place.
        """
        drawn = _normals(keys, t, len(self.features) + 1)
        earned: FloatArray = (state.values * self.gain).sum(axis=1) + self.noise * drawn[:, -1]
        moved = np.einsum("ij,kj->ik", state.values, self.matrix)
        state.values[:] = moved + self.shake * drawn[:, :-1]
        return earned

    def probability(
        self, state: States, behavior: FloatArray, t: int, target: Target, grid: float
    ) -> FloatArray:
        """The exact probability of the target from each state.

        What the run still earns is normally distributed, with a mean that is linear in the levels.
        """
        left = self.horizon - t
        # After k more steps the levels are matrix^k x; each shake is felt from the next step on.
        powers = [np.eye(len(self.features))]
        for _ in range(left):
            powers.append(self.matrix @ powers[-1])
        sums = np.cumsum([self.gain @ power for power in powers], axis=0)
        mean = behavior + state.values @ sums[left - 1]
        variance = left * self.noise**2
        variance += self.shake**2 * sum(float(sums[k] @ sums[k]) for k in range(left - 1))
        found = np.zeros(behavior.size)
        for part in target:
            found += ndtr((part.upper - mean) / np.sqrt(variance))
            found -= ndtr((part.lower - mean) / np.sqrt(variance))
        return found


class Storm(_Process):
    """Fair bets whose stakes follow the weather.

    So the state affects the spread of the outcome, not its mean.
    """

    name = "storm"
    horizon = 40
    features = ("weather", "calm", "noise_a", "noise_b")

    def start(self, keys: KeyArray) -> States:
        """The state at t = 0: random weather."""
        return States(_normals(keys, -1, 4))

    def step(self, state: States, t: int, keys: KeyArray) -> FloatArray:
        """The rewards of step t: bets whose stakes grow with the weather.

        The weather is updated in place.
        """
        drawn = _normals(keys, t, 5)
        values = state.values
        stakes = np.exp(0.8 * values[:, 0] - 0.4 * values[:, 1])
        values[:, :2] = 0.95 * values[:, :2] + 0.3 * drawn[:, :2]
        values[:, 2:] = drawn[:, 2:4]
        return np.round(stakes * drawn[:, 4], 2)


class DriftingWalk(_Process):
    """A walk with hidden drift and spread, drawn for each run; only the run's steps show them.

    The variance of a run's steps is drawn from an inverse gamma distribution, its drift from a
    normal distribution with a 25th of that variance. A monitor sees where the run is, and the mean
    and the mean square of its steps so far. The true probability is the one given these numbers,
    not given the hidden drift.
    """

    name = "drifting"
    horizon = 40
    features = ("position", "mean_step", "mean_square_step")
    shape, scale, steadiness = 4.0, 3.0, 25.0

    def start(self, keys: KeyArray) -> States:
        """The state at t = 0: a hidden drift and spread for each run; no steps yet."""
        drawn = uniforms(keys, -1, 2)
        spread = np.sqrt(self.scale / gammaincinv(self.shape, np.maximum(drawn[:, 0], 2.0**-54)))
        drift = spread / np.sqrt(self.steadiness) * ndtri(np.maximum(drawn[:, 1], 2.0**-54))
        nothing = np.zeros(keys.size)
        return States(np.stack([drift, spread, nothing, nothing, nothing], axis=1))

    def observe(self, state: States) -> FloatArray:
        """The position, and the mean and mean square of the steps so far, 0 before the first."""
        n, total, squares = state.values[:, 2:].T
        return np.stack([total, total / np.maximum(n, 1.0), squares / np.maximum(n, 1.0)], axis=1)

    def step(self, state: States, t: int, keys: KeyArray) -> FloatArray:
        """The rewards of step t, which are the steps of the walk.

        Their number and sums in ``state`` are updated in place.
        """
        drift, spread = state.values[:, :2].T
        moved: FloatArray = drift + spread * _normals(keys, t, 1)[:, 0]
        state.values[:, 2:] += np.stack([np.ones_like(moved), moved, moved**2], axis=1)
        return moved

    def probability(
        self, state: States, behavior: FloatArray, t: int, target: Target, grid: float
    ) -> FloatArray:
        """The exact probability of the target, given the steps so far.

        What the run still earns has a Student t distribution.
        """
        n, total, squares = state.values[:, 2:].T
        seen, left = self.steadiness + n, self.horizon - t
        shape = self.shape + n / 2.0
        scale = self.scale + (squares - total**2 / seen) / 2.0
        width = np.sqrt(scale / shape * (left + left**2 / seen))
        mean = behavior + left * total / seen
        found = np.zeros(behavior.size)
        for part in target:
            found += stdtr(2.0 * shape, (part.upper - mean) / width)
            found -= stdtr(2.0 * shape, (part.lower - mean) / width)
        return found


class CartPole(_Process):
    """Gymnasium's cart-pole, under a simple policy that acts at random half of the time."""

    name = "cartpole"
    horizon = 120
    features = ("position", "velocity", "angle", "angular_velocity")
    careless = 0.5

    def start(self, keys: KeyArray) -> States:
        """The state at t = 0, as in Gymnasium: every number within 0.05 of 0."""
        return States(0.1 * uniforms(keys, -1, 4) - 0.05)

    def step(self, state: States, t: int, keys: KeyArray) -> FloatArray:
        """The rewards: 1 for each cart whose pole is up at the beginning of the step.

        The carts in ``state`` are moved in place.
        """
        drawn = uniforms(keys, t, 2)
        values = state.values
        right = values[:, 2] + 0.3 * values[:, 3] > 0.0
        right = np.where(drawn[:, 0] < self.careless, drawn[:, 1] < 0.5, right)
        up = ~self.over(state)
        values[up] = self.move(values[up], right[up])
        return up.astype(np.float64)

    def over(self, state: States) -> BoolArray:
        """(episodes,): whether the pole has fallen, or the cart has left the track."""
        values = state.values
        fallen: BoolArray = (np.abs(values[:, 0]) > 2.4) | (np.abs(values[:, 2]) > np.pi / 15.0)
        return fallen

    @staticmethod
    def move(values: FloatArray, right: BoolArray) -> FloatArray:
        """The position and speed of cart and pole a fiftieth of a second later.

        ``right`` says whether the cart is pushed to the right or to the left.
        """
        x, speed, angle, turn = values.T
        cos, sin = np.cos(angle), np.sin(angle)
        push = np.where(right, 10.0, -10.0)
        pushed = (push + 0.05 * turn**2 * sin) / 1.1
        angular = (9.8 * sin - cos * pushed) / (0.5 * (4.0 / 3.0 - 0.1 * cos**2 / 1.1))
        linear = pushed - 0.05 * angular * cos / 1.1
        return np.stack(
            [x + 0.02 * speed, speed + 0.02 * linear, angle + 0.02 * turn, turn + 0.02 * angular],
            axis=1,
        )


class MountainCar(_Process):
    """Gymnasium's mountain car.

    Two thirds of the time it is pushed in the direction in which it rolls.
    """

    name = "mountaincar"
    horizon = 200
    features = ("position", "velocity")
    careless = 0.35

    def start(self, keys: KeyArray) -> States:
        """The state at t = 0, as in Gymnasium: at rest in the valley."""
        return States(np.stack([0.2 * uniforms(keys, -1, 1)[:, 0] - 0.6, np.zeros(keys.size)], 1))

    def step(self, state: States, t: int, keys: KeyArray) -> FloatArray:
        """The rewards: -1 for each car that is not at the goal at the beginning of the step.

        The cars in ``state`` are moved in place.
        """
        drawn = uniforms(keys, t, 2)
        push = np.where(state.values[:, 1] >= 0.0, 1.0, -1.0)
        push = np.where(drawn[:, 0] < self.careless, np.floor(3.0 * drawn[:, 1]) - 1.0, push)
        under_way = ~self.over(state)
        state.values[under_way] = self.move(state.values[under_way], push[under_way])
        return -under_way.astype(np.float64)

    def over(self, state: States) -> BoolArray:
        """(episodes,): whether the car is at the goal."""
        arrived: BoolArray = state.values[:, 0] >= 0.5
        return arrived

    @staticmethod
    def move(values: FloatArray, push: FloatArray) -> FloatArray:
        """The position and speed of the car one step later, pushed by -1, 0 or 1."""
        position, velocity = values.T
        velocity = np.clip(velocity + 0.001 * push - 0.0025 * np.cos(3.0 * position), -0.07, 0.07)
        position = np.clip(position + velocity, -1.2, 0.6)
        velocity = np.where((position == -1.2) & (velocity < 0.0), 0.0, velocity)
        return np.stack([position, velocity], axis=1)
