"""One run machine behind every face: the same bits, resumed, copied, forked or spawned."""

from __future__ import annotations

import copy
import json
import math
import os
import pickle
import subprocess
import sys
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ontarget import Below, GoalMonitor, Promised, RuledOut, StackedForest, Status, Target
from ontarget.errors import InputError
from ontarget.live import RunState, Watch
from ontarget.models import Marginal, QuantileForest
from refusals import refuses
from tests.live.test_fleet import same
from tests.walks import walks

pytestmark = pytest.mark.filterwarnings("ignore::ontarget.errors.AlarmWarning")

BEHAVIORS = ("sum", "discounted:0.9", "max", "min", "last", "mean")
RULES = (Below(0.5), Below(0.8, 2, 0.9), Promised(0.2), RuledOut(0.2))
MODELS = {
    "forest": QuantileForest(n_trees=6, min_leaf=5),
    "stacked": StackedForest(n_trees=4),
    "marginal": Marginal(),
}
TARGET = Target(-0.3, 0.1) | Target.at_least(0.4)


@cache
def monitor_of(behavior: str, model: str = "forest") -> GoalMonitor:
    return GoalMonitor(MODELS[model], min_calibration=20, steps_per_model=2).fit(
        walks(behavior=behavior, ragged=True), progress=False
    )


numbers = st.integers(-6, 6).map(lambda k: k / 10)
odd = st.sampled_from([math.nan, math.inf, -math.inf])
CALL = st.tuples(
    st.sampled_from(["step"] * 8 + ["end", "reset"]),
    st.tuples(numbers | odd, numbers),
    numbers | odd,
    st.none() | st.none() | numbers | odd,
)


def called(face, call):
    """One call of a face with `step`, `end` and `reset`."""
    what, state, reward, behavior = call
    if what == "reset":
        face.reset()
        return face.peek()
    if what == "end":
        return face.end(reward, behavior=behavior)
    return face.step(np.array(state), reward, behavior=behavior)


class Row:
    """One agent of a fleet, with a watch's methods."""

    def __init__(self, fleet, agent) -> None:
        self.fleet, self.agent = fleet, agent

    def step(self, state, reward, *, behavior):
        told = None if behavior is None else [behavior]
        return self.fleet.step(state[None], [reward], agents=[self.agent], behavior=told).of(0)

    def end(self, reward, *, behavior):
        told = None if behavior is None else [behavior]
        return self.fleet.end([reward], agents=[self.agent], behavior=told).of(0)

    def reset(self):
        self.fleet.reset([self.agent])

    def peek(self):
        return self.fleet.peek([self.agent]).of(0)


class Packed(Row):
    """An agent of a fleet that is thrown away before every call, its run sent on as bytes."""

    def __init__(self, make) -> None:
        super().__init__(make(), "one")
        self.make = make

    def __getattribute__(self, name):
        if name in ("step", "end", "reset", "peek"):
            (packed,) = self.fleet.standings(["one"]).packed
            self.fleet = self.make()
            self.fleet.unpack({"one": packed})
        return super().__getattribute__(name)


class Sent:
    """A watch that is thrown away after every call, its state sent on as text."""

    def __init__(self, monitor: GoalMonitor, rule) -> None:
        self.monitor, self.rule = monitor, rule
        self.text = json.dumps(monitor.watch(TARGET, alarm=rule).run_state.to_json())

    def _do(self, act):
        watch = self.monitor.watch(TARGET, alarm=self.rule)
        watch.resume(RunState.from_json(json.loads(self.text)))
        found = act(watch)
        self.text = json.dumps(watch.run_state.to_json(), allow_nan=False)
        return found

    def step(self, state, reward, *, behavior):
        return self._do(lambda watch: watch.step(state, reward, behavior=behavior))

    def end(self, reward, *, behavior):
        return self._do(lambda watch: watch.end(reward, behavior=behavior))

    def reset(self):
        self._do(lambda watch: watch.reset())

    def peek(self):
        return self._do(lambda watch: watch.peek())


