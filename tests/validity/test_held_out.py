"""Promises stay exact where the fit itself chose how many runs to hold out for them (M34)."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from ontarget import Episodes, GoalMonitor, Target

N, NEW, FITS = 110, 400, 300
TARGET = Target.at_least(-0.6)  # seven in ten runs meet it
RATE, LEVEL = 0.05, 0.8
ERRORS = 4.5  # standard errors: by chance about once in 300,000 times


def walks(n: int, seed: int) -> Episodes:
    rng = np.random.default_rng(seed)
    rewards = rng.normal(size=(n, 3)) / np.sqrt(3)
    so_far = np.cumsum(rewards, axis=1) - rewards
    return Episodes.from_arrays(so_far[..., None], rewards, ids=np.arange(n) + seed * 10_000)


def near(found: list[float], expected: list[float], *, above: float = 0.0) -> None:
    """The mean of many fits is what was promised, or at most ``above`` more."""
    off = np.array(found) - np.array(expected)
    error = off.std() / np.sqrt(off.size)
    assert -ERRORS * error < off.mean() < above + ERRORS * error, (off.mean(), error)


@pytest.mark.slow
def test_rates_and_intervals_are_as_promised_where_the_share_was_chosen() -> None:
    shares: Counter[float] = Counter()
    alarms, promised, covered, levels = [], [], [], []
    for seed in range(FITS):
        monitor = GoalMonitor("marginal").fit(
            walks(N, 2 * seed), target=TARGET, seed=seed, progress=False
        )
        new, m = walks(NEW, 2 * seed + 1), monitor.sizes["assure"]
        shares[m / N] += 1
        if not m:
            continue
        rows = new.at(1)
        interval = monitor.interval(1, rows.states, rows.behavior, LEVEL)
        covered.append(float(interval.contains(new.outcomes).mean()))
        levels.append(LEVEL)
        curve = monitor.alarm_curve(rates=[RATE])
        if np.isnan(curve.threshold[0]):
            continue
        good = TARGET.contains(new.outcomes)
        lowest = np.nanmin(monitor.evaluate(new, resamples=2).p, axis=0)
        alarms.append(float((lowest < curve.threshold[0] - 1e-9)[good].mean()))
        k = int(RATE * (curve.n_met + 1) + 1e-9)
        promised.append(k / (curve.n_met + 1))
    assert len(shares) >= 4  # the choice did depend on the runs
    assert len(alarms) > 0.85 * FITS
    near(alarms, promised)
    near(covered, levels, above=2 / (0.2 * N + 1))
