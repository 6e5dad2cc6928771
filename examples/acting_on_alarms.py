"""Acting on alarms: switch to a safe policy, but leave a control group alone to see if it helps.

    python examples/acting_on_alarms.py

A rover covers 12 legs. On rough ground it slips; in safe mode it crawls at a steady pace. When an
alarm comes, the rover is switched to safe mode in three of four cases, drawn at random. In the
other cases it is left alone. These runs are the control group: without them, nobody could say
whether the switch helps, or whether the alarm still works.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from ontarget import Episodes, GoalMonitor, Target, Watch

LEGS, ACT = 12, 0.75
TARGET = Target.at_least(11.0)


def run(rng: np.random.Generator, name: int, watch: Watch | None = None) -> list[dict[str, object]]:
    """One run of the rover as rows of a log; with a watch, an alarm may switch it to safe mode."""
    rows: list[dict[str, object]] = []
    rough, reward, safe, drawn = rng.normal(), 0.0, False, False
    if watch is not None:
        watch.reset()
    for leg in range(LEGS):
        chance = 0.0
        if watch is not None and watch.step([rough], reward).alarm and not drawn:
            drawn, chance = True, ACT
            if rng.random() < ACT:
                safe = True
                watch.intervene()
        reward = 0.95 if safe else float(1.1 - 0.3 * rough + 0.2 * rng.normal())
        rows.append({"run": name, "leg": leg, "rough": rough, "metres": reward,
                     "safe": safe, "chance": chance, "alarmed": drawn})  # fmt: skip
        rough = 0.8 * rough + 0.6 * rng.normal()
    return rows


def share(log: pl.DataFrame, chosen: pl.Expr) -> tuple[float, int]:
    """The share of the chosen runs that met the target, and how many runs were chosen."""
    ends = log.group_by("run").agg(pl.sum("metres"), pl.last("safe"), pl.last("alarmed"))
    own = ends.filter(chosen)["metres"]
    return float(np.mean(own.to_numpy() >= TARGET.lower)), len(own)


def main(past: int = 2000, live: int = 2000) -> tuple[float, float]:
    rng = np.random.default_rng(0)

    # 1. Fit on runs that were left alone.
    alone = pl.DataFrame([row for i in range(past) for row in run(rng, i)])
    columns = {"episode": "run", "step": "leg", "reward": "metres", "features": ["rough"]}
    monitor = GoalMonitor().fit(Episodes.from_frame(alone, horizon=LEGS, **columns), progress=False)

    # 2. Watch. Of runs that would get there by themselves, at most 10 % raise an alarm.
    watch = monitor.watch(TARGET, false_alarm_rate=0.1)
    log = pl.DataFrame([row for i in range(live) for row in run(rng, past + i, watch)])

    # 3. Does the switch help? Compare with the alarms that were left alone.
    switched, n = share(log, pl.col("safe"))
    control, m = share(log, pl.col("alarmed") & ~pl.col("safe"))
    error = np.sqrt(switched * (1 - switched) / n + control * (1 - control) / m)
    print(f"alarms: {n + m} of {live} runs")
    print(f"   switched to safe mode: {switched:.0%} of {n} reached the goal")
    print(f"   left alone:            {control:.0%} of {m} did")
    print(f"   the switch adds {100 * (switched - control):.0f} ± {196 * error:.0f} points")

    # 4. Is the monitor still right? Judge it by runs that were left alone. Those are mostly runs
    # without an alarm, so draw them by the logged chance that each would be stopped.
    reading = {"like": monitor, "intervened": "safe"}
    fair = Episodes.from_frame(
        log, censored="weights", stop_probability="chance", stop_bound=1 / (1 - ACT), **reading
    )
    selected = Episodes.from_frame(log, **reading)
    for name, runs in (
        ("drawn by the logged chances", fair),
        ("all that were not stopped", selected),
    ):
        print(f"{name}: {monitor.drift(runs, TARGET).bias.in_words}")

    # 5. And to go on from here: promises that rest on these runs.
    print(monitor.recalibrate(fair))
    return switched, control


if __name__ == "__main__":
    main()
