from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from ontarget import Episodes
from ontarget.errors import EpisodesError
from ontarget.reading._parts import _COUNTERS, _LESS_COMMON, _NAMES
from refusals import refuses
from tests.episodes.recordings import FEATURES, in_time_order, recordings


def table(*columns: str, **more: list[object]) -> pl.DataFrame:
    """Two runs of two steps; every column that is named holds 0, 1, 0, 1."""
    first = {columns[0]: ["a", "a", "b", "b"]}
    return pl.DataFrame({**first, **{name: [0, 1, 0, 1] for name in columns[1:]}, **more})


@pytest.mark.parametrize(
    ("columns", "found"),
    [
        (["run", "tick", "speed", "gain"], ("run", "tick", "gain", None)),
        (["id", "t", "x", "r"], ("id", "t", "r", None)),
        (["Episode ID", "Time Step", "Reward", "x", "done"], ("Episode ID", "Time Step", "Reward")),
        # The usual name wins, wherever it stands.
        (["id", "x", "step", "reward", "Episode"], ("Episode", "step", "reward", None)),
        (["Step", "episode", "step", "reward"], ("episode", "step", "reward", None)),
    ],
)
def test_columns_are_guessed_by_common_names(columns, found) -> None:
    frame = table(*columns)
    frame = frame.with_columns(pl.Series(found[0], ["a", "a", "b", "b"]))
    frame = frame.with_columns(pl.Series(found[1], [0, 1, 0, 1]))
    roles = Episodes.from_frame(frame).roles
    assert (roles.episode, roles.step, roles.reward) == found[:3]
    assert roles.terminated == ("done" if "done" in columns else None)


def test_what_was_guessed_is_remarked_and_described() -> None:
    runs = Episodes.from_frame(table("run", "tick", "speed", "gain"))
    (remark,) = runs.remarks
    assert "episode = run, step = tick, reward = gain" in remark
    assert f"\ncolumns    {runs.remarks[0]}" in runs.describe()
    assert runs.take([0]).remarks == runs.remarks
    usual = Episodes.from_frame(table("episode", "step", "speed", "reward"))
    assert usual.remarks == ()
    assert "columns" not in usual.describe()


def test_what_is_passed_is_not_guessed() -> None:
    frame = table("run", "t", "reward", "gain")
    passed = Episodes.from_frame(frame, reward="gain", features=["t"])
    assert (passed.roles.reward, passed.schema.names) == ("gain", ("t",))
    assert passed.remarks == (
        "guessed by name: episode = run",
        "no column for steps: each row is one step, in the order of the table",
    )
    told = Episodes.from_frame(frame, episode="run", step=None, reward="gain")
    assert (told.remarks, told.schema.names) == ((), ("t", "reward"))


def test_less_common_names_count_only_if_no_common_one_is_there() -> None:
    frame = table("unit", "cycle", "x", "points")
    runs = Episodes.from_frame(frame)
    (remark,) = runs.remarks
    assert "episode = unit, step = cycle, reward = points" in remark
    common = table("run", "t", "gain", "match", "seq", "points")
    runs = Episodes.from_frame(common)
    assert runs.schema.names == ("match", "seq", "points")
    judged = Episodes.from_frame(table("unit", "seq", "h", "points"), behavior="h")
    assert (judged.roles.step, judged.schema.names) == ("seq", ("points",))
    with refuses(EpisodesError, "episode", "'unit'", "'match'", "episode=NAME"):
        Episodes.from_frame(table("unit", "t", "gain", "match"))


def test_another_candidate_beside_the_usual_name_is_remarked() -> None:
    frame = table("episode", "step", "reward", "trial", "time")
    assert Episodes.from_frame(frame).remarks == (
        "'trial' could also be the column that holds the episode; read as a feature",
    )
    assert Episodes.from_frame(frame, features=["time"]).remarks == ()


@pytest.mark.parametrize(
    ("columns", "options", "refusal"),
    [
        (["run", "trial", "step", "reward"], {}, ("episode", "'run' or 'trial'")),
        (["run", "t", "time", "reward"], {}, ("step", "'t' or 'time'", "step=None")),
        (["run", "step", "gain", "cost"], {}, ("reward", "'gain' or 'cost'")),
        (["run", "step", "gain", "cost", "h"], {"behavior": "h"}, ("reward", "reward=None")),
        (["run", "step", "reward", "done", "terminal"], {}, ("terminated", "'terminal' or 'done'")),
        (["a", "step", "reward"], {}, ("episode", "a, step, reward")),
        (["run", "step", "b"], {}, ("reward", "run, step, b", "behavior=NAME")),
    ],
)
def test_what_cannot_be_told_is_an_error_that_names_the_argument(columns, options, refusal) -> None:
    with refuses(EpisodesError, *refusal):
        Episodes.from_frame(table(*columns), **options)


