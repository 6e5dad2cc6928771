"""The store keeps its contract on both databases, and knows its own version."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ontarget.errors import StoreError
from ontarget.service import _schema
from ontarget.service import store as stores
from ontarget.service._database import copy_file
from ontarget.service.store import Store, open_store
from ontarget.service.testing import StoreContract, a_run, write


class TestStore(StoreContract):
    @pytest.fixture
    def store(self, url: str) -> Iterator[Store]:
        found = open_store(url)
        yield found
        found.close()


def test_what_was_committed_is_there_after_opening_again(url: str) -> None:
    first = open_store(url)
    run = a_run(first)
    write(first, run, -1, 0)
    first.close()
    second = open_store(url)
    assert second.find_runs([run.id]) == {run.id: run}
    second.close()


def test_an_older_database_is_moved_only_when_asked(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = open_store(url)
    run = a_run(old)
    write(old, run, -1, 0)
    old.close()
    newer = (*_schema.MIGRATIONS, ("CREATE TABLE extra (id {key} PRIMARY KEY)",))
    monkeypatch.setattr(stores, "MIGRATIONS", newer)
    with pytest.raises(StoreError, match=r"schema 1.*needs 2; back it up, then pass --migrate"):
        open_store(url)
    moved = open_store(url, migrate=True)
    assert moved.find_runs([run.id]) == {run.id: run}
    moved.close()
    open_store(url).close()  # it is of this version now
    monkeypatch.undo()
    with pytest.raises(StoreError, match=r"schema 2.*knows 1; install a newer one"):
        open_store(url, migrate=True)


def test_a_second_service_on_one_file_is_refused(tmp_path: Path) -> None:
    first = open_store(str(tmp_path / "one.db"))
    with pytest.raises(StoreError, match="another service holds"):
        open_store(str(tmp_path / "one.db"))
    first.close()
    open_store(str(tmp_path / "one.db")).close()


def test_a_copy_is_made_while_the_store_is_in_use(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "one.db"))
    run = a_run(store)
    write(store, run, -1, 0)
    copy_file(tmp_path / "one.db", tmp_path / "copy.db")
    write(store, run, 1, 1)
    store.close()
    copy = open_store(str(tmp_path / "copy.db"))
    assert copy.find_runs([run.id])[run.id].next == 1
    copy.close()


@pytest.mark.parametrize("url", ["mysql://host/x", "nowhere/at/all.db"])
def test_an_address_that_names_no_database_is_refused(url: str) -> None:
    with pytest.raises(StoreError, match=r"postgresql://…|no folder nowhere/at"):
        open_store(url)
