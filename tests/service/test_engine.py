"""The engine answers as a watch would, once, in order, and only what is on disk."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from ontarget import Goal, GoalMonitor, Target
from ontarget.errors import StoreError
from ontarget.live import Outlook
from ontarget.service.contracts import ContractSpec
from ontarget.service.engine import Engine, Reply
from ontarget.service.held import HeldContracts
from ontarget.service.messages import Problem, StepMessage
from ontarget.service.store import open_store

RATE = 0.2


def opened(url: str, model: Path, folder: Path, **options: Any) -> Engine:
    store = open_store(url)
    contracts = HeldContracts(store, folder / "models")
    spec = ContractSpec(name="walk", model=str(model), target="0:", false_alarm_rate=RATE)
    contracts.add(spec, at=0.0)
    return Engine(store, contracts, clock=lambda: 1_700_000_000.0, **options)


def message(step: int, *, agent: str = "a", run: str = "1", **more: Any) -> StepMessage:
    rng = np.random.default_rng([step, *agent.encode(), *run.encode()])
    fields = {
        "state": rng.normal(size=2).tolist(),
        "reward": float(rng.normal()) - 0.8 if step else 0.0,
    }
    return StepMessage(agent=agent, run=run, step=step, **{**fields, **more})


def read(reply: Reply) -> dict[str, Any]:
    assert isinstance(reply, bytes), reply
    return msgspec.json.decode(reply)


def same(answer: dict[str, Any], outlook: Outlook) -> None:
    assert answer["status"] == outlook.status.name
    assert answer.get("reason", "") == outlook.reason
    assert answer["n"] == outlook.n
    for name in ("p", "low", "high", "plausibility", "assurance"):
        np.testing.assert_equal(float("nan") if answer[name] is None else answer[name],
                                getattr(outlook, name))  # fmt: skip
    assert (answer["spread"] is None) == (not outlook.known)
    if outlook.known:
        assert tuple(answer["spread"]) == outlook.spread


@pytest.fixture
def engine(url: str, model: Path, tmp_path: Path) -> Iterator[Engine]:
    found = opened(url, model, tmp_path)
    yield found
    found.store.close()


@pytest.fixture(scope="module")
def monitor(model: Path) -> GoalMonitor:
    return GoalMonitor.load(model)


def test_a_batch_is_answered_as_watches_would(engine: Engine, monitor: GoalMonitor) -> None:
    agents = [f"agent-{i}" for i in range(20)]
    watches = {agent: monitor.watch(Target.at_least(0), false_alarm_rate=RATE) for agent in agents}
    for step in range(6):
        sent = [message(step, agent=agent) for agent in agents]
        for one, reply in zip(sent, engine.take(sent), strict=True):
            same(read(reply), watches[one.agent].step(one.state, one.reward))
    ends = [StepMessage(agent=agent, run="1", step=6, reward=-1.0, end=True) for agent in agents]
    for one, reply in zip(ends, engine.take(ends), strict=True):
        same(read(reply), watches[one.agent].end(-1.0))
        assert read(reply)["end"] is True


def test_another_payload_for_a_step_is_refused(engine: Engine) -> None:
    engine.take([message(0), message(1)])
    for step in (0, 1):
        (reply,) = engine.take([message(step, reward=3.0)])
        assert isinstance(reply, Problem)
        assert (reply.status, reply.title, reply.expected) == (409, "conflict", 2)


def test_a_run_that_is_over_takes_no_more(engine: Engine) -> None:
    engine.take([message(0), StepMessage(agent="a", run="1", step=1, end=True)])
    (late,) = engine.take([message(2)])
    assert isinstance(late, Problem)
    assert late.title == "ended"
    (again,) = engine.take([StepMessage(agent="a", run="1", step=1, end=True)])
    assert read(again)["duplicate"] is True


def test_a_step_without_a_state_is_refused_and_not_counted(engine: Engine) -> None:
    (refused,) = engine.take([StepMessage(agent="a", run="1", step=0)])
    assert isinstance(refused, Problem)
    assert refused.status == 422
    assert isinstance(engine.take([message(0)])[0], bytes)


def test_a_bad_reading_is_unknown_and_the_run_goes_on(engine: Engine, monitor: GoalMonitor) -> None:
    watch = monitor.watch(Target.at_least(0), false_alarm_rate=RATE)
    sent = [
        message(0),
        message(1, state={"x0": 1.0}),
        message(2, reward=None),
        message(3),
        message(4, behavior=1.5),
    ]
    for one in sent:
        (reply,) = engine.take([one])
        reward = float("nan") if one.reward is None else one.reward
        same(read(reply), watch.step(one.state, reward, behavior=one.behavior))


def test_a_run_may_have_a_target_of_its_own(engine: Engine, monitor: GoalMonitor) -> None:
    watch = monitor.watch(Target.at_least(2), false_alarm_rate=RATE)
    (reply,) = engine.take([message(0, target="2:")])
    same(read(reply), watch.step(message(0).state))
    (refused,) = engine.take([message(0, agent="b", target="2:1")])
    assert isinstance(refused, Problem)
    assert refused.status == 422


def test_a_contract_that_is_not_there_is_refused(engine: Engine) -> None:
    (refused,) = engine.take([message(0, contract="other")])
    assert isinstance(refused, Problem)
    assert refused.detail == "`contract` needs one of walk, got 'other'"


def test_runs_that_are_not_in_memory_go_on_bit_for_bit(
    url: str, model: Path, tmp_path: Path, monitor: GoalMonitor
) -> None:
    watch = monitor.watch(Target.at_least(0), false_alarm_rate=RATE)
    engine = opened(url, model, tmp_path)
    for step in range(6):
        (reply,) = engine.take([message(step)])
        same(read(reply), watch.step(message(step).state, message(step).reward))
        engine.store.close()
        engine = opened(url, model, tmp_path)
    engine.store.close()


def test_runs_beyond_those_kept_in_memory_go_on(
    url: str, model: Path, tmp_path: Path, monitor: GoalMonitor
) -> None:
    engine = opened(url, model, tmp_path, most_runs=1)
    watches = {
        agent: monitor.watch(Target.at_least(0), false_alarm_rate=RATE) for agent in ("b", "c")
    }
    for step in range(4):
        sent = [message(step, agent=agent) for agent in watches]
        for one, reply in zip(sent, engine.take(sent), strict=True):
            same(read(reply), watches[one.agent].step(one.state, one.reward))
    engine.store.close()


def test_any_worker_serves_any_run(postgres_url: str, model: Path, tmp_path: Path) -> None:
    monitor = GoalMonitor.load(model)
    watch = monitor.watch(Target.at_least(0), false_alarm_rate=RATE)
    workers = [opened(postgres_url, model, tmp_path) for _ in range(3)]
    for step, worker in enumerate([0, 1, 1, 2, 0, 2]):
        (reply,) = workers[worker].take([message(step)])
        same(read(reply), watch.step(message(step).state, message(step).reward))
        for other in workers:  # each gives the same answer again
            assert read(other.take([message(step)])[0])["p"] == read(reply)["p"]
    for worker in workers:
        worker.store.close()


def test_a_new_version_leaves_old_runs_their_contract(engine: Engine, model: Path) -> None:
    engine.take([message(0)])
    spec = ContractSpec(name="walk", model=str(model), target="1:", false_alarm_rate=RATE)
    assert engine.contracts.add(spec, at=1.0).version == 2
    assert engine.contracts.add(spec, at=2.0).version == 2
    old, new = engine.take([message(1), message(0, agent="b")])
    assert (read(old)["contract"], read(new)["contract"]) == ("walk@1", "walk@2")


def test_a_run_that_was_cut_off_has_no_outcome(engine: Engine) -> None:
    engine.take([message(0), message(1)])
    (reply,) = engine.take([StepMessage(agent="a", run="1", step=2, reward=-1.0, truncated=True)])
    answer = read(reply)
    assert (answer["p"], answer["status"], answer["end"]) == (None, "UNKNOWN", True)
    assert answer["reason"] == "cut off: the outcome is unknown"
    ((stored, _),) = engine.store.runs(ended=True)
    assert (stored.met, stored.cut_off) == (None, 1)
    (late,) = engine.take([message(3)])
    assert isinstance(late, Problem)
    assert late.title == "ended"


def test_the_alarm_of_a_run_that_is_taken_over_stays_on(
    engine: Engine, monitor: GoalMonitor
) -> None:
    rewards = [0.0, -9.0, 9.0, 9.0]
    steps = [message(t, reward=reward, intervened=t == 1) for t, reward in enumerate(rewards)]
    watch = monitor.watch(Target.at_least(0), false_alarm_rate=RATE)
    told = []
    for one in steps:
        told.append(watch.step(one.state, one.reward))
        if one.intervened:
            watch.intervene()
    answers = [read(engine.take([one])[0]) for one in steps]
    assert [one["status"] for one in answers] == [one.status.name for one in told]
    assert answers[1]["status"] == answers[3]["status"] == "ALARM"
    assert answers[3]["p"] > answers[3]["threshold"]
    assert "taken over at step 1" in answers[3]["reason"]


def test_a_goal_over_several_behaviors_is_answered_as_a_watch_would(
    url: str, tmp_path: Path, goal_model: Path
) -> None:
    goal = "gain >= -1 & spent <= 2"
    spec = ContractSpec(name="goal", model=str(goal_model), target=goal, false_alarm_rate=RATE)

    def fresh() -> Engine:
        store = open_store(url)
        contracts = HeldContracts(store, tmp_path / "models")
        contracts.add(spec, at=0.0)
        return Engine(store, contracts, clock=lambda: 1.0)

    watch = GoalMonitor.load(goal_model).watch(Goal.parse(goal), false_alarm_rate=RATE)
    for step in range(4):  # each by an engine of its own, from what is stored
        engine = fresh()
        signals = {"energy": float(step)} if step != 2 else {}
        one = StepMessage(
            agent="a", run="1", step=step, state=[0.1 * step], reward=-0.3, signals=signals
        )
        (reply,) = engine.take([one])
        expected = watch.step([0.1 * step], {"reward": -0.3, **signals})
        same(read(reply), expected)
        assert read(reply)["parts"].keys() == {"gain", "spent"}
        told = engine.take([msgspec.structs.replace(one, step=step + 1, behavior=1.0)])[0]
        assert isinstance(told, Problem)
        assert told.title == "several behaviors"
        engine.store.close()
    engine = fresh()
    end = StepMessage(agent="a", run="1", step=4, reward=0.0, signals={"energy": 0.0}, end=True)
    same(read(engine.take([end])[0]), watch.end({"reward": 0.0, "energy": 0.0}))
    engine.store.close()


SCENARIO = [
    [message(0), message(0, agent="b")],
    [message(1), message(2), message(1, agent="b")],
    [message(3), message(3)],
    [StepMessage(agent="a", run="1", step=4, end=True), message(2, agent="b")],
]


@pytest.mark.parametrize("stride", [pytest.param(7), pytest.param(1, marks=pytest.mark.slow)])
def test_a_fault_at_any_write_loses_nothing_that_was_answered(
    stride: int, tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ontarget.service.database import Connection

    whole = opened(str(tmp_path / "whole.db"), model, tmp_path)
    expected = [engine_replies(whole, batch) for batch in SCENARIO]
    whole.store.close()
    calls = {"n": 0, "fail": -1}
    real_many, real_rows = Connection.run_rows, Connection.rows

    def counted(real: Any) -> Any:
        def call(self: Connection, sql: str, *values: Any) -> Any:
            calls["n"] += 1
            if calls["n"] == calls["fail"]:
                raise sqlite3.OperationalError("database or disk is full")
            return real(self, sql, *values)

        return call

    monkeypatch.setattr(Connection, "run_rows", counted(real_many))
    monkeypatch.setattr(Connection, "rows", counted(real_rows))
    engine = opened(str(tmp_path / "first.db"), model, tmp_path)
    calls["n"] = 0
    for batch in SCENARIO:
        engine.take(batch)
    engine.store.close()
    total = calls["n"]
    assert total > 12
    for fail in range(1, total + 1, stride):
        calls["fail"] = -1
        engine = opened(str(tmp_path / f"{fail}.db"), model, tmp_path)
        calls.update(n=0, fail=fail)
        faults = 0
        for batch, answers in zip(SCENARIO, expected, strict=True):
            try:
                got = engine_replies(engine, batch)
            except StoreError:
                faults += 1
                got = engine_replies(engine, batch)  # as an agent sends it again
            assert got == answers
        engine.store.close()
        assert faults == 1


def engine_replies(engine: Engine, batch: list[StepMessage]) -> list[object]:
    return [one if isinstance(one, Problem) else read(one) for one in engine.take(batch)]


class Service(RuleBasedStateMachine):
    """Duplicates, gaps, reorders, restarts and clock jumps, with a watch per run as the oracle."""

    model: Path
    folder: Path
    monitor: GoalMonitor
    number = 0

    @initialize()
    def start(self) -> None:
        Service.number += 1
        self.url = str(self.folder / f"machine-{Service.number}.db")
        self.time = 0.0
        self.taken: dict[str, list[tuple[StepMessage, dict[str, Any]]]] = {}
        self.watches: dict[str, Any] = {}
        self.engine = self.fresh()

    def fresh(self) -> Engine:
        engine = opened(self.url, self.model, self.folder)
        engine._clock = lambda: self.time
        return engine

    @rule(agents=st.lists(st.sampled_from("abcd"), min_size=1, max_size=6))
    def steps(self, agents: list[str]) -> None:
        sent = []
        for agent in agents:
            earlier = self.taken.setdefault(agent, [])
            ahead = sum(one.agent == agent for one in sent)
            sent.append(message(len(earlier) + ahead, agent=agent))
        sent = [one for one in sent if one.step < 6]
        if not sent:
            return
        for one, reply in zip(sent, self.engine.take(sent), strict=True):
            if one.agent not in self.watches:
                self.watches[one.agent] = self.monitor.watch(
                    Target.at_least(0), false_alarm_rate=RATE
                )
            answer = read(reply)
            same(answer, self.watches[one.agent].step(one.state, one.reward))
            self.taken[one.agent].append((one, answer))

    @rule(agent=st.sampled_from("abcd"), step=st.integers(0, 7), other=st.booleans())
    def anything(self, agent: str, step: int, other: bool) -> None:
        earlier = self.taken.get(agent, [])
        if step == len(earlier):
            return
        sent = message(step, agent=agent, **({"reward": 9.0} if other else {}))
        (reply,) = self.engine.take([sent])
        if step < len(earlier) and not other:
            assert read(reply) == {**earlier[step][1], "duplicate": True}
        else:
            assert isinstance(reply, Problem)
            assert (reply.status, reply.expected) == (409, len(earlier))

    @rule()
    def restart(self) -> None:
        self.engine.store.close()
        self.engine = self.fresh()

    @rule(by=st.floats(-1e6, 1e6))
    def jump(self, by: float) -> None:
        self.time += by

    @invariant()
    def every_answer_is_stored(self) -> None:
        if not hasattr(self, "engine"):
            return
        for run, _ in self.engine.store.runs():
            kept = [msgspec.json.decode(one.answer) for one in self.engine.store.history(run)]
            assert kept == [answer for _, answer in self.taken[run.agent]]

    def teardown(self) -> None:
        if hasattr(self, "engine"):
            self.engine.store.close()


@pytest.mark.parametrize("examples", [pytest.param(8), pytest.param(300, marks=pytest.mark.slow)])
def test_the_engine_is_a_watch_per_run(
    examples: int, model: Path, monitor: GoalMonitor, tmp_path: Path
) -> None:
    Service.model, Service.folder, Service.monitor = model, tmp_path, monitor
    case = Service.TestCase
    case.settings = settings(max_examples=examples, stateful_step_count=20, deadline=None)
    case().runTest()