class Copied(Sent):
    """A watch that is pickled or deep-copied after every call."""

    def __init__(self, watch: Watch, how) -> None:
        self.watch, self.how = watch, how

    def _do(self, act):
        self.watch = self.how(self.watch)
        return act(self.watch)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(CALL, min_size=1, max_size=14),
    st.sampled_from(BEHAVIORS),
    st.sampled_from(RULES),
)
def test_every_face_says_the_same_of_the_same_run(calls, behavior: str, rule) -> None:
    monitor = monitor_of(behavior)
    watch = monitor.watch(TARGET, alarm=rule)
    fleet = monitor.fleet(TARGET, ["other", "one", ("a", "third")], alarm=rule)
    faces = [
        Row(fleet, "one"),
        Packed(lambda: monitor.fleet(TARGET, ["one", "two"], alarm=rule)),
        Sent(monitor, rule),
        Copied(monitor.watch(TARGET, alarm=rule), copy.deepcopy),
    ]
    for call in calls:
        expected = called(watch, call)
        assert same(watch.peek(), expected)
        for face in faces:
            assert same(called(face, call), expected), (type(face).__name__, call)
    assert fleet.run_state("one").to_json() == watch.run_state.to_json()
    fleet.resume("twin", watch.run_state)
    assert same(Row(fleet, "twin").peek(), watch.peek())
    again = ("step", (0.1, -0.2), 0.1, None)
    assert same(called(Row(fleet, "twin"), again), called(watch, again))


@settings(max_examples=25, deadline=None)
@given(st.lists(CALL, min_size=1, max_size=10), st.sampled_from(sorted(MODELS)))
def test_a_pickled_watch_and_monitor_go_on_bit_for_bit(calls, model: str) -> None:
    monitor = monitor_of("sum", model)
    again = pickle.loads(pickle.dumps(monitor))
    watch = monitor.watch(TARGET, alarm=RULES[1])
    copied = Copied(again.watch(TARGET, alarm=RULES[1]), lambda w: pickle.loads(pickle.dumps(w)))
    for call in calls:
        assert same(called(copied, call), called(watch, call))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(numbers, numbers, numbers), min_size=1, max_size=9), st.booleans())
def test_sessions_answer_as_a_watch_does(steps, ends: bool) -> None:
    monitor = monitor_of("sum")
    sessions = monitor.sessions(TARGET, alarm=RULES[0])
    watch = monitor.watch(TARGET, alarm=RULES[0])
    for t, (one, other, reward) in enumerate(steps):
        earned = reward if t % 7 else 0.0
        if t % 7 == 0:  # the horizon has closed the last run: the message begins another
            watch.reset()
        expected = watch.step([one, other], earned)
        answer = sessions.answer({"agent": "a", "state": [one, other], "reward": earned})
        assert answer["status"] == expected.status.name
        assert answer["p"] == (None if math.isnan(expected.p) else expected.p)
    if ends and len(steps) < 6:
        expected = watch.end(0.1)
        answer = sessions.answer({"agent": "a", "reward": 0.1, "end": True})
        assert (answer["status"], answer["p"]) == (expected.status.name, expected.p)
        assert "a" not in sessions


def test_a_message_can_say_that_a_run_was_cut_off() -> None:
    sessions = monitor_of("sum").sessions(TARGET)
    sessions.answer({"agent": "a", "state": [0.0, 0.0]})
    answer = sessions.answer({"agent": "a", "reward": 1.0, "truncated": True})
    assert (answer["status"], answer["p"], answer["end"]) == ("UNKNOWN", None, True)
    assert "after 1 step" in answer["reason"]
    assert "outcome" not in answer
    assert "a" not in sessions
    horizon = monitor_of("sum").horizon
    for t in range(horizon):  # cut off at the horizon is complete
        sessions.answer({"agent": "a", "state": [0.0, 0.0], "reward": 1.0 if t else 0.0})
    answer = sessions.answer({"agent": "a", "reward": 1.0, "truncated": True})
    assert (answer["status"], answer["outcome"]) == ("DONE", float(horizon))


