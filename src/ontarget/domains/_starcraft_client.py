"""The connection to StarCraft II, by the library burnysc2.

Failures of the library's client become a `GameError`.
"""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple

from ontarget._package import require
from ontarget.errors import GameError

require("sc2", extra="starcraft")

import aiohttp  # noqa: E402 - the line above says what to install
from google.protobuf.message import DecodeError  # noqa: E402 - as above
from s2clientprotocol import raw_pb2, sc2api_pb2  # noqa: E402 - as above
from sc2.client import Client  # noqa: E402 - as above
from sc2.controller import Controller  # noqa: E402 - as above
from sc2.data import ActionResult, Difficulty, Race  # noqa: E402 - as above
from sc2.data import race_townhalls as town_halls  # noqa: E402 - as above
from sc2.ids.ability_id import AbilityId  # noqa: E402 - as above
from sc2.ids.unit_typeid import UnitTypeId  # noqa: E402 - as above
from sc2.maps import Map  # noqa: E402 - as above
from sc2.player import Bot, Computer  # noqa: E402 - as above
from sc2.position import Point2  # noqa: E402 - as above
from sc2.protocol import ConnectionAlreadyClosedError, ProtocolError  # noqa: E402 - as above
from sc2.sc2process import SC2Process  # noqa: E402 - as above

_TOWN_HALLS = frozenset(kind.value for kind in town_halls[Race.Terran])
# A game that starts listens before it answers; this many tries, a second apart.
_TRIES_TO_CONNECT = 60
# New units are there one or two loops after they were asked for.
_LOOPS_TO_APPEAR = 8


class Marine(NamedTuple):
    """A living Marine as the game shows it."""

    tag: int
    owner: int
    x: float
    y: float
    health: float


class _Checked:
    """A mixin for classes of the library burnysc2: failed requests raise a `GameError`."""

    async def _execute(self, **request: Any) -> Any:
        (name,) = request
        try:
            response = await super()._execute(**request)  # type: ignore[misc]  # of the next class
        except ConnectionAlreadyClosedError as error:
            raise GameError(f"the game closed the connection during {name!r}") from error
        except ProtocolError as error:
            raise GameError(f"the game refused {name!r}: {error}") from error
        except TimeoutError as error:
            raise GameError(f"the game gave no answer to {name!r} in time") from error
        except (aiohttp.ClientError, OSError) as error:
            raise GameError(f"the connection failed during {name!r}: {error}") from error
        except (DecodeError, ValueError) as error:
            raise GameError(f"the game's answer to {name!r} cannot be read: {error}") from error
        answer = getattr(response, name)
        if not response.HasField(name):
            raise GameError(f"the game answered {name!r} with something else")
        # Some answers carry an error of their own, which burnysc2 does not look at.
        if "error" in answer.DESCRIPTOR.fields_by_name and answer.HasField("error"):
            reason = answer.DESCRIPTOR.enum_types_by_name["Error"].values_by_number[answer.error]
            details = f" ({answer.error_details})" if answer.error_details else ""
            raise GameError(f"the game refused {name!r}: {reason.name}{details}")
        return response


class _Controller(_Checked, Controller):  # type: ignore[misc]  # one _execute for all overloads
    pass


class _Client(_Checked, Client):  # type: ignore[misc]  # as above
    async def command(
        self, ability: AbilityId, tags: Iterable[int], target: Point2 | None = None
    ) -> None:
        """Give these units an order; if the game refuses it, raise an error."""
        order = raw_pb2.ActionRawUnitCommand(ability_id=ability.value, unit_tags=sorted(tags))
        if target is not None:
            order.target_world_space_pos.x, order.target_world_space_pos.y = target
        action = sc2api_pb2.Action(action_raw=raw_pb2.ActionRaw(unit_command=order))
        response = await self._execute(action=sc2api_pb2.RequestAction(actions=[action]))
        for result in response.action.result:
            if result != ActionResult.Success.value:
                raise GameError(f"the game refused an order: {ActionResult(result).name}")


class _Process(SC2Process):
    async def _connect(self) -> aiohttp.ClientWebSocketResponse:
        """A connection to the game."""
        for _ in range(_TRIES_TO_CONNECT):
            try:
                return await super()._connect()
            except aiohttp.WSServerHandshakeError as error:
                await self._close_connection()
                if error.status != HTTPStatus.NOT_FOUND:
                    raise
        raise TimeoutError