def test_a_run_judged_by_a_column_needs_no_reward() -> None:
    runs = Episodes.from_frame(table("run", "step", "x", "score"), behavior="total:score")
    assert (runs.roles.reward, runs.schema.names) == (None, ("x",))
    later = table("run", "step", "x", "score", "gain", "cost")
    assert Episodes.from_frame(later, like=runs).outcomes.tolist() == runs.outcomes.tolist()


def test_a_name_of_a_flag_with_other_values_is_a_feature() -> None:
    frame = table("run", "step", "reward", terminal=["A", "B", "A", "A"], timeout=[30, 30, 1, 0])
    runs = Episodes.from_frame(frame)
    assert runs.schema.names == ("terminal", "timeout")
    assert (runs.roles.terminated, runs.roles.truncated) == (None, None)


@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        ({"t": [0, 10, 0, 10]}, ("step", "step 1", "episode = run", "step = t")),
        ({"reward": [0.0, None, 1, 1]}, (None, "nan", "episode = run", "step = t")),
        ({"done": [1, 0, 0, 1]}, ("terminated", "terminated=None", "terminated = done")),
    ],
)
def test_an_error_says_what_was_guessed(changes, refusal) -> None:
    frame = table("run", "t", "reward", "x").with_columns(
        pl.Series(name, values) for name, values in changes.items()
    )
    with refuses(EpisodesError, *refusal):
        Episodes.from_frame(frame)


def test_times_only_tell_that_the_rows_stand_in_order() -> None:
    timed = table("run", "x", "reward", time=[0.5, 1.25, 7.0, 8.0])
    runs = Episodes.from_frame(timed)
    assert (runs.lengths.tolist(), runs.schema.names) == ([2, 2], ("x", "time"))
    assert runs.remarks == (
        "guessed by name: episode = run",
        "'time' has decimals, so it is a feature, not the step; each row is one step",
    )
    with refuses(EpisodesError, "step", "'time'"):
        Episodes.from_frame(timed[[1, 0, 2, 3]])
    with refuses(EpisodesError, "step", "'time'"):
        Episodes.from_frame(timed[[1, 0, 2, 3]], like=runs)
    whole = table("run", "x", "reward", time=[0.0, 1.0, 0.0, 1.0])
    assert Episodes.from_frame(whole[[1, 0, 2, 3]]).roles.step == "time"


def test_like_lends_its_columns_before_the_usual_names() -> None:
    past = Episodes.from_frame(
        table("night", "step", "x", "euros"), episode="night", reward="euros"
    )
    later = table("night", "step", "x", "euros", "reward").with_columns(reward=pl.lit("none"))
    assert Episodes.from_frame(later, like=past).roles == past.roles
    assert Episodes.from_frame(later, like=past).remarks == ()


@pytest.mark.parametrize(
    ("options", "refusal"),
    [
        ({"features": ["x"]}, ("features", "(x, y)", "got x")),
        ({"features": ["x", "y", "z"]}, ("features", "got x, y, z")),
        ({"categorical": ["y"]}, ("categorical", "(x)", "'y'")),
    ],
)
def test_features_that_differ_from_those_learned_from_are_refused(options, refusal) -> None:
    frame = table("episode", "step", "reward", "x", "y", "z")
    past = Episodes.from_frame(frame, features=["x", "y"], categorical=["x"])
    with refuses(EpisodesError, *refusal):
        Episodes.from_frame(frame, like=past, **options)
    same = Episodes.from_frame(frame, like=past, features=["y", "x"], categorical=["x"])
    assert same.schema == past.schema


SPELLED = st.sampled_from([str.lower, str.upper, str.title, "_{}".format, "{} ".format])


