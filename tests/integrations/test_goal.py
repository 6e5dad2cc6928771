from __future__ import annotations

from functools import cache

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict
from gymnasium.wrappers import TimeLimit, TransformObservation

from ontarget import Episodes, GoalMonitor, RuledOut, Status, Target
from ontarget.errors import HorizonWarning, InputError
from ontarget.integrations import GoalWrapper, RecordEpisodes, record
from refusals import refuses
from tests.integrations.cartpole import HARD, LIMIT, TARGET, make, monitor, push
from tests.integrations.toys import Drifting, do_nothing

pytestmark = pytest.mark.filterwarnings("ignore::ontarget.errors.HorizonWarning")

HORIZON = 8


@cache
def walk_monitor(behavior: str = "sum") -> GoalMonitor:
    height = behavior == "column:height"
    walks = record(
        Drifting(),
        do_nothing,
        300,
        horizon=HORIZON,
        behavior=behavior,
        behavior_value=(lambda seen, info: info["height"]) if height else None,
        progress=False,
    )
    return GoalMonitor().fit(walks, progress=False)


def live(env, seed: int, policy=do_nothing, *, longest: int = 200):
    """The outlooks of one run, from reset to end."""
    observation, info = env.reset(seed=seed)
    found = [info["goal"]]
    for _ in range(longest):
        observation, _, terminated, truncated, info = env.step(policy(observation))
        found.append(info["goal"])
        if terminated or truncated:
            break
    return found


def test_outlooks_are_those_of_a_watch_fed_by_hand() -> None:
    env, plain = make(), make()
    found = live(GoalWrapper(env, monitor(), TARGET, alarm_below=0.3), 5, push)
    watch = monitor().watch(TARGET, alarm_below=0.3)
    seen, _ = plain.reset(seed=5)
    expected = [watch.step(seen)]
    over = False
    while not over:
        seen, reward, terminated, truncated, _ = plain.step(push(seen))
        over = terminated or truncated
        expected.append(watch.end(reward) if over else watch.step(seen, reward))
    assert found == expected
    assert [one.t for one in found] == list(range(len(found)))
    assert found[-1].status is Status.DONE


def test_everything_but_info_passes_through() -> None:
    plain, watched = make(), GoalWrapper(make(), monitor(), TARGET)
    (one, _), (other, info) = plain.reset(seed=2), watched.reset(seed=2)
    assert np.array_equal(one, other)
    assert set(info) == {"goal"}
    for _ in range(20):
        one, other = plain.step(push(one)), watched.step(push(one))
        assert np.array_equal(one[0], other[0])
        assert one[1:4] == other[1:4]
        one = one[0]
    assert watched.observation_space == plain.observation_space


def test_an_alarm_calls_once_until_it_clears() -> None:
    told = []
    env = GoalWrapper(
        make(),
        monitor(),
        TARGET,
        alarm_below=0.35,
        on_alarm=lambda outlook, env: told.append((outlook, env)),
    )
    for seed in range(5):
        told.clear()
        found = live(env, seed, push)
        alarms = [one.alarm for one in found]
        before = [False, *alarms[:-1]]
        raised = [one for was, one in zip(before, found, strict=True) if one.alarm and not was]
        assert raised
        assert [outlook for outlook, _ in told] == raised
        assert all(who is env for _, who in told)


def test_a_run_that_ends_early_is_exactly_0_or_1() -> None:
    env = GoalWrapper(Drifting(), walk_monitor(), Target.at_least(-3.5))
    ends = [found[-1] for found in (live(env, seed, longest=HORIZON) for seed in range(60))]
    assert {one.status for one in ends} == {Status.DONE}
    assert {one.p for one in ends if one.t < HORIZON} == {0.0, 1.0}


def test_a_run_at_the_horizon_is_judged_and_then_unknown() -> None:
    env = GoalWrapper(Drifting(fall=-np.inf), walk_monitor(), Target.at_least(0.0))
    found = live(env, 1, longest=HORIZON + 2)
    assert found[HORIZON].status is Status.DONE
    assert found[HORIZON].p in (0.0, 1.0)
    for one in found[HORIZON + 1 :]:
        assert one.status is Status.UNKNOWN
        assert np.isnan(one.p)
        assert f"after the monitor's horizon of {HORIZON} steps" in one.reason


