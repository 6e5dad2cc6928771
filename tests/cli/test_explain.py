from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from ontarget import Episodes, GoalMonitor, Target
from ontarget.cli.explain import _high, _picked
from ontarget.errors import EpisodesError
from ontarget.live.setting import AlarmSetting
from ontarget.models import QuantileForest
from refusals import refuses
from tests.walks import walks

from .river import call, told


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A model file and new runs."""
    folder = tmp_path_factory.mktemp("explain")
    monitor = GoalMonitor(QuantileForest(n_trees=8), steps_per_model=3)
    monitor.fit(walks(150), progress=False).save(folder / "walk.ontarget")
    walks(20, seed=1).write(folder / "new.parquet")
    return folder / "walk.ontarget", folder / "new.parquet"


def test_explain_prints_what_the_monitor_says(files: tuple[Path, Path], tmp_path: Path) -> None:
    model, new = files
    asked = ["explain", model, new, "--run", "run-1-3", "--step", "2", "--target", "0:"]
    one = walks(20, seed=1).take([3])
    monitor = GoalMonitor.load(model)
    here, before = one.at(2), one.at(1)
    why = monitor.explain(
        2,
        here.states[0],
        here.behavior[0],
        Target.at_least(0.0),
        before=(before.states[0], before.behavior[0]),
    )
    assert told([*asked, "--figure", tmp_path / "why.png"]).strip() == str(why)
    found = json.loads(told([*asked, "--json"]))
    assert found == json.loads(json.dumps(why.to_dict() | {"picked": None}))
    assert (tmp_path / "why.png").read_bytes().startswith(b"\x89PNG")
    first = told([*asked[:6], "0", *asked[7:]])
    assert first.startswith("step 0: p = ")
    assert "what moved p" not in first


def test_a_change_since_an_earlier_step_adds_up(files: tuple[Path, Path]) -> None:
    asked = ["explain", *files, "--run", "run-1-3", "--step", "4", "--target", "0:"]
    why = json.loads(told([*asked, "--since", "1", "--json"]))
    assert (why["t_before"], why["t"]) == (1, 4)
    assert sum(one["change"] for one in why["contributions"]) == pytest.approx(why["change"])
    assert why["p_before"] == json.loads(told([*asked[:6], "1", *asked[7:], "--json"]))["p"]
    assert "at step 1" in told([*asked, "--since", "1"]).splitlines()[0]


def test_without_a_step_it_is_that_of_the_first_alarm_or_of_the_largest_fall(
    files: tuple[Path, Path],
) -> None:
    model, new = files
    asked = ["explain", model, new, "--run", "run-1-3", "--target", "0:"]
    found = GoalMonitor.load(model).evaluate(walks(20, seed=1), Target.at_least(0.0))
    p = found.p[:, 3]
    below = float(np.sort(p)[-2])  # the highest but one: the first alarm comes early
    first = int(np.flatnonzero(p < below)[0])
    text = told([*asked, "--alarm-below", str(below)])
    assert text.startswith(f"step {first} was chosen: there the run raised its first alarm\n")
    fell = int(np.argmax(p[:-1] - p[1:])) + 1
    text = told([*asked, "--alarm-below", "0"])
    assert text.startswith(f"step {fell} was chosen: no alarm was raised, and there p fell most\n")
    assert f"\nstep {fell}: p = " in text
    text = told([*asked, "--false-alarm-rate", "0.001"])
    assert text.startswith(f"step {fell} was chosen: no alarm can be promised, and there p fell")
    assert "was chosen" in json.loads(told([*asked, "--json"]))["picked"]


@pytest.mark.parametrize(
    ("fall", "high"),
    [
        ({0: 0.9, 1: 0.8, 2: 0.2}, None),  # the last step is most of the fall
        ({0: 0.9, 1: 0.3, 2: 0.2}, 0),
        ({0: 0.9, 1: 0.9, 2: 0.3, 3: 0.2}, 1),  # the last of equal ones
        ({0: 0.9, 2: 0.2}, None),  # p of the step before is unknown
        ({0: 0.2}, None),
    ],
)
def test_an_alarm_is_explained_since_p_was_highest(
    fall: dict[int, float], high: int | None
) -> None:
    assert _high(fall, max(fall)) == high


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A model that knows three steps, and runs that are lost later, at a step without a model."""
    folder, rng = tmp_path_factory.mktemp("short"), np.random.default_rng(0)
    lengths = np.where(np.arange(120) < 5, 6, 3)
    spent = [rng.uniform(0.0, 0.2, size=n) for n in lengths]
    states = [np.cumsum(one)[:, None] for one in spent]
    runs = Episodes.from_arrays(states, spent)
    monitor = GoalMonitor(QuantileForest(n_trees=8), steps_per_model=1, reward_bounds=(0.0, None))
    monitor.fit(runs, progress=False).save(folder / "short.ontarget")
    assert [bool(monitor.fitted.unknown(t)) for t in range(6)] == [False] * 3 + [True] * 3
    late = np.array([0.1, 0.1, 0.1, 5.0, 0.1, 0.1])
    new = Episodes.from_arrays([np.cumsum(late)[:, None]], [late], ids=["late"])
    new.write(folder / "new.parquet")
    return folder / "short.ontarget", folder / "new.parquet"


def test_an_alarm_at_a_step_without_a_model_is_explained_at_the_nearest_with_one(
    short: tuple[Path, Path],
) -> None:
    asked = ["explain", *short, "--run", "late", "--target", ":1", "--alarm-below", "0"]
    text = told(asked)
    assert text.startswith(
        "step 2 was chosen: the run raised its first alarm at step 4, where no model answers, and "
        "this is the nearest step at which one does\n"
    )
    assert "\nstep 2: p = " in text
    found = call([*asked, "--step", "4"])
    assert found.exit_code == 1
    assert "step 4 cannot be explained: " in found.output


@pytest.mark.filterwarnings("ignore::ontarget.errors.AlarmWarning")
def test_a_run_without_any_model_is_told_so(short: tuple[Path, Path]) -> None:
    monitor = GoalMonitor.load(short[0])
    run = Episodes.read(short[1], like=monitor)
    with refuses(EpisodesError, None, "late", "--run"):
        _picked(monitor, run, Target.at_most(1.0), AlarmSetting(alarm_below=0.0), set())


@pytest.mark.parametrize(
    ("run", "step", "said"),
    [
        ("nobody", ["2"], "--run needs the id of an episode, got 'nobody'"),
        ("run-1-3", ["6"], "--step needs 0 to 5"),
        ("run-1-3", ["3", "--since", "3"], "--since needs a step before step 3, got 3"),
    ],
)
def test_a_run_or_step_that_is_not_there_is_refused(
    run: str, step: list[str], said: str, files: tuple[Path, Path]
) -> None:
    found = call(["explain", *files, "--run", run, "--target", "0:", "--step", *step])
    assert found.exit_code == 1
    assert said in found.output
