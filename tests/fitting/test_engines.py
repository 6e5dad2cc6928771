"""Fits that are killed resume; fits on other engines give the same bytes."""

from __future__ import annotations

import os
import signal
import sys
from concurrent.futures import BrokenExecutor, Future
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ontarget.errors import InputError, ModelFileError
from ontarget.fitting.engines import connected
from ontarget.modelfile.container import Container, write_container
from ontarget.models import Marginal, QuantileForest, StackedForest
from ontarget.monitor.monitor import GoalMonitor
from ontarget.reading import prepare
from refusals import refuses
from tests.clusters import two_workers
from tests.walks import walks

EPISODES = walks(150, horizon=8)


def fit(folder: Path | None, seed: int = 0, **options) -> GoalMonitor:
    monitor = GoalMonitor(Marginal(), steps_per_model=1)
    return monitor.fit(EPISODES, seed=seed, checkpoint=folder, progress=False, **options)


def file_of(monitor: GoalMonitor, path: Path) -> bytes:
    monitor.save(path)
    return path.read_bytes()


class KilledAtEvent:
    """An audit hook that kills its own process at a chosen event: any file call, any import."""

    def __init__(self, at: int) -> None:
        self.at, self.seen, self.armed = at, 0, False

    def __call__(self, event: str, _: object) -> None:
        if self.armed:
            self.seen += 1
            if self.seen == self.at:
                os.kill(os.getpid(), signal.SIGKILL)


def in_a_child(work, hook: KilledAtEvent) -> int:
    """Run the work in a forked child under the hook; the child's wait status."""
    child = os.fork()
    if child == 0:
        sys.addaudithook(hook)
        hook.armed = True
        work()
        hook.armed = False
        os._exit(0)
    return os.waitpid(child, 0)[1]


