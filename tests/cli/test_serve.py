"""`ontarget serve` says what it holds, makes tokens and copies, and refuses what is unsafe."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from ontarget import Episodes, GoalMonitor
from ontarget.cli import app
from ontarget.service.service import Service
from ontarget.service.store import open_store
from ontarget.service.tokens import Tokens


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    walks = Episodes.from_arrays(rng.normal(size=(200, 3, 1)), rng.normal(size=(200, 3)))
    path = tmp_path_factory.mktemp("model") / "walk.ontarget"
    GoalMonitor().fit(walks, progress=False).save(path)
    return path


def run(*words: object, code: int = 0) -> str:
    found = CliRunner().invoke(app, ["serve", *map(str, words)])
    assert found.exit_code == code, found.output
    return found.output


def test_check_says_what_is_held(model: Path, tmp_path: Path) -> None:
    said = run(model, "--target", "0:", "--database", tmp_path / "a.db", "--check")
    assert said.startswith("contract   walk@1: 0:, alarm below 0.")
    again = run("--database", tmp_path / "a.db", "--check")  # the database knows it
    assert again == said


def test_a_unit_is_taken_and_one_of_no_behavior_is_refused(model: Path, tmp_path: Path) -> None:
    asked = (model, "--target", "0:", "--database", tmp_path / "a.db", "--check")
    assert run(*asked, "--unit", "minutes").startswith("contract   walk@1: 0: minutes, alarm")
    wrong = run(*asked, "--unit", "gain=points,spent=kJ", code=1)
    assert "unit of contract 'walk' needs a text such as 'minutes'" in wrong


def test_contracts_come_from_a_file(model: Path, tmp_path: Path) -> None:
    (tmp_path / "walk.ontarget").write_bytes(model.read_bytes())
    contracts = tmp_path / "service.toml"
    contracts.write_text(
        '[[contract]]\nname = "high"\nmodel = "walk.ontarget"\ntarget = "1:"\nalarm_below = 0.5\n'
        '[[contract]]\nname = "low"\nmodel = "walk.ontarget"\ntarget = "-1:"\nalarm_below = 0.7\n'
    )
    said = run("--contracts", contracts, "--database", tmp_path / "a.db", "--check")
    assert [line.split(",")[0] for line in said.splitlines()] == [
        "contract   high@1: 1:",
        "contract   low@1: -1:",
    ]
    contracts.write_text('[[contract]]\nname = "high"\ncolor = "red"\n')
    wrong = run("--contracts", contracts, "--database", tmp_path / "a.db", "--check", code=1)
    assert "is not a valid file of contracts" in wrong


def test_a_token_is_made_before_the_service_leaves_this_machine(
    model: Path, tmp_path: Path
) -> None:
    here = (model, "--target", "0:", "--database", tmp_path / "a.db")
    assert "there is no token yet" in run(*here, "--host", "0.0.0.0", code=1)
    token = run("--database", tmp_path / "a.db", "--new-token", "report,read").strip()
    store = open_store(str(tmp_path / "a.db"))
    assert Tokens(store).scopes_of(token) == {"report", "read"}
    store.close()
    wrong = run("--database", tmp_path / "a.db", "--new-token", "king", code=1)
    assert "`scopes` needs one or more of report, read, admin, got king" in wrong


def test_a_database_is_copied(model: Path, tmp_path: Path) -> None:
    run(model, "--target", "0:", "--database", tmp_path / "a.db", "--check")
    run("--database", tmp_path / "a.db", "--backup", tmp_path / "b.db")
    copy = open_store(str(tmp_path / "b.db"))
    assert copy.runs() == []
    copy.close()
    twice = run("--database", tmp_path / "a.db", "--backup", tmp_path / "b.db", code=1)
    assert "already exists" in twice


def test_a_copy_is_restored(model: Path, tmp_path: Path) -> None:
    database, copy = tmp_path / "a.db", tmp_path / "b.db"
    run(model, "--target", "0:", "--database", database, "--check")
    run("--database", database, "--backup", copy)
    later = run(model, "--target", "-1:", "--database", database, "--check")
    assert later.startswith("contract   walk@2: -1:")
    service = open_store(str(database))
    assert "another service is using" in run("--database", database, "--restore", copy, code=1)
    service.close()
    run("--database", database, "--restore", copy)
    assert run("--database", database, "--check").startswith("contract   walk@1: 0:")
    run("--database", tmp_path / "new.db", "--restore", copy)  # also where there was nothing
    damaged = tmp_path / "c.db"
    damaged.write_bytes(b"no database" * 100)
    assert "cannot be restored" in run("--database", database, "--restore", damaged, code=1)
    assert run("--database", database, "--check").startswith("contract   walk@1: 0:")
    assert "there is no backup file" in run("--database", database, "--restore", "gone.db", code=1)


def test_a_service_needs_something_to_hold_runs_to() -> None:
    for words in ([], ["--target", "0:"]):
        assert "MODEL" in run(*words, code=2)


def test_what_is_kept_and_who_may_ask_is_handed_to_the_service(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, Any] = {}

    def serve_on(service: Service, **options: Any) -> None:
        seen.update(options, kept=service.keep_seconds, runs=service.keep_runs)

    monkeypatch.setattr("ontarget.service.web.server.serve_on", serve_on)
    asked = (model, "--target", "0:", "--database", tmp_path / "a.db")
    old, copies = tmp_path / "old" / "runs", tmp_path / "copies"
    kept = ("--keep-days", "2", "--keep-runs", "5", "--export", old, "--models", copies)
    run(*asked, *kept, "--require-token", "--port", "8500")
    assert (seen["kept"], seen["runs"], seen["port"]) == (2 * 86_400.0, 5, 8500)
    assert seen["require_token"] is True
    assert old.is_dir()  # made at the start, not when the first run is to be deleted
    assert any(copies.iterdir())
    for days in ("0", "-1", "nan"):
        said = run(*asked, "--keep-days", days, code=2)
        assert "needs a number of days above 0" in " ".join(said.replace("│", " ").split())
