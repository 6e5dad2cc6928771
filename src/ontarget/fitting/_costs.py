"""Estimates what fitting a large log costs: time, memory, disk and the size of the model file."""

from __future__ import annotations

from dataclasses import dataclass

from ontarget._arguments import whole_number
from ontarget.episodes._splits import capped_parts
from ontarget.fitting._answering import kept_count
from ontarget.fitting.recipe import LEAF_ENTRIES

MEASURED = "November 2026"
_TREES = 100
# Microseconds of one core: to prepare a value; per row and tree, to learn and to predict.
_PREPARE, _LEARN, _ANSWER = 0.17, 0.2, 0.085
_START = 10.0  # seconds, for choosing blocks and all else that does not grow with the log
_LEARNED_ROWS = 400_000  # rows that all blocks together learn from; others are only predicted
# Bytes: a leaf entry with its share of nodes; an episode's id, key, length and outcome; a value of
# the step that is being worked on; a value that models learn from.
_ENTRY, _EPISODE, _VALUE, _LEARNED = 3.5, 100, 48, 45
_BASE = 5e8  # what the libraries and compiled code take
_PACKED = 5.0  # a value on disk
_REST = 8e6  # what else a model file holds


@dataclass(frozen=True)
class Costs:
    """Estimated costs of a fit as numbers, and in ``lines`` as text that shows the arithmetic."""

    episodes: int
    learn: int
    assure: int
    prepare_hours: float
    learn_hours: float
    assure_hours: float
    memory_bytes: float
    disk_bytes: float
    file_bytes: float
    lines: tuple[tuple[str, str], ...]

    @property
    def core_hours(self) -> float:
        """The total time in hours on one core."""
        return self.prepare_hours + self.learn_hours + self.assure_hours


def costs_of(
    rows: float, steps: int, features: int, *, trees: int = _TREES, max_learn: int = 20_000
) -> Costs:
    """The estimated costs of preparing a log and fitting the default monitor to it.

    ``rows`` is the number of rows of the log, ``steps`` the number of steps per episode.

    Examples
    --------
    >>> found = costs_of(10e9, 100, 4)
    >>> found.learn, found.assure
    (20000, 99980000)
    """
    whole_number("steps", steps, least=1)
    n = max(2, int(rows) // steps)
    learn = round(capped_parts(n, 0.2, max_learn)["learn"] * n)
    assure, width = n - learn, features + 3
    learn_rows, assure_rows = learn * steps, assure * steps
    prepare = rows * width * _PREPARE
    learned = min(learn_rows, _LEARNED_ROWS)
    learning = _START * 1e6 + trees * (learned * _LEARN + learn_rows * _ANSWER)
    answering = assure_rows * trees * _ANSWER
    memory = _BASE + learn_rows * width * _LEARNED + n * _EPISODE + 2 * n * width * _VALUE
    disk = rows * width * _PACKED
    kept = min(assure, kept_count(steps, features))
    file = (
        min(LEAF_ENTRIES, learn_rows * trees) * _ENTRY
        + kept * steps * (features + 1) * 8
        + steps * (min(assure, 20_000) + learn) * 8
        + _REST
    )
    lines = (
        ("episodes", f"{n:,} of {steps} steps: {learn:,} to learn from, {assure:,} to assure"),
        (
            "prepare",
            f"{rows:,.0f} rows × {width} columns × {_PREPARE} µs = {_hours(prepare)}",
        ),
        (
            "learn",
            f"{_START:.0f} s + {trees} trees × ({learned:,} rows × {_LEARN:g} µs + "
            f"{learn_rows:,} rows × {_ANSWER} µs) = {_hours(learning)}",
        ),
        (
            "assure",
            f"{assure_rows:,} rows × {trees} trees × {_ANSWER} µs = {_hours(answering)}",
        ),
        (
            "memory",
            f"{_bytes(_BASE)} + {learn_rows:,} rows to learn from × {width} columns × {_LEARNED} "
            f"bytes + {n:,} episodes × ({_EPISODE} + 2 × {width} columns × {_VALUE}) bytes = "
            f"{_bytes(memory)} in a process, which has two steps of all episodes at a time",
        ),
        (
            "disk",
            f"{rows:,.0f} rows × {width} columns × {_PACKED:g} bytes = {_bytes(disk)}; three times "
            "that while it is prepared",
        ),
        (
            "model file",
            f"leaves, {kept:,} assure episodes, ranks and paths: about {_bytes(file)}, however "
            "many rows there are",
        ),
    )
    return Costs(
        episodes=n,
        learn=learn,
        assure=assure,
        prepare_hours=prepare / 3.6e9,
        learn_hours=learning / 3.6e9,
        assure_hours=answering / 3.6e9,
        memory_bytes=memory,
        disk_bytes=disk,
        file_bytes=file,
        lines=lines,
    )


def _hours(microseconds: float) -> str:
    seconds = microseconds / 1e6
    if seconds < 5400:
        return f"{seconds / 60:.1f} core-minutes"
    return f"{seconds / 3600:,.1f} core-hours"


def _bytes(n: float) -> str:
    for size, name in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB")):
        if n >= size:
            return f"{n / size:.3g} {name}"
    return f"{n / 1e3:.0f} kB"
