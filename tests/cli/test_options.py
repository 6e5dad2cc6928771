"""Options that say how a log is read, and options that no other test is about."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from ontarget import Episodes, GoalMonitor, reading
from ontarget.cli.options import ReadsRuns, SetsAlarm
from ontarget.errors import EpisodesError
from ontarget.live.setting import AlarmSetting
from ontarget.reading.layout import FrameOptions, Layout

from .river import QUICK, call, river, told

SMALL = ("--model", "quantile_forest")
COLUMNS = {
    "--group": "site",
    "--truncated": "cut",
    "--terminated": "over",
    "--intervened": "by_hand",
    "--cutoff": "allowed",
    "--stop-probability": "risk",
}
# A command that reads recorded runs, without its options for columns.
READERS = {
    "fit": lambda model, runs, out: ["fit", runs, "-o", out, *QUICK],
    "look": lambda model, runs, out: ["look", runs],
    "prepare": lambda model, runs, out: ["prepare", runs, "-o", out],
    "study": lambda model, runs, out: ["study", runs, "--target", "-60:"],
    "evaluate": lambda model, runs, out: ["evaluate", model, runs, "--target", "-60:"],
    "watch": lambda model, runs, out: ["watch", model, "--replay", runs, "--target", "-60:"],
    "explain": lambda model, runs, out: ["explain", model, runs, "--run", "1", "--target", "-60:"],
    "drift": lambda model, runs, out: ["drift", model, runs, "--target", "-60:"],
    "compare": lambda model, runs, out: ["compare", model, model, runs, "--target", "-60:"],
    "recalibrate": lambda model, runs, out: ["recalibrate", model, runs, "-o", out],
}


def test_commands_have_the_options_of_the_library_and_no_others() -> None:
    reading = {one.name for one in fields(ReadsRuns)}
    assert reading == FrameOptions.__annotations__.keys() - {"like", "target"}
    assert reading < {one.name for one in fields(Layout)}
    assert [one.name for one in fields(SetsAlarm)] == [one.name for one in fields(AlarmSetting)]


@pytest.mark.parametrize("command", READERS)
def test_every_command_reads_the_columns_that_are_named(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = river()  # made before reading is replaced
    given: list[dict[str, Any]] = []

    def read(*_: object, **options: Any) -> Episodes:
        given.append(options)
        raise EpisodesError("read no further")

    monkeypatch.setattr(Episodes, "read", read)
    monkeypatch.setattr(reading, "prepare", read)
    words = [word for pair in COLUMNS.items() for word in pair]
    shown = call([*READERS[command](files.model, files.new, tmp_path / "out"), *words])
    assert "read no further" in shown.stderr, shown.output
    named = {option[2:].replace("-", "_"): column for option, column in COLUMNS.items()}
    assert named.items() <= given[0].items()


def marked(path: Path) -> Path:
    """Runs of two sites that all stop for a reason of their own, with columns of any name."""
    rng = np.random.default_rng(0)
    rows = [
        {
            "run": run,
            "step": t,
            "reward": float(rng.normal()),
            "x": float(rng.normal()),
            "site": "north" if run % 2 else "south",
            "cut": t == 2 and run % 10 == 0,
            "by_hand": t == 2 and run % 10 == 5,
        }
        for run in range(100)
        for t in range(3 if run % 10 == 0 else 4)
    ]
    pl.DataFrame(rows).write_csv(path)
    return path


def test_named_columns_give_the_librarys_episodes(tmp_path: Path) -> None:
    log = marked(tmp_path / "log.csv")
    model = tmp_path / "m.ontarget"
    words = ["--group", "site", "--truncated", "cut", "--intervened", "by_hand"]
    told(["fit", log, "-o", model, *QUICK, *words, "--censored", "drop"])
    runs = Episodes.read(log, group="site", truncated="cut", intervened="by_hand", censored="drop")
    fitted = GoalMonitor(model="marginal", group="site").fit(runs, progress=False)
    fitted.save(tmp_path / "n.ontarget")
    assert len(runs) == 80
    assert model.read_bytes() == (tmp_path / "n.ontarget").read_bytes()
    without = ["--group", "none", "--truncated", "none", "--intervened", "none"]
    told(["fit", log, "-o", model, *QUICK, *without])
    assert GoalMonitor.load(model).groups is None


def test_a_model_keeps_as_much_as_it_is_told_to(tmp_path: Path) -> None:
    runs, model = river().runs, tmp_path / "m.ontarget"
    told(["fit", runs, "-o", model, "--no-precedents", "--no-paths", "--max-learn", "100", *SMALL])
    asked = [model, river().new, "--run", "1", "--step", "5", "--target", "-60:", "--json"]
    assert json.loads(told(["explain", *asked]))["precedents"] == []
    kept = tmp_path / "kept.ontarget"
    shown = told(["fit", runs, "-o", kept, "--precedents", "--max-learn", "100", "--json", *SMALL])
    assert json.loads(shown)["learn"] == 100
    asked[0] = kept
    assert json.loads(told(["explain", *asked]))["precedents"] != []
    assert kept.stat().st_size > model.stat().st_size


def test_a_checkpoint_folder_gives_the_same_model(tmp_path: Path) -> None:
    runs, kept = river().runs, tmp_path / "kept"
    for name in ("first", "again"):
        told(["fit", runs, "-o", tmp_path / name, "--checkpoint", kept, *QUICK])
        assert any(kept.iterdir())
    told(["fit", runs, "-o", tmp_path / "without", *QUICK])
    files = [(tmp_path / name).read_bytes() for name in ("first", "again", "without")]
    assert files[0] == files[1] == files[2]


def test_files_that_number_their_own_runs_are_told_apart(tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for name in ("north", "south"):
        runs = Episodes.from_arrays(
            rng.normal(size=(40, 3, 1)),
            rng.normal(size=(40, 3)),
            groups=[f"{name} {i // 5}" for i in range(40)],
        )
        runs.write(folder / f"{name}.csv")
    asked = ["prepare", folder, "-o", tmp_path / "out", "--json"]
    by_file = ["--file-column", "file", "--episode", "file,episode"]
    whole = ["--group", "group", "--by-group", "whole", "--max-learn", "30"]
    found = json.loads(told([*asked, *by_file, *whole]))
    assert found["learn"] + found["assure"] == 80
    assert found["learn"] <= 30
