"""Live readings of every kind: read rightly, or UNKNOWN with a reason; never an exception."""

from __future__ import annotations

import math
import sqlite3
import threading
import warnings
from collections import OrderedDict, namedtuple
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from ontarget import Episodes, FleetWatch, GoalMonitor, Status, Target, Watch
from ontarget.errors import InputError
from ontarget.models import QuantileForest
from refusals import refuses
from tests.walks import walks

STATE = {"x0": 0.5, "x1": -1.25}
ORDERED = list(STATE.values())
Fields = namedtuple("Fields", ["x1", "x0"])
Others = namedtuple("Others", ["a", "b"])


class Raises:
    """An object whose every conversion raises something of its own."""

    def __init__(self, error: type[Exception]) -> None:
        self.error = error

    def _raise(self, *_: Any, **__: Any) -> Any:
        raise self.error("out of order")

    __float__ = __array__ = __len__ = __iter__ = __getitem__ = __str__ = __repr__ = _raise  # type: ignore[assignment]
    __index__ = __int__ = __bool__ = keys = _raise  # type: ignore[assignment]


class Sensor:
    def __float__(self) -> float:
        return 0.5


def record(values: list[float]) -> sqlite3.Row:
    connection = sqlite3.connect(":memory:")
    connection.row_factory = sqlite3.Row
    row = connection.execute("select ? as x1, 9 as other, ? as x0", values[::-1]).fetchone()
    connection.close()
    return row


READ_RIGHT: list[Any] = [
    STATE,
    OrderedDict(reversed(STATE.items())),
    {**STATE, "other": 3.0},
    ORDERED,
    tuple(ORDERED),
    np.array(ORDERED),
    np.array(ORDERED, dtype=np.float32),
    np.array(ORDERED, dtype=object),
    np.ma.array(ORDERED),
    [Sensor(), Decimal("-1.25")],
    [Fraction(1, 2), np.float32(-1.25)],
    {"x0": np.array([0.5]), "x1": np.array(-1.25)},
    pd.Series(STATE),
    pd.Series(STATE)[::-1],
    pd.Series({"other": 9.0, "x1": -1.25, "x0": 0.5}, dtype=object),
    pd.Series(ORDERED),
    pl.Series(ORDERED),
    Fields(x1=-1.25, x0=0.5),
    Others(*ORDERED),
    np.array((-1.25, 0.5), dtype=[("x1", "f8"), ("x0", "f4")]),
    np.array([(-1.25, 0.5)], dtype=[("x1", "f8"), ("x0", "f4")])[0],
    record(ORDERED),
]

UNREADABLE: list[Any] = [
    None,
    "nonsense",
    b"\xff\xfe",
    0,
    [],
    [1.0],
    [1.0, 2.0, 3.0],
    [[0.5, -1.25]],
    [[0.5], [1.0, 2.0]],
    {},
    {"x0": 0.5},
    {"x0": 0.5, "x1": None},
    {"x0": 0.5, "x1": {}},
    {"x0": 0.5, "x1": [1.0, 2.0]},
    {"x0": 0.5, "x1": 1j},
    {"x0": 0.5, "x1": np.complex128(1 + 2j)},
    {"x0": 0.5, "x1": np.datetime64("2020-01-01", "ns")},
    {"x0": 0.5, "x1": np.timedelta64(5, "ns")},
    {"x0": 0.5, "x1": pd.Timestamp("2020-01-01")},
    {"x0": 0.5, "x1": pd.NaT},
    {"x0": 0.5, "x1": pd.NA},
    {"x0": 0.5, "x1": np.ma.masked},
    {"x0": 0.5, "x1": np.ma.array([1.0], mask=[True])},
    {"x0": 0.5, "x1": 10**5_000},
    np.array(["NaT", "2020-01-01"], dtype="datetime64[ns]"),
    np.array([1, 2], dtype="timedelta64[s]"),
    np.array([1 + 2j, 3]),
    np.array([0.5, np.complex128(1j)], dtype=object),
    np.ma.array(ORDERED, mask=[False, True]),
    np.ma.array(ORDERED, mask=True),
    np.array([b"a", b"b"]),
    np.zeros(2, dtype="V8"),
    np.zeros((2, 2)),
    np.zeros((1, 2)),
    pd.Series({"x0": 0.5, "y": 1.0}),
    pd.Series([0.5, 1.0, 2.0], index=["x0", "x1", "x1"]),
    pd.Series(["2020-01-01", "2020-01-02"], dtype="datetime64[ns]"),
    pd.Series([0.5, None], dtype="Float64"),
    pd.DataFrame([[0.5, -1.25], [0.0, 0.0]], columns=["x0", "x1"]),
    pl.Series(["a", "b"]),
    {1, 2},
    object(),
    Fields,
    lambda: 1,
    *[Raises(error) for error in (ValueError, KeyError, OSError, RecursionError, AssertionError)],
    *[[0.5, Raises(error)] for error in (ZeroDivisionError, LookupError, MemoryError)],
    *[{"x0": Raises(error), "x1": 0.0} for error in (AttributeError, StopIteration, Exception)],
    [math.inf, 0.0],
    [0.0, math.nan],
]


