"""The adapter to StarCraft II: the genuine client against a server that speaks the protocol."""

from __future__ import annotations

import asyncio
import importlib
import signal
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from s2clientprotocol import sc2api_pb2

from ontarget.domains._starcraft_client import Marine
from ontarget.domains.draws import episode_keys
from ontarget.domains.skirmish import FEATURES, Skirmish
from ontarget.domains.starcraft import Recording, StarcraftGame
from ontarget.errors import GameError, InputError, MissingExtraError, OntargetError
from refusals import refuses
from tests.domains.starcraft import fake_game as fake

# A short episode: 3 against 2, and up to 2 more red units at step 3.
SMALL = Skirmish(
    blue=(3, 3),
    red=(2, 2),
    most_reinforcements=2,
    reinforcement_step=3,
    horizon=16,
    distance=10.0,
)

# Its first three episodes get 1, 2 and 0 reinforcements.
SEED = 2


def record(server, scenario: Skirmish = SMALL, episodes: int = 2, **options):
    with StarcraftGame(scenario, address=server.address, **options) as game:
        return game.record(episodes, seed=SEED)


def test_recorded_episodes_have_the_simulators_shape_and_armies() -> None:
    with fake.FakeServer(fake.FakeGame()) as server:
        episodes = record(server, episodes=3)
    assert len(episodes) == 3
    assert episodes.horizon == SMALL.horizon
    assert tuple(episodes.schema.names) == FEATURES
    first = episodes.at(0).states
    np.testing.assert_array_equal(first[:, :4], [[3, 2, 135, 90]] * 3)
    armies = SMALL.armies(episode_keys(SEED, 0, 3, "simulate", "skirmish"))
    assert armies.reinforcements.tolist() == [1, 2, 0]
    np.testing.assert_array_equal(
        episodes.at(SMALL.horizon - 1).states[:, 5], armies.reinforcements > 0
    )
    assert (episodes.at(3).states[:, 5] == 0).all(), "x_3 is observed before they come"


def test_the_requests_follow_the_games_call_sequence() -> None:
    game = fake.FakeGame()
    with fake.FakeServer(game) as server:
        record(server, episodes=1)
    names = game.names()
    assert names[:5] == ["ping", "create_game", "join_game", "debug", "game_info"]
    assert names[-1] == "leave_game"
    created = dict(game.seen)["create_game"]
    assert created.disable_fog
    assert not created.realtime
    assert created.local_map.map_path == "Melee/Flat64.SC2Map"
    debug = [command for name, body in game.seen if name == "debug" for command in body.debug]
    assert debug[0].game_state == 2, "control of the enemy"
    assert len(debug[1].kill_unit.tag) == 24, "both sides' workers, no town hall, no minerals"
    made = [(c.create_unit.owner, c.create_unit.quantity) for c in debug[2:4]]
    assert made == [(fake.BLUE, 3), (fake.RED, 2)]
    # The start locations are the scenario's distance apart, around the middle of the map.
    xs = [c.create_unit.pos.x for c in debug[2:4]]
    assert xs == [30.0 - 5.0, 30.0 + 5.0]
    # 16 steps of 8 loops, whatever they are divided into, after 1 for each of killing and making.
    assert game.loop == 2 + 16 * 8
    assert {unit.kind for unit in game.units.values()} >= {fake.COMMAND_CENTER, fake.MINERALS}


def played(game, scenario: Skirmish = SMALL, seed: int = SEED) -> Recording:
    with fake.FakeServer(game) as server, StarcraftGame(scenario, address=server.address) as sc2:
        return next(sc2.play(1, seed))


def test_rewards_are_the_dead_and_features_the_living() -> None:
    game = fake.FakeGame()
    states, rewards = played(game)
    arrived = int(SMALL.armies(episode_keys(SEED, 0, 1, "simulate", "skirmish")).reinforcements[0])
    assert arrived > 0
    kills = 2 + arrived - game.count(fake.RED)
    losses = 3 - game.count(fake.BLUE)
    assert kills + losses > 0
    assert rewards.sum() == kills - losses
    counts = states[:, :2]
    joined = np.zeros(SMALL.horizon - 1)
    joined[3] = arrived
    np.testing.assert_array_equal(
        rewards[:-1], (counts[:-1, 1] + joined - counts[1:, 1]) - (counts[:-1, 0] - counts[1:, 0])
    )
    # The toy battle takes 15 points from a side at a time, 45 being a life.
    assert (states[:, 2] % 15 == 0).all()
    assert (np.diff(states[:3, 4]) < 0).all(), "blue walks toward red"


def test_blue_is_sent_to_reds_centroid_and_stands_when_red_is_gone() -> None:
    game = fake.FakeGame()
    lonely = Skirmish(blue=(6, 6), red=(1, 1), most_reinforcements=0, horizon=16, distance=6.0)
    played(game, lonely)
    orders = [
        body.actions[0].action_raw.unit_command for name, body in game.seen if name == "action"
    ]
    assert orders[0].ability_id == fake.ATTACK
    assert len(orders[0].unit_tags) == 6
    # One red unit made at the start location is its own centroid.
    assert (orders[0].target_world_space_pos.x, orders[0].target_world_space_pos.y) == (33.0, 30.0)
    assert game.count(fake.RED) == 0
    assert orders[-1].ability_id == fake.STOP


