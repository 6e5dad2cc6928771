"""What lives on between processes is input too: stored runs, guards, prepared folders.

Each is changed at random. It is then refused with one of ontarget's errors, or taken and answers
with numbers that make sense.
"""

from __future__ import annotations

import copy
import json
import shutil
import warnings
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from ontarget import Episodes, Goal, GoalMonitor, Target
from ontarget.drift import DriftGuard
from ontarget.errors import AlarmWarning, InputError, OntargetError
from ontarget.live.runs import RunState
from ontarget.models import Marginal
from ontarget.reading import PreparedEpisodes, prepare
from refusals import refuses
from tests.attacks.mutants import forge_json
from tests.walks import shifted, walks

# The small monitors have few episodes that miss it.
pytestmark = pytest.mark.filterwarnings("ignore::ontarget.errors.AlarmWarning")

TARGET = Target.at_least(0.0)
# A few for each in the fast tests; the slow ones go on from there.
FAST, SLOW = 120, 2_000
NUMBERS = [pytest.param(range(FAST)), pytest.param(range(FAST, SLOW), marks=pytest.mark.slow)]


@cache
def monitor(behavior: str = "sum") -> GoalMonitor:
    """A small monitor that remembers a step, so that a stored run has all there is to store."""
    return GoalMonitor(Marginal(), history=1, min_calibration=5, group="group").fit(
        walks(120, 4, behavior=behavior, groups=2), progress=False
    )


@cache
def several() -> GoalMonitor:
    rng = np.random.default_rng(0)
    runs = Episodes.from_arrays(
        rng.normal(size=(120, 4, 2)),
        {"gain": rng.normal(size=(120, 4)), "heat": rng.random((120, 4))},
        behavior={"profit": "total:gain", "peak": "max:heat"},
        horizon=4,
    )
    return GoalMonitor(Marginal(), min_calibration=5).fit(runs, progress=False)


def changed(kept: Any, seed: int) -> Any:
    """A JSON value with one to three things changed in it."""
    rng, found = np.random.default_rng(seed), {"": copy.deepcopy(kept)}
    for _ in range(int(rng.choice([1, 1, 2, 3]))):
        inner = found[""]
        forge_json(rng, inner if isinstance(inner, dict) and inner else found)
    return found.get("")


def endings(numbers: range, attempt: Callable[[int], None]) -> Counter[str]:
    """How the attempts ended: taken, or refused. Any other error is raised."""
    found: Counter[str] = Counter()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", AlarmWarning)
        for number in numbers:
            try:
                attempt(number)
            except OntargetError as error:
                found["refused" if str(error).isprintable() else "unprintable"] += 1
            else:
                found["taken"] += 1
    assert found["unprintable"] == 0
    assert min(found["refused"], found["taken"]) > 0.05 * len(numbers), found
    return found


def make_sense(outlook: Any) -> None:
    if not np.isnan(outlook.p):
        assert 0.0 <= outlook.low <= outlook.high <= 1.0
        assert 0.0 <= outlook.p <= 1.0


@pytest.mark.parametrize("numbers", NUMBERS)
@pytest.mark.parametrize("behavior", ["sum", "max", "mean"])
def test_a_changed_run_is_refused_or_goes_on(behavior: str, numbers: range) -> None:
    watch = monitor(behavior).watch(TARGET, alarm_below=0.6, group="0")
    for t in range(2):
        watch.step([0.5, 0.5], float(t))
    kept = json.loads(json.dumps(watch.run_state.to_json()))

    def attempt(number: int) -> None:
        fresh = monitor(behavior).watch(TARGET, alarm_below=0.6, group="0")
        fresh.resume(RunState.from_json(changed(kept, number)))
        fresh.peek()
        for _ in range(4):
            make_sense(fresh.step([0.5, 0.5], 0.1))

    endings(numbers, attempt)


