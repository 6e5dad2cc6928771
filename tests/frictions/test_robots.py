"""A first hour with environments and policies, tried again row by row.

What other tests already claim is not repeated here: running extremes and lead times
(tests/live/test_decided.py), alarms that stay on while nothing is known and do not flap
(tests/live/test_rules.py), `VecEnv`, `like`, `categorical` and `max_steps`
(tests/integrations/test_recording.py), Minari (tests/reading/test_minari.py), LeRobot
(tests/reading/test_lerobot.py), joining recordings (tests/episodes/test_joining.py), goals over
several behaviors (tests/monitor/test_goals.py), recalibration (tests/monitor/test_recalibrate.py).
"""

from __future__ import annotations

import copy
import pickle
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box

from ontarget import Episodes, GoalMonitor, Status, Target
from ontarget._progress import announce_compiling
from ontarget.errors import CensoredError, EpisodesError, InputError
from ontarget.integrations import record
from ontarget.integrations.environments import layout_of
from ontarget.models import QuantileForest
from refusals import refuses
from tests.cli.river import told
from tests.integrations.toys import Drifting, do_nothing
from tests.walks import walks

TARGET = Target.at_least(0.0)


@cache
def monitor() -> GoalMonitor:
    return GoalMonitor(QuantileForest(n_trees=5)).fit(walks(200), progress=False)


@pytest.mark.slow
def test_a_loaded_monitor_and_its_watch_can_be_copied(tmp_path: Path) -> None:
    monitor().save(tmp_path / "m.ontarget")
    loaded = GoalMonitor.load(tmp_path / "m.ontarget")
    expected = monitor().watch(TARGET, alarm_below=0.5).step([0.5, 0.1]).p
    for again in (pickle.loads(pickle.dumps(loaded)), copy.deepcopy(loaded)):
        watch = pickle.loads(pickle.dumps(again.watch(TARGET, alarm_below=0.5)))
        assert watch.step([0.5, 0.1]).p == expected


def test_the_present_outlook_can_be_had_without_a_step() -> None:
    watch = monitor().watch(TARGET, alarm_below=0.5)
    assert watch.peek().status is Status.PENDING
    assert watch.step([0.5, 0.1]) == watch.peek()


def test_a_single_number_is_a_state_where_there_is_one_feature() -> None:
    rng = np.random.default_rng(0)
    states = rng.integers(4, size=(120, 3, 1)).astype(float)
    runs = Episodes.from_arrays(states, states[:, :, 0] + rng.normal(size=(120, 3)))
    fitted = GoalMonitor(QuantileForest(n_trees=5)).fit(runs, progress=False)
    watch, other = (fitted.watch(Target.at_least(4.0), alarm_below=0.1) for _ in range(2))
    assert watch.step(0).known
    assert watch.peek() == other.step([0.0])


@pytest.mark.parametrize("shape", [(84, 84), (3, 32, 32), (5_000,)])
def test_images_are_refused_with_the_remedy(shape: tuple[int, ...]) -> None:
    with refuses(EpisodesError, None, str(shape), "features", "encode"):
        layout_of(Box(0, 255, shape, np.uint8))


def test_a_value_that_nothing_reads_is_refused_before_anything_is_played() -> None:
    with refuses(InputError, "behavior_value", "'sum'"):
        record(
            Drifting(),
            lambda seen: pytest.fail("played"),
            3,
            behavior_value=lambda seen, info: info["height"],
            progress=False,
            horizon=4,
        )
    recorded = record(
        Drifting(),
        do_nothing,
        3,
        behavior="column:height",
        behavior_value=lambda seen, info: info["height"],
        progress=False,
        horizon=4,
    )
    assert len(recorded) == 3


def test_an_environment_that_never_ends_is_left_after_so_many_steps() -> None:
    class Endless(Drifting):
        """It has no limit of its own."""

        def step(self, action: Any) -> Any:
            seen, reward, _, _, info = super().step(action)
            return seen, reward, False, False, info

    with refuses(CensoredError, "horizon", "horizon=7", "3 of 3"):
        record(Endless(), do_nothing, 3, max_steps=7, progress=False)
    recorded = record(Endless(), do_nothing, 3, max_steps=7, horizon=7, progress=False)
    assert recorded.lengths.tolist() == [7, 7, 7]


def test_all_episodes_may_be_learned_from() -> None:
    parts = walks(60).split(assure=0)
    assert (len(parts.learn), parts.assure) == (60, None)


@pytest.mark.parametrize("terminal", [True, False])
@pytest.mark.parametrize("kept", [True, False])
def test_compiling_is_announced_only_on_a_terminal_and_if_it_has_to_be_done(
    terminal: bool,
    kept: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.setattr("ontarget._kernel._cache_folder", lambda _: tmp_path)
    monkeypatch.setattr("sys.stderr.isatty", lambda: terminal)
    if kept:
        (tmp_path / "one.nbi").touch()
    announce_compiling.__wrapped__()
    assert ("compiling" in capsys.readouterr().err) == (terminal and not kept)


@pytest.mark.slow
def test_everything_is_compiled_beforehand() -> None:
    assert "compiled" in told(["warm"])