def test_red_attacks_where_the_scenario_says_so() -> None:
    game = fake.FakeGame()
    both = Skirmish(
        blue=(2, 2),
        red=(2, 2),
        most_reinforcements=0,
        horizon=2,
        distance=20.0,
        red_attacks=True,
    )
    played(game, both)
    red = {unit.tag for unit in game.living(fake.RED)}
    orders = [
        set(body.actions[0].action_raw.unit_command.unit_tags)
        for name, body in game.seen
        if name == "action"
    ]
    assert orders.count(red) == 2


def test_features_of_game_units_equal_the_simulators() -> None:
    scenario = Skirmish(distance=9.0)
    keys = episode_keys(5, 0, 6)
    battle = scenario.start(keys)
    game = StarcraftGame(scenario, address="unused")
    game._places = scenario.places
    game._table = type("Owners", (), {"blue": 2, "red": 1})()
    for t in range(40):
        features = scenario.observe(battle)
        for row in range(6):
            marines = [
                Marine(i, 2 if i < scenario.blue[1] else 1, *values)
                for i, values in enumerate(
                    zip(battle.x[row], battle.y[row], battle.health[row], strict=True)
                )
                if values[2] > 0
            ]
            shuffled = [marines[i] for i in np.random.default_rng(t).permutation(len(marines))]
            got = game._features(shuffled, int(battle.reinforcements[row]))
            np.testing.assert_allclose(got, features[row], rtol=1e-12)
        scenario.step(battle, t, keys)
    assert (features[:, :2] == 0).any(), "an empty side should be among the cases"


def test_battles_are_played_anew_on_a_cleared_field() -> None:
    game = fake.FakeGame()
    with fake.FakeServer(game) as server, StarcraftGame(SMALL, address=server.address) as sc2:
        first, second = sc2.play(2, seed=SEED)
    np.testing.assert_array_equal(first.states[0], second.states[0])


def test_slow_arrivals_are_waited_for_within_the_step() -> None:
    prompt, slow = fake.FakeGame(), fake.FakeGame(loops_to_appear=3)
    assert played(prompt).states[:, 5].any()
    assert played(slow).states[4, 5] == 1.0
    assert slow.loop == prompt.loop + 2, "the same steps, after two more loops of waiting"


def nth(name: str, n: int, make):
    """A fault that replaces the n-th request of this name and every later one."""
    left = [n]

    def fault(game, request) -> bytes | None:
        if request.WhichOneof("request") == name:
            left[0] -= 1
        return make(game) if left[0] <= 0 else None

    return fault


def refusal(_) -> bytes:
    return sc2api_pb2.Response(
        error=["the toy is broken"], status=sc2api_pb2.in_game
    ).SerializeToString()


def ended(_) -> bytes:
    response = sc2api_pb2.Response(status=sc2api_pb2.ended)
    response.observation.observation.game_loop = 99
    response.observation.player_result.add(player_id=1, result=sc2api_pb2.Defeat)
    return response.SerializeToString()


def ended_without_result(_) -> bytes:
    response = sc2api_pb2.Response(status=sc2api_pb2.ended)
    response.observation.observation.game_loop = 99
    return response.SerializeToString()


def no_such_map(_) -> bytes:
    response = sc2api_pb2.Response(status=sc2api_pb2.launched)
    response.create_game.error = sc2api_pb2.ResponseCreateGame.InvalidMapPath
    response.create_game.error_details = "Melee/Flat64.SC2Map"
    return response.SerializeToString()


def cannot_join(_) -> bytes:
    response = sc2api_pb2.Response(status=sc2api_pb2.launched)
    response.join_game.error = sc2api_pb2.ResponseJoinGame.MissingParticipation
    return response.SerializeToString()


def bad_order(_) -> bytes:
    response = sc2api_pb2.Response(status=sc2api_pb2.in_game)
    response.action.result.append(2)
    return response.SerializeToString()


def another_answer(_) -> bytes:
    response = sc2api_pb2.Response(status=sc2api_pb2.in_game)
    response.ping.game_version = "toy"
    return response.SerializeToString()


