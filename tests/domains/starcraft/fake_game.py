"""A server that speaks StarCraft II's protocol and plays a tiny scripted battle.

It stands in for the game, which cannot be part of a test: requests and answers are the game's
protobuf messages over a websocket at /sc2api, the battle behind them is a toy. Run as a program it
takes the game's ``-port`` argument, and answers 404 at first, as the game does.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from aiohttp import WSMsgType, web
from s2clientprotocol import raw_pb2, sc2api_pb2

MARINE, SCV, COMMAND_CENTER, MINERALS = 48, 45, 18, 341
ATTACK, STOP = 3674, 3665
BLUE, RED, NEUTRAL = 1, 2, 16


@dataclass
class Unit:
    tag: int
    kind: int
    owner: int
    x: float
    y: float
    health: float = 45.0
    goal: tuple[float, float] | None = None


@dataclass
class FakeGame:
    """The toy battle: attackers walk to their goal; within 8 of each other, sides hit in turn.

    Every 8th loop the first living Marine of each side loses 15 points if the enemy is near, red's
    before blue's, so a battle is a matter of counting.
    """

    map_size: int = 64
    loops_to_appear: int = 1
    status: int = sc2api_pb2.launched
    loop: int = 0
    units: dict[int, Unit] = field(default_factory=dict)
    coming: list[tuple[int, Unit]] = field(default_factory=list)
    dead: list[int] = field(default_factory=list)
    seen: list[tuple[str, object]] = field(default_factory=list)
    last_tag: int = 100

    def answer(self, request: sc2api_pb2.Request) -> sc2api_pb2.Response:
        name = request.WhichOneof("request")
        body = getattr(request, name)
        self.seen.append((name, body))
        response = sc2api_pb2.Response()
        getattr(response, name).SetInParent()
        getattr(self, f"on_{name}")(body, getattr(response, name))
        response.status = self.status
        return response

    def names(self) -> list[str]:
        return [name for name, _ in self.seen]

    def count(self, owner: int) -> int:
        return len(self.living(owner))

    def living(self, owner: int) -> list[Unit]:
        return [u for u in self.units.values() if u.owner == owner and u.kind == MARINE]

    def add(self, kind: int, owner: int, x: float, y: float) -> Unit:
        self.last_tag += 1
        unit = Unit(self.last_tag, kind, owner, x, y)
        self.units[unit.tag] = unit
        return unit

    def on_ping(self, _: object, answer: sc2api_pb2.ResponsePing) -> None:
        answer.game_version = "toy"

    def on_create_game(self, _: object, __: object) -> None:
        self.status = sc2api_pb2.init_game
        for owner, x in ((BLUE, 8.0), (RED, 56.0)):
            self.add(COMMAND_CENTER, owner, x, 8.0)
            for k in range(12):
                self.add(SCV, owner, x + k / 4, 12.0)
        self.add(MINERALS, NEUTRAL, 4.0, 4.0)

    def on_join_game(self, _: object, answer: sc2api_pb2.ResponseJoinGame) -> None:
        self.status = sc2api_pb2.in_game
        answer.player_id = BLUE

    def on_game_info(self, _: object, answer: sc2api_pb2.ResponseGameInfo) -> None:
        raw, n = answer.start_raw, self.map_size
        raw.map_size.x = raw.map_size.y = n
        for grid, bits in (
            (raw.pathing_grid, 1),
            (raw.terrain_height, 8),
            (raw.placement_grid, 1),
        ):
            grid.bits_per_pixel, grid.size.x, grid.size.y = bits, n, n
            grid.data = b"\xff" * (n * n * bits // 8)
        raw.playable_area.p1.x = raw.playable_area.p1.y = n - 4

    def on_debug(self, request: sc2api_pb2.RequestDebug, _: object) -> None:
        for command in request.debug:
            if command.HasField("kill_unit"):
                for tag in command.kill_unit.tag:
                    self.die(self.units[tag])
            if command.HasField("create_unit"):
                asked = command.create_unit
                for k in range(asked.quantity):
                    self.last_tag += 1
                    place = (asked.pos.x + 0.75 * (k % 4), asked.pos.y + 0.75 * (k // 4))
                    unit = Unit(self.last_tag, asked.unit_type, asked.owner, *place)
                    self.coming.append((self.loop + self.loops_to_appear, unit))

    def on_action(
        self, request: sc2api_pb2.RequestAction, answer: sc2api_pb2.ResponseAction
    ) -> None:
        for action in request.actions:
            order = action.action_raw.unit_command
            assert order.ability_id in (ATTACK, STOP)
            goal = order.target_world_space_pos
            for tag in order.unit_tags:
                at = (goal.x, goal.y) if order.ability_id == ATTACK else None
                self.units[tag].goal = at
            answer.result.append(1)

    def on_step(self, request: sc2api_pb2.RequestStep, _: object) -> None:
        for _loop in range(request.count):
            self.loop += 1
            for due, unit in self.coming:
                if due <= self.loop:
                    self.units[unit.tag] = unit
            self.coming = [(due, unit) for due, unit in self.coming if due > self.loop]
            for unit in self.units.values():
                if unit.goal is not None and not self.near_enemy(unit):
                    step = 0.140625 if unit.goal[0] > unit.x else -0.140625
                    unit.x += step if abs(unit.goal[0] - unit.x) > 0.15 else 0.0
            if self.loop % 8 == 0:
                self.exchange_hits()

    def near_enemy(self, unit: Unit) -> bool:
        enemies = self.living(BLUE + RED - unit.owner)
        return any(abs(enemy.x - unit.x) <= 8.0 for enemy in enemies)

    def exchange_hits(self) -> None:
        for owner in (RED, BLUE):
            victims = [unit for unit in self.living(owner) if self.near_enemy(unit)]
            if victims:
                victims[0].health -= 15.0
                if victims[0].health <= 0.0:
                    self.die(victims[0])

    def die(self, unit: Unit) -> None:
        del self.units[unit.tag]
        self.dead.append(unit.tag)

    def on_observation(self, _: object, answer: sc2api_pb2.ResponseObservation) -> None:
        answer.observation.game_loop = self.loop
        raw = answer.observation.raw_data
        for unit in self.units.values():
            shown: raw_pb2.Unit = raw.units.add()
            shown.tag, shown.unit_type, shown.owner = unit.tag, unit.kind, unit.owner
            shown.pos.x, shown.pos.y, shown.health = unit.x, unit.y, unit.health
        raw.event.dead_units.extend(self.dead)
        self.dead.clear()

    def on_leave_game(self, _: object, __: object) -> None:
        self.status = sc2api_pb2.launched

    def on_quit(self, _: object, __: object) -> None:
        self.status = sc2api_pb2.quit


# Given the game and the request, bytes to send instead of the game's answer: b"" hangs up, None
# leaves it to the game.
Fault = Callable[[FakeGame, sc2api_pb2.Request], bytes | None]


class FakeServer:
    """Serves one `FakeGame` on a free port of this machine, in a thread of its own."""

    def __init__(
        self, game: FakeGame, fault: Fault | None = None, port: int = 0, refusals: int = 0
    ) -> None:
        self.game, self.fault, self.port, self.refusals = game, fault, port, refusals
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self.serve()), daemon=True)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def __enter__(self) -> FakeServer:
        self._thread.start()
        assert self._ready.wait(20)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(20)

    async def serve(self) -> None:
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        app = web.Application()
        app.router.add_get("/sc2api", self.talk)
        runner = web.AppRunner(app, shutdown_timeout=0.0)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", self.port)
        await site.start()
        self.port = runner.addresses[0][1]
        self._ready.set()
        await self._over.wait()
        await runner.cleanup()

    async def talk(self, http: web.Request) -> web.StreamResponse:
        if self.refusals:  # the game listens before it has set up /sc2api
            self.refusals -= 1
            raise web.HTTPNotFound
        socket = web.WebSocketResponse()
        await socket.prepare(http)
        async for message in socket:
            if message.type != WSMsgType.BINARY:
                break
            request = sc2api_pb2.Request.FromString(message.data)
            replaced = None if self.fault is None else self.fault(self.game, request)
            if replaced == b"":
                break
            await socket.send_bytes(
                self.game.answer(request).SerializeToString() if replaced is None else replaced
            )
        await socket.close()
        return socket


if __name__ == "__main__":
    port = int(sys.argv[sys.argv.index("-port") + 1])
    asyncio.run(FakeServer(FakeGame(), port=port, refusals=2).serve())
