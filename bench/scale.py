"""Time and memory for more rows than fit in memory: prepare, fit, evaluate, live steps.

    python bench/scale.py --rows 1e6            # 10,000 episodes of 100 steps, 4 features
    python bench/scale.py --rows 1e8 --folder /data/scale

Each stage runs in a process of its own. Printed are its time, processor seconds, rows per processor
second and the peak of its resident memory, then the model file's size and how long a live step
takes. ``--cap`` compares models that learn from 20,000 and from 100,000 episodes instead.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from yardstick.figures import keep

STEPS, FEATURES, FILE_EPISODES = 100, 4, 10_000
FEW = 2_500  # episodes of a small model to compare live steps with
ASSURE = 2_000  # episodes, where only what is learned matters
NEW = 0.02  # new episodes to evaluate on, as a share, but at least as many as one file has


def make(folder: Path, n: int, seed: int, *, twisted: bool = False) -> None:
    """Write n episodes to files of ten thousand episodes each, sorted by episode as logs are.

    What a step earns is a linear function of the state. With ``twisted``, it depends on the signs
    of two features and the size of a third, which takes many more episodes to learn.
    """
    import polars as pl

    part = folder.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    for start in range(0, n, FILE_EPISODES):
        some = min(FILE_EPISODES, n - start)
        rng = np.random.default_rng((seed, start))
        states = np.empty((some, STEPS, FEATURES), dtype=np.float32)
        rewards = np.empty((some, STEPS), dtype=np.float32)
        now = rng.normal(size=(some, FEATURES))
        for t in range(STEPS):
            states[:, t] = now
            pull = 0.2 * now[:, 0] + 0.1 * now[:, 1]
            if twisted:
                pull = 0.5 * np.sign(now[:, 0] * now[:, 1]) * np.abs(now[:, 2])
            rewards[:, t] = np.round(pull + rng.normal(size=some), 2)
            now = 0.95 * now + 0.3 * rng.normal(size=(some, FEATURES))
        ids = (seed << 40) + np.arange(start, start + some)
        table = pl.DataFrame(
            {
                "episode": np.repeat(ids, STEPS),
                "step": np.tile(np.arange(STEPS, dtype=np.int32), some),
                **{f"x{j}": states[:, :, j].ravel() for j in range(FEATURES)},
                "reward": rewards.ravel(),
            }
        )
        table.write_parquet(part / f"{start:09d}.parquet", compression="lz4")
    part.rename(folder)


def prepare(source: Path, output: Path) -> None:
    """Prepare the episodes: write them to a folder from which they are read step by step."""
    from ontarget.reading import prepare

    print(f"  {prepare(source, output, progress=False)}")


def fit(prepared: Path, model: Path) -> None:
    """Fit a monitor to the prepared episodes, and save it."""
    from ontarget import GoalMonitor

    GoalMonitor().fit(prepared, progress=False).save(model)


def evaluate(model: Path, prepared: Path) -> None:
    """Evaluate the model on new prepared episodes."""
    from ontarget import Episodes, GoalMonitor, Target

    found = GoalMonitor.load(model).evaluate(Episodes.read(prepared), Target.at_least(0.0))
    print(f"  ece {found.ece().value:.4f}, Brier score {found.brier().value:.4f}")


def live(model: Path, small: Path) -> None:
    """Print the median time of two thousand live steps of a model, beside those of a small model.

    The two models take turns.
    """
    from ontarget import GoalMonitor, Target

    def watch_of(path: Path):
        return GoalMonitor.load(path).watch(Target.at_least(0.0), alarm_below=0.5)

    watches = {path: watch_of(path) for path in (model, small)}
    rng, times = np.random.default_rng(0), {path: [] for path in watches}
    for _ in range(20):
        for watch in watches.values():
            watch.reset()
        for t in range(STEPS):
            state, reward = rng.normal(size=FEATURES), 0.0 if t == 0 else rng.normal()
            for path, watch in watches.items():
                start = time.perf_counter()
                watch.step(state, reward)
                times[path].append(time.perf_counter() - start)
    p50 = {path: 1e6 * np.median(own) for path, own in times.items()}
    for path, median in p50.items():
        size = path.stat().st_size / 1e6
        print(f"  {path.name}: {size:.1f} MB, Watch.step p50 {median:.1f} µs")
    ratio = p50[model] / p50[small]
    print(f"  {ratio:.2f} times the step of the model of {FEW:,} episodes")
    keep("one live step of a large model", ratio, "×", beside=f"a model of {FEW:,} episodes")


def cap(sizes: str, n_new: str, *, twisted: bool) -> None:
    """Print the CRPS on the same new episodes of monitors that learn from few and from many.

    CRPS is the distance of a predicted distribution from the outcome; lower is better. ``sizes``
    are the numbers of episodes to learn from.
    """
    from ontarget import GoalMonitor
    from ontarget.episodes import Episodes

    learn = [int(float(one)) for one in sizes.split(",")]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make(folder / "new", int(float(n_new)), 1, twisted=twisted)
        make(folder / "old", max(learn) + ASSURE, 2, twisted=twisted)
        new, old = (Episodes.concat(_read(folder / one)) for one in ("new", "old"))
    first = None
    for size in learn:
        start = time.process_time()
        split = old.split(learn=size / len(old), assure=ASSURE / len(old))
        monitor = GoalMonitor().fit(split=split, progress=False)
        took = time.process_time() - start
        losses = np.array([_crps(monitor, new, t) for t in range(0, STEPS, 10)]).mean(axis=0)
        first = losses if first is None else first
        worse = first - losses
        print(
            f"  learned from {len(split.learn):>7,}: CRPS {_mean(losses)}, lower by {_mean(worse)} "
            f"than the first; fitted in {took:.0f} cpu s",
            flush=True,
        )


def rates() -> None:
    """Print the processor time of learning and of answering for one row, for a few sizes."""
    from resource import RUSAGE_SELF, getrusage

    from ontarget import Episodes, GoalMonitor
    from ontarget.fitting import fit as fitting

    def busy() -> float:
        used = getrusage(RUSAGE_SELF)
        return used.ru_utime + used.ru_stime

    answering, answered = fitting.ranks_in_tasks, [0.0]

    def timed(*arguments, **options):
        start = busy()
        found = answering(*arguments, **options)
        answered[0] = busy() - start
        return found

    fitting.ranks_in_tasks = timed
    rng = np.random.default_rng(0)
    for n, steps in ((100, 8), (500, 50), (500, 100), (1000, 100)):  # the first one compiles
        states = rng.normal(size=(2 * n, steps, FEATURES))
        rewards = np.round(0.3 * states[:, :, 0] + rng.normal(size=(2 * n, steps)), 2)
        split = Episodes.from_arrays(states, rewards).split(learn=0.5, assure=0.5)
        start = busy()
        GoalMonitor().fit(split=split, progress=False)
        learning, each = busy() - start - answered[0], 1e6 * answered[0] / (n * steps)
        print(f"{n:,} episodes of {steps} steps: {learning:.1f} cpu s, then {each:.1f} µs a row")


def _read(folder: Path) -> list:
    from ontarget.episodes import Episodes

    return [Episodes.read(path) for path in sorted(folder.glob("*.parquet"))]


def _mean(losses: np.ndarray) -> str:
    return f"{losses.mean():.4f} ± {losses.std() / np.sqrt(losses.size):.4f}"


def _crps(monitor, new, t: int) -> np.ndarray:
    """For each episode, how far its predicted distribution at a step is from its outcome (CRPS).

    It is the integral of the squared difference between the predicted CDF and a jump from 0 to 1 at
    what the episode still earned, over 200 evenly spaced values.
    """
    rows, law = new.at(t), monitor.fitted.at(t)
    values, width = np.linspace(rows.response.min(), rows.response.max(), 200, retstep=True)
    asked = np.tile(values, (len(rows), 1))
    found = law.cdf_limits(law.inputs(rows.states, rows.behavior), asked)[1]
    return np.square(found - (rows.response[:, None] <= values)).sum(axis=1) * width


def staged(
    name: str, rows: int, *arguments: object, made: Path | None = None, keeps: bool = False
) -> None:
    """Run one stage in a process of its own; print its time, speed and peak memory.

    Nothing is run if the file or folder ``made``, which the stage would make, exists already.
    ``keeps`` says whether the figures belong on the page of all figures.
    """
    if made is not None and made.exists():
        print(f"{name:<10}{made.name} is there already", flush=True)
        return
    start = time.perf_counter()
    command = [sys.executable, __file__, "--stage", name, *map(str, arguments)]
    child = os.posix_spawn(sys.executable, command, os.environ)
    _, status, used = os.wait4(child, 0)
    took = time.perf_counter() - start
    if status:
        sys.exit(f"{name} failed with {status}")
    busy = used.ru_utime + used.ru_stime  # a time that others on the machine do not change much
    speed = f"{rows / busy:>12,.0f} rows/s" if rows else " " * 19
    memory = used.ru_maxrss / 2**20
    print(f"{name:<10}{took:>9.1f} s{busy:>9.1f} cpu s{speed}{memory:>8.2f} GB peak", flush=True)
    if keeps:
        keep(f"{name} {rows:,} rows, a part at a time", rows / busy, "rows/s of a core")
        keep(f"{name} {rows:,} rows, peak of memory", memory, "GB")


def run(rows: int, folder: Path, *, prepare_only: bool, resume: bool) -> None:
    """Run all stages, one after the other: make, prepare, fit, evaluate, live steps."""
    n = rows // STEPS
    new = max(FILE_EPISODES, int(NEW * n))
    print(f"{rows:,} rows: {n:,} episodes of {STEPS} steps, {FEATURES} features", flush=True)
    if not resume:
        shutil.rmtree(folder, ignore_errors=True)
    model, small = folder / "model.ontarget", folder / "few.ontarget"
    _prepared(rows, folder / "runs", folder / "prepared", n, 0, keeps=True)
    if prepare_only:
        return
    staged("fit", rows, folder / "prepared", model, made=model, keeps=True)
    _prepared(new * STEPS, folder / "new", folder / "new-prepared", new, 1)
    staged("evaluate", 0, model, folder / "new-prepared")
    _prepared(FEW * STEPS, folder / "few", folder / "few-prepared", FEW, 2)
    staged("fit", FEW * STEPS, folder / "few-prepared", small, made=small)
    staged("live", 0, model, small)


def _prepared(
    rows: int, log: Path, prepared: Path, n: int, seed: int, *, keeps: bool = False
) -> None:
    """Make a log of n episodes, and write it to a folder that is read step by step."""
    staged("make", rows, log, n, seed, made=log)
    staged("prepare", rows, log, prepared, made=prepared / "manifest.json", keeps=keeps)


def main() -> None:
    """Read the arguments, and run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=float, default=1e6)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "scale")
    parser.add_argument("--prepare-only", action="store_true")
    parser.add_argument("--resume", action="store_true", help="keep what an earlier run has made")
    parser.add_argument("--rates", action="store_true", help="measure what `ontarget plan` needs")
    parser.add_argument("--cap", nargs="?", const="20000,100000", metavar="SIZES")
    parser.add_argument("--twisted", action="store_true", help="a log that is harder to learn")
    parser.add_argument("--stage", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.stage:
        name, *given = asked.stage
        if name == "make":
            make(Path(given[0]), int(given[1]), int(given[2]))
        else:
            stages = {"prepare": prepare, "fit": fit, "evaluate": evaluate, "live": live}
            stages[name](*map(Path, given))
    elif asked.rates:
        rates()
    elif asked.cap:
        cap(asked.cap, "2000", twisted=asked.twisted)
    else:
        run(int(asked.rows), asked.folder, prepare_only=asked.prepare_only, resume=asked.resume)


if __name__ == "__main__":
    main()