@pytest.mark.parametrize(
    ("name", "n", "make", "shown"),
    [
        ("step", 8, refusal, ("episode 0", "step 4", "'step'", "toy")),
        ("step", 8, lambda _: b"", ("step", "closed", "'step'")),
        ("observation", 6, lambda _: b"", ("closed", "'observation'")),
        ("debug", 3, refusal, ("episode 0", "refused 'debug'")),
        ("observation", 6, ended, ("episode 0", "step 2", "ended")),
        ("observation", 6, ended_without_result, ("is over",)),
        ("create_game", 1, no_such_map, ("'create_game'", "InvalidMapPath", "Melee/Flat64")),
        ("join_game", 1, cannot_join, ("'join_game'", "MissingParticipation")),
        ("action", 3, bad_order, ("episode 0", "step 2", "NotSupported")),
        ("step", 5, lambda _: b"\xff\xff", ("'step'", "be read")),
        ("step", 5, another_answer, ("answered 'step'",)),
        ("ping", 1, lambda _: b"", ("closed", "'ping'")),
    ],
)
def test_a_failing_game_is_a_clear_error(name: str, n: int, make, shown: tuple[str, ...]) -> None:
    with (
        fake.FakeServer(fake.FakeGame(), nth(name, n, make)) as server,
        refuses(GameError, None, *shown) as caught,
    ):
        record(server)
    assert isinstance(caught.value, OntargetError)
    assert isinstance(caught.value, RuntimeError)


def test_battles_before_a_failure_are_kept() -> None:
    with (
        fake.FakeServer(fake.FakeGame(), nth("observation", 25, lambda _: b"")) as server,
        StarcraftGame(SMALL, address=server.address) as game,
    ):
        battles = game.play(5, seed=SEED)
        assert next(battles).rewards.shape == (SMALL.horizon,)
        with refuses(GameError, None, "episode 1", "'observation'"):
            next(battles)


def test_marines_that_find_no_room_are_reported() -> None:
    game = fake.FakeGame(loops_to_appear=1000)
    with (
        fake.FakeServer(game) as server,
        refuses(GameError, None, "episode 0", "3 blue", "2 red", "0 and 0"),
    ):
        record(server)


def test_reinforcements_that_do_not_come_are_reported() -> None:
    game = fake.FakeGame()

    def fault(game, request) -> None:
        if request.HasField("action"):
            game.loops_to_appear = 1000

    with (
        fake.FakeServer(game, fault) as server,
        refuses(GameError, None, "episode 0", "step 3", "made 0"),
    ):
        record(server)


def test_a_silent_game_is_given_up() -> None:
    silent = threading.Event()

    def fault(game, request) -> None:
        if request.HasField("create_game"):
            silent.wait(20)

    with fake.FakeServer(fake.FakeGame(), fault) as server:
        with refuses(GameError, None, "'create_game'"):
            record(server, timeout=0.05)
        silent.set()


def test_nobody_at_the_address_is_a_clear_error() -> None:
    with fake.FakeServer(fake.FakeGame()) as server:
        address = server.address
    with (
        refuses(GameError, None, address),
        StarcraftGame(address=address),
    ):
        pass


def test_a_game_that_is_not_installed_is_a_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setenv("SC2PATH", str(tmp_path))
    for prepare in (lambda: None, lambda: (tmp_path / "Versions").mkdir()):
        prepare()
        with refuses(GameError, None, "SC2PATH"), StarcraftGame():
            pass
    assert signal.getsignal(signal.SIGINT) is before


def test_a_game_that_is_not_open_cannot_be_played() -> None:
    game = StarcraftGame(SMALL, address="127.0.0.1:1")
    with refuses(GameError, None, "StarcraftGame()"):
        game.record(1)


def test_a_running_event_loop_is_refused_with_the_remedy() -> None:
    async def inside() -> None:
        with refuses(GameError, None, "thread"):
            StarcraftGame(SMALL, address="127.0.0.1:1").__enter__()

    asyncio.run(inside())


def test_bad_arguments_are_refused() -> None:
    with refuses(InputError, "timeout", 0):
        StarcraftGame(timeout=0)
    with (
        fake.FakeServer(fake.FakeGame()) as server,
        StarcraftGame(SMALL, address=server.address) as game,
        refuses(InputError, "episodes", 0),
    ):
        game.record(0)


def test_without_burnysc2_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "sc2"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "ontarget.domains._starcraft_client")
    monkeypatch.setattr(sys, "meta_path", [Refuse("sc2"), *sys.meta_path])
    with refuses(MissingExtraError, None, "'ontarget[starcraft]'"):
        importlib.import_module("ontarget.domains._starcraft_client")


class Refuse:
    """A finder that says that a package is not there."""

    def __init__(self, package: str) -> None:
        self.package = package

    def find_spec(self, name: str, *_: object) -> None:
        if name.split(".")[0] == self.package:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


@pytest.mark.slow
# burnysc2 7.3 gives aiohttp its timeout as a number; only its own launcher does so.
@pytest.mark.filterwarnings("ignore:parameter 'timeout' of type 'float':DeprecationWarning")
def test_an_installed_game_is_started_and_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "Versions" / "Base99999"
    folder.mkdir(parents=True)
    program = folder / "SC2_x64"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{fake.__file__}" "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("SC2PATH", str(tmp_path))
    with StarcraftGame(SMALL) as game:
        episodes = game.record(1, seed=SEED)
    assert episodes.horizon == SMALL.horizon