def test_an_environment_that_stops_before_the_horizon_is_unknown_and_says_why() -> None:
    env = TimeLimit(Drifting(fall=-np.inf), max_episode_steps=HORIZON - 2)
    told = []
    watched = GoalWrapper(
        env,
        walk_monitor(),
        Target.at_least(0.0),
        alarm_below=1.0,
        on_alarm=lambda *_: told.append(1),
    )
    found = live(watched, 1)
    assert {one.status for one in found} == {Status.UNKNOWN}
    assert f"cuts runs off after {HORIZON - 2} steps" in found[0].reason
    assert f"cut off after {HORIZON - 2} steps, before the monitor's horizon" in found[-1].reason
    assert not told


@pytest.mark.parametrize(
    ("limit", "says"),
    [
        (HORIZON - 2, f"cuts runs off after {HORIZON - 2} steps.*on runs of up to {HORIZON}"),
        (HORIZON + 2, f"may last {HORIZON + 2} steps.*with horizon={HORIZON + 2} and fit again"),
    ],
)
def test_a_time_limit_that_is_not_the_horizon_is_warned_of_once(limit: int, says: str) -> None:
    env = TimeLimit(Drifting(), max_episode_steps=limit)
    with pytest.warns(HorizonWarning, match=says) as told:
        live(GoalWrapper(env, walk_monitor(), Target.at_least(0.0)), 1)
    assert [one.filename for one in told] == [__file__]


@pytest.mark.filterwarnings("error::ontarget.errors.HorizonWarning")
def test_a_time_limit_at_the_horizon_or_unknown_needs_no_warning() -> None:
    for env in (TimeLimit(Drifting(), max_episode_steps=HORIZON), Drifting()):
        GoalWrapper(env, walk_monitor(), Target.at_least(0.0))


def test_in_a_short_environment_a_termination_still_counts() -> None:
    env = TimeLimit(Drifting(fall=-0.5), max_episode_steps=HORIZON - 2)
    watched = GoalWrapper(env, walk_monitor(), Target.at_least(0.0))
    ends = [live(watched, seed)[-1] for seed in range(20)]
    assert {Status.DONE, Status.UNKNOWN} == {one.status for one in ends}
    assert {one.p for one in ends if one.known} == {0.0}


def test_a_run_cut_off_by_somebody_else_is_unknown() -> None:
    class Cut(gymnasium.Wrapper):
        steps = 0

        def step(self, action):
            self.steps += 1
            seen, reward, terminated, _, info = self.env.step(action)
            return seen, reward, terminated, self.steps == 3, info

    found = live(GoalWrapper(Cut(Drifting(-np.inf)), walk_monitor(), Target.at_least(0.0)), 1)
    assert all(one.known for one in found[:3])
    assert found[-1].status is Status.UNKNOWN
    assert "cut off after 3 steps" in found[-1].reason


def test_steps_after_the_end_are_unknown() -> None:
    env = GoalWrapper(Drifting(fall=np.inf), walk_monitor(), Target.at_least(0.0))
    assert [one.status for one in live(env, 0)][1:] == [Status.DONE]
    *_, info = env.step(0)
    assert info["goal"].reason == "the run is over; call reset to begin another"


@pytest.mark.filterwarnings("ignore::ontarget.errors.AlarmWarning")
@pytest.mark.parametrize("behavior", ["max", "min", "last", "mean", "discounted:0.9"])
def test_other_behaviors_are_followed_to_their_outcome(behavior: str) -> None:
    target = Target.at_least(0.5)
    env = RecordEpisodes(Drifting(), horizon=HORIZON)
    watched = GoalWrapper(env, walk_monitor(behavior), target)
    ends = [live(watched, seed, longest=HORIZON)[-1] for seed in range(20)]
    outcomes = env.episodes(behavior=behavior).outcomes
    grid = walk_monitor(behavior).fitted.grid
    assert [one.p for one in ends] == target.contains(outcomes, grid).astype(float).tolist()
    assert {one.status for one in ends} == {Status.DONE}


def test_a_behavior_that_is_read_needs_its_reader() -> None:
    fitted, target = walk_monitor("column:height"), Target.at_least(0.0)
    with refuses(InputError, None, "'column:height'", "behavior_value"):
        GoalWrapper(Drifting(), fitted, target)
    env = GoalWrapper(Drifting(), fitted, target, behavior_value=lambda seen, info: info["height"])
    found = live(env, 3, longest=HORIZON)
    assert all(one.known for one in found)
    assert found[-1].p == float(env.unwrapped._at[0] >= 0.0)


def test_an_environment_of_another_width_is_refused() -> None:
    with refuses(InputError, None, "(x0, x1)", "(x0, x1, x2, x3)"):
        GoalWrapper(make(), walk_monitor(), Target.at_least(0.0))


