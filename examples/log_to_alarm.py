"""A log with unusual column names, runs that end early, and text: read it, check it, watch it.

    python examples/log_to_alarm.py [LOG.csv]

Without a log, the script makes one of a greenhouse that is heated for up to 24 hours; a pipe may
freeze, which ends the run.
"""

from __future__ import annotations

import csv
import math
import sys
import tempfile
from pathlib import Path

import numpy as np

from ontarget import Episodes, GoalMonitor, Target

COLUMNS = {"episode": "night", "step": "hour", "reward": "kilowatt_hours"}


def write_log(path: Path, nights: int, seed: int) -> None:
    """Write a log as a data logger would: one line per hour, readings first, then what was used."""
    rng = np.random.default_rng(seed)
    with path.open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["night", "hour", "outside", "wind", "kilowatt_hours"])
        for night in range(nights):
            outside = rng.normal(-2.0, 4.0)
            for hour in range(24):
                wind = str(rng.choice(["calm", "gusty"], p=[0.7, 0.3]))
                reading = (
                    "" if rng.random() < 0.02 else f"{outside:.1f}"
                )  # the sensor fails at times
                used = max(0.0, 3.0 - 0.4 * outside + rng.normal()) * (
                    1.3 if wind == "gusty" else 1.0
                )
                out.writerow([night, hour, reading, wind, f"{used:.2f}"])
                outside += rng.normal(scale=0.7)
                if outside < -12.0:  # a pipe freezes, and the night is over
                    break


def main(nights: int = 1500, log: Path | None = None) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "nights.csv" if log is None else log
        if log is None:
            write_log(path, nights, seed=0)
        past = Episodes.read(path, **COLUMNS)
    print(past.describe(), "\n")

    monitor = GoalMonitor(policy="thermostat, version 3").fit(past, progress=False)
    budget = Target.at_most(110.0)
    curve = monitor.alarm_curve(budget, rates=[0.02, 0.05, 0.1])
    for rate, share, lead in zip(
        curve.false_alarm_rate, curve.detection_rate, curve.lead_steps[:, 1], strict=True
    ):
        print(f"{rate:.0%} false alarms: {share:.0%} of dear nights seen, half {lead:.0f} h ahead")

    watch = monitor.watch(budget, false_alarm_rate=0.05)
    print()
    for hour, (outside, used) in enumerate(
        [(-1.0, 0.0), (-1.5, 4.1), (math.nan, 4.4), (-0.5, 4.6)]
    ):
        outlook = watch.step({"outside": outside, "wind": "gusty"}, used)
        print(f"hour {hour}: p = {outlook.p:.3f} {outlook.status}")
    outlook = watch.step({"outside": 0.0, "wind": "storm"}, 4.0)  # a word that no night had
    print(f"hour 4: p = {outlook.p:.3f} {outlook.status}, with the wind taken as missing")
    outlook = watch.step({"outside": "frozen", "wind": "calm"}, 3.9)
    print(f"hour 5: {outlook.status}, {outlook.reason}")


if __name__ == "__main__":
    main(log=Path(sys.argv[1]) if len(sys.argv) > 1 else None)
