"""The compiled rules against the same rules written slowly, in plain Python objects."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest

from ontarget._kernel import kernel
from ontarget._typing import FloatArray
from ontarget.domains import _skirmish_kernels as kernels
from ontarget.domains.domain import take
from ontarget.domains.draws import below, episode_keys, stream, uniform
from ontarget.domains.skirmish import FIELD, Battle, Order, Skirmish


@dataclass
class Marine:
    number: int
    side: str
    x: float
    y: float
    health: float
    cooldown: float
    target: Marine | None = None

    def to(self, other: Marine) -> float:
        # Products and plain left-to-right sums: `**` and `sum` may round otherwise.
        dx, dy = other.x - self.x, other.y - self.y
        return dx * dx + dy * dy

    def walk(self, point: tuple[float, float], length: float) -> None:
        dx, dy = point[0] - self.x, point[1] - self.y
        d = math.sqrt(dx * dx + dy * dy)
        if d > 0:
            share = min(length / d, 1.0)
            self.x, self.y = self.x + share * dx, self.y + share * dy


class SlowBattle:
    """One battle of the documented rules, with lists of objects and no arrays."""

    def __init__(self, battle: Battle, row: int, n_blue: int) -> None:
        self.marines = [
            Marine(i, "blue" if i < n_blue else "red", x, y, health, cooldown)
            for i, (x, y, health, cooldown) in enumerate(
                zip(
                    battle.x[row].tolist(),
                    battle.y[row].tolist(),
                    battle.health[row].tolist(),
                    battle.cooldown[row].tolist(),
                    strict=True,
                )
            )
        ]
        for marine, target in zip(self.marines, battle.target[row].tolist(), strict=True):
            marine.target = None if target < 0 else self.marines[target]

    def living(self, side: str | None = None) -> list[Marine]:
        return [m for m in self.marines if m.health > 0 and side in (None, m.side)]

    def centroid(self, side: str) -> tuple[float, float]:
        living = self.living(side)
        if not living:
            return 0.0, 0.0
        x, y = 0.0, 0.0
        for marine in living:
            x, y = x + marine.x, y + marine.y
        return x / len(living), y / len(living)

    def step(self, orders: dict[str, Order], key: np.uint64, t: int) -> int:
        before = len(self.living("red")) - len(self.living("blue"))
        goals = {"blue": self.centroid("red"), "red": self.centroid("blue")}
        self.stream, self.counter = np.uint64(stream(key, t)), 3
        for _ in range(8):
            if self.living("blue") and self.living("red"):
                order = self.living()
                for k in reversed(range(1, len(order))):
                    swap = below(self.stream, self.draw(), k + 1)
                    order[k], order[swap] = order[swap], order[k]
                for marine in order:
                    if marine.health > 0:
                        self.act(marine, orders[marine.side], goals[marine.side])
                self.push_apart()
            for marine in self.marines:
                marine.cooldown = max(marine.cooldown - 1, 0.0)
        return before - (len(self.living("red")) - len(self.living("blue")))

    def draw(self) -> int:
        self.counter += 1
        return self.counter - 1

    def act(self, marine: Marine, order: Order, goal: tuple[float, float]) -> None:
        if order == Order.RETREAT:
            marine.target = None
            marine.walk(goal, -0.140625)
            return
        if marine.target is None or marine.target.health <= 0 or marine.to(marine.target) > 6.25**2:
            enemies = self.living("red" if marine.side == "blue" else "blue")
            seen = [enemy for enemy in enemies if marine.to(enemy) <= 6.25**2]
            marine.target = min(seen, key=marine.to) if seen else None
        if marine.target is None:
            if order == Order.ATTACK:
                marine.walk(goal, 0.140625)
        elif marine.to(marine.target) > 5.75**2:
            marine.walk((marine.target.x, marine.target.y), 0.140625)
        elif marine.cooldown <= 0:
            marine.cooldown = 13.77 + (-1 + 3 * uniform(self.stream, self.draw()))
            marine.target.health = max(marine.target.health - 6, 0.0)

    def push_apart(self) -> None:
        living = self.living()
        pushes = {m.number: [0.0, 0.0] for m in living}
        for i, a in enumerate(living):
            for b in living[i + 1 :]:
                d = math.sqrt(a.to(b))
                if d < 0.75:
                    half = 0.375 - 0.5 * d
                    ux, uy = ((b.x - a.x) / d, (b.y - a.y) / d) if d > 0 else (1.0, 0.0)
                    for marine, sign in ((a, -1.0), (b, 1.0)):
                        pushes[marine.number][0] += sign * (half * ux)
                        pushes[marine.number][1] += sign * (half * uy)
        for m in living:
            m.x = min(max(m.x + pushes[m.number][0], 0.0), FIELD[0])
            m.y = min(max(m.y + pushes[m.number][1], 0.0), FIELD[1])

    def column(self, name: str) -> FloatArray:
        return np.array([getattr(m, name) for m in self.marines], dtype=np.float64)

    def targets(self) -> list[int]:
        return [-1 if m.target is None else m.target.number for m in self.marines]


def assert_same_bits(battle: Battle, row: int, slow: SlowBattle) -> None:
    for name in ("x", "y", "health", "cooldown"):
        np.testing.assert_array_equal(getattr(battle, name)[row], slow.column(name), name)
    assert battle.target[row].tolist() == slow.targets()


@pytest.mark.parametrize(
    ("scenario", "order"),
    [
        (Skirmish(), Order.ATTACK),
        (Skirmish(distance=0.5), Order.HOLD),
        (Skirmish(distance=6.0, red_attacks=True), Order.RETREAT),
        (Skirmish(blue=(0, 1), red=(0, 1), most_reinforcements=2, distance=8.0), Order.ATTACK),
    ],
    ids=["paper", "one heap", "pursuit", "tiny"],
)
def test_kernel_gives_the_slow_battles_bits(scenario: Skirmish, order: Order) -> None:
    keys = episode_keys(5, 0, 3)
    battle = scenario.start(keys)
    slow = [SlowBattle(battle, row, scenario.blue[1]) for row in range(3)]
    orders = {"blue": order, "red": Order.ATTACK if scenario.red_attacks else Order.HOLD}
    for t in range(scenario.horizon):
        if t == scenario.reinforcement_step:
            # Arrivals are checked on their own below; the slow battle takes them over.
            arrived = take(battle, np.arange(3))
            scenario._reinforce(arrived, keys)
            for row in range(3):
                first = scenario.blue[1] + scenario.red[1]
                for marine in slow[row].marines[first:]:
                    marine.x = float(arrived.x[row, marine.number])
                    marine.y = float(arrived.y[row, marine.number])
                    marine.health = float(arrived.health[row, marine.number])
        rewards = scenario.command(battle, t, keys, blue=order)
        for row in range(3):
            assert rewards[row] == slow[row].step(orders, keys[row], t)
            assert_same_bits(battle, row, slow[row])


def test_units_start_on_a_sunflower_without_overlap() -> None:
    keys = episode_keys(1, 0, 50)
    scenario = Skirmish(blue=(20, 20))
    battle = scenario.start(keys)
    for row in range(50):
        points = np.column_stack([battle.x[row, :20], battle.y[row, :20]])
        gaps = np.linalg.norm(points[:, None] - points[None, :], axis=-1) + np.eye(20)
        assert gaps.min() > 2 * kernels.RADIUS
        radii = np.linalg.norm(points - scenario.places[0], axis=1)
        np.testing.assert_allclose(radii, 0.5 * np.sqrt(np.arange(20) + 0.5))


def test_summary_agrees_with_plain_numpy() -> None:
    scenario, keys = Skirmish(distance=9.0), episode_keys(3, 0, 40)
    battle = scenario.start(keys)
    for t in range(30):
        scenario.step(battle, t, keys)
    n_blue = scenario.blue[1]
    features = scenario.observe(battle)
    assert (features[:, :2] == 0).any(), "some battles should be over"
    for row, (x, y, health) in enumerate(zip(battle.x, battle.y, battle.health, strict=True)):
        blue, red = np.flatnonzero(health[:n_blue]), n_blue + np.flatnonzero(health[n_blue:])
        centres = [
            np.array([x[side].mean(), y[side].mean()]) if side.size else place
            for side, place in zip((blue, red), scenario.places, strict=True)
        ]
        expected = [
            blue.size,
            red.size,
            health[blue].sum(),
            health[red].sum(),
            np.linalg.norm(centres[1] - centres[0]),
            battle.reinforcements[row] > 0,
        ]
        np.testing.assert_allclose(features[row], expected, rtol=1e-12)


@kernel
def push_two_apart(
    x: np.ndarray, y: np.ndarray, order: np.ndarray, room: np.ndarray, field: np.ndarray
) -> None:
    kernels._push_apart(x, y, order, 2, room, field)


def test_coincident_units_are_pushed_apart_to_touch() -> None:
    x, y = np.array([3.0, 3.0]), np.array([5.0, 5.0])
    push_two_apart(x, y, np.arange(2), np.empty((2, 2)), np.array(FIELD))
    assert x.tolist() == [2.625, 3.375]
    assert y.tolist() == [5.0, 5.0]