@given(
    frame=recordings(),
    names=st.fixed_dictionaries(
        {
            part: st.sampled_from([*_NAMES[part], *_LESS_COMMON[part], *more])
            for part, more in (("episode", ()), ("step", _COUNTERS), ("reward", ()))
        }
    ),
    spelled=SPELLED,
    first_step=st.integers(-3, 7),
)
def test_a_log_is_read_alike_under_any_common_names_and_first_step(
    frame: pl.DataFrame, names: dict[str, str], spelled, first_step: int
) -> None:
    names = {part: spelled(name) for part, name in names.items()}
    moved = frame.with_columns(pl.col("step") + first_step).rename(names)
    runs, expected = Episodes.from_frame(moved), Episodes.from_frame(frame)
    assert {part: getattr(runs.roles, part) for part in names} == names
    assert runs.roles.first_step == first_step
    back = runs.to_frame().select(moved.columns)
    assert_frame_equal(back, in_time_order(moved, names["episode"], names["step"]))
    assert runs.outcomes.tolist() == expected.outcomes.tolist()
    assert runs.schema == expected.schema


def test_a_dropped_column_plays_no_part() -> None:
    frame = table("run", "t", "gain", "cost", "x", "y")
    runs = Episodes.from_frame(frame, drop=["cost", "y"])  # else: gain or cost?
    assert (runs.roles.reward, runs.schema.names) == ("gain", ("x",))
    with refuses(EpisodesError, "drop", "'z'"):
        Episodes.from_frame(frame, drop=["z"])
    with refuses(EpisodesError, "drop", "'y'"):
        Episodes.from_frame(frame, drop="y")


def test_a_written_file_is_read_without_a_column(tmp_path) -> None:
    frame = table("run", "t", "gain", "x", "y", mode=["on", "off", "on", "on"])
    runs = Episodes.from_frame(frame, categorical=["x"])
    runs.write(tmp_path / "runs.parquet")
    kept = Episodes.read(tmp_path / "runs.parquet", drop=["y"]).schema
    assert kept.names == ("x", "mode")
    assert kept.categorical == (0, 1)


def test_a_time_as_a_feature_is_refused_with_the_way_out() -> None:
    at = pl.Series("at", [0, 1, 2, 3], dtype=pl.Datetime)
    frame = table("run", "step", "reward", "x").with_columns(at)
    with refuses(EpisodesError, "times", "'at'", "drop=['at']"):
        Episodes.from_frame(frame)
    assert Episodes.from_frame(frame, drop=["at"]).schema.names == ("x",)
    with refuses(EpisodesError, "times", "drop=['at', 'b']"):
        Episodes.from_frame(frame.with_columns(b=pl.col("at").dt.date()))


INNINGS = {
    "match": ["x", "x", "x", "x", "y", "y"],
    "inning": [1, 1, 2, 2, 1, 1],
    "over": [0, 0, 0, 0, 1, 0],
    "ball": [2, 1, 1, 2, 1, 3],
    "runs": [4, 1, 0, 6, 2, 3],
}


def test_several_columns_name_an_episode_and_sort_its_rows() -> None:
    frame = pl.DataFrame(INNINGS)
    options = {"episode": ["match", "inning"], "step": ["over", "ball"], "reward": "runs"}
    runs = Episodes.from_frame(frame, **options)
    assert runs.ids.tolist() == ["x/1", "x/2", "y/1"]
    assert [runs.rewards_at(t).tolist() for t in (0, 1)] == [[1, 0, 3], [4, 6, 2]]
    assert runs.schema.names == ()
    assert (runs.roles.episode, runs.roles.step) == ("match,inning", "over,ball")
    joined = {name: ",".join(value) for name, value in options.items() if name != "reward"}
    same = Episodes.from_frame(frame, **joined, reward="runs", features=["over"])
    assert (same.ids.tolist(), same.schema.names) == (runs.ids.tolist(), ("over",))
    again = Episodes.from_frame(frame, like=runs)
    assert_frame_equal(again.to_frame(), runs.to_frame())
    assert again.remarks == ()


def test_episodes_of_several_columns_are_written_and_read(tmp_path) -> None:
    frame = pl.DataFrame(INNINGS)
    runs = Episodes.from_frame(frame, episode="match,inning", step="over,ball", reward="runs")
    for ending in ("parquet", "csv"):
        path = tmp_path / f"runs.{ending}"
        runs.write(path)
        again = Episodes.read(path, like=runs)
        assert_frame_equal(again.to_frame(), runs.to_frame())


