"""How long intervals over whole episodes and alarm curves take, compared with a plain loop.

There are 5,000 episodes of 50 steps, and 200 resamples (random draws of whole episodes). The plain
loop computes one resample after the other. It runs on a few resamples only, and its time is scaled
up.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from ontarget.evaluation import (
    Resampling,
    alarm_curve,
    alarm_quality,
    brier,
    ece,
    ece_by_step,
    first_alarms,
    mean_by_step,
    pool,
    pooled_ece,
    pooled_mean,
    squared_errors,
)
from yardstick.figures import keep

EPISODES, STEPS, RESAMPLES, FEW = 5_000, 50, 200, 4
REQUIRED_SECONDS = 5.0


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def written_out(p: np.ndarray, met: np.ndarray, measure: Callable[..., float]) -> None:
    for row in Resampling(resamples=FEW).weights(EPISODES).astype(int):
        chosen = np.repeat(np.arange(EPISODES), row)
        flat = pool(p[:, chosen], met[chosen])
        measure(flat.p, flat.met)


def main() -> None:
    rng = np.random.default_rng(0)
    p = rng.random((STEPS, EPISODES))
    met = rng.random(EPISODES) < p[-1]
    ends = np.full(EPISODES, STEPS)
    curve = alarm_curve(p, met, ends)
    pooled_ece(p, met)

    def thresholds_one_by_one() -> None:
        for threshold in curve.threshold[:: curve.threshold.size // FEW]:
            alarm_quality(first_alarms(p, threshold), met, ends)

    scale = RESAMPLES / FEW
    rows = [
        (
            "pooled ECE",
            seconds(lambda: pooled_ece(p, met)),
            scale * seconds(lambda: written_out(p, met, ece)),
        ),
        (
            "pooled Brier",
            seconds(lambda: pooled_mean(squared_errors(p, met))),
            scale * seconds(lambda: written_out(p, met, brier)),
        ),
        ("ECE by step", seconds(lambda: ece_by_step(p, met)), None),
        ("Brier by step", seconds(lambda: mean_by_step(squared_errors(p, met))), None),
        (
            "alarm curve",
            seconds(lambda: alarm_curve(p, met, ends)),
            curve.threshold.size / (FEW + 1) * seconds(thresholds_one_by_one),
        ),
    ]
    print(f"{EPISODES:,} episodes × {STEPS} steps, {RESAMPLES} resamples")
    print(f"{'':14} {'seconds':>8} {'written out':>12} {'ratio':>7}")
    for name, fast, slow in rows:
        other = f"{slow:12.2f} {slow / fast:6.0f}×" if slow is not None else f"{'–':>12} {'–':>7}"
        print(f"{name:14} {fast:8.3f} {other}")
    total = sum(fast for _, fast, _ in rows)
    keep(
        f"evaluate {EPISODES:,} episodes of {STEPS} steps, with intervals",
        total,
        "s",
        asked=f"≤ {REQUIRED_SECONDS:g} s",
    )
    print(f"together {total:.2f} s (required ≤ {REQUIRED_SECONDS:g} s)")


if __name__ == "__main__":
    main()
