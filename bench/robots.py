"""Robots that fall: how many late falls are caught, and how good p is, beside a classifier.

    python bench/robots.py                      # a double pendulum and a hopper; about ten minutes
    python bench/robots.py --cache DIR          # keeps the recordings
    python bench/robots.py --robots pendulum

It needs MuJoCo: pip install 'ontarget[robots]'. Both robots run for up to 1,000 steps under a fixed
linear controller with noise, and about half of the runs fall. The classifier is gradient-boosted
trees on state, step and reward so far, trained for the target on all recorded runs. Falls caught
are compared at the same measured false-alarm rate of 5 %.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import polars as pl

from ontarget import Episodes, GoalMonitor, Target
from ontarget.study import boosted, rows_of
from yardstick.figures import keep
from yardstick.machines import HORIZON, record_hopper, record_pendulum

LATE, FAULT_AT, RATE = 150, 200, 0.05
FALLS = ((0, 50), (50, LATE), (LATE, HORIZON))  # steps of the fall, from and up to

Told = tuple[np.ndarray, np.ndarray, np.ndarray]  # p (steps, runs), lengths, whether each run met


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cache", type=Path, help="folder that keeps the recordings")
    parser.add_argument("--robots", nargs="+", choices=ROBOTS, default=ROBOTS)
    parser.add_argument("--splits", type=int, default=5, help="of the hopper's recording (5)")
    asked = parser.parse_args()
    with TemporaryDirectory() as folder:
        for robot in asked.robots:
            ROBOTS[robot](asked.cache or Path(folder), asked)


def pendulum(cache: Path, asked: argparse.Namespace) -> None:
    """Falls caught by when they happen, and a controller that fails at step 200."""
    recorded = kept(cache / "pendulum.parquet", lambda: record_pendulum(2_700, seed=1))
    faulty = kept(cache / "fault.parquet", lambda: record_pendulum(60, seed=9, fault=FAULT_AT))
    target = Target.at_least(HORIZON)
    past, new = divided(recorded, 700, 2_000, split=0)
    monitor, ours = told_by_ontarget(past, new, target, seed=0)
    rival = told_by_classifier(past, new, target)
    print(
        "\n== InvertedDoublePendulum: does it stand for 1,000 steps? 700 recorded runs, 2,000 new"
    )
    for name, told in (("ontarget", ours), ("boosted classifier", rival)):
        print(f"{name:<20}", describe(told))
    threshold, p_fault, lengths = at_rate(ours), *told_of(monitor, faulty, past, target)[:2]
    going = lengths > FAULT_AT
    alarms = np.nanmin(p_fault[FAULT_AT:, going], axis=0) < threshold
    print(f"controller off at step {FAULT_AT}: an alarm in {alarms.sum()} of {alarms.size} runs")
    caught, last = late_falls(ours), last_p(ours)
    keep("late falls caught, pendulum", caught, "", beside=f"classifier {late_falls(rival):.3f}")
    keep("median p before a late fall, pendulum", last, "", beside=f"{last_p(rival):.3f}")
    keep("controller fault alarmed, pendulum", float(alarms.mean()), "", asked="at least .9")


def hopper(cache: Path, asked: argparse.Namespace) -> None:
    """The Brier score beside the classifier's, on several splits of one recording."""
    recorded = kept(cache / "hopper.parquet", lambda: record_hopper(1_200, seed=5))
    target, gaps = Target.at_least(3_000), []
    print("\n== Hopper: does it earn 3,000 in 1,000 steps? 700 recorded runs, 500 new")
    for split in range(asked.splits):
        past, new = divided(recorded, 700, 500, split=split)
        ours = told_by_ontarget(past, new, target, seed=split)[1]
        rival = told_by_classifier(past, new, target)
        gap = per_run(ours) - per_run(rival)
        gaps.append((gap.mean(), gap.std() / np.sqrt(gap.size)))
        print(f"split {split}: ontarget", describe(ours), "| classifier", describe(rival))
    mean, error = np.mean([m for m, _ in gaps]), np.sqrt(np.mean([e**2 for _, e in gaps]))
    print(f"Brier · 10⁴, ontarget minus classifier: {1e4 * mean:+.1f} ± {1e4 * error:.1f}")
    keep(
        "Brier · 10⁴ beyond the classifier's, hopper", 1e4 * mean, "", beside=f"± {1e4 * error:.1f}"
    )