@pytest.mark.parametrize("numbers", NUMBERS)
def test_a_changed_run_held_to_a_goal_is_refused_or_goes_on(numbers: range) -> None:
    goal = Goal({"profit": Target.at_least(0.0), "peak": Target.at_most(0.9)})
    watch = several().watch(goal, alarm_below=0.3)
    for t in range(2):
        watch.step([0.5, 0.5], 0.0 if t == 0 else {"gain": 1.0, "heat": 0.2})
    kept = watch.run_state.to_json()

    def attempt(number: int) -> None:
        fresh = several().watch(goal, alarm_below=0.3)
        fresh.resume(RunState.from_json(json.loads(json.dumps(changed(kept, number)))))
        for _ in range(3):
            make_sense(fresh.step([0.5, 0.5], {"gain": 1.0, "heat": 0.2}))

    endings(numbers, attempt)
    for bad in (b"", b"\xff", b"[" * 100_000, b"7"):
        with pytest.raises(InputError):
            several().fleet(goal, ["a"], alarm_below=0.3).unpack({"a": bad})


REMEMBERS = {"history": [[0.5, 0.5]]}  # which no monitor of several behaviors does


@pytest.mark.parametrize("whose", ["goal", "second part"])
def test_a_run_held_to_a_goal_is_refused_before_any_of_it_is_taken(whose: str) -> None:
    goal = Goal({"profit": Target.at_least(0.0), "peak": Target.at_most(0.9)})
    fleet = several().fleet(goal, ["a"], alarm_below=0.3)
    before = fleet.standings().packed
    other = several().watch(goal, alarm_below=0.3)
    other.step([0.5, 0.5])
    kept = other.run_state.to_json()
    whole = json.dumps(kept).encode()
    kept |= (
        REMEMBERS
        if whose == "goal"
        else {"parts": [kept["parts"][0], kept["parts"][1] | REMEMBERS]}
    )
    bad = json.dumps(kept).encode()
    with refuses(InputError, None, "history=0", [2]):
        fleet.unpack({"a": bad})
    for packed in ({"a": whole, "b": bad}, {"a": whole, "b": b"["}, {"b": bad}):
        with pytest.raises(InputError):
            fleet.unpack(packed)
    with pytest.raises(InputError):
        fleet.resume("b", RunState.from_json(kept))
    assert fleet.agents == ("a",)
    assert fleet.standings().packed == before


@pytest.mark.parametrize("t", [0.0, 0.5, "0", None, [0], 99, -1])
def test_a_guard_of_a_step_that_there_is_not_is_refused(t: Any) -> None:
    for make in (
        lambda: guarded().drift_guard(t=t),
        lambda: guarded().harm_guard(TARGET, t=t),
    ):
        with refuses(InputError, "t"):
            make()


