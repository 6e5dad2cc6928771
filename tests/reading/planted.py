"""Logs with one leak each, planted into clean ones."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl

from ontarget import Episodes

OUTCOME = pl.col("reward").sum().over("episode")
TOTAL = pl.col("reward").cum_sum().over("episode", order_by="step")
LENGTH = pl.col("step").max().over("episode") + 1
LAST = pl.col("step") == pl.col("step").max().over("episode")
LABEL = pl.when(OUTCOME.median() < OUTCOME).then(pl.lit("won")).otherwise(pl.lit("lost"))


def noise(frame: pl.DataFrame, *, seed: int = 7) -> pl.Series:
    """One number per episode, a tenth as spread as the outcomes."""
    per_run = frame.group_by("episode", maintain_order=True).agg(pl.col("reward").sum())
    rng = np.random.default_rng(seed)
    drawn = rng.normal(scale=0.1 * per_run["reward"].std(), size=per_run.height)
    return frame.join(per_run.select("episode", drawn=drawn), on="episode", maintain_order="left")[
        "drawn"
    ]


def by_result(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(leak=OUTCOME).sort("leak", "episode", "step").drop("leak")


# A leak's name -> the kind of caution, the column it names, and the log that holds it.
LEAKS: dict[str, tuple[str, Callable[[pl.DataFrame], pl.DataFrame]]] = {
    "the outcome itself": ("outcome", lambda log: log.with_columns(leak=OUTCOME)),
    "another unit": ("outcome", lambda log: log.with_columns(leak=12.0 - 0.5 * OUTCOME)),
    "a curve": ("outcome", lambda log: log.with_columns(leak=(OUTCOME / OUTCOME.std()).exp())),
    "a curve that jumps": (
        "outcome",
        lambda log: log.with_columns(leak=OUTCOME - 100 * OUTCOME.std() * (LABEL == "won")),
    ),
    "a noisy copy": ("outcome", lambda log: log.with_columns(leak=OUTCOME + noise(log))),
    "a rank": ("outcome", lambda log: log.with_columns(leak=OUTCOME.rank("dense"))),
    "won or lost": ("outcome", lambda log: log.with_columns(leak=LABEL)),
    "a grade": (
        "outcome",
        lambda log: log.with_columns(
            leak=(5 * OUTCOME.rank("max") / (pl.len() + 1)).floor().cast(pl.String)
        ),
    ),
    "missing where lost": (
        "outcome",
        lambda log: log.with_columns(leak=pl.when(LABEL == "won").then(pl.col("step"))),
    ),
    "reward still to come": (
        "outcome",
        lambda log: log.with_columns(leak=OUTCOME - TOTAL + pl.col("reward")),
    ),
    "filled in from step 1 on": (
        "outcome",
        lambda log: log.with_columns(leak=pl.when(pl.col("step") > 0).then(OUTCOME)),
    ),
    "this row's reward": ("reward", lambda log: log.with_columns(leak=pl.col("reward"))),
    "this row's reward in another unit": (
        "reward",
        lambda log: log.with_columns(leak=3.0 - 100 * pl.col("reward")),
    ),
    "a total with this row": ("total", lambda log: log.with_columns(leak=TOTAL)),
    "the last row": ("last row", lambda log: log.with_columns(leak=pl.when(LAST).then(OUTCOME))),
    "the last row, else 0": (
        "last row",
        lambda log: log.with_columns(leak=pl.when(LAST).then(OUTCOME).otherwise(0.0)),
    ),
    "steps left": ("length", lambda log: log.with_columns(leak=LENGTH - pl.col("step"))),
    "all steps": ("length", lambda log: log.with_columns(leak=LENGTH)),
    "two final scores": (
        "together",
        lambda log: log.with_columns(
            leak=OUTCOME + 20 * noise(log), other=OUTCOME - 20 * noise(log)
        ),
    ),
    "a file sorted by result": ("order", by_result),
    "a number that is the rank": (
        "id",
        lambda log: log.with_columns(
            episode=10**6 * OUTCOME.rank("dense").cast(pl.Int64)
            + pl.col("episode").rank("dense").cast(pl.Int64)
        ),
    ),
    "a name that holds the result": (
        "id",
        lambda log: log.with_columns(episode=pl.format("{}-run-{}", LABEL, pl.col("episode"))),
    ),
}


def clean_log(n: int = 200, *, seed: int = 0, ragged: bool = True) -> pl.DataFrame:
    """Runs of up to 9 steps whose features tell something, but nothing that nobody knows yet."""
    rng = np.random.default_rng(seed)
    rows = []
    for run in range(n):
        skill, total = rng.normal(), 0.0
        for step in range(int(rng.integers(3, 10)) if ragged else 6):
            reward = round(float(0.3 * skill + rng.normal()), 3)
            mode = str(rng.choice(["calm", "busy"]))
            rows.append((run, step, skill, round(total, 3), mode, reward))
            total += reward
    names = ["episode", "step", "skill", "so_far", "mode", "reward"]
    return pl.DataFrame(rows, schema=names, orient="row")


def planted(leak: str, log: pl.DataFrame) -> tuple[str, Episodes]:
    """The kind of caution that a planted leak should raise, and the episodes that hold it."""
    kind, plant = LEAKS[leak]
    return kind, Episodes.from_frame(plant(log))