class Table:
    """A running game of StarCraft II, in which battles are fought one after the other."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._controller = _Controller(socket, None)  # type: ignore[arg-type]  # only for `running`
        self._client = _Client(socket)
        self.blue = self.red = 0

    async def begin(self, map_path: str, random_seed: int) -> Point2:
        """Create and join a game against a computer that does nothing; returns the map's centre."""
        await self._client.ping()  # type: ignore[no-untyped-call]  # burnysc2 left it so
        players = [
            Bot(Race.Terran, None),  # type: ignore[arg-type]  # only its kind is sent
            Computer(Race.Terran, Difficulty.VeryEasy),
        ]
        await self._controller.create_game(
            Map(Path(map_path)), players, realtime=False, random_seed=random_seed, disable_fog=True
        )
        self.blue = int(await self._client.join_game(name="ontarget", race=Race.Terran))
        self.red = 3 - self.blue
        # So that red, too, can be told to attack.
        await self._client.debug_control_enemy()
        area = (await self._client.get_game_info()).playable_area
        return Point2((area.x + area.width / 2.0, area.y + area.height / 2.0))

    async def clear(self) -> None:
        """Remove every unit except the town halls, without which the game would end."""
        doomed = [
            unit.tag
            for unit in (await self._observe()).observation.raw_data.units
            if unit.owner in (self.blue, self.red) and unit.unit_type not in _TOWN_HALLS
        ]
        if doomed:
            await self._client.debug_kill_unit(doomed)
            await self.step(1)

    async def create(self, marines: Iterable[tuple[int, Point2, int]]) -> None:
        """Ask the game for Marines, each as (number, place, owner)."""
        wanted = [(UnitTypeId.MARINE, n, place, owner) for n, place, owner in marines if n > 0]
        if wanted:
            await self._client.debug_create_unit(wanted)  # type: ignore[arg-type]  # owner is 1 or 2

    async def appeared(self, blue: int, red: int) -> list[Marine]:
        """Wait until this many blue and red Marines have appeared; returns all Marines."""
        for _ in range(_LOOPS_TO_APPEAR):
            marines = await self.marines()
            n_blue = sum(marine.owner == self.blue for marine in marines)
            if (n_blue, len(marines) - n_blue) == (blue, red):
                return marines
            await self.step(1)
        raise GameError(
            f"asked the game for {blue} blue and {red} red Marines, it shows {n_blue} and "
            f"{len(marines) - n_blue}; is there room for them around the middle of the map?"
        )

    async def marines(self) -> list[Marine]:
        """The living Marines of both sides."""
        raw = (await self._observe()).observation.raw_data
        dead = set(raw.event.dead_units)
        return [
            Marine(unit.tag, unit.owner, unit.pos.x, unit.pos.y, unit.health)
            for unit in raw.units
            if unit.unit_type == UnitTypeId.MARINE.value
            and unit.owner in (self.blue, self.red)
            and unit.health > 0.0
            and unit.tag not in dead
        ]

    async def attack(self, tags: Iterable[int], target: Point2) -> None:
        """Order the units with these tags to attack-move to the target."""
        await self._client.command(AbilityId.ATTACK, tags, target)

    async def stop(self, tags: Iterable[int]) -> None:
        """Order the units with these tags to stop."""
        await self._client.command(AbilityId.STOP, tags)

    async def step(self, loops: int) -> None:
        """Let the game run for this many game loops."""
        await self._client.step(loops)

    async def leave(self) -> None:
        """Leave the game; the game's program keeps running."""
        await self._client.leave()

    async def _observe(self) -> sc2api_pb2.ResponseObservation:
        # burnysc2 asserts that a game that is over has a result.
        try:
            response = (await self._client.observation()).observation
        except AssertionError as error:
            raise GameError("the game is over, and it does not say how") from error
        if response.player_result:
            raise GameError("the game ended by itself")
        observation: sc2api_pb2.ResponseObservation = response
        return observation


@asynccontextmanager
async def connected(address: str, timeout: float) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
    """A context with a connection to a game that already runs and listens at ``host:port``."""
    limits = aiohttp.ClientWSTimeout(ws_receive=timeout, ws_close=timeout)
    async with aiohttp.ClientSession() as session:
        try:
            socket = await session.ws_connect(f"ws://{address}/sc2api", timeout=limits)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise GameError(
                f"no game listens at {address}: {error}; start it with -listen and -port, or "
                "leave out the address to have an installed one started"
            ) from error
        try:
            yield socket
        finally:
            await socket.close()


@asynccontextmanager
async def launched() -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
    """A context that starts the installed game, connects to it, and ends it afterwards."""
    # burnysc2 replaces the handler of Ctrl-C and never puts the old one back.
    handler = signal.getsignal(signal.SIGINT)
    process = _Process()
    try:
        # It leaves by sys.exit where there is no game, and by ValueError in an empty folder.
        controller = await process.__aenter__()
    except (TimeoutError, SystemExit, aiohttp.ClientError, OSError, ValueError) as error:
        signal.signal(signal.SIGINT, handler)
        raise GameError(
            "StarCraft II was not found or did not start; install it, and set SC2PATH to its "
            "folder if that is not the default one"
        ) from error
    try:
        yield controller._ws
    finally:
        await process.__aexit__()
        signal.signal(signal.SIGINT, handler)
