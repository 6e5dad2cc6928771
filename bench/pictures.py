"""Draws the report and the live view for five kinds of data, so that people can look at them.

The five kinds are clean runs, runs of a process that changes halfway, few episodes, a target that
few runs meet, and long runs. Each report is an HTML page. Each live view is a picture of the
terminal halfway through a run that misses its target. If Chromium is installed, both are also drawn
as PNG.

    python bench/pictures.py -o out/pictures --only clean drifted
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
from rich.console import Console

from ontarget import Episodes, Evaluation, GoalMonitor, Promised, Sessions, Target
from ontarget.cli.replay import Replay
from ontarget.cli.view import LiveView
from ontarget.errors import FewEpisodesError

STEPS, LONG = 12, 240
WEATHER = ("calm", "rain", "storm")
WIDTH, HEIGHT = 100, 40


def log(n: int, *, seed: int, steps: int = STEPS, shift: float = 0.0) -> pl.DataFrame:
    """A log of deliveries: what each leg earns depends on the load, the weather and chance."""
    rng = np.random.default_rng(seed)
    load = rng.normal(size=n)
    rows = []
    for run in range(n):
        weather = int(rng.integers(3))
        for step in range(steps):
            if rng.random() < 0.2:
                weather = int(rng.integers(3))
            new = "snow" if shift and weather == 2 and step > steps // 2 else WEATHER[weather]
            earned = (0.4 * load[run] - 0.5 * weather + rng.normal()) / np.sqrt(steps) + shift
            rows.append((f"d{seed}-{run}", step, load[run], new, 2020 + run * 4 // n, earned))
    names = ["run", "step", "load", "weather", "season", "reward"]
    return pl.DataFrame(rows, schema=names, orient="row")


def read(frame: pl.DataFrame, monitor: GoalMonitor | None = None) -> Episodes:
    """The log as episodes; its column "season" is not a feature."""
    like = {} if monitor is None else {"like": monitor}
    return Episodes.from_frame(frame.drop("season"), **like)


def fitted(folder: Path, n: int, steps: int = STEPS) -> GoalMonitor:
    """A monitor that learned from n runs; if its model file exists already, it is loaded."""
    path = folder / f"{n}-{steps}.ontarget"
    if not path.exists():
        GoalMonitor().fit(read(log(n, seed=1, steps=steps)), progress=False).save(path)
    return GoalMonitor.load(path)


class Scene(NamedTuple):
    """What a picture shows: a monitor, new runs, and a target that a given share of runs met."""

    monitor: GoalMonitor
    new: pl.DataFrame
    met: float = 0.6

    @property
    def target(self) -> Target:
        """The target: at least the value that the given share of the recorded runs reached."""
        ends = read(log(600, seed=1)).outcomes
        return Target.at_least(round(float(np.quantile(ends, 1.0 - self.met)), 1))

    @property
    def seasons(self) -> list[int]:
        """The season of each new run."""
        return self.new.group_by("run", maintain_order=True).first()["season"].to_list()

    def evaluate(self) -> Evaluation:
        """An evaluation of the monitor on the new runs."""
        return self.monitor.evaluate(
            read(self.new, self.monitor),
            self.target,
            order={"season": self.seasons},
            progress=False,
        )


def changed(n: int, *, seed: int) -> pl.DataFrame:
    """Runs of four seasons; in the last two, each leg earns less than before."""
    before, after = log(n // 2, seed=seed), log(n // 2, seed=seed + 1, shift=-0.12)
    halved = pl.col("season") // 2
    return pl.concat(
        [
            before.with_columns(season=halved + 1010),
            after.with_columns(season=halved + 1012),
        ]
    )


SCENES: dict[str, Callable[[Path], Scene]] = {
    "clean": lambda folder: Scene(fitted(folder, 600), log(300, seed=2)),
    "drifted": lambda folder: Scene(fitted(folder, 600), changed(300, seed=6)),
    "few": lambda folder: Scene(fitted(folder, 45), log(40, seed=4)),
    "rare": lambda folder: Scene(fitted(folder, 600), log(300, seed=2), met=0.04),
    "long": lambda folder: Scene(fitted(folder, 150, LONG), log(80, seed=5, steps=LONG)),
}


def live_view(scene: Scene, found: Evaluation) -> Iterator[str]:
    """The live view of a run that misses the target: halfway through it and at its end, as SVG."""
    try:
        sessions = scene.monitor.sessions(scene.target, alarm=Promised())
    except FewEpisodesError:
        sessions = scene.monitor.sessions(scene.target, alarm_below=0.3)
    missed = np.flatnonzero(~found.met)
    hopes = np.argsort(np.nanmax(found.p[:, missed], axis=0))
    shown = missed[hopes[9 * hopes.size // 10]]  # it was in doubt
    run, view = found.episodes.take([shown]), view_of(sessions)
    messages = list(Replay(run))
    for place, message in enumerate(messages):
        view.update(sessions.answer(message))
        if place in (2 * len(messages) // 3, len(messages) - 1):
            console = Console(record=True, width=WIDTH, height=HEIGHT, file=StringIO())
            console.print(view)
            yield console.export_svg(title="ontarget watch")


def view_of(sessions: Sessions) -> LiveView:
    """A live view of the runs in ``sessions``, as `ontarget watch` draws it."""
    return LiveView(
        sessions.contract, "deliveries", explain=lambda agent: sessions.explain(agent).in_a_line
    )


def to_png(page: Path) -> None:
    """Draw the HTML page as a PNG file next to it, if Chromium is installed."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        return
    size = "1200,900" if page.suffix == ".svg" else "1200,7200"
    options = ["--headless", "--no-sandbox", "--hide-scrollbars", f"--window-size={size}"]
    shot = f"--screenshot={page.with_suffix('.png').resolve()}"
    subprocess.run(
        [chromium, *options, shot, page.resolve().as_uri()], check=True, capture_output=True
    )


def main() -> None:
    """Draw the pictures that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, default=Path("out/pictures"))
    parser.add_argument("--only", nargs="*", choices=list(SCENES), default=list(SCENES))
    asked = parser.parse_args()
    asked.output.mkdir(parents=True, exist_ok=True)
    for name in asked.only:
        scene = SCENES[name](asked.output)
        found = scene.evaluate()
        print(f"\n{name}: {found.verdict()}", flush=True)
        pages = [asked.output / f"{name}.html"]
        found.report(pages[0], by={"season": scene.seasons}, name="deliveries")
        for when, drawn in zip(("middle", "end"), live_view(scene, found), strict=True):
            pages.append(asked.output / f"{name}-live-{when}.svg")
            pages[-1].write_text(drawn)
        for page in pages:
            to_png(page)


if __name__ == "__main__":
    main()
