"""Why not another library? Six libraries answer the same question, side by side.

    python bench/why_not.py                                       # a river whose truth is known
    python bench/why_not.py --log helpdesk.parquet --target :8    # your own log
    python bench/why_not.py --markdown docs/why-not.md            # renews the tables of the page

A log needs the columns episode, step and reward; every other column is a feature. The Brier score
(mean squared error of the probability) and the distance to the truth are averages over the new
episodes. Times are measured on one processor.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import re
import textwrap
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
from threadpoolctl import threadpool_limits

from ontarget import Episodes, Target
from ontarget.domains import Rivers, Tamarisk, simulate
from yardstick import peers
from yardstick.exact import ExactReturns
from yardstick.figures import keep
from yardstick.peers import Task, matrix

WAYS: dict[str, Callable] = {
    "ontarget": peers.ontarget,
    "boosted, isotonic": peers.isotonic,
    "MAPIE": peers.mapie,
    "calibrated-explanations": peers.explained,
    "crepes": peers.crepes,
    "quantile-forest": peers.quantile_forest,
}
STEPS = (0, 10, 20, 30, 40)  # where the river's truth is asked for
ONE_BY_ONE = 30


@dataclass(frozen=True)
class Found:
    """The measured figures of one library: quality, time and lines of code."""

    name: str
    lines: int
    brier: float
    distance: float | None  # mean |p − the true probability|
    fit_seconds: float
    one_ms: float

    def row(self) -> str:
        distance = "" if self.distance is None else f" {self.distance:.4f} |"
        return (
            f"| {self.name} | {self.lines} | {self.brier:.4f} |{distance} "
            f"{self.fit_seconds:.1f} s | {self.one_ms:.3g} ms |"
        )


def river(past: int, new: int) -> tuple[Task, np.ndarray]:
    """The river of the README as a task, and the true probability of every row.

    The truth is NaN in rows for which it was not computed.
    """
    domain, target = Tamarisk("tight-budget"), Target.at_least(-80)
    task = Task(simulate(domain, past, seed=0), simulate(domain, new, seed=1), target)
    exact = ExactReturns(domain, steps=STEPS, lowest=target.lower)
    truth = np.full(len(task.asked), np.nan)
    for t in STEPS:
        own = task.asked.t == t
        states = Rivers(task.asked.X[own].astype(np.int8))
        truth[own] = exact.probability(states, task.asked.b[own], t, target)
    return task, truth


def log(path: Path, target: Target, past: int, new: int) -> Task:
    """A task made from a log: random whole episodes as past and as new episodes, and a target."""
    frame = pl.read_csv(path) if path.suffix == ".csv" else pl.read_parquet(path)
    frame = frame.select(pl.exclude(pl.Datetime, pl.Date))
    episodes = Episodes.from_frame(frame, episode="episode", step="step", reward="reward")
    chosen = np.random.default_rng(0).permutation(len(episodes))[: past + new]
    return Task(episodes.take(chosen[:past]), episodes.take(chosen[past:]), target)


def code_lines(way: Callable) -> int:
    """How many lines of code a way needs; functions that it shares count, docstrings do not."""
    shared = [one for one in (peers.trees, peers.between) if f"{one.__name__}(" in source(way)]
    return sum(_own_lines(one) for one in (way, *shared))


def source(function: Callable) -> str:
    return textwrap.dedent(inspect.getsource(function))


def _own_lines(function: Callable) -> int:
    tree = ast.parse(source(function)).body[0]
    assert isinstance(tree, ast.FunctionDef)
    tree.body = tree.body[1:]  # the docstring
    return len(ast.unparse(tree).splitlines())


def measure(name: str, task: Task, truth: np.ndarray | None) -> Found:
    """Fit one library, ask it about all new rows, then time it on some rows one by one."""
    way = WAYS[name]
    started = time.process_time()
    learned = way(task)
    fitted = time.process_time() - started
    asked = np.arange(len(task.asked)) if truth is None else np.flatnonzero(~np.isnan(truth))
    if name == "ontarget":
        p, one_ms = ours(learned, task)
        p = p[asked]
    else:
        X = matrix(task.asked)[asked]
        p = learned(X)
        started = time.process_time()
        for row in X[:ONE_BY_ONE]:
            learned(row[None])
        one_ms = 1e3 * (time.process_time() - started) / ONE_BY_ONE
    return Found(
        name,
        code_lines(way),
        float(np.mean(np.square(p - task.asked.met[asked]))),
        None if truth is None else float(np.mean(np.abs(p - truth[asked]))),
        fitted,
        one_ms,
    )


def ours(monitor, task: Task) -> tuple[np.ndarray, float]:
    """The monitor's probability for every new row, and how long a `Watch` takes for one step."""
    found = np.asarray(monitor.evaluate(task.new, task.target).p)
    p = found[task.asked.t, task.asked.episode]
    p = np.where(np.isnan(p), task.rows.met.mean(), p)  # UNKNOWN: the past's rate
    watch = monitor.watch(task.target, false_alarm_rate=0.05)
    run = task.new.take([0])
    steps = [(run.at(t).states[0], run.rewards_at(t)[0]) for t in range(int(run.lengths[0]))]
    watch.step(steps[0][0])
    started = time.process_time()
    for (_, reward), (state, _) in pairwise(steps):
        watch.step(state, reward)
    return p, 1e3 * (time.process_time() - started) / max(len(steps) - 1, 1)


def table(found: list[Found]) -> str:
    """The figures of all libraries as a Markdown table."""
    distance = " from the truth |" if found[0].distance is not None else ""
    head = f"| way | lines of code | Brier |{distance} fit | one answer |"
    rule = "|---|" + "---:|" * (head.count("|") - 2)
    return "\n".join([head, rule, *(one.row() for one in found)])


def renewed(page: str, name: str, text: str) -> str:
    """The Markdown page with the table ``name`` replaced by ``text``.

    Comments in the page mark where the table begins and ends.
    """
    marks = re.compile(rf"(<!-- table: {name} -->\n).*?(?=<!-- end of table -->)", re.DOTALL)
    return marks.sub(lambda found: f"{found[1]}{text}\n", page)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--log", type=Path, help="Parquet or CSV; the river without it")
    add("--target", type=Target.parse, help="LO:HI, for a log")
    add("--past", type=int, default=1_000, help="episodes to learn from (1000)")
    add("--new", type=int, default=500, help="episodes to ask about (500)")
    add("--ways", nargs="+", choices=WAYS, default=list(WAYS), help="all by default")
    add("--markdown", type=Path, help="page whose marked table is renewed: docs/why-not.md")
    asked = parser.parse_args()
    if (asked.log is None) != (asked.target is None):
        parser.error("--log and --target belong together")
    if asked.log is None:
        task, truth = river(asked.past, asked.new)
    else:
        task, truth = log(asked.log, asked.target, asked.past, asked.new), None
    found = []
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the peers' own; MAPIE divides by zero and goes on
        for name in asked.ways:
            found.append(measure(name, task, truth))
            print(found[-1].row(), flush=True)
    print(f"\n{table(found)}")
    own, *others = found
    for one in others:
        keep("one answer, times as fast", one.one_ms / own.one_ms, "×", beside=one.name)
    for one in found:
        keep(f"Brier score, {asked.log.stem if asked.log else 'river'}, {one.name}", one.brier, "")
    if asked.markdown:
        mark = "river" if asked.log is None else "log"
        asked.markdown.write_text(renewed(asked.markdown.read_text(), mark, table(found)))


if __name__ == "__main__":
    main()