@cache
def monitor() -> GoalMonitor:
    model = QuantileForest(n_trees=10, min_leaf=10)
    return GoalMonitor(model, min_calibration=5).fit(walks(), progress=False)


def watch(**options: Any) -> Watch:
    return monitor().watch(Target.at_least(0.0), alarm_below=0.1, **options)


def fleet(n: int) -> FleetWatch:
    return monitor().fleet(Target.at_least(0.0), n, alarm_below=0.1)


@pytest.fixture(autouse=True)
def quiet() -> Any:
    """Foreign libraries may warn of what we ask of them; what counts is what comes back."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def named(value: object) -> str:
    name = type(value).__name__
    return f"{name} {value.error.__name__}" if isinstance(value, Raises) else name


@pytest.mark.parametrize("state", READ_RIGHT, ids=named)
def test_a_state_in_any_dress_is_read_rightly(state: Any) -> None:
    expected = watch().step(np.array(ORDERED))
    assert expected.p != watch().step(np.array(ORDERED[::-1])).p
    assert watch().step(state) == expected
    many = fleet(2).step([state, ORDERED])
    assert many.p.tolist() == [expected.p] * 2


@pytest.mark.parametrize("state", UNREADABLE, ids=named)
def test_an_unreadable_state_is_unknown_with_a_reason(state: Any) -> None:
    run = watch()
    run.step(ORDERED)
    found = run.step(state, 0.1)
    assert found.status is Status.UNKNOWN
    assert math.isnan(found.p)
    assert found.reason
    assert len(found.reason) < 400
    assert run.step(ORDERED, 0.1).status is not Status.UNKNOWN
    with refuses(InputError, None, "step 0"):
        watch(on_bad="raise").step(state)
    group = fleet(2)
    many = group.step([state, ORDERED])
    assert many.status.tolist() == [Status.UNKNOWN, Status.OK]
    assert many.reason[0] == watch().step(state).reason
    assert group.step(np.zeros((2, 2))).status.tolist() == [Status.OK] * 2


@pytest.mark.parametrize(
    "reward",
    [
        *(None, "x", 1j, {}, [1.0, 2.0], np.complex128(1j), np.ma.masked),
        np.datetime64("NaT", "s"),
        *(np.timedelta64(3, "s"), 10**5_000, -(10**400), Raises(ValueError), Raises(OSError)),
        *(math.nan, math.inf, pd.NA, pd.NaT, np.ma.array([1.0], mask=True)),
    ],
    ids=named,
)
def test_an_unreadable_reward_or_behavior_is_unknown(reward: Any) -> None:
    for told in ({"reward": reward}, {"reward": 0.1, "behavior": reward}):
        if told.get("behavior", 0.0) is None:
            continue  # not told
        run = watch()
        run.step(ORDERED)
        found = run.step(ORDERED, **told)
        assert found.status is Status.UNKNOWN, told
        assert "needs a number, got" in found.reason
        assert run.end(0.0).status is Status.UNKNOWN


def test_a_bad_state_does_not_change_the_words_of_a_lost_reward() -> None:
    run = watch()
    run.step(ORDERED)
    assert "reward needs a number, got nan" in run.step("nonsense", math.nan).reason


def test_numbers_under_a_mask_or_in_text_do_not_become_rewards_of_a_fleet() -> None:
    for rewards in (np.ma.array([0.1, 0.2], mask=[False, True]), [0.1, "x"], [0.1, 1j]):
        group = fleet(2)
        group.step(np.zeros((2, 2)))
        assert group.step(np.zeros((2, 2)), rewards).status.tolist() == [Status.OK, Status.UNKNOWN]
    with refuses(InputError, None, "Raises"):
        fleet(2).step(np.zeros((2, 2)), Raises(OSError))


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_a_fleet_reads_a_dataframe_by_name(frame: Any) -> None:
    table = frame({"x1": [-1.25, 0.0], "other": ["a", "b"], "x0": [0.5, 0.25]})
    expected = fleet(2).step(np.array([ORDERED, [0.25, 0.0]]))
    assert fleet(2).step(table).p.tolist() == expected.p.tolist()
    lacking = fleet(2).step(frame({"x0": [1.0, 2.0]}))
    assert lacking.status.tolist() == [Status.UNKNOWN] * 2
    assert "lacks the feature 'x1'" in lacking.reason[1]


def test_a_fleet_whose_states_raise_is_unknown() -> None:
    found = fleet(2).step(Raises(OSError))  # type: ignore[arg-type]
    assert found.status.tolist() == [Status.UNKNOWN] * 2


def test_a_single_feature_may_be_a_bare_value() -> None:
    rng = np.random.default_rng(0)
    states = rng.integers(0, 3, size=(200, 4, 1))
    runs = Episodes.from_arrays(states, states[:, :, 0] - 1.0, categorical=["x0"])
    discrete = GoalMonitor(QuantileForest(n_trees=10), min_calibration=5).fit(runs, progress=False)
    expected = discrete.watch(Target.at_least(0.0)).step(np.array([2.0]))
    for state in (2, np.int64(2), np.array(2), 2.0, [2], {"x0": 2}):
        assert discrete.watch(Target.at_least(0.0)).step(state) == expected
    assert discrete.watch(Target.at_least(0.0)).step("x").status is Status.UNKNOWN


@pytest.mark.parametrize("name", ["may_miss", "excess"])
def test_contents_of_wrong_length_are_refused_before_a_run(name: str) -> None:
    fitted = monitor().fitted
    for wrong in (np.zeros(1, dtype=getattr(fitted, name).dtype), np.zeros((2, 2))):
        with refuses(InputError, None, name):
            replace(fitted, **{name: wrong})


class Waits:
    """A state that is read slowly, so that another thread comes in between."""

    def __init__(self) -> None:
        self.begun, self.go = threading.Event(), threading.Event()

    def __float__(self) -> float:
        self.begun.set()
        assert self.go.wait(10.0)
        return 0.0


@pytest.mark.parametrize("many", [False, True])
def test_a_second_thread_is_refused_and_the_first_goes_on(many: bool) -> None:
    run: Any = fleet(1) if many else watch()
    slow, found = Waits(), []
    state: Any = [[slow, 0.0]] if many else [slow, 0.0]
    first = threading.Thread(target=lambda: found.append(run.step(state)))
    first.start()
    assert slow.begun.wait(10.0)
    for call in (lambda: run.step([[0.0, 0.0]] if many else [0.0, 0.0]), run.end, run.reset):
        with refuses(InputError, None, "thread"):
            call()
    slow.go.set()
    first.join()
    assert np.ravel(found[0].status).tolist() == [Status.OK]
    assert run.step(np.zeros((1, 2)) if many else np.zeros(2), 0.1).t == 1
