"""Forgeries that ask for far more work or memory than their file has bytes."""

from __future__ import annotations

import time
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ontarget import Target
from ontarget.errors import AlarmWarning, InputError, ModelFileError
from ontarget.fitted.law import StepLaw
from ontarget.fitted.paths.bands import PathLaw
from ontarget.modelfile.container import container_bytes
from ontarget.monitor.monitor import GoalMonitor
from refusals import refuses
from tests.attacks.test_forgeries import TARGET, Forge, asked, contents

pytestmark = pytest.mark.filterwarnings("ignore::ontarget.errors.AlarmWarning")

MOST_SECONDS = 5.0


@pytest.fixture(scope="module", autouse=True)
def warm(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Compile what a watch runs, which is not the files' doing."""
    path = forged(lambda header, sections: None, "paper", tmp_path_factory.mktemp("warm"))
    asked(path)
    GoalMonitor.load(path).watch(TARGET, false_alarm_rate=0.3)


class Spent:
    """What was done since it was made has taken little, of processor time and of memory."""

    def __init__(self, path: Path) -> None:
        self._most = 2 * path.stat().st_size + 64_000_000
        self._start = time.process_time()
        tracemalloc.start()

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        peak, spent = tracemalloc.get_traced_memory()[1], time.process_time() - self._start
        tracemalloc.stop()
        assert peak <= self._most
        assert spent <= MOST_SECONDS


def forged(forge: Forge, kind: str, folder: Path) -> Path:
    header, sections = contents(kind, folder)
    forge(header, sections)
    path = folder / "forged.ontarget"
    path.write_bytes(container_bytes(header, sections))
    return path


def load_in_little(forge: Forge, kind: str, folder: Path) -> GoalMonitor:
    path = forged(forge, kind, folder)
    with Spent(path):
        return GoalMonitor.load(path)


def lengthen(header: dict[str, Any], sections: Any, steps: int) -> None:
    """So many steps, of which all but the first few have no rank."""
    ends = sections["ranks"]["ends"]
    sections["ranks"]["ends"] = np.concatenate([ends, np.full(steps - ends.size, ends[-1])])
    sections["law"] = {
        "starts": np.arange(steps + 1),
        "blocks": np.zeros(steps, dtype=np.int64),
        "weights": np.ones(steps),
    }
    header["horizon"] = steps


def make_uneven(header: dict[str, Any], sections: Any, n: int, steps: int) -> None:
    """One run of so many steps among many of a single one, in both parts."""
    lengths = np.ones(n, dtype=np.int64)
    lengths[0], rows = steps, n + steps - 1
    lengthen(header, sections, steps)
    whole = {"lengths": lengths, "outcomes": np.zeros(n), "before": np.zeros(rows)}
    sections["learn"] = whole
    states, ahead, none = np.zeros((2, rows)), np.zeros(rows), np.zeros(n, dtype=np.int64)
    sections["assure"] = {
        **whole, "excess": np.zeros(n), "groups": none, "states": states, "ahead": ahead,
    }  # fmt: skip
    header["sizes"] = {"train": n, "calibrate": 40, "assure": n}
    sections["episodes"]["fingerprints"] = np.zeros(2 * n + 40, dtype=np.uint64)


def test_one_endless_id_does_not_make_all_others_as_long(tmp_path: Path) -> None:
    def forge(header: dict[str, Any], sections: Any) -> None:
        texts = [b"x" * 600_000, *[b"y"] * (sections["learn"]["outcomes"].size - 1)]
        ends = np.cumsum([len(one) for one in texts])
        del sections["learn"]["ids"]
        sections["learn"] |= {"id_text": np.frombuffer(b"".join(texts), np.uint8), "id_ends": ends}

    runs = load_in_little(forge, "forest", tmp_path).fitted.runs
    assert [len(one) for one in runs.ids.tolist()[:3]] == [600_000, 1, 1]


def test_one_endless_group_is_not_spelled_out_for_each_episode(tmp_path: Path) -> None:
    def forge(header: dict[str, Any], sections: Any) -> None:
        header["groups"][0] = "x" * 2_000_000

    fitted = load_in_little(forge, "groups", tmp_path).fitted
    assert fitted.assure is not None
    assert fitted.groups_in(fitted.assure).tolist() == fitted.assure_groups.tolist()


@pytest.mark.parametrize("steps", [1_000_000, 100_001])
def test_endless_steps_without_ranks_are_refused_at_once(steps: int, tmp_path: Path) -> None:
    path = forged(lambda h, s: lengthen(h, s, steps), "paper", tmp_path)
    with (
        Spent(path),
        refuses(ModelFileError, None, f"{steps:,}"),
    ):
        GoalMonitor.load(path)


def test_as_many_steps_as_are_let_in_are_watched_in_little(tmp_path: Path) -> None:
    path = forged(lambda h, s: lengthen(h, s, 100_000), "paper", tmp_path)
    with Spent(path):
        monitor = GoalMonitor.load(path)
        watch = monitor.watch(TARGET, alarm_below=0.3)
        assert 0.0 <= watch.step([0.0, 0.0]).p <= 1.0
        monitor.watch(TARGET, false_alarm_rate=0.3)
        monitor.fleet(TARGET, 3, alarm_below=0.3).step(np.zeros((3, 2)))
        assert 0.0 <= monitor.outlook(0, [[0.0, 0.0]], 0.0, TARGET).p[0] <= 1.0


def test_one_endless_run_among_many_short_ones_takes_no_table_of_all(tmp_path: Path) -> None:
    path = forged(lambda h, s: make_uneven(h, s, 4_000, 4_000), "paper", tmp_path)
    with Spent(path):
        monitor = GoalMonitor.load(path)
        watch = monitor.watch(Target.at_least(0.0), false_alarm_rate=0.2)
        assert 0.0 <= watch.trigger.threshold <= 1.0
        assert 0.0 <= monitor.outlook(0, [[0.0, 0.0]], 0.0, TARGET).p[0] <= 1.0
        with refuses(InputError, None, "4,000", "7,999"):
            _ = monitor.contracts.assured(Target.at_least(0.0)).p
        with refuses(InputError, None, "4,000", "7,999"):
            _ = monitor.fitted.runs.paths


def test_a_table_that_is_just_let_in_is_no_burden_to_a_watch(tmp_path: Path) -> None:
    """9.9 million cells, which a table of all numbers would take a gigabyte for."""
    path = forged(lambda h, s: make_uneven(h, s, 3_300, 3_000), "paper", tmp_path)
    with Spent(path):
        monitor = GoalMonitor.load(path)
        monitor.watch(Target.at_least(0.0), false_alarm_rate=0.2)
        monitor.watch(Target.at_least(1.0), alarm_below=0.2)


def make_long(header: dict[str, Any], sections: Any, steps: int) -> None:
    """Runs that really have so many steps, and ranks at each of them."""
    lengthen(header, sections, steps)
    rng, every = np.random.default_rng(0), np.linspace(0.05, 0.95, 10)
    for part in ("learn", "assure"):
        n = sections[part]["outcomes"].size
        walks = np.cumsum(rng.integers(-1, 2, size=(steps + 1, n)).astype(np.float64), axis=0)
        lengths = np.full(n, steps, dtype=np.int64)
        whole = {"lengths": lengths, "outcomes": walks[-1], "before": walks[:-1].reshape(-1)}
        sections[part] |= whole
    rows = sections["assure"]["before"].size
    sections["assure"] |= {"states": np.zeros((2, rows)), "ahead": np.zeros(rows)}
    if sections["curves"]:
        curve = sections["curves"]["curves"][:1]
        learned = np.full((steps, 1), 80)
        sections["curves"] = {"curves": np.repeat(curve, steps, axis=0), "learned": learned}
    sections["ranks"] = {"ends": 10 * np.arange(1, steps + 1), "values": np.tile(every, steps)}


@pytest.fixture
def asked_steps(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The steps at which a law is asked about recorded episodes, as it is asked."""
    found: list[int] = []
    outlook = StepLaw.outlook

    def noted(law: StepLaw, *arguments: Any) -> Any:
        found.append(law.t)
        return outlook(law, *arguments)

    monkeypatch.setattr(StepLaw, "outlook", noted)
    return found


def test_a_watch_over_long_runs_asks_about_each_step_once(
    asked_steps: list[int], tmp_path: Path
) -> None:
    steps = 1_000
    path = forged(lambda h, s: make_long(h, s, steps), "paper", tmp_path)
    target = Target.at_least(0.0)
    GoalMonitor.load(path).watch(target, alarm_below=0.3)
    assert len(asked_steps) <= 64  # an alarm is heard in the last steps of some failed run
    monitor = GoalMonitor.load(path)
    asked_steps.clear()
    monitor.watch(target, false_alarm_rate=0.3)
    assert asked_steps == list(range(steps))
    monitor.watch(target, alarm_below=0.3)
    assert len(asked_steps) == steps  # what was said is known


def test_a_silent_alarm_over_long_runs_asks_about_each_step_once_more(
    asked_steps: list[int], tmp_path: Path
) -> None:
    path = forged(lambda h, s: make_long(h, s, 1_000), "forest", tmp_path)
    monitor = GoalMonitor.load(path)
    with pytest.warns(AlarmWarning, match="not have"):
        monitor.watch(Target.at_least(0.0), alarm_below=1e-12)
    rehearsed = 5  # steps at which the target's own map is learned
    assert len(asked_steps) <= rehearsed + 64 + 1_000


@pytest.mark.parametrize("steps", [300, 1_000, 2_000])
def test_a_band_of_all_steps_judges_a_bounded_number_of_rows(
    steps: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monitor = GoalMonitor.load(forged(lambda h, s: make_long(h, s, steps), "forest", tmp_path))
    judged: list[int] = []

    def noted(law: PathLaw, X: Any, paths: Any) -> Any:
        judged.append(len(X))
        return np.zeros(len(X))

    monkeypatch.setattr(PathLaw, "depths", noted)
    bands = monitor.contracts.paths
    depths = bands.run_depths()
    assert len(judged) == steps
    assert sum(judged) + 20 * steps <= 80_000
    assert np.count_nonzero(~np.isnan(depths)) == 20  # all that there are
    assert not bands._laws  # thousands of them would take far more memory than the file


def test_a_band_of_all_steps_of_endless_runs_is_refused(tmp_path: Path) -> None:
    path = forged(lambda h, s: make_long(h, s, 2_001), "forest", tmp_path)
    with Spent(path):
        monitor = GoalMonitor.load(path)
        with refuses(InputError, None, "2,001", "all_steps=False"):
            monitor.path_band(0, [[0.0, 0.0]], 0.0, 0.8, all_steps=True)
        band = monitor.path_band(0, [[0.0, 0.0]], 0.0, 0.8)
    assert band.lower.shape == (1, 2_001)


def test_the_bands_of_many_steps_are_not_all_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("ontarget.fitted.paths.bands._KEPT", 3)
    monitor = GoalMonitor.load(forged(lambda h, s: make_long(h, s, 40), "forest", tmp_path))
    first = [monitor.path_band(t, [[0.0, 0.0]], 0.0, 0.8) for t in range(6)]
    bands = monitor.contracts.paths
    assert list(bands._laws) == list(bands._depths) == [3, 4, 5]
    again = monitor.path_band(0, [[0.0, 0.0]], 0.0, 0.8)
    assert np.array_equal(again.lower, first[0].lower)
