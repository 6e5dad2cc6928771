"""Tests that the store must pass with every kind of database."""

from __future__ import annotations

from ontarget.service.store import Batch, ConflictError, Progress, Store, StoredRun, reserve


def a_run(store: Store, *, agent: str = "a", run: str = "1", next_step: int = 1) -> StoredRun:
    """A new run that is not in the database yet; its contract is added if it is missing."""
    with store.database.write() as at:
        found = at.rows("SELECT id FROM contracts WHERE name = 'c'")
        contract = int(found[0][0]) if found else reserve(at, 1)
        if not found:
            at.run("INSERT INTO contracts VALUES (?, 'c', 1, '{}', 0.0)", (contract,))
    return StoredRun(
        number=0, id=f"{agent}/{run}", agent=agent, run=run, contract=contract, target="0:",
        started_at=1.0, next=next_step, state=b"s", last=0, status="OK", alarmed=0, marks=b"m",
        intervened_at=None, updated_at=1.0, ended_at=None, met=None, cut_off=0,
    )  # fmt: skip


def write(store: Store, run: StoredRun, expected: int, *steps: int) -> None:
    """Write the steps of a run from number ``expected`` on to the database."""
    sent = [(step, b"sent %d" % step, b"answer %d" % step) for step in steps]
    run.next = steps[-1] + 1
    store.commit(Batch(at=2.0, progress=[Progress(run, expected, sent)]))


class StoreContract:
    """Tests of a `Store`. Subclass it and add a fixture ``store`` that returns an empty store."""

    def test_what_was_committed_is_found(self, store: Store) -> None:
        """A run that was committed is found by its id, with its steps."""
        run = a_run(store)
        write(store, run, -1, 0, 1)
        assert store.find_runs([run.id, "other"]) == {run.id: run}

    def test_history_is_in_order_and_can_be_cut(self, store: Store) -> None:
        """The steps of a run come back in order, all of them or only the part asked for."""
        run, other = a_run(store), a_run(store, agent="b")
        write(store, run, -1, 0)
        write(store, other, -1, 0)
        write(store, run, 1, 1, 2)
        write(store, run, 3, 3)
        assert [one.step for one in store.history(run)] == [0, 1, 2, 3]
        middle = store.history(run, least=1, most=2)
        assert [(one.step, bytes(one.answer)) for one in middle] == [
            (1, b"answer 1"),
            (2, b"answer 2"),
        ]

    def test_a_run_that_moved_on_is_refused_and_nothing_is_written(self, store: Store) -> None:
        """A commit is refused if another process has moved one of its runs to the next step.

        A refused commit writes nothing, not even its other runs.
        """
        run = a_run(store)
        write(store, run, -1, 0)
        write(store, run, 1, 1)
        before = store.find_runs([run.id]), store.newest_event()
        late, new = store.find_runs([run.id])[run.id], a_run(store, agent="b")
        both = [Progress(new, -1, [(0, b"x", b"y")]), Progress(late, 1, [(1, b"x", b"y")])]
        try:
            store.commit(Batch(at=3.0, progress=both))
        except ConflictError:
            pass
        else:
            raise AssertionError("a run was advanced from a step that it had already left")
        assert (store.find_runs([run.id]), store.newest_event()) == before
        assert store.find_runs([new.id]) == {}

    def test_a_run_begins_once(self, store: Store) -> None:
        """A second commit that begins the same run is refused."""
        write(store, a_run(store), -1, 0)
        try:
            write(store, a_run(store), -1, 0)
        except ConflictError:
            return
        raise AssertionError("a run began twice")

    def test_events_follow_commits(self, store: Store) -> None:
        """Steps of all runs are listed in the order in which they were committed."""
        run = a_run(store)
        write(store, run, -1, 0)
        first = store.newest_event()
        write(store, run, 1, 1, 2)
        assert [one.step for one in store.events(first, 10)] == [1, 2]
        assert [one.step for one in store.events(0, 2)] == [0, 1]
        assert store.events(store.newest_event(), 10) == []

    def test_runs_are_listed_with_their_last_answer(self, store: Store) -> None:
        """Runs are listed with their last answer."""
        for name in "abc":
            write(store, a_run(store, agent=name), -1, 0, 1)
        page = store.runs(limit=2)
        assert [(run.agent, last) for run, last in page] == [("a", b"answer 1"), ("b", b"answer 1")]
        rest = store.runs(after=page[-1][0].number)
        assert [run.agent for run, _ in rest] == ["c"]
        assert [run.agent for run, _ in store.runs(agent="b")] == ["b"]
        assert store.runs(ended=True) == []
        assert [one["agent"] for one in store.agents(after="a")] == ["b", "c"]

    def test_a_forgotten_run_leaves_nothing(self, store: Store) -> None:
        """After a run is deleted, none of its steps, alarms and messages are left."""
        run, other = a_run(store), a_run(store, agent="b")
        for one in (run, other):
            alarm = f"{one.id}-0"
            store.commit(
                Batch(
                    at=2.0,
                    progress=[Progress(one, -1, [(0, b"x", b"y")])],
                    raised=[(one.id, alarm, "target", "p is low")],
                    messages=[(alarm, "ops", b"{}")],
                )
            )
        store.forget_runs([run])
        assert store.find_runs([run.id]) == {}
        assert [one.run for one in store.events(0, 10)] == [other.number]
        with store.database.read() as at:
            assert at.rows("SELECT id FROM alarms") == [(f"{other.id}-0",)]
            assert at.rows("SELECT alarm FROM outbox") == [(f"{other.id}-0",)]

    def test_ids_are_never_given_twice(self, store: Store) -> None:
        """No id is ever given to two rows."""
        run = a_run(store)
        write(store, run, -1, 0)
        last = store.newest_event()
        store.forget_runs([run])
        write(store, a_run(store, agent="b"), -1, 0)
        assert store.newest_event() > last

    def test_numbers_may_be_large(self, store: Store) -> None:
        """An id may need more than 32 bits, even if another id in the same commit is small."""
        small, large = a_run(store), a_run(store, agent="b")
        write(store, small, -1, 0)
        with store.database.write() as at:
            at.run("UPDATE counters SET next = ? WHERE name = 'id'", (1 << 40,))
        small.next = 2
        steps = [(1, b"x", b"y")]
        both = [Progress(large, -1, [(0, b"x", b"y")]), Progress(small, 1, steps)]
        store.commit(Batch(at=3.0, progress=both))
        assert store.find_runs([small.id, large.id]) == {small.id: small, large.id: large}
        assert large.number == 1 << 40
        assert [one.step for one in store.history(small)] == [0, 1]

    def test_alarms_and_messages_come_with_the_steps(self, store: Store) -> None:
        """Alarms and messages are written in the same transaction as the steps."""
        run = a_run(store)
        batch = Batch(
            at=2.0,
            progress=[Progress(run, -1, [(0, b"x", b"y")])],
            raised=[(run.id, "alarm-1", "target", "p is low")],
            messages=[("alarm-1", "ops", b"{}")],
        )
        store.commit(batch)
        with store.database.read() as at:
            assert at.rows("SELECT id, run, cleared_at FROM alarms") == [
                ("alarm-1", run.number, None)
            ]
            assert at.rows("SELECT alarm, hook, state FROM outbox") == [
                ("alarm-1", "ops", "waiting")
            ]
        run.next = 2
        end = Batch(at=3.0, progress=[Progress(run, 1, [(1, b"x", b"y")])], cleared=["alarm-1"])
        store.commit(end)
        with store.database.read() as at:
            assert at.rows("SELECT cleared_at FROM alarms") == [(3.0,)]
