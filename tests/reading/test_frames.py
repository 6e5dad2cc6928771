from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from polars.testing import assert_frame_equal

from ontarget import Episodes
from ontarget.episodes import Feature, Schema
from ontarget.errors import CategoryError, CensoredError, EpisodesError
from refusals import refuses
from tests.episodes.recordings import in_time_order, recordings


def log(**changes) -> pl.DataFrame:
    columns = {
        "episode": ["a", "a", "a", "b", "b"],
        "step": [0, 1, 2, 0, 1],
        "speed": [1.0, 2.0, 3.0, 4.0, 5.0],
        "mode": ["on", "off", "on", "on", "off"],
        "reward": [0.5, 0.25, 1.0, 2.0, -1.0],
    }
    columns.update(changes)
    return pl.DataFrame({name: values for name, values in columns.items() if values is not None})


@given(recordings())
def test_frame_to_episodes_and_back_is_exact(frame: pl.DataFrame) -> None:
    runs = Episodes.from_frame(frame)
    back = runs.to_frame().select(frame.columns)
    assert_frame_equal(back, in_time_order(frame), check_exact=True)


@given(recordings())
def test_every_kind_of_dataframe_gives_the_same_episodes(frame: pl.DataFrame) -> None:
    expected = Episodes.from_frame(frame).to_frame()
    assert_frame_equal(Episodes.from_frame(frame.lazy()).to_frame(), expected)
    assert_frame_equal(Episodes.from_frame(frame.to_arrow()).to_frame(), expected)


def test_pandas_frames_are_read() -> None:
    frame = pd.DataFrame(log().to_dict(as_series=False))
    runs = Episodes.from_frame(frame)
    assert_frame_equal(runs.to_frame(), Episodes.from_frame(log()).to_frame())
    frame["speed"] = frame["speed"].astype("Float64").mask(frame["step"] == 1)
    assert np.isnan(Episodes.from_frame(frame).at(1).states[:, 0]).all()


def test_text_is_encoded_by_a_sorted_dictionary() -> None:
    runs = Episodes.from_frame(log())
    assert runs.schema.names == ("speed", "mode")
    assert runs.schema.features[1].categories == ("off", "on")
    assert runs.schema.categorical == (1,)
    assert runs.at(0).states.tolist() == [[1.0, 1.0], [4.0, 1.0]]


def test_unseen_category_is_an_error_that_names_it() -> None:
    train = Episodes.from_frame(log())
    later = log(mode=["on", "broken", "on", "on", "off"])
    with refuses(CategoryError, None, "'mode'", "'broken'", "'off', 'on'", "episode a, step 1"):
        Episodes.from_frame(later, like=train)


def test_like_shares_dictionary_behavior_and_horizon() -> None:
    train = Episodes.from_frame(log(), behavior="max", horizon=7)
    later = Episodes.from_frame(log(mode=["on"] * 5), like=train)
    assert later.schema.features[1].categories == ("off", "on")
    assert later.behavior.spec == "max"
    assert later.horizon == 7
    with refuses(EpisodesError, None, "'x'", "'speed'", "episode a, step 0"):
        Episodes.from_frame(log(speed=["x"] * 5), like=train)


def test_columns_may_have_any_names() -> None:
    frame = log().rename({"episode": "run", "step": "tick", "reward": "gain"})
    runs = Episodes.from_frame(frame, episode="run", step="tick", reward="gain", features=["speed"])
    assert runs.schema.names == ("speed",)
    assert runs.to_frame().columns == ["run", "tick", "speed", "gain"]


def test_steps_out_of_order_are_sorted() -> None:
    shuffled = log()[[3, 1, 4, 0, 2]]
    runs = Episodes.from_frame(shuffled)
    assert runs.ids.tolist() == ["b", "a"]
    assert runs.outcomes.tolist() == [1.0, 1.75]


def test_steps_may_count_from_one() -> None:
    runs = Episodes.from_frame(log(step=[1, 2, 3, 1, 2]))
    assert runs.to_frame()["step"].to_list() == [1, 1, 2, 2, 3]
    assert "from 1" in runs.describe()
    assert "count from" not in Episodes.from_frame(log()).describe()
    with refuses(EpisodesError, "first_step", "episode a", "0..3", "first_step=1"):
        Episodes.from_frame(log(step=[1, 2, 3, 1, 2]), first_step=0)