@pytest.mark.parametrize("numbers", NUMBERS)
@pytest.mark.parametrize("behavior", ["sum", "mean"])
def test_changed_bytes_of_a_run_are_refused_or_go_on(behavior: str, numbers: range) -> None:
    def fleet() -> Any:
        return monitor(behavior).fleet(TARGET, ["first"], groups="0", alarm_below=0.6)

    first = fleet()
    first.leave(["first"])
    first.join(["a"], groups="1")
    first.step([[0.5, 0.5]])
    first.intervene(["a"])
    (packed,) = first.standings().packed

    def attempt(number: int) -> None:
        rng = np.random.default_rng(number)
        found = bytearray(packed)
        if number % 2:  # a byte here and there
            for place in rng.integers(len(found), size=int(rng.integers(1, 4))).tolist():
                found[place] = int(rng.integers(256))
        else:  # a whole number, or a real one
            place = 1 + 8 * int(rng.integers((len(found) - 1) // 8))
            value = int(rng.choice([0, 1, 2, 3, 7, -1, 2**31, 2**62, -(2**63)]))
            found[place : place + 8] = value.to_bytes(8, "little", signed=True)
        if rng.random() < 0.1:
            del found[int(rng.integers(len(found))) :]
        second = fleet()
        second.leave(["first"])
        try:
            second.unpack({"a": bytes(found)})
        except InputError:
            assert len(second) == 0  # it does not begin anew
            raise
        second.peek()
        for _ in range(4):
            p = second.step([[0.5, 0.5]], [0.1]).p
            assert ((p >= 0.0) & (p <= 1.0) | np.isnan(p)).all()

    endings(numbers, attempt)


@cache
def guarded() -> GoalMonitor:
    return GoalMonitor(Marginal(), min_calibration=5).fit(walks(120), progress=False)


@pytest.mark.parametrize("numbers", NUMBERS)
@pytest.mark.parametrize("kind", ["drift", "harm"])
def test_a_changed_guard_is_refused_or_goes_on(kind: str, numbers: range, tmp_path: Path) -> None:
    def guard(resume: Path | None = None) -> DriftGuard:
        if kind == "drift":
            return guarded().drift_guard(resume=resume)
        return guarded().harm_guard(TARGET, resume=resume)

    path, made = tmp_path / "kept.json", guard()
    made.observe(shifted(60, 20, -3.0))
    assert made.since_alarm
    made.save(path)
    kept = json.loads(path.read_text())

    def attempt(number: int) -> None:
        path.write_text(json.dumps(changed(kept, number)))
        again = guard(resume=path)
        again.observe(shifted(3, 77, 0.1))
        assert len(set(again.since_alarm)) == len(again.since_alarm)

    endings(numbers, attempt)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("prepared")
    walks(40, 4, ragged=True).write(folder / "runs.parquet")
    return prepare(folder / "runs.parquet", folder / "out", progress=False).folder


def read_prepared(folder: Path) -> None:
    found = PreparedEpisodes(folder)
    for part in found.split:
        if part is None:
            continue
        # A manifest may name any horizon: as many steps as the runs have, and the last.
        for t in {*range(min(part.horizon, 5)), part.horizon - 1}:
            assert part.at(t).states.shape[1] == len(part.schema)


@pytest.mark.parametrize("numbers", NUMBERS)
def test_a_changed_manifest_is_refused_or_read(
    numbers: range, prepared: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(prepared, tmp_path / "out"))
    path = folder / "manifest.json"
    kept = json.loads(path.read_text())

    def attempt(number: int) -> None:
        path.write_text(json.dumps(changed(kept, number)))
        read_prepared(folder)

    endings(numbers, attempt)


DEFECTS: dict[str, Callable[[pl.DataFrame], pl.DataFrame]] = {
    "length": lambda t: t.with_columns(length=pl.lit(2**60)),
    "length is null": lambda t: t.with_columns(length=pl.lit(None, pl.Int64)),
    "length is text": lambda t: t.with_columns(length=pl.lit("long")),
    "no outcome": lambda t: t.drop("outcome"),
    "outcome is infinite": lambda t: t.with_columns(outcome=pl.lit(float("inf"))),
    "episodes are text": lambda t: t.with_columns(episode=pl.lit("one")),
    "episodes are null": lambda t: t.with_columns(episode=pl.lit(None, pl.Int64)),
    "a row less": lambda t: t[1:],
    "a row more": lambda t: pl.concat([t, t[:1]]),
    "empty": lambda t: t[:0],
}


@pytest.mark.parametrize("table", ["episodes", "rows"])
@pytest.mark.parametrize("defect", DEFECTS)
def test_a_changed_table_of_a_prepared_folder_is_refused(
    defect: str, table: str, prepared: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(prepared, tmp_path / "out"))
    path = next(one for one in (folder / "part=learn").rglob("*.parquet") if table in one.stem)
    found = pl.read_parquet(path)
    if table == "rows" and ("length" in defect or "outcome" in defect):
        found = found.drop("before")
    else:
        found = DEFECTS[defect](found)
    found.write_parquet(path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(OntargetError):
            read_prepared(folder)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(OntargetError):
        read_prepared(folder)
