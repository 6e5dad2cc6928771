"""Every command reads a log as the library does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import typer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from ontarget import Episodes, GoalMonitor, Target
from ontarget.cli.mistakes import in_options
from ontarget.errors import OntargetError

from .river import QUICK, call, river, told

NAMES = {
    "episode": ["episode", "run", "Episode ID", "id", "Case ID", "lap"],
    "step": ["step", "t", "Tick", "time", "seq", "second"],
    "reward": ["reward", "gain", "R", "euros"],
}


@st.composite
def logs(draw: st.DrawFn) -> tuple[pl.DataFrame, dict[str, Any]]:
    """A log of any column names, first step and order, and some options to read it by."""
    lengths = draw(st.lists(st.integers(1, 3), min_size=2, max_size=4))
    first, rows = draw(st.integers(-1, 3)), sum(lengths)
    named = {part: draw(st.sampled_from(names)) for part, names in NAMES.items()}
    steps = [t + first for length in lengths for t in range(length)]
    if draw(st.booleans()):
        steps = [t + 0.5 for t in steps]
    numbers = st.lists(st.integers(-9, 9), min_size=rows, max_size=rows)
    columns = {
        named["episode"]: [i for i, length in enumerate(lengths) for _ in range(length)],
        named["step"]: steps,
        named["reward"]: draw(numbers),
        "x": draw(numbers),
    }
    for extra in draw(st.lists(st.sampled_from(["trial", "score", "turn", "done"]), unique=True)):
        columns[extra] = draw(numbers)
    order = draw(st.permutations(range(rows)) | st.just(list(range(rows))))
    options: dict[str, Any] = {part: name for part, name in named.items() if draw(st.booleans())}
    if draw(st.booleans()):
        options["first_step"] = draw(st.just(first) | st.integers(-1, 3))
    for part in ("episode", "step"):
        if draw(st.booleans()):
            options[part] = [named[part], draw(st.sampled_from(["x", *named.values()]))]
    if draw(st.booleans()):
        options["features"] = ["x"]
    if draw(st.booleans()):
        options["drop"] = [draw(st.sampled_from([*columns, "score"]))]
    return pl.DataFrame(columns)[list(order)], options


def words(options: dict[str, Any]) -> list[str]:
    """The options as the command line spells them."""
    pairs = {f"--{name.replace('_', '-')}": value for name, value in options.items()}
    return [
        word
        for name, value in pairs.items()
        for word in (name, ",".join(value) if isinstance(value, list) else str(value))
    ]


@pytest.fixture(scope="module")
def monitor(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of runs of up to three steps with one feature x."""
    rng = np.random.default_rng(0)
    runs = Episodes.from_arrays(
        rng.normal(size=(200, 3, 1)), rng.normal(size=(200, 3)), features=["x"]
    )
    path = tmp_path_factory.mktemp("model") / "m.ontarget"
    GoalMonitor().fit(runs, progress=False).save(path)
    return path


# What each command hands the episodes to that it has read.
TAKERS = {
    "look": ("ontarget.Episodes.look", ["LOG"]),
    "fit": ("ontarget.GoalMonitor.fit", ["LOG", "-o", "NEW"]),
    "evaluate": ("ontarget.GoalMonitor.evaluate", ["MODEL", "LOG", "--target", "0:"]),
    "watch": ("ontarget.cli.replay.Replay", ["MODEL", "--replay", "LOG", "--target", "0:"]),
}