def test_sessions_forget_who_ended_and_who_fell_silent() -> None:
    now = [0.0]
    contract = monitor_of("sum").watch(TARGET).contract
    from ontarget.live import Sessions

    sessions = Sessions(contract, max_agents=3, idle_seconds=10.0, clock=lambda: now[0])
    for agent in "abcd":
        sessions.step(agent, [0.0, 0.0])
        now[0] += 1.0
    assert list(sessions) == ["b", "c", "d"]  # a was silent longest
    sessions.step("b", [0.0, 0.0], 0.1)
    assert list(sessions) == ["c", "d", "b"]
    sessions.end("d")
    now[0] += 9.0
    sessions.step("e", [0.0, 0.0])
    assert list(sessions) == ["b", "e"]  # c was silent for more than ten seconds
    state = sessions.run_state("b")
    sessions.resume("f", state)
    assert same(sessions.peek("f"), sessions.peek("b"))
    with refuses(InputError, None, "'a'"):
        sessions.peek("a")


def test_agents_come_and_go_under_any_name() -> None:
    fleet = monitor_of("sum").fleet(TARGET, ["left", 7])
    fleet.step(np.zeros((2, 2)))
    fleet.join([("arm", 1), None])
    assert fleet.agents == ("left", 7, ("arm", 1), None)
    assert fleet.steps.tolist() == [1, 1, 0, 0]
    found = fleet.step(np.zeros((2, 2)), [0.0, 0.3], agents=[None, "left"])
    assert found.t.tolist() == [0, 1]
    fleet.leave(["left", None])
    assert (len(fleet), "left" in fleet) == (2, False)
    fleet.join(["new"])  # takes a free row, at the beginning of a run
    assert fleet.steps.tolist() == [1, 0, 0]
    assert fleet.peek().of(2).status is Status.PENDING
    with refuses(InputError, "agents", "'new'"):
        fleet.join(["new"])
    with refuses(InputError, "agents", "'left'", "'new'"):
        fleet.leave(["left"])


def test_a_state_of_another_target_or_form_is_refused() -> None:
    monitor = monitor_of("sum")
    state = monitor.watch(TARGET).run_state
    with refuses(InputError, None, "[0, inf)", "[0.4, inf)"):
        monitor.watch(Target.at_least(0)).resume(state)
    with refuses(InputError, None, "format 1", "got 9"):
        RunState.from_json({**state.to_json(), "format": 9})
    with refuses(InputError, None, "not valid"):
        RunState.from_json({"format": 1})
    with refuses(InputError, None, "0 to 7", "got 99"):
        monitor.watch(TARGET).resume(RunState.from_json({**state.to_json(), "step": 99}))


COUNTED = """
import pickle, sys
import numpy as np
from ontarget import Target
from ontarget.live._run_kernel import advance_rows, look_rows
from ontarget.models.forest._batch_kernel import limits_of_rows

def count():
    return sum(len(kernel.signatures) for kernel in (advance_rows, look_rows, limits_of_rows))

def counts(monitor, watch, target):
    found = [count()]
    watch.step(np.zeros(2), 0.0)
    found.append(count())
    fresh = monitor.watch(target)
    fresh.step(np.zeros(2))
    return [*found, count()]
"""


def counted_in_a_fork(monitor: GoalMonitor, watch: Watch) -> list[int]:
    names: dict = {}
    exec(COUNTED, names)
    read, write = os.pipe()
    if os.fork() == 0:
        os.write(write, json.dumps(names["counts"](monitor, watch, TARGET)).encode())
        os._exit(0)
    os.wait()
    return json.loads(os.read(read, 1000))


def counted_in_a_new_process(monitor: GoalMonitor, watch: Watch) -> list[int]:
    sent = pickle.dumps((monitor, watch, TARGET))
    script = f"{COUNTED}\nprint(counts(*pickle.load(sys.stdin.buffer)))"
    done = subprocess.run(
        [sys.executable, "-c", script], input=sent, capture_output=True, timeout=300, check=True
    )
    return json.loads(done.stdout)


@pytest.mark.filterwarnings("ignore:This process.*multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("origin", ["fitted", "loaded"])
@pytest.mark.parametrize(
    "counted",
    [counted_in_a_fork, pytest.param(counted_in_a_new_process, marks=pytest.mark.slow)],
)
def test_a_step_never_compiles_wherever_the_watch_went(counted, origin: str, tmp_path) -> None:
    monitor = monitor_of("sum")
    if origin == "loaded":
        monitor.save(tmp_path / "m.ontarget")
        monitor = GoalMonitor.load(tmp_path / "m.ontarget")
    counts = counted(monitor, monitor.watch(TARGET))
    assert counts[0] > 0
    assert len(set(counts)) == 1, counts
