"""A process changes, and a drift guard notices: when to stop trusting forecasts, and what then.

python examples/drift.py
"""

from __future__ import annotations

import numpy as np

from ontarget import Episodes, GoalMonitor, Target


def deliveries(runs: int, seed: int, pace: float, first_id: int) -> Episodes:
    """Recorded runs of 10 rounds; a round delivers more if the queue is long, times ``pace``."""
    rng = np.random.default_rng(seed)
    queue = rng.gamma(3.0, size=(runs, 10, 1))
    parcels = rng.poisson(pace * (1.0 + queue[:, :, 0]))
    ids = np.arange(first_id, first_id + runs)  # new runs, new ids
    return Episodes.from_arrays(queue, parcels, ids=ids, features=["queue"])


def main(runs: int = 2000) -> None:
    target = Target.at_least(35)
    monitor = GoalMonitor().fit(deliveries(runs, 0, 1.0, first_id=0), progress=False)

    # A false alarm, ever, with probability at most 1 %.
    guard = monitor.drift_guard(level=0.99)
    stream = [
        deliveries(300, 1, 1.0, first_id=100_000),  # as before
        deliveries(300, 2, 0.9, first_id=200_000),  # a new tyre: 10 % slower
    ]
    for name, part in zip(("as before", "slower"), stream, strict=True):
        for i in range(len(part)):
            reading = guard.observe(part.take([i]))  # in the order in which they started
            if reading.alarm:
                print(f"{name}: drift after {i + 1} runs, evidence {reading.evidence:.0f}")
                break
        else:
            print(f"{name}: {len(part)} runs, evidence {reading.evidence:.2f}, no alarm")
        said = monitor.evaluate(part, target)
        print(f"   said {np.nanmean(said.p):.1%} on average, met {said.met.mean():.1%}")

    # What to do: record the process as it is now, and fit again.
    again = GoalMonitor().fit(deliveries(runs, 3, 0.9, first_id=300_000), progress=False)
    said = again.evaluate(stream[1], target)
    print(f"fitted again: said {np.nanmean(said.p):.1%}, met {said.met.mean():.1%}")


if __name__ == "__main__":
    main()