@pytest.mark.parametrize("command", TAKERS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(log=logs(), ending=st.sampled_from([".csv", ".parquet"]))
def test_a_log_gives_the_same_episodes_in_the_library_and_on_the_command_line(
    command: str,
    log: tuple[pl.DataFrame, dict[str, Any]],
    ending: str,
    monitor: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    frame, options = log
    path = tmp_path / f"log{ending}"
    (frame.write_csv if ending == ".csv" else frame.write_parquet)(path)
    seen: list[Episodes] = []

    def keep(*arguments: Any, **_: Any) -> None:
        seen.extend(one for one in arguments if isinstance(one, Episodes))
        raise typer.Exit

    taker, arguments = TAKERS[command]
    monkeypatch.setattr(taker, keep)
    files = {"LOG": path, "MODEL": monitor, "NEW": tmp_path / "new.ontarget"}
    result = call([command, *(files.get(one, one) for one in arguments), *words(options)])
    if command in ("evaluate", "watch"):
        options["like"] = GoalMonitor.load(monitor)
    if result.exit_code:
        with pytest.raises(OntargetError) as refused:
            Episodes.read(path, **options)
        assert result.stderr == f"ontarget: {in_options(refused.value)}\n"
        return
    expected = Episodes.read(path, **options)
    assert_frame_equal(seen[0].to_frame(), expected.to_frame())
    assert (seen[0].roles, seen[0].remarks) == (expected.roles, expected.remarks)
    if command in ("fit", "watch"):  # the others say so beside what they found
        assert all(remark in result.output for remark in expected.remarks)


def test_times_a_clock_and_an_outcome_are_options_too(tmp_path: Path) -> None:
    at = pl.datetime_range(
        pl.datetime(2026, 1, 1), pl.datetime(2026, 1, 3, 11), "1h", eager=True
    ).alias("at")
    frame = pl.DataFrame({"run": np.repeat(np.arange(10), 6), "x": np.arange(60.0)}).with_columns(
        at, result=pl.col("run") % 3
    )
    frame.write_csv(tmp_path / "log.csv")
    options = ["--step", "at", "--every", "2h", "--times", "at", "--outcome", "result", "--json"]
    found = json.loads(told(["look", tmp_path / "log.csv", *options]))
    assert found["lengths"]["most"] == 3.0
    assert [one["name"] for one in found["columns"]][:2] == ["x", "at_elapsed_h"]
    assert found["outcomes"]["most"] == 2.0
    options[3] = "2"
    bad = call(["look", tmp_path / "log.csv", *options])
    assert bad.stderr.startswith("ontarget: --every needs a time such as 30s")


def test_a_csv_is_opened_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log.csv"
    Episodes.read(river().runs).take(range(60)).to_frame().write_csv(path)
    opened, scan = [], pl.scan_csv

    def counted(source: Path, **options: Any) -> pl.LazyFrame:
        opened.append(source)
        return scan(source, **options)

    monkeypatch.delattr(pl, "read_csv")
    monkeypatch.setattr(pl, "scan_csv", counted)
    told(["fit", path, "-o", tmp_path / "m.ontarget", *QUICK])
    assert opened == [path]


@pytest.fixture(scope="module")
def engines(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Logs of engines that are judged by the hours they lasted, without any reward."""
    folder = tmp_path_factory.mktemp("engines")
    rng = np.random.default_rng(0)
    for name, n in (("past", 200), ("new", 40)):
        wear = rng.gamma(2.0, size=(n, 4))
        life = np.cumsum(10.0 - wear, axis=1)
        frame = pl.DataFrame(
            {
                "engine": np.repeat(np.arange(n), 4),
                "cycle": np.tile(np.arange(1, 5), n),
                "wear": np.concatenate([np.zeros((n, 1)), wear[:, :-1]], axis=1).ravel(),
                "life": life.ravel(),
            }
        )
        frame.write_csv(folder / f"{name}.csv")
    options = ["--episode", "engine", "--behavior", "total:life"]
    told(["fit", folder / "past.csv", "-o", folder / "engines.ontarget", *options])
    return folder


def test_a_monitor_fitted_on_a_behavior_column_alone_is_evaluated(engines: Path) -> None:
    model, new = engines / "engines.ontarget", engines / "new.csv"
    answer = json.loads(told(["evaluate", model, new, "--target", "32:", "--json"]))
    monitor = GoalMonitor.load(model)
    found = monitor.evaluate(Episodes.read(new, like=monitor), Target.at_least(32.0))
    assert answer["brier"]["value"] == found.brier().value
    assert answer["remarks"] == []
    renamed = engines / "renamed.csv"
    pl.read_csv(new).rename({"engine": "run", "cycle": "t"}).write_csv(renamed)
    told_so = told(["evaluate", model, renamed, "--target", "32:"])
    assert told_so.startswith("columns    guessed by name: episode = run, step = t\n")
    assert "not right? name the columns: --episode" in told_so


def test_a_monitor_fitted_on_a_behavior_column_alone_is_replayed(engines: Path) -> None:
    model, new = engines / "engines.ontarget", engines / "new.csv"
    arguments = ["watch", model, "--target", "32:", "--replay", new, "--run", "7"]
    answers = [json.loads(line) for line in told(arguments).splitlines()]
    outcome = Episodes.read(new, like=GoalMonitor.load(model)).outcomes[7]
    assert len(answers) == 5
    assert answers[-1]["p"] == float(outcome >= 32.0)
    renamed = engines / "replayed.csv"
    pl.read_csv(new).rename({"engine": "serial", "cycle": "t"}).write_csv(renamed)
    arguments[5] = renamed
    assert "pass --episode NAME" in call(arguments).stderr
    result = call([*arguments, "--episode", "serial"])
    assert [json.loads(line) for line in result.stdout.splitlines()] == answers
    assert result.stderr.startswith("columns    guessed by name: step = t\n")


def test_a_replay_of_runs_that_were_cut_off_is_refused_unless_they_are_dropped(
    engines: Path,
) -> None:
    cut = engines / "cut.csv"
    last = pl.when(pl.col("engine") == 7).then(2).otherwise(4)
    table = pl.read_csv(engines / "new.csv").filter(pl.col("cycle") <= last)
    is_cut = (pl.col("engine") == 7) & (pl.col("cycle") == 2)
    table.with_columns(truncated=is_cut).write_csv(cut)
    arguments = ["watch", engines / "engines.ontarget", "--target", "32:", "--replay", cut]
    assert "1 of 40 episodes were cut off" in call(arguments).stderr
    answers = [json.loads(line) for line in told([*arguments, "--censored", "drop"]).splitlines()]
    assert {one["agent"] for one in answers} == {str(i) for i in range(40) if i != 7}


def test_columns_are_named_for_a_replay_only() -> None:
    arguments = ["watch", river().model, "--target", "-60:", "--episode", "run"]
    result = call(arguments, env={"COLUMNS": "200"})
    assert result.exit_code == 2
    assert "options that name columns are for --replay RUNS only" in result.stderr


def test_every_command_that_reads_runs_takes_the_same_options() -> None:
    listed = [
        told([command, "--help"], env={"COLUMNS": "100"}).split("How to read RUNS")[1]
        for command in ("look", "fit", "evaluate", "study", "watch")
    ]
    panels = [text.split("╰")[0] for text in listed]
    assert len(set(panels)) == 1
    assert "--censored" in panels[0]
