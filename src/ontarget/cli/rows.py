"""For ``evaluate``: writes answers beside a log's rows, and measures each value of a column."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ontarget._numerals import percent
from ontarget._plain import plain
from ontarget.errors import InputError

if TYPE_CHECKING:
    import polars as pl
    from rich.table import Table

    from ontarget import AlarmRule, Episodes, Evaluation
    from ontarget._typing import AnyArray, IndexArray
    from ontarget.report import Part


@dataclass(frozen=True, eq=False)
class LogRows:
    """The rows of a log, each with its step and the position of its episode."""

    table: pl.DataFrame
    episode: IndexArray
    step: IndexArray

    def write(self, path: Path, found: Sequence[Evaluation], rule: AlarmRule) -> None:
        """Write the log's rows with the monitor's answers to a file."""
        from ontarget._whole_file import replacing
        from ontarget.errors import FewEpisodesError
        from ontarget.report.parts import answers_in_rows, with_answers

        table = self.table
        for one in found:
            suffix = f" {one.target}" if len(found) > 1 else ""
            try:
                answers = answers_in_rows(one, rule, self.episode, self.step)
            except FewEpisodesError:  # no alarm can be promised
                answers = answers_in_rows(one, None, self.episode, self.step)
            table = with_answers(table, answers, suffix)
        with replacing(path) as part:
            if path.suffix == ".parquet":
                table.lazy().sink_parquet(part)
            else:
                without_formulas(table).lazy().sink_csv(part)

    def check(self, by: Iterable[str]) -> None:
        """Raise an error for a name in ``by`` that is neither a column of the log nor ``step``."""
        for name in by:
            if name not in (*self.table.columns, "step"):
                listed = ", ".join(self.table.columns)
                raise InputError(
                    f"--by needs 'step' or a column of the log ({listed}), got {name!r}"
                )

    def at_start(self, column: str, option: str, n: int) -> AnyArray:
        """A column's value in the first row of each of n episodes."""
        import numpy as np

        if column not in self.table.columns:
            listed = ", ".join(self.table.columns)
            raise InputError(f"{option} needs a column of the log, got {column!r}; it has {listed}")
        found = np.full(n, None, dtype=object)
        first = np.flatnonzero((self.episode >= 0) & (self.step == 0))
        found[self.episode[first]] = np.array(self.table[column].to_list(), dtype=object)[first]
        return found

    def panel(self, found: Evaluation, by: str) -> AnyArray:
        """(steps, episodes): the values of the log's column ``by``, or the steps."""
        import numpy as np

        values = self.table[by].to_list() if by in self.table.columns else self.step.tolist()
        column = np.array(values, dtype=object)
        panel = np.full(found.p.shape, None, dtype=object)
        there = (self.episode >= 0) & (self.step < len(panel))
        panel[self.step[there], self.episode[there]] = column[there]
        return panel


# The characters with which a formula begins in a spreadsheet. A signed number is not a formula.
_FORMULA = r"^[=@\t\r]|^[+-].*[^0-9.,:%/ ]"


def without_formulas(table: pl.DataFrame) -> pl.DataFrame:
    """The table with ``'`` before each text that a spreadsheet would run as a formula."""
    import polars as pl

    text = pl.col(pl.String, pl.Categorical, pl.Enum).cast(pl.String)
    quoted = table.with_columns(
        pl.when(text.str.contains(_FORMULA)).then(pl.lit("'") + text).otherwise(text).name.keep()
    )
    return quoted.rename(lambda name: f"'{name}" if re.search(_FORMULA, name) else name)


def log_of(runs: Path, recorded: Episodes, options: Any) -> LogRows:
    """The rows of the log that the episodes in ``recorded`` were read from."""
    import numpy as np

    from ontarget.reading.files import read_log

    rows = read_log(runs, options)
    places = {name: place for place, name in enumerate(recorded.ids.tolist())}
    if rows is not None:
        names, codes = np.unique(rows.ids, return_inverse=True)
        episode = np.array([places.get(name, -1) for name in names.tolist()], dtype=np.intp)[codes]
        return LogRows(rows.table, episode, rows.steps)
    table, roles = recorded.to_frame(), recorded.roles
    episode = np.array([places[name] for name in table[roles.episode].to_list()], dtype=np.intp)
    return LogRows(table, episode, table[roles.step].to_numpy() - roles.first_step)


def starts_of(
    log: LogRows | None, n: int, order: str | None, by: Iterable[str]
) -> tuple[dict[str, AnyArray] | None, dict[str, AnyArray]]:
    """For each of n episodes, the values of some columns in the episode's first row."""
    if log is None:
        return None, {}
    times = None if order is None else {order: log.at_start(order, "--order", n)}
    return times, {name: log.at_start(name, "--by", n) for name in by}


def parts_table(parts: Sequence[Part], by: str) -> Table:
    """How good the monitor is for each value of a column, as a table for a terminal."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in (plain(by), "episodes", "it said", "came true", "ECE", "chance alone", "Brier"):
        table.add_column(name, justify="right", header_style="dim", no_wrap=True)
    table.add_column("p is", header_style="dim")  # wraps on a narrow terminal
    for part in parts:
        table.add_row(
            plain(part.value),
            f"{part.episodes:,}",
            percent(part.mean_p, fixed=True),
            percent(part.met, fixed=True),
            f"{part.ece.value:.4f}",
            f"{part.ece.floor:.4f}",
            f"{part.brier.value:.4f}",
            part.in_words,
            style="yellow" if part.shows or part.ece.low > part.ece.floor else None,
        )
    return table


def parts_in_json(parts: Mapping[str, Sequence[Part]]) -> list[dict[str, Any]]:
    """How good the monitor is for each value of some columns, as plain values for JSON."""
    return [
        {
            "column": name,
            "value": part.value,
            "episodes": part.episodes,
            "forecasts": part.forecasts,
            "mean_p": part.mean_p,
            "met": part.met,
            "too_high": part.too_high._asdict(),
            "ece": part.ece._asdict(),
            "brier": part.brier._asdict(),
        }
        for name, own in parts.items()
        for part in own
    ]