def test_features_are_matched_by_name_where_names_agree() -> None:
    space = Dict(b=Box(-np.inf, np.inf, ()), a=Box(-np.inf, np.inf, ()))
    env = TransformObservation(
        Drifting(), lambda seen: {"a": np.float32(seen[1]), "b": np.float32(seen[0])}, space
    )
    rng = np.random.default_rng(0)
    states = rng.normal(size=(200, HORIZON, 2))
    walks = Episodes.from_arrays(
        states, states[:, :, 0] + rng.normal(size=(200, HORIZON)), features=["b", "a"]
    )
    fitted = GoalMonitor().fit(walks, progress=False)
    watched = GoalWrapper(env, fitted, Target.at_least(0.0))
    assert watched.env.observation_space.keys() == {"a", "b"}
    seen, info = watched.reset(seed=0)
    by_hand = fitted.watch(Target.at_least(0.0)).step([seen["b"], seen["a"]])
    assert info["goal"] == by_hand


def test_a_bad_observation_is_unknown_and_raises_only_when_asked() -> None:
    class Broken(gymnasium.Wrapper):
        def step(self, action):
            _, *rest = self.env.step(action)
            return np.zeros(3), *rest

    env = GoalWrapper(Broken(Drifting()), walk_monitor(), Target.at_least(0.0), alarm_below=0.1)
    found = live(env, 0, longest=1)
    assert found[1].status is Status.UNKNOWN
    assert found[1].reason == "the observation needs shape (2,), got (3,)"
    strict = GoalWrapper(Broken(Drifting()), walk_monitor(), Target.at_least(0.0), on_bad="raise")
    strict.reset(seed=0)
    with refuses(InputError, None, "step 1", "(0,)"):
        strict.step(0)


@pytest.mark.filterwarnings("ignore::ontarget.errors.AlarmWarning")
def test_an_alarm_stands_through_a_bad_observation_and_is_told_once() -> None:
    class Flickering(gymnasium.Wrapper):
        def step(self, action):
            seen, *rest = self.env.step(action)
            self.steps += 1
            return (np.zeros(3) if self.steps == 2 else seen), *rest

    told = []
    broken = Flickering(Drifting(fall=-np.inf))
    broken.steps = 0
    env = GoalWrapper(
        broken,
        walk_monitor(),
        Target.at_least(100.0),
        alarm_below=1.0,
        on_alarm=lambda outlook, env: told.append(outlook.t),
    )
    found = live(env, 0, longest=3)
    assert [one.status for one in found] == [Status.ALARM] * 4
    assert [one.known for one in found] == [True, True, False, True]
    assert found[2].reason == ("in alarm since step 0; the observation needs shape (2,), got (3,)")
    assert told == [0]


def test_a_target_that_is_ruled_out_raises_the_alarm_for_good() -> None:
    told = []
    env = GoalWrapper(
        make(),
        monitor(),
        HARD,
        alarm=RuledOut(0.1),
        on_alarm=lambda outlook, env: told.append(outlook),
    )
    raised = 0
    for seed in range(8):
        told.clear()
        *found, end = live(env, seed, push)
        low = [one.known and one.plausibility <= 0.1 for one in found]
        first = low.index(True) if any(low) else len(found)
        assert [one.alarm for one in found] == [t >= first for t in range(len(found))]
        assert [one.t for one in told] == [first] * (first < len(found))
        assert end.status is Status.DONE
        raised += len(told)
    assert raised


def test_the_key_can_be_chosen_and_the_environments_info_is_not_touched() -> None:
    class Telling(gymnasium.Wrapper):
        def reset(self, **options):
            return self.env.reset(**options)[0], own

    own = {"goal": (1.0, 2.0)}

    env = GoalWrapper(Telling(Drifting()), walk_monitor(), Target.at_least(0.0), key="outlook")
    _, info = env.reset(seed=0)
    assert info["goal"] == (1.0, 2.0)
    assert info["outlook"].t == 0
    assert set(own) == {"goal"}


def test_on_cartpole_the_probabilities_are_calibrated() -> None:
    env = GoalWrapper(make(), monitor(), TARGET)
    early, met = [], []
    for seed in range(300):
        found = live(env, 10_000 + seed, push)
        early.append(found[10].p)
        met.append(found[-1].p)
    # Both averages estimate one probability; 4 standard errors of each.
    spread = 4.0 * np.sqrt(0.25 / 300 + 0.25 / 160)
    assert abs(np.mean(early) - np.mean(met)) < spread
    assert monitor().horizon == LIMIT
