"""How often runs stay inside path bands (ranges for all later steps), and how wide the bands are.

See method M22 in docs/methods.md. A monitor with the default model learns once. Held-out runs are
then divided at random many times: into runs that set the width of the bands (assure), and new runs
to check them. For comparison, a pointwise band is computed: its probability holds at each later
step by itself, not for all at once.

Run: python bench/paths.py [--domain tamarisk] [--learn 1200] [--held-out 800]
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from ontarget import GoalMonitor
from ontarget._typing import FloatArray
from ontarget.domains import simulate
from ontarget.episodes import Episodes, Split
from ontarget.fitted.guarantee import band_depth
from ontarget.fitted.paths.bands import PathBands
from ontarget.fitted.recorded import RecordedRuns
from yardstick.figures import keep

LEVEL, SPLITS, SPLITS_BY_STEP = 0.9, 20_000, 500


def distances(bands: PathBands, runs: Episodes) -> list[FloatArray]:
    """For each step, how far the runs are from the predicted middle at all later steps.

    Each array is (runs, later steps), NaN after the end of a run.
    """
    fitted = bands.fitted
    paths = RecordedRuns.of(runs, precedents=False, paths=True).paths
    found = []
    for t in range(fitted.horizon):
        rows = runs.at(t, grid=fitted.grid)
        own = np.full((len(runs), fitted.horizon - t), np.nan)
        if len(rows) and fitted.is_trained(t):
            X = fitted.at(t).inputs(rows.states, rows.behavior)[:, : fitted.width]
            own[rows.index] = bands.law(t).distances(X, paths[rows.index])
        found.append(own)
    return found


def widths(bands: PathBands, runs: Episodes, depths: FloatArray, t: int) -> FloatArray:
    """The mean width of a band at each later step.

    ``depths`` has one number per later step: the largest distance from the predicted middle that
    the band allows there.
    """
    fitted, rows = bands.fitted, runs.at(t, grid=bands.fitted.grid)
    some = slice(0, 40)
    X = fitted.at(t).inputs(rows.states[some], rows.behavior[some])[:, : fitted.width]
    law, found = bands.law(t), np.empty(depths.size)
    for depth in np.unique(depths):
        lower, upper = law.band(X, float(depth))
        here = depths == depth
        found[here] = (upper - lower).mean(axis=0)[here]
    return found


def coverage(depths: FloatArray, splits: int) -> tuple[float, float]:
    """The share of new runs that stay inside a band made from as many others, and its error.

    ``depths`` is each run's largest distance from the predicted middle. The error is the standard
    error. Both numbers are NaN if there are too few runs.
    """
    if depths.size < 40:
        return np.nan, np.nan
    rng, held = np.random.default_rng(0), np.empty(splits)
    for k in range(splits):
        assure, new = np.array_split(rng.permutation(depths), 2)
        held[k] = np.mean(new <= band_depth(assure, LEVEL))
    return float(held.mean()), float(held.std() / np.sqrt(splits))


def measure(domain: str, n_learn: int, n_held_out: int) -> None:
    """Measure one simulated domain, and print a table."""
    runs = simulate(domain, n_learn + n_held_out, progress=False)
    learn, held_out = (runs.take(range(*ends)) for ends in ((0, n_learn), (n_learn, len(runs))))
    start = time.process_time()
    monitor = GoalMonitor()
    monitor.fit(split=Split(learn, held_out.take(range(10)), None), progress=False)
    fitted_in = time.process_time() - start
    bands = PathBands(monitor.fitted)
    start = time.process_time()
    found = distances(bands, held_out)
    asked_in = time.process_time() - start
    deepest = np.stack([np.fmax.reduce(one, axis=1) for one in found])  # (steps, runs)
    ever = np.fmax.reduce(deepest, axis=0)
    by_step = [coverage(own[~np.isnan(own)], SPLITS_BY_STEP)[0] for own in deepest]
    share, error = coverage(ever, SPLITS)
    print(f"\n{domain}: {n_learn} runs learned, {n_held_out} held out, {SPLITS:,} splits of these")
    print(f"  {'processor time to learn':<44} {fitted_in:>6.0f} s")
    print(f"  {'processor time to judge every step':<44} {asked_in:>6.0f} s")
    print(f"  {'whole path from one step on, mean over steps':<44} {np.nanmean(by_step):>8.4f}")
    print(f"  {'whole path from every step on':<44} {share:>8.4f} ± {error:.4f}")
    keep(
        f"runs inside their path bands, all steps at once, {domain}", share, "", asked=f"≥ {LEVEL}"
    )
    print(f"  {'from step':>9} {'pointwise':>11} {'path':>9} {'all steps':>10}   mean width")
    whole = band_depth(ever, LEVEL)
    for t in (0, len(found) // 4, len(found) // 2, 3 * len(found) // 4):
        one = found[t][~np.isnan(found[t]).any(axis=1)]
        if len(one) < 20:
            continue
        point = np.array([band_depth(column, LEVEL) for column in one.T])
        path = np.full(point.size, band_depth(one.max(axis=1), LEVEL))
        each = [
            widths(bands, held_out, depths, t).mean()
            for depths in (point, path, np.full(point.size, whole))
        ]
        print(f"  {t:>9} {each[0]:>11.2f} {each[1]:>9.2f} {each[2]:>10.2f}")


def main() -> None:
    """Measure all simulated domains, or one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--domain", choices=("tamarisk", "skirmish"))
    parser.add_argument("--learn", type=int, default=1200)
    parser.add_argument("--held-out", type=int, default=800)
    asked = parser.parse_args()
    for name in (asked.domain,) if asked.domain else ("tamarisk", "skirmish"):
        measure(name, asked.learn, asked.held_out)


if __name__ == "__main__":
    main()
