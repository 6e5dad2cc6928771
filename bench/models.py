"""How long each kind of model takes for one row: in its compiled code, and through a live watch.

    python bench/models.py                                   # times, on Tamarisk
    python bench/models.py --models QuantileNetwork          # of one model alone
    python bench/models.py --compare --data FOLDER           # how well each kind predicts
    python bench/models.py --compare --sets walk --past 500  # on some sets, with fewer episodes

FOLDER contains logs of real episodes (see bench/quality.py); without it only simulated processes
are used. The neural network is measured only if PyTorch is installed: ``pip install
'ontarget[network]'``.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from ontarget import Episodes, GoalMonitor, Target
from ontarget.domains import Tamarisk, simulate, simulate_with_snapshots
from ontarget.errors import InputError
from ontarget.models import (
    DistributionRegression,
    QuantileForest,
    QuantileNetwork,
    StackedForest,
)
from ontarget.models.entry import live_model
from yardstick.cases import CASES, ended
from yardstick.crps import crps
from yardstick.figures import keep
from yardstick.questions import REAL

MODELS = [StackedForest, QuantileForest, DistributionRegression]
MODELS += [QuantileNetwork] if find_spec("torch") else []
KINDS = [model.kind for model in MODELS]


def microseconds(call: Callable[[], object], n: int = 2_000) -> float:
    """The median time of a call, over ten rounds."""
    call()
    rounds = []
    for _ in range(10):
        start = time.perf_counter()
        for _ in range(n // 10):
            call()
        rounds.append((time.perf_counter() - start) / (n // 10))
    return 1e6 * float(np.median(rounds))


def times(args: argparse.Namespace) -> None:
    """Print the times of a fit, of one row in compiled code and of a live step; and file sizes."""
    runs = simulate(Tamarisk(), 2_500, seed=0, progress=False)
    target = Target(-60.0, -20.0)  # two ends
    print("Tamarisk, 2,500 episodes of 50 steps, a target of two ends")
    head = f"{'model':<24}{'fit, s':>8}{'of processor, s':>17}"
    print(head + f"{'kernel, µs':>12}{'watch, µs':>11}{'file, MB':>10}")
    for model in MODELS:
        if args.models and model.__name__ not in args.models:
            continue
        start, own = time.perf_counter(), time.process_time()
        monitor = GoalMonitor(model()).fit(runs, progress=False)
        seconds, own = time.perf_counter() - start, time.process_time() - own
        row = monitor.fitted.at(10).inputs(runs.at(10).states[:1], runs.at(10).behavior[:1])
        live = live_model(monitor.fitted.at(10).parts[0][1])
        y, left, right = np.array([[-60.0, -20.0]]), np.empty((1, 2)), np.empty((1, 2))
        kernel = microseconds(lambda: live.limits(row, y, left, right))  # noqa: B023
        watch, states = monitor.watch(target, alarm_below=0.5), runs.at(0).states

        def run() -> None:
            watch.reset()  # noqa: B023
            for t in range(50):
                watch.step(states[t], *([-1.0] if t else []))  # noqa: B023

        with TemporaryDirectory() as folder:
            monitor.save(f"{folder}/one.ontarget")
            size = Path(folder, "one.ontarget").stat().st_size / 1e6
        step = microseconds(run, 100) / 50
        keep(f"one live step, {model.__name__}", step, "µs")
        fit = f"{model.__name__:<24}{seconds:>8.0f}{own:>17.0f}"
        print(fit + f"{kernel:>12.1f}{step:>11.1f}{size:>10.1f}", flush=True)


def sets(args: argparse.Namespace) -> Iterator[tuple[str, Episodes, Episodes]]:
    """Each set of episodes that is asked for: its name, past episodes and new ones."""
    for name in CASES:
        if not args.sets or name in args.sets:
            domain = CASES[name].domain()
            runs = simulate_with_snapshots(domain, args.past + args.new, 7, progress=False)
            every = ended(runs, domain)
            yield name, every.take(range(args.past)), every.take(range(args.past, len(every)))
    for name, real in REAL.items() if args.data else ():
        if not args.sets or name in args.sets:
            frame = real.read(args.data)
            ids = frame["episode"].unique().sort().to_numpy()
            order = np.random.default_rng(0).permutation(ids.size)[: args.past + args.new]
            chosen = Episodes.from_frame(frame.filter(frame["episode"].is_in(ids[order].tolist())))
            yield name, *_halves(chosen, args.past)


def _halves(episodes: Episodes, past: int) -> tuple[Episodes, Episodes]:
    first = min(past, len(episodes) * 2 // 3)
    places = np.random.default_rng(1).permutation(len(episodes))
    return episodes.take(np.sort(places[:first])), episodes.take(np.sort(places[first:]))


def loss(monitor: GoalMonitor, new: Episodes, steps: list[int]) -> float:
    """The mean CRPS of the monitor's predicted distributions, in units of each step's spread.

    CRPS is the distance of a predicted distribution from the outcome; lower is better.
    """
    fitted, found = monitor.fitted, []
    new = fitted.alike(new, any_horizon=True)
    for t in steps:
        rows = new.at(t, grid=fitted.grid)
        good = ~fitted.bad_readings(rows.states)
        y = rows.response[good]
        knots = np.unique(np.quantile(y, np.linspace(0.0, 1.0, 129), method="inverted_cdf"))
        if knots.size > 1:
            law = fitted.at(t)
            X = law.inputs(rows.states[good], rows.behavior[good])
            left, right = law.cdf_limits(X, np.tile(knots, (y.size, 1)))
            marginal = np.tile((y[:, None] <= knots).mean(axis=0), (y.size, 1))
            own, floor = crps(knots, left, right, y), crps(knots, marginal, marginal, y)
            found.append(own.mean() / floor.mean())
    return float(np.mean(found))


def compare(args: argparse.Namespace) -> None:
    """Print the loss of every model on each set, as a multiple of the least.

    Every model is fitted to all past episodes.
    """
    print(f"{'set':<12}" + "".join(f"{kind[:14]:>16}" for kind in KINDS))
    for name, past, new in sets(args):
        longest = int(np.quantile(past.lengths, 0.5))
        steps = sorted({int(t) for t in np.linspace(0, longest - 1, 5).round()})
        found = []
        for kind in KINDS:
            try:
                monitor = GoalMonitor(kind).fit(past, progress=False, steps=steps)
                found.append(loss(monitor, new, steps))
            except InputError:  # a value is missing, or a category is new
                found.append(math.nan)
        least = np.nanmin(found)
        print(f"{name:<12}" + "".join(f"{one / least:>16.3f}" for one in found), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--compare", action="store_true", help="how well each kind predicts")
    parser.add_argument("--data", type=Path, help="folder of the real sets")
    parser.add_argument("--sets", nargs="*", help="some sets only")
    parser.add_argument("--models", nargs="*", help="time some models only, by class")
    parser.add_argument("--past", type=int, default=2_500, help="episodes to fit on")
    parser.add_argument("--new", type=int, default=1_000, help="episodes to measure on")
    args = parser.parse_args()
    if args.compare:
        compare(args)
    else:
        times(args)


if __name__ == "__main__":
    main()
