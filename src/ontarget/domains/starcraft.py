"""Records battles in the real StarCraft II as episodes like those of the skirmish.

`StarcraftGame` plays the skirmish's scenario, one battle after the other. The game is not part of
this package and must be installed by the user. No result in this project comes from it: the adapter
is tested against a server that speaks the game's protocol.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np

from ontarget._arguments import whole_number
from ontarget._progress import progress_bar
from ontarget._typing import FloatArray
from ontarget.domains._starcraft_client import Marine, Table, connected, launched
from ontarget.domains.draws import episode_keys
from ontarget.domains.skirmish import FEATURES, LOOPS_PER_STEP, Skirmish, features_of
from ontarget.episodes import Episodes
from ontarget.errors import Argument, GameError, InputError

from loguru import logger  # isort: skip
from sc2.position import Point2  # isort: skip


T = TypeVar("T")


class Recording(NamedTuple):
    """One recorded battle: the features before each step, and each step's reward."""

    states: FloatArray
    rewards: FloatArray


class _Armies(NamedTuple):
    blue: int
    red: int
    reinforcements: int


class StarcraftGame:
    """A running StarCraft II that plays the scenario of a `Skirmish` with real Marines.

    Use it as a context manager. Entering it starts or finds the game and opens a map; leaving
    closes the game again. The numbers of units and reinforcements are drawn as in the simulator:
    episode i of a seed has the same numbers in both.

    Parameters
    ----------
    scenario
        Numbers of units, reinforcements, distance and horizon; the paper's by default.
    address
        ``host:port`` of a game that runs already; without it an installed game is started.
    map_path
        The map, relative to the game's folder of maps. It needs open, flat ground around its
        middle, and room for the scenario's distance.
    random_seed
        The seed of the game's own randomness.
    timeout
        Seconds to wait for an answer of the game, if ``address`` is given.

    Notes
    -----
    Blue is played through the interface and attack-moves toward red's centroid at each step of 8
    game loops; without a red unit on the map it waits. Red belongs to the game's weakest computer
    player, whose Marines follow the game's built-in logic. Both keep their town hall, without
    which the game would be over; other units are removed before each battle. Reinforcements are
    made at the beginning of their step, after its state was observed. Fog is off. A Marine that
    the game reports dead, or no longer shows, is lost.

    Examples
    --------
    With the game installed::

        with StarcraftGame() as game:
            game.record(100, seed=0).write("battles.parquet")
    """

    def __init__(
        self,
        scenario: Skirmish | None = None,
        *,
        address: str | None = None,
        map_path: str = "Melee/Flat64.SC2Map",
        random_seed: int = 0,
        timeout: float = 120.0,
    ) -> None:
        if not timeout > 0.0:
            raise InputError(
                Argument("timeout"), f" needs a number of seconds above 0, got {timeout}"
            )
        self.scenario = Skirmish() if scenario is None else scenario
        self._address, self._timeout = address, timeout
        self._map_path, self._random_seed = map_path, random_seed
        self._runner: asyncio.Runner | None = None

    def __enter__(self) -> Self:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass
        else:
            raise GameError(
                "StarcraftGame runs an event loop of its own and one is running here already; "
                "use it from another thread"
            )
        self._runner = asyncio.Runner()
        self._visit = self._visited()
        try:
            self._run(self._visit.__aenter__())
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            self._run(self._visit.__aexit__(kind, error, traceback))
        finally:
            self._close()

    def play(self, episodes: int, seed: int = 0) -> Iterator[Recording]:
        """Play battles one after the other, and yield each as soon as it is over."""
        whole_number("episodes", episodes, least=1)
        keys = episode_keys(seed, 0, episodes, "simulate", self.scenario.name)
        armies = np.column_stack(self.scenario.armies(keys)).tolist()
        for number, (blue, red, reinforcements) in enumerate(armies):
            yield self._run(self._battle(number, _Armies(blue, red, reinforcements)))

    def record(
        self,
        episodes: int,
        seed: int = 0,
        *,
        progress: bool = True,
    ) -> Episodes:
        """Recorded episodes of the game under the fixed policy, in the form of `simulate`."""
        recordings = []
        with progress_bar("playing", episodes, unit="episodes", shown=progress) as reached:
            for recording in self.play(episodes, seed):
                recordings.append(recording)
                reached(len(recordings))
        return Episodes.from_arrays(
            np.stack([recording.states for recording in recordings]),
            np.stack([recording.rewards for recording in recordings]),
            horizon=self.scenario.horizon,
            features=FEATURES,
        )

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        if self._runner is None:
            work.close()
            raise GameError("the game is not open; use it in a `with StarcraftGame() as game:`")
        with _quiet():
            return self._runner.run(work)

    def _close(self) -> None:
        if self._runner is not None:
            self._runner.close()
            self._runner = None

    @asynccontextmanager
    async def _visited(self) -> AsyncIterator[None]:
        """A context that opens the game and leaves it at the end."""
        there = launched() if self._address is None else connected(self._address, self._timeout)
        async with there as socket:
            self._table = Table(socket)
            centre = await self._table.begin(self._map_path, self._random_seed)
            # The simulator's start locations, moved to the middle of the map.
            shift = np.array(centre) - self.scenario.places.mean(axis=0)
            self._places = self.scenario.places + shift
            yield
            # The game may have ended by now; then there is nothing to leave.
            with suppress(GameError):
                await self._table.leave()

    async def _battle(self, number: int, armies: _Armies) -> Recording:
        scenario = self.scenario
        states, rewards = np.empty((scenario.horizon, len(FEATURES))), np.empty(scenario.horizon)
        where = f"episode {number}, before its first step"
        try:
            marines = await self._deploy(armies)
            arrived = 0
            for t in range(scenario.horizon):
                where = f"episode {number}, step {t}"
                states[t] = self._features(marines, arrived)
                joining = armies.reinforcements if t == scenario.reinforcement_step else 0
                arrived += joining
                seen = await self._step(marines, joining)
                rewards[t] = self._lead(marines) + joining - self._lead(seen)
                marines = seen
        except GameError as error:
            raise GameError(f"{where}: {error}") from error
        return Recording(states, rewards)

    async def _deploy(self, armies: _Armies) -> list[Marine]:
        """Put both sides at their start locations, with no other units; returns the Marines."""
        table, (blue, red) = self._table, (Point2(place) for place in self._places.tolist())
        await table.clear()
        await table.create([(armies.blue, blue, table.blue), (armies.red, red, table.red)])
        return await table.appeared(armies.blue, armies.red)

    async def _step(self, marines: list[Marine], joining: int) -> list[Marine]:
        """Play one step, in which ``joining`` Marines join red; returns all Marines still alive."""
        known = {marine.tag for marine in marines}
        await self._order(marines)
        left = LOOPS_PER_STEP
        if joining:
            place = Point2(self._places[1].tolist())
            await self._table.create([(joining, place, self._table.red)])
            new: set[int] = set()
            while left and len(new) != joining:
                await self._table.step(1)
                left -= 1
                new = {m.tag for m in await self._table.marines() if m.tag not in known}
            if len(new) != joining:
                raise GameError(f"asked the game for {joining} reinforcements, it made {len(new)}")
            known |= new
        if left:
            await self._table.step(left)
        return [marine for marine in await self._table.marines() if marine.tag in known]

    async def _order(self, marines: list[Marine]) -> None:
        """Give the orders of the fixed policy: attack-move toward the enemy's centroid, or stop."""
        table = self._table
        blue = [marine for marine in marines if marine.owner == table.blue]
        red = [marine for marine in marines if marine.owner == table.red]
        if blue and red:
            await table.attack([marine.tag for marine in blue], _centroid(red))
            if self.scenario.red_attacks:
                await table.attack([marine.tag for marine in red], _centroid(blue))
        elif marines:
            await table.stop([marine.tag for marine in marines])

    def _features(self, marines: list[Marine], arrived: int) -> FloatArray:
        ordered = sorted(marines, key=lambda marine: marine.owner != self._table.blue)
        columns = np.array([marine[2:] for marine in ordered]).reshape(-1, 3).T
        x, y, health = (np.ascontiguousarray(column)[None] for column in columns)
        row: FloatArray = features_of(
            x,
            y,
            health,
            n_blue=sum(marine.owner == self._table.blue for marine in marines),
            places=self._places,
            reinforcements=np.array([arrived]),
        )[0]
        return row

    def _lead(self, marines: list[Marine]) -> int:
        """The number of red Marines minus the number of blue ones."""
        return sum(1 if marine.owner == self._table.red else -1 for marine in marines)


def _centroid(marines: list[Marine]) -> Point2:
    n = len(marines)
    return Point2(
        (sum(marine.x for marine in marines) / n, sum(marine.y for marine in marines) / n)
    )


@contextmanager
def _quiet() -> Iterator[None]:
    """A context in which burnysc2 does not log every message that it sends."""
    logger.disable("sc2")
    try:
        yield
    finally:
        logger.enable("sc2")