def n_events(work) -> int:
    """How many audit events the work makes."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        hook = KilledAtEvent(-1)
        sys.addaudithook(hook)
        hook.armed = True
        work()
        os.write(write, str(hook.seen).encode())
        os._exit(0)
    os.waitpid(child, 0)
    return int(os.read(read, 32))


@pytest.mark.filterwarnings("ignore:This process.*multi-threaded:DeprecationWarning")  # the fork
@pytest.mark.parametrize("kills", [5, pytest.param(50, marks=pytest.mark.slow)])
def test_a_killed_fit_resumes_and_gives_the_identical_file(kills: int, tmp_path: Path) -> None:
    expected = file_of(fit(None), tmp_path / "expected.ontarget")
    path = tmp_path / "killed.ontarget"
    folders = iter(tmp_path / f"checkpoint-{i}" for i in range(kills + 1))
    first = next(folders)
    events = n_events(lambda: file_of(fit(first), tmp_path / "other.ontarget"))
    rng = np.random.default_rng(kills)
    for folder, at in zip(folders, rng.integers(1, events, size=kills), strict=True):
        status = in_a_child(lambda: file_of(fit(folder), path), KilledAtEvent(int(at)))  # noqa: B023
        assert os.WIFSIGNALED(status)
        if path.exists():
            assert path.read_bytes() == expected, "a half-written file was visible"
        assert file_of(fit(folder), path) == expected
        path.unlink()


def test_a_fit_resumes_without_fitting_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = file_of(fit(tmp_path / "kept"), tmp_path / "a")
    monkeypatch.setattr("ontarget.fitting.fit.fit_block", lambda task: pytest.fail("fitted"))
    assert file_of(fit(tmp_path / "kept"), tmp_path / "b") == first


def test_a_checkpoint_of_another_fit_is_refused(tmp_path: Path) -> None:
    fit(tmp_path)
    with refuses(ModelFileError, None, "00000.block", "another fit"):
        fit(tmp_path, seed=1)
    with refuses(ModelFileError, None, "00000.block", "another fit"):
        GoalMonitor(Marginal(smooth=False), steps_per_model=1).fit(
            EPISODES, checkpoint=tmp_path, progress=False
        )
    with refuses(ModelFileError, None, "00000.block", "another fit"):
        GoalMonitor(Marginal(), steps_per_model=1).fit(
            walks(150, horizon=8, seed=1), checkpoint=tmp_path, progress=False
        )


def test_a_damaged_checkpoint_is_refused(tmp_path: Path) -> None:
    fit(tmp_path)
    victim = sorted(tmp_path.glob("*.block"))[3]
    victim.write_bytes(victim.read_bytes()[:-9])
    with refuses(ModelFileError, None, f"{victim.name} is damaged"):
        fit(tmp_path)
    victim.unlink()
    fit(tmp_path)


def test_a_file_in_the_checkpoints_place_is_named(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("notes")
    with refuses(ModelFileError, None, "kept", "File exists"):
        fit(tmp_path / "kept")


def forged(header: dict, sections: dict, name: str, **arrays) -> tuple[dict, dict]:
    return header, {**sections, name: {**sections[name], **arrays}}


@pytest.mark.parametrize(
    ("forge", "words"),
    [
        (lambda h, s: forged(h, s, "learn-00003", left=np.zeros(1)), "per episode"),
        (lambda h, s: forged(h, s, "learn-00003", left=np.zeros((2, 3))), "per episode"),
        (lambda h, s: forged(h, s, "learn-00003", right=np.arange(3)), "per episode"),
        (lambda h, s: ({**h, "steps": {**h["steps"], "assure": [3, 3]}}, s), "other steps"),
        (lambda h, s: ({**h, "steps": {**h["steps"], "assure": [-1]}}, s), "other steps"),
        (lambda h, s: ({**h, "steps": {**h["steps"], "assure": ["3"]}}, s), "other steps"),
        (lambda h, s: ({**h, "steps": {**h["steps"], "assure": 3}}, s), "other steps"),
        (lambda h, s: ({**h, "steps": {"assure": [3]}}, s), "other steps"),
        (lambda h, s: ({**h, "steps": [3]}, s), "other steps"),
        (lambda h, s: ({**h, "kind": "forest of oak"}, s), "'forest of oak'"),
        (lambda h, s: ({**h, "block": "another"}, s), "'another'"),
        (lambda h, s: (h, {}), "no section"),
    ],
)
def test_a_forged_checkpoint_is_refused(forge, words: str, tmp_path: Path) -> None:
    fit(tmp_path)
    victim = sorted(tmp_path.glob("*.block"))[3]
    container = Container.open(victim, copy=True)
    sections = {name: container.section(name) for name in container.sections}
    write_container(victim, *forge(dict(container.header), sections))
    with refuses(ModelFileError, None, f"{victim.name} is damaged", words):
        fit(tmp_path)


def test_a_block_under_the_name_of_another_is_refused(tmp_path: Path) -> None:
    fit(tmp_path)
    one, other = sorted(tmp_path.glob("*.block"))[2:4]
    other.write_bytes(one.read_bytes())
    with refuses(ModelFileError, None, f"{other.name} is damaged", repr(one.stem)):
        fit(tmp_path)


def test_an_unknown_engine_is_refused() -> None:
    with refuses(InputError, "engine", "local, dask, ray", "'spark'"):
        fit(None, engine="spark")


class Flaky:
    """An executor that loses the worker of every other task, the first time it runs."""

    def __init__(self, losses: int = 1) -> None:
        self.losses, self.submitted = losses, 0

    def submit(self, function, /, *arguments):
        self.submitted += 1
        future = Future()
        if self.losses and self.submitted % 2:
            self.losses -= 1
            future.set_exception(BrokenExecutor("the worker is gone"))
        else:
            future.set_result(function(*arguments))
        return future


def test_a_lost_worker_changes_nothing(tmp_path: Path) -> None:
    expected = file_of(fit(None), tmp_path / "local")
    engine = Flaky(losses=3)
    assert file_of(fit(None, engine=engine), tmp_path / "flaky") == expected
    assert engine.submitted == 8 + 3


def test_workers_that_are_lost_again_and_again_are_told_of() -> None:
    class Gone(Flaky):
        def submit(self, function, /, *arguments):
            self.submitted = 0
            return super().submit(function, *arguments)

    with pytest.raises(BrokenExecutor) as caught:
        fit(None, engine=Gone(losses=100))
    assert "lost 4 times" in caught.value.__notes__[0]


def test_an_executor_that_broke_for_good_tells_how_to_go_on(tmp_path: Path) -> None:
    class Broken(Flaky):
        def submit(self, function, /, *arguments):
            if self.submitted == 5:
                raise BrokenExecutor("a child process terminated abruptly")
            return super().submit(function, *arguments)

    with pytest.raises(BrokenExecutor) as caught:
        fit(tmp_path, engine=Broken(losses=0))
    assert "checkpoint=" in caught.value.__notes__[0]
    engine = Flaky(losses=0)
    fit(tmp_path, engine=engine)
    assert engine.submitted < 8


class Killing:
    """A cluster whose workers are killed with what they have done, each of these tasks once."""

    in_flight = 2

    def __init__(self, cluster: Any, killed: dict[int, Path]) -> None:
        self.cluster, self.killed, self.tasks = cluster, killed, 0

    def submit(self, function, /, *arguments):
        self.tasks += 1
        if self.tasks not in self.killed:
            return self.cluster.submit(function, *arguments)
        died = self.killed[self.tasks]

        def dies_once(*given):  # made here, so that it travels whole: workers know no tests
            found = function(*given)
            if not died.exists():
                died.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return found

        return self.cluster.submit(dies_once, *arguments)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # what a cluster of another library warns of is its own
@pytest.mark.parametrize("engine", ["dask", "ray"])
def test_every_engine_gives_the_local_files_bytes(engine: str, tmp_path: Path) -> None:
    """From memory and from a prepared folder, with workers killed in the middle of the fit."""

    def forest_fit(episodes=EPISODES, **options) -> GoalMonitor:
        monitor = GoalMonitor(QuantileForest(n_trees=10), steps_per_model=1)
        return monitor.fit(episodes, progress=False, **options)

    EPISODES.write(tmp_path / "walks.parquet")
    prepared = prepare(tmp_path / "walks.parquet", tmp_path / "prepared", progress=False)
    expected = file_of(forest_fit(), tmp_path / "local")
    killed = {task: tmp_path / f"killed-{task}" for task in (4, 13)}  # of a block, and of a step
    with two_workers(engine), connected(engine) as cluster:
        assert file_of(forest_fit(engine=engine), tmp_path / "memory") == expected
        assert file_of(forest_fit(prepared, engine=engine), tmp_path / "disk") == expected
        killing = Killing(cluster, killed)
        assert file_of(forest_fit(prepared, engine=killing), tmp_path / "killed") == expected
    assert all(path.exists() for path in killed.values())
    # Dask runs lost tasks again by itself; Ray tells of the loss.
    assert killing.tasks == 8 + 8 + (2 if engine == "ray" else 0)


def test_blocks_side_by_side_give_the_bytes_of_blocks_in_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = StackedForest(n_trees=6)
    monkeypatch.setenv("ONTARGET_THREADS", "3")
    files = []
    for side_by_side in (True, False):
        monkeypatch.setattr(StackedForest, "fits_side_by_side", side_by_side)
        monitor = GoalMonitor(model).fit(EPISODES, progress=False)
        files.append(file_of(monitor, tmp_path / f"{side_by_side}.ontarget"))
    assert files[0] == files[1]


def test_a_block_that_fails_in_its_thread_is_heard_of(monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing(Marginal):
        fits_side_by_side = True

        def fit(self, *_: object, **__: object) -> None:
            raise InputError("no")

    monkeypatch.setenv("ONTARGET_THREADS", "2")
    with refuses(InputError, None, "no"):
        GoalMonitor(Failing(), steps_per_model=2).fit(EPISODES, progress=False)