def test_steps_count_from_the_smallest_unless_told() -> None:
    frame = log(step=[5, 6, 7, 5, 6])
    runs = Episodes.from_frame(frame)
    assert (runs.lengths.tolist(), runs.roles.first_step) == ([3, 2], 5)
    with refuses(EpisodesError, "first_step", "episode a", "0..7", "first_step=5"):
        Episodes.from_frame(frame, first_step=0)
    with refuses(EpisodesError, "first_step", "step 5", "first_step=5"):
        Episodes.from_frame(frame, first_step=6)
    later = Episodes.from_frame(log(), like=runs)
    (remark,) = later.remarks
    assert "from 0" in remark
    assert "from 5" in remark


def test_steps_that_count_on_through_all_episodes_are_told_from_lost_ones() -> None:
    with refuses(EpisodesError, "step", "episode b", "0..4", "step=None"):
        Episodes.from_frame(log(step=[0, 1, 2, 3, 4]))


def test_like_lends_its_column_names_where_the_usual_ones_are_missing() -> None:
    names = {"episode": "run", "step": "tick", "reward": "gain"}
    past = Episodes.from_frame(log().rename(names), **names)
    assert Episodes.from_frame(log().rename(names), like=past).ids.tolist() == ["a", "b"]
    assert Episodes.from_frame(log(), like=past).ids.tolist() == ["a", "b"]
    with refuses(EpisodesError, "like", "str"):
        Episodes.from_frame(log(), like="robot.ontarget")  # type: ignore[arg-type]


def test_rows_without_steps_count_as_recorded_in_order() -> None:
    runs = Episodes.from_frame(log(step=None), step=None)
    assert_frame_equal(runs.to_frame(), Episodes.from_frame(log()).to_frame())


def test_a_column_can_be_the_behavior() -> None:
    runs = Episodes.from_frame(
        log(height=[1.0, 9.0, 2.0, 3.0, 4.0], reward=None), behavior="height"
    )
    assert runs.outcomes.tolist() == [2.0, 4.0]
    assert runs.schema.names == ("speed", "mode")
    assert runs.to_frame()["height"].to_list() == [1.0, 3.0, 9.0, 4.0, 2.0]


def test_a_group_is_no_feature_unless_listed_as_one() -> None:
    frame = log(group=["x", "x", "x", "y", "y"])
    assert Episodes.from_frame(frame).schema.names == ("speed", "mode")
    both = Episodes.from_frame(frame, features=["speed", "group"])
    assert both.schema.names == ("speed", "group")
    assert both.groups.tolist() == ["x", "y"]
    assert both.to_frame().columns == ["episode", "step", "speed", "group", "reward"]
    assert Episodes.from_frame(frame, group=None).schema.names == ("speed", "mode", "group")


def test_a_terminated_column_tells_ends_from_cuts() -> None:
    frame = log(terminated=[False, False, True, False, False])
    with refuses(CensoredError, "censored", "1 of 2", "episode b"):
        Episodes.from_frame(frame)
    kept = Episodes.from_frame(frame, censored="drop")
    assert kept.ids.tolist() == ["a"]
    assert kept.dropped == 1
    frame = log(truncated=[0, 0, 0, 0, 1])
    with refuses(CensoredError, "censored", "1 of 2", "episode b"):
        Episodes.from_frame(frame)
    assert len(Episodes.from_frame(frame, truncated=None, features=["speed"])) == 2


def test_numbers_can_be_declared_categories() -> None:
    runs = Episodes.from_frame(log(), categorical=["speed"])
    assert runs.schema.categorical == (0, 1)


