"""How often the spread around p contains the true probability, on the river of the README.

    python bench/spread.py

p is the estimated probability of meeting the target. The spread is a range around p; it shows how
exactly the held-out (assure) episodes can confirm p. The spread is not the error of p: it gets
narrower with more episodes, whether or not p gets closer to the truth. In this example, the true
probability is known exactly. Takes about a minute.
"""

from __future__ import annotations

import numpy as np

from ontarget import GoalMonitor, Target
from ontarget.domains import Rivers, Tamarisk, simulate
from yardstick.exact import ExactReturns
from yardstick.figures import keep

RIVER, TARGET, STEPS = Tamarisk("tight-budget"), Target.at_least(-80), (0, 10, 25)


def main() -> None:
    """Print a table with one row for each number of recorded runs and each step."""
    truth = ExactReturns(RIVER, steps=STEPS, lowest=-81.0)
    new = simulate(RIVER, 1_000, seed=1)
    print("recorded  step  half width  p from the truth  truth inside")
    for n in (500, 2_500, 10_000):
        found = GoalMonitor().fit(simulate(RIVER, n, seed=0), progress=False).evaluate(new, TARGET)
        for t in STEPS:
            now = new.at(t)
            rivers = Rivers(now.states.astype(np.int8))
            true = truth.probability(rivers, now.behavior, t, TARGET)
            p, (low, high) = found.p[t], found.spread[t].T
            half, off = (high - low).mean() / 2, np.abs(p - true).mean()
            inside = ((low <= true) & (true <= high)).mean()
            print(f"{n:8,}  {t:4}  {half:10.3f}  {off:16.3f}  {inside:12.1%}", flush=True)
            keep(f"mean distance of p from the truth, river, step {t}, {n:,} runs", off, "")


if __name__ == "__main__":
    main()
