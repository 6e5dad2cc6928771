"""How often path bands hold, over all steps and the whole path, and how wide they are (M22).

A monitor learns once; held-out runs are then divided into assure and new runs again and again.
Beside the band stands the pointwise one, whose level holds at each later step by itself.

Run: python bench/paths.py [learn] [held out]
"""

from __future__ import annotations

import sys
import time

import numpy as np

from ontarget import GoalMonitor, StackedForest
from ontarget._typing import FloatArray
from ontarget.domains import simulate
from ontarget.episodes import Episodes, Split
from ontarget.fitted.guarantee import band_depth
from ontarget.fitted.paths import PathBands
from ontarget.fitted.recorded import RecordedRuns

LEVEL, SPLITS = 0.9, 200
N_LEARN, N_HELD_OUT = (int(one) for one in (*sys.argv[1:3], "1200", "800")[:2])


def distances(bands: PathBands, runs: Episodes) -> list[FloatArray]:
    """Per step (runs, later steps): how far each path lies from its law's middle; NaN once over."""
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
    """The mean width at each later step of bands of these depths, one depth per later step."""
    fitted, rows = bands.fitted, runs.at(t, grid=bands.fitted.grid)
    some = slice(0, 40)
    X = fitted.at(t).inputs(rows.states[some], rows.behavior[some])[:, : fitted.width]
    law, found = bands.law(t), np.empty(depths.size)
    for depth in np.unique(depths):
        lower, upper = law.band(X, float(depth))
        here = depths == depth
        found[here] = (upper - lower).mean(axis=0)[here]
    return found


def measure(domain: str) -> None:
    """One table for a domain."""
    runs = simulate(domain, N_LEARN + N_HELD_OUT, progress=False)
    learn, held_out = (runs.take(range(*ends)) for ends in ((0, N_LEARN), (N_LEARN, len(runs))))
    start = time.perf_counter()
    monitor = GoalMonitor(StackedForest(n_trees=20, n_boosted=60))
    monitor.fit(split=Split(learn, held_out.take(range(10)), None), progress=False)
    fitted_in = time.perf_counter() - start
    bands = PathBands(monitor.fitted)
    start = time.perf_counter()
    found = distances(bands, held_out)
    asked_in = time.perf_counter() - start
    deepest = np.stack([np.fmax.reduce(one, axis=1) for one in found])  # (steps, runs)
    ever = np.fmax.reduce(deepest, axis=0)
    rng, held_one, held_all = np.random.default_rng(0), [], []
    for _ in range(SPLITS):
        assure, new = np.split(rng.permutation(len(held_out)), 2)
        held_all.append(np.mean(ever[new] <= band_depth(ever[assure], LEVEL)))
        each = []
        for one in deepest:
            alive = one[assure][~np.isnan(one[assure])], one[new][~np.isnan(one[new])]
            if alive[0].size >= 20 and alive[1].size:
                each.append(np.mean(alive[1] <= band_depth(alive[0], LEVEL)))
        held_one.append(np.mean(each))
    print(f"\n{domain}: {N_LEARN} runs learned in {fitted_in:.0f} s, {N_HELD_OUT} held out")
    print(f"  {'judged':<44} {asked_in:>7.1f} s")
    print(f"  {'whole path from one step on, mean over steps':<44} {np.mean(held_one):>8.4f}")
    print(f"  {'whole path from every step on':<44} {np.mean(held_all):>8.4f}")
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
    sys.stdout.flush()


if __name__ == "__main__":
    for name in ("tamarisk", "skirmish"):
        measure(name)
