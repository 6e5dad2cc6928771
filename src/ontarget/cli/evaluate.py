"""``ontarget evaluate``: how good a model is on new episodes, and the log's rows with answers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ontarget._progress import working
from ontarget._text import percent, plain
from ontarget.cli.mistakes import Exit
from ontarget.cli.options import (
    TARGET_OF_MODEL,
    AsJson,
    Model,
    OrderOption,
    ReadsRuns,
    Runs,
    SetsAlarm,
    option,
    remark_lines,
    target_for,
    targets_read,
)
from ontarget.cli.output import check_output, print_facts
from ontarget.errors import InputError

if TYPE_CHECKING:
    import polars as pl
    from rich.table import Table

    from ontarget import AlarmRule, Episodes, Evaluation
    from ontarget._typing import AnyArray, IndexArray
    from ontarget.report import Part

_WIDE = 200  # columns
_MOST_UNANSWERED = 0.1  # a share of steps; with more, --fail-unless-held fails


@dataclass(frozen=True, kw_only=True)
class EvaluateCommand(ReadsRuns, SetsAlarm):
    """Check on new episodes whether probabilities come true and the alarm keeps its promise.

    The model must not have been fitted on any of these episodes. The default alarm promises at most
    5 % false alarms. The last line is the verdict: held, not held, or why there is no verdict.
    """

    model: Model
    runs: Runs
    target: Annotated[
        list[str] | None,
        option(
            "The outcomes that count as success: LO:HI, LO: or :HI; join several by commas. "
            "For several behaviors, conditions: 'return>=200 & energy<=50'. Repeat the "
            "option to check several targets.",
            "LO:HI",
            show_default=TARGET_OF_MODEL,
            callback=targets_read,
        ),
    ] = None
    out: Annotated[
        Path | None,
        option("Also write the log's own rows with the answers: .parquet or .csv.", "FILE"),
    ] = None
    by: Annotated[
        list[str] | None,
        option(
            "Also measure for each value of a column, or for each step; the report shows it "
            "too; can be repeated.",
            "NAME",
        ),
    ] = None
    order: OrderOption = None
    fail_unless_held: Annotated[
        bool,
        option(
            f"Exit with {int(Exit.CHECK)} unless the verdict is held, with no answer at 10 % "
            "of steps at most; for scheduled checks.",
            "",
            "--fail-unless-held",
        ),
    ] = False
    report: Annotated[Path | None, option("Also write an HTML page with figures.", "FILE")] = None
    as_json: AsJson = False

    def run(self) -> None:
        """Read, measure, write files, print, and end with the exit code that was asked for."""
        self._check()
        from ontarget import GoalMonitor
        from ontarget.report.parts import parts_by

        monitor = GoalMonitor.load(self.model)
        wanted = [target_for(monitor, one) for one in self.target or (None,)]
        recorded = self.read(self.runs, monitor)
        names = list(dict.fromkeys(self.by or ()))
        log = None
        if self.out is not None or names or self.order is not None:
            log = log_of(self.runs, recorded, {**self.columns, "like": monitor})
            log.check(names)
        listed = [] if log is None else [one for one in names if one in log.table.columns]
        times, starts = starts_of(log, len(recorded), self.order, listed)
        found = [
            monitor.evaluate(
                recorded, one, calibration=self.calibration, order=times, by=starts, progress=True
            )
            for one in wanted
        ]
        panels = [
            {} if log is None else {name: log.panel(one, name) for name in names} for one in found
        ]
        self._write(found, panels, log)
        parts: list[Mapping[str, Sequence[Part]]] = [
            {name: parts_by(one, values, name) for name, values in panel.items()}
            for one, panel in zip(found, panels, strict=True)
        ]
        if self.as_json:
            typer.echo(json.dumps(self._facts(found, parts, recorded.remarks), sort_keys=True))
        else:
            self._show(found, parts, remark_lines(recorded))
        self._end(found)

    def _check(self) -> None:
        """Refuse an alarm and files that are impossible, before anything that takes time."""
        _ = self.rule
        if self.report is not None:
            check_output(self.report)
            if len(self.target or ()) > 1:
                raise typer.BadParameter("a report is about one target; pass --target once")
        if self.out is not None:
            check_output(self.out, (".parquet", ".csv"))

    def _write(
        self, found: list[Evaluation], panels: list[dict[str, AnyArray]], log: LogRows | None
    ) -> None:
        """Write the page and the rows that were asked for."""
        if self.report is not None:
            with working("drawing the report"):
                found[0].report(self.report, self.rule, by=panels[0], name=self.model.name)
        if self.out is not None and log is not None:
            with working(f"writing {self.out.name}"):
                log.write(self.out, found, self.rule)

    def _facts(
        self,
        found: list[Evaluation],
        parts: list[Mapping[str, Sequence[Part]]],
        remarks: Sequence[str],
    ) -> dict[str, Any]:
        """The measures, for programs; with several targets, a list of them."""
        from ontarget.report.verdict import json_of

        measures = [
            json_of(one, self.rule) | ({"by": parts_in_json(part)} if part else {})
            for one, part in zip(found, parts, strict=True)
        ]
        told: dict[str, Any] = measures[0] if len(measures) == 1 else {"targets": measures}
        return told | {"remarks": remarks}

    def _show(
        self, found: list[Evaluation], parts: list[Mapping[str, Sequence[Part]]], remarks: str
    ) -> None:
        """Print for each target: measures, files, a table of forecasts, the verdict."""
        from rich.console import Console

        if remarks:
            print_facts(remarks)
        console = Console(highlight=False)
        if not console.is_terminal:  # a file has no width that a table must fit
            console = Console(highlight=False, width=_WIDE)
        files = {"report": self.report, "rows": self.out}
        written = [f"{name:<10} {plain(path)}" for name, path in files.items() if path is not None]
        for k, (one, part) in enumerate(zip(found, parts, strict=True)):
            typer.echo("\n" * (k > 0), nl=False)
            with working("measuring"):
                *summary, verdict = one.summary(self.rule).splitlines()
                table = reliability_table(one)
            print_facts("\n".join(filter(None, [*summary, *written])), console)
            for shown in (table, *(parts_table(own, name) for name, own in part.items())):
                console.print()
                console.print(shown)
            console.print()
            print_facts(verdict, console)

    def _end(self, found: list[Evaluation]) -> None:
        """Exit with an error if the promises do not hold, if that was asked for."""
        from ontarget.report import Judgement

        good = (Judgement.HELD, Judgement.HELD_IN_PART)
        if self.fail_unless_held and not all(
            one.verdict(self.rule).judgement in good and one.unanswered.share <= _MOST_UNANSWERED
            for one in found
        ):
            raise typer.Exit(Exit.CHECK)


def reliability_table(found: Evaluation, bins: int = 10) -> Table:
    """A table for a terminal: forecasts and how often they came true, one row per tenth of p."""
    from rich.table import Table

    from ontarget.evaluation import pool, reliability

    pooled = pool(found.p, found.met)
    binned = reliability(pooled.p, pooled.met, bins=bins, episode=pooled.episode)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("it said", "came true", "95 % interval", "forecasts"):
        table.add_column(name, justify="right", header_style="dim", no_wrap=True)
    for k in range(bins):
        if binned.count[k]:
            inside = binned.low[k] <= binned.mean_p[k] <= binned.high[k]
            table.add_row(
                percent(float(binned.mean_p[k]), fixed=True),
                percent(float(binned.rate_met[k]), fixed=True),
                " to ".join(
                    percent(float(end[k]), fixed=True) for end in (binned.low, binned.high)
                ),
                f"{binned.count[k]:,}",
                style=None if inside else "yellow",
            )
    return table


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