ROBOTS: dict[str, Callable[[Path, argparse.Namespace], None]] = {
    "pendulum": pendulum,
    "hopper": hopper,
}


def kept(file: Path, record: Callable[[], pl.DataFrame]) -> pl.DataFrame:
    """The recording in this file; it is made and written first if there is none."""
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        record().write_parquet(file)
    return pl.read_parquet(file)


def divided(frame: pl.DataFrame, n_past: int, n_new: int, *, split: int) -> tuple[Episodes, ...]:
    """Recorded and new episodes, drawn from one recording."""
    order = np.random.default_rng(split).permutation(frame["episode"].n_unique())
    parts = order[:n_past], order[n_past : n_past + n_new]
    past = episodes(frame.filter(pl.col("episode").is_in(parts[0].tolist())))
    return past, episodes(frame.filter(pl.col("episode").is_in(parts[1].tolist())), like=past)


def episodes(frame: pl.DataFrame, like: Episodes | None = None) -> Episodes:
    columns = {"episode": "episode", "step": "step", "reward": "reward"}
    if like is not None:
        return Episodes.from_frame(frame, **columns, like=like)
    features = [name for name in frame.columns if name not in columns]
    return Episodes.from_frame(frame, **columns, features=features, horizon=HORIZON)


def told_by_ontarget(
    past: Episodes, new: Episodes, target: Target, seed: int
) -> tuple[GoalMonitor, Told]:
    started = time.process_time()
    monitor = GoalMonitor().fit(past, seed=seed, progress=False)
    print(f"fitted in {time.process_time() - started:.0f} s of processor time")
    found = monitor.evaluate(new, target)
    return monitor, (in_run(found.p, new), np.asarray(new.lengths), found.met)


def told_of(monitor: GoalMonitor, frame: pl.DataFrame, past: Episodes, target: Target) -> Told:
    new = episodes(frame, like=past)
    found = monitor.evaluate(new, target)
    return in_run(found.p, new), np.asarray(new.lengths), found.met


def told_by_classifier(past: Episodes, new: Episodes, target: Target) -> Told:
    rows = rows_of(new, target)
    p = np.full((HORIZON, len(new)), np.nan)
    p[rows.t, rows.episode] = boosted(rows_of(past, target), rows)
    met = np.zeros(len(new), dtype=bool)
    met[rows.episode] = rows.met
    return p, np.asarray(new.lengths), met


def in_run(p: np.ndarray, new: Episodes) -> np.ndarray:
    alive = np.arange(HORIZON)[:, None] < np.asarray(new.lengths)
    return np.where(alive, p, np.nan)


def lowest(told: Told) -> np.ndarray:
    return np.nanmin(told[0], axis=0)


def at_rate(told: Told) -> float:
    """The alarm threshold with 5 % false alarms among these very runs."""
    return float(np.quantile(lowest(told)[told[2]], RATE))


def late_falls(told: Told, after: int = LATE, upto: int = HORIZON) -> float:
    """The share of falls in these steps that are caught."""
    fell = ~told[2] & (told[1] > after) & (told[1] <= upto)
    return float(np.mean(lowest(told)[fell] < at_rate(told))) if fell.any() else np.nan


def last_p(told: Told) -> float:
    """The median p at the last state before a late fall."""
    p, lengths, met = told
    fell = np.flatnonzero(~met & (lengths > LATE) & (lengths < HORIZON))
    return float(np.nanmedian(p[lengths[fell] - 1, fell]))


def per_run(told: Told) -> np.ndarray:
    """Each run's part of the Brier score over all steps of all runs."""
    p, lengths, met = told
    squares = np.nansum(np.square(p - met), axis=0)
    return squares * lengths.size / lengths.sum()


def describe(told: Told) -> str:
    parts = ", ".join(f"{late_falls(told, a, b):.3f} of steps {a}–{b}" for a, b in FALLS)
    return f"Brier {per_run(told).mean():.4f}; caught {parts}; last p {last_p(told):.3f}"


if __name__ == "__main__":
    main()