def test_different_keys_never_make_one_episode() -> None:
    keys = {"a": ["x/y", "x", "x\\", "x"], "b": ["z", "y/z", "z", "\\/z"]}
    frame = pl.DataFrame({**keys, "reward": [1, 2, 3, 4]})
    runs = Episodes.from_frame(frame, episode=["a", "b"])
    assert runs.outcomes.tolist() == [1, 2, 3, 4]
    assert np.unique(runs.ids).size == 4


@given(frame=recordings(), cut=st.integers(1, 3), order=st.randoms(use_true_random=False))
def test_sort_keys_count_the_rows_as_step_numbers_do(frame: pl.DataFrame, cut: int, order) -> None:
    keyed = frame.with_columns(high=pl.col("step") // cut, low=pl.col("step") % cut)
    features = [name for name in keyed.columns if name in FEATURES]
    expected = Episodes.from_frame(keyed, features=features)
    found = Episodes.from_frame(keyed.drop("step"), features=features, step=["high", "low"])
    renamed = found.to_frame().rename({"high,low": "step"})
    assert_frame_equal(renamed, expected.to_frame())


TIMES = ["2026-03-01 10:00:00", "2026-03-01 09:59:59", "2026-03-02 00:00:00", "2026-02-28 23:00:00"]


@pytest.mark.parametrize("kind", ["text", "T", "Datetime", "zoned", "Date", "Duration"])
def test_times_sort_the_rows_of_an_episode(kind: str) -> None:
    text = pl.Series("at", TIMES)
    column = {
        "text": lambda: text,
        "T": lambda: text.str.replace(" ", "T") + "+02:00",
        "Datetime": lambda: text.str.to_datetime(),
        "zoned": lambda: text.str.to_datetime().dt.replace_time_zone("Europe/Lisbon"),
        "Date": lambda: pl.Series("at", ["2026-03-02", "2026-03-01"] * 2).str.to_date(),
        "Duration": lambda: text.str.to_datetime() - text.str.to_datetime().min(),
    }[kind]()
    frame = table("run", "x").with_columns(column, reward=pl.Series([1, 2, 3, 4]))
    runs = Episodes.from_frame(frame, step="at")
    assert runs.rewards_at(0).tolist() == [2.0, 4.0]
    assert (runs.roles.step, runs.schema.names, runs.remarks[1:]) == ("at", ("x",), ())
    assert_frame_equal(Episodes.from_frame(frame, like=runs).to_frame(), runs.to_frame())


def test_a_time_that_is_guessed_to_be_the_step_is_remarked() -> None:
    frame = table("run", "x", "reward").with_columns(time=pl.Series(TIMES))
    runs = Episodes.from_frame(frame)
    assert runs.remarks == (
        "guessed by name: episode = run, step = time",
        "'time' contains times: they sort the rows, which are counted as steps",
    )


@pytest.mark.parametrize(
    ("options", "refusal"),
    [
        ({"step": ["t"]}, ("step", "episode b", "'t' (0)", "['t', NAME]")),
        ({"step": "t,x"}, ("step", "'t' and 'x'", "(0, 1)")),
        ({"step": ["t", "gap"]}, (None, "'gap'", "None", "row 1")),
        ({"step": ["t", "at"]}, (None, "'at'", "'soon'", "row 1")),
        ({"step": ["t", "mode"]}, (None, "'mode'", "'on'")),
        ({"step": "half"}, ("step", 0.5, "'half'", "row 0")),
        ({"episode": ["run", "z"]}, ("episode", "'run,z'")),
        ({"episode": [3]}, ("episode", "[3]")),
        ({"reward": ["x"]}, ("reward", "['x']")),
        ({"step": "t"}, ("episode", "episode b", "episode=(NAME, NAME)")),
    ],
)
def test_keys_that_do_not_sort_or_name_are_refused(options, refusal) -> None:
    frame = table("run", "reward").with_columns(
        t=pl.Series([0, 1, 0, 0]),
        x=pl.Series([1, 1, 1, 1]),
        gap=pl.Series([1, None, 2, 3]),
        at=pl.Series(["2026-01-01", "soon", "2026-01-02", "2026-01-03"]),
        mode=pl.Series(["on", "off", "on", "off"]),
        half=pl.Series([0.5, 1.5, 0.5, 1.5]),
    )
    with refuses(EpisodesError, *refusal):
        Episodes.from_frame(frame, **{"reward": "reward", **options})