@pytest.mark.parametrize(
    ("changes", "options", "refusal"),
    [
        ({"reward": [0.5, None, 1, 2, 3]}, {}, (None, "'reward'", "nan", "episode a, step 1")),
        (
            {"reward": [0.5, 1, 1, 2, float("inf")]},
            {},
            (None, "'reward'", "inf", "episode b, step 1"),
        ),
        ({"step": [0, 2, 3, 0, 1]}, {}, ("step", "episode a", "step 1", "0..3")),
        ({"step": [0, 1, 10**15, 0, 1]}, {}, ("step", "episode a", "step 2")),
        ({"step": [0, 1, 1, 0, 1]}, {}, ("episode", "episode a", "step 1")),
        ({"step": [0.0, 1.0, 2.5, 0.0, 1.0]}, {}, ("step", 2.5, "row 2")),
        ({"step": [0, 1, None, 0, 1]}, {}, (None, "'step'", "row 2")),
        ({"episode": ["a", "a", None, "b", "b"]}, {}, (None, "'episode'", "row 2")),
        ({"episode": [0.5] * 5}, {}, (None, "'episode'", "Float64")),
        ({"reward": None}, {}, ("reward", "episode, step, speed, mode", "reward=NAME")),
        ({}, {"reward": None}, ("reward", "'sum'")),
        ({}, {"step": "t"}, ("step", "'t'", "step=None")),
        ({}, {"episode": "run"}, ("episode", "'run'")),
        ({}, {"group": "team"}, ("group", "'team'")),
        ({}, {"features": ["pace"]}, (None, "'pace'")),
        ({}, {"features": ["reward"]}, (None, "'reward'")),
        ({}, {"categorical": ["step"]}, ("categorical", "'step'")),
        ({}, {"behavior": "height"}, ("behavior", "'height'")),
        ({}, {"behavior": "column:height"}, ("behavior", "'height'")),
        ({}, {"horizon": 2}, ("horizon", 2, "episode a", "horizon=3")),
        ({}, {"colour": "red"}, (None, "'colour'")),
        ({"reward": ["1", "x", "2", "3", "4"]}, {}, (None, "'reward'", "'x'", "episode a, step 1")),
        ({"reward": ["1"] * 5}, {}, (None, "'reward'", "'1'", "episode a, step 0")),
        (
            {"speed": ["1", "2", "fast", "4", "5"]},
            {},
            ("categorical", "'fast'", "'speed'", "episode a, step 2"),
        ),
        ({"speed": [[1.0]] * 5}, {}, ("drop", "'speed'", "List(Float64)")),
        ({"speed": [2**60] * 5}, {}, (None, 1152921504606846976, "episode a, step 0")),
        (
            {"speed": [1.0, float("-inf"), 1, 1, 1]},
            {},
            (None, "'speed'", "-inf", "episode a, step 1"),
        ),
        ({"group": ["x", "x", "z", "y", "y"]}, {}, (None, "'group'", "episode a, step 2")),
        ({"group": ["x", "x", None, "y", "y"]}, {}, (None, "'group'", "row 2")),
        ({"terminated": [True, False, True, False, True]}, {}, ("terminated", "episode a, step 0")),
        ({"truncated": [0, 0, 3, 0, 0]}, {}, (None, 3.0, "row 2")),
    ],
)
def test_bad_tables_are_refused_with_the_place(changes, options, refusal: tuple) -> None:
    with refuses(EpisodesError, *refusal):
        Episodes.from_frame(log(**changes), **options)


def test_places_are_named_in_tables_of_any_order() -> None:
    frame = log(speed=["1", "2", "fast", "4", "5"])[[4, 2, 0, 3, 1]]
    with refuses(EpisodesError, "categorical", "'fast'", "episode a, step 2"):
        Episodes.from_frame(frame)
    frame = log(reward=[0.0, 0.0, np.nan, 0.0, 0.0])[[4, 2, 0, 3, 1]]
    with refuses(EpisodesError, None, "nan", "episode a, step 2"):
        Episodes.from_frame(frame)


def test_an_empty_table_and_no_table_are_refused() -> None:
    with refuses(EpisodesError, None, "no rows"):
        Episodes.from_frame(log().head(0))
    with refuses(EpisodesError, "frame", "int"):
        Episodes.from_frame(3)


def test_arrow_tables_are_read() -> None:
    table = pa.table(log().to_dict(as_series=False))
    assert Episodes.from_frame(table).outcomes.tolist() == [1.75, 1.0]


def test_text_may_be_missing_in_every_library_s_way() -> None:
    schema = Schema((Feature("mode", "text", ("off", "on")),))
    for missing in (None, float("nan"), np.float64("nan")):
        assert np.isnan(schema.encode({"mode": missing})).all()


def test_many_states_are_read_as_each_by_itself_and_the_bad_ones_with_their_reason() -> None:
    schema = Episodes.from_frame(log()).schema
    states = [{"speed": 2.0, "mode": "off"}, {"speed": 1.0, "mode": "wild"}, [3.0, "on"]]
    rows, reasons = schema.encode_many(states)
    assert rows[[0, 2]].tolist() == [schema.encode(states[i]).tolist() for i in (0, 2)]
    assert np.isnan(rows[1]).all()
    assert list(reasons) == [1]
    assert "wild" in reasons[1]
    table = pd.DataFrame({"mode": ["off", "on"], "speed": [2.0, 3.0]})  # another order
    assert np.array_equal(schema.encode_many(table)[0], rows[[0, 2]])
