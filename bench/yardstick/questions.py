"""A question to a method: past episodes, new ones and a target; and real logs to ask about."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from pathlib import Path

import numpy as np
import polars as pl

from ontarget.study import Rows


@dataclass(frozen=True)
class Question:
    """A question: learn from the episodes ``past``, and give a probability for each row of ``new``.

    Both tables are sorted by episode and step.
    """

    name: str
    past: pl.DataFrame
    new: pl.DataFrame
    features: tuple[str, ...]
    target: tuple[float, float]
    horizon: int
    seed: int = 0
    categorical: tuple[str, ...] = ()  # beyond text, which always is

    @cached_property
    def learn(self) -> Rows:
        return self._rows(self.past)

    @cached_property
    def asked(self) -> Rows:
        return self._rows(self.new)

    @cached_property
    def is_category(self) -> np.ndarray:
        return np.array(
            [name in self.categorical or name in self._words for name in self.features], dtype=bool
        )

    @cached_property
    def fingerprint(self) -> str:
        """A hash that changes with anything that could change an answer to this question."""
        digest = blake2b(digest_size=6)
        about = (self.features, self.categorical, self.target, self.horizon, self.seed)
        digest.update(repr((about, self._words)).encode())
        for rows in (self.learn, self.asked):
            for numbers in (rows.X, rows.t, rows.b, rows.met, rows.episode):
                digest.update(np.ascontiguousarray(numbers).tobytes())
        return digest.hexdigest()

    @cached_property
    def _words(self) -> dict[str, list[str]]:
        """The values of each text column, from the past episodes alone."""
        text = [name for name in self.features if self.past[name].dtype == pl.String]
        return {name: sorted(self.past[name].drop_nulls().unique().to_list()) for name in text}

    def _rows(self, frame: pl.DataFrame) -> Rows:
        """The rows of a table as numbers, in their order.

        A text becomes its position among the values of the past episodes; NaN if it did not occur
        there.
        """
        episode, reward = pl.col("episode"), pl.col("reward").cast(pl.Float64)
        frame = frame.with_columns(
            (reward.cum_sum().over("episode") - reward).alias("_b"),
            reward.sum().over("episode").alias("_y"),
            (episode != episode.shift(1)).fill_null(value=False).cum_sum().alias("_i"),
        )
        y = frame["_y"].to_numpy().round(6)  # sums of decimals meet their bounds
        return Rows(
            X=np.column_stack([self._numbers(frame[name]) for name in self.features]),
            categorical=self.is_category,
            t=frame["step"].to_numpy().astype(np.int64),
            b=frame["_b"].to_numpy().round(6),
            met=(y >= self.target[0]) & (y <= self.target[1]),
            episode=frame["_i"].to_numpy().astype(np.int64),
        )

    def _numbers(self, column: pl.Series) -> np.ndarray:
        words = self._words.get(column.name)
        if words is not None:
            places = {word: float(k) for k, word in enumerate(words)}
            return np.array([places.get(word, np.nan) for word in column.to_list()])
        return column.cast(pl.Float64).fill_null(float("nan")).to_numpy()


@dataclass(frozen=True)
class RealSet:
    """A log of real episodes, the target to ask about, and how many episodes a split has.

    ``result`` is a column that is constant in each episode: it is earned in the last step.
    ``extra`` columns are added that a model should not need; see `widened`.
    """

    file: str
    features: tuple[str, ...]
    target: tuple[float, float]
    says: str
    n_past: int
    n_new: int
    year: int | None = None
    result: str | None = None
    splits: int = 10  # at most
    extra: int = 0

    def read(self, folder: Path) -> pl.DataFrame:
        file = folder / self.file
        frame = (
            pl.read_ndjson(file, infer_schema_length=None)
            if file.suffix == ".jsonl"
            else pl.read_parquet(file)
        )
        if self.year is not None:
            frame = frame.filter(pl.col("year") == self.year)
        if self.result is not None:
            last = pl.col("step") == pl.col("step").max().over("episode")
            earned = pl.when(last).then(pl.col(self.result).cast(pl.Float64)).otherwise(0.0)
            frame = frame.with_columns(earned.alias("reward"))
        frame = frame.select("episode", "step", "reward", *self.features).sort("episode", "step")
        return widened(frame, self.extra)

    def split(self, name: str, frame: pl.DataFrame, number: int, part: float) -> Question:
        """The question of one split: past episodes, new ones and the target.

        Which episodes it has depends only on their ids and ``number``. ``part`` is the share of the
        episodes to use.
        """
        ids = frame["episode"].unique().to_list()
        order = sorted(ids, key=lambda one: blake2b(f"{number}/{one}".encode()).digest())
        n_past, n_new = int(part * self.n_past), int(part * self.n_new)
        if len(order) < n_past + n_new:
            raise SystemExit(f"{name} needs {n_past + n_new} episodes, got {len(order)}")
        chosen = order[:n_past], order[n_past : n_past + n_new]
        past, new = (frame.filter(pl.col("episode").is_in(own)) for own in chosen)
        horizon = int(frame["step"].max()) + 1
        features = tuple(frame.columns[3:])
        return Question(
            f"{name}-{number:02d}", past, new, features, self.target, horizon, seed=number
        )


def widened(frame: pl.DataFrame, extra: int) -> pl.DataFrame:
    """The table with ``extra`` more columns: half of them derived from numbers, the others noise.

    Derived are the largest, least and mean value so far, and how often the value changed, of one
    number after the other.
    """
    numbers = [name for name in frame.columns[3:] if frame[name].dtype.is_numeric()]
    derived = [
        column.over("episode").alias(f"{name} {what}")
        for what in ("largest", "least", "mean", "changes")
        for name in numbers
        for column in [_so_far(pl.col(name).cast(pl.Float64), what)]
    ][: extra // 2]
    noise = np.random.default_rng(0).normal(size=(extra - len(derived), len(frame)))
    return frame.with_columns(
        *derived, *(pl.Series(f"noise {k}", column) for k, column in enumerate(noise))
    )


def _so_far(number: pl.Expr, what: str) -> pl.Expr:
    known = number.fill_null(0.0)
    changed = (known != known.shift(1)).fill_null(value=False)
    return {
        "largest": number.cum_max(),
        "least": number.cum_min(),
        "mean": known.cum_sum() / (pl.col("step") + 1),
        "changes": changed.cum_sum(),
    }[what]


INF = float("inf")

_EVENTS = ("activity", "elapsed_days", "since_last_days", "hour", "weekday")
_BASEBALL = (
    *("home", "away", "park", "daynight", "weekday", "sp_away", "sp_home"),
    *("inning", "home_bats", "runs_away", "runs_home", "margin", "runs_last_half"),
)
_SEPSIS = (
    *("Diagnose", "DiagnosticArtAstrup", "DiagnosticBlood", "DiagnosticECG", "DiagnosticIC"),
    *("DiagnosticLacticAcid", "DiagnosticLiquor", "DiagnosticOther", "DiagnosticSputum"),
    *("DiagnosticUrinaryCulture", "DiagnosticUrinarySediment", "DiagnosticXthorax", "DisfuncOrg"),
    *("Hypotensie", "Hypoxie", "InfectionSuspected", "Infusion", "Oligurie", "SIRSCritHeartRate"),
    *("SIRSCritLeucos", "SIRSCritTachypnea", "SIRSCritTemperature", "SIRSCriteria2OrMore", "Age"),
    *("Activity", "org:group", "CRP", "LacticAcid", "Leucocytes", "timesincemidnight", "month"),
    *("weekday", "hour", "open_cases", "elapsed_days", "since_last_days"),
)


def _baseball(target: tuple[float, float], says: str, n_past: int, n_new: int) -> RealSet:
    return RealSet("mlb.parquet", _BASEBALL, target, says, n_past, n_new, splits=5)


REAL: dict[str, RealSet] = {
    "boston": RealSet(
        "boston.parquet",
        ("age", "female", "km", "elapsed_min", "last_pace_min_per_km"),
        (-INF, 240.0),
        "a marathon of 2014 run in at most 240 minutes",
        n_past=2_000,
        n_new=1_000,
        year=2014,
    ),
    "nfl": RealSet(
        "nfl_pbp.parquet",
        ("quarter", "seconds_left", "home_has_ball", "down", "ydstogo", "yards_to_goal", "margin"),
        (0.5, INF),
        "a football game won by the home team",
        n_past=1_000,
        n_new=600,
    ),
    "helpdesk": RealSet(
        "helpdesk.parquet",
        _EVENTS,
        (-INF, 8.0),
        "a help-desk case closed within 8 days",
        n_past=2_600,
        n_new=1_200,
    ),
    "chess": RealSet(
        "chess.parquet",
        (
            *("move", "white_eval", "black_eval", "white_ms_left", "black_ms_left", "depth"),
            *("fifty", "white_elo", "black_elo"),
        ),
        (0.9, INF),
        "a game between chess programs won by White",
        n_past=1_500,
        n_new=800,
        result="result",
    ),
    "bpi13": RealSet(
        "bpi13.parquet",
        _EVENTS,
        (-INF, 10.0),
        "an incident closed within 10 days",
        n_past=5_287,
        n_new=2_267,
        splits=5,
    ),
    "sepsis-return": RealSet(
        "sepsis.parquet",
        _SEPSIS,
        (-INF, 0.5),
        "a sepsis patient who does not come back to the emergency room",
        n_past=547,
        n_new=235,
        result="is_bad",
    ),
    "sepsis-week": RealSet(
        "sepsis.parquet",
        _SEPSIS,
        (-INF, 7.0),
        "a sepsis patient discharged within 7 days",
        n_past=547,
        n_new=235,
    ),
    "agents": RealSet(
        "agents_langgraph.jsonl",
        ("action", "latency_s", "output_tokens", "error"),
        (0.5, INF),
        "an agent's run without an injected fault",
        n_past=130,
        n_new=66,
        result="ok",
    ),
    "mlb": _baseball((0.5, INF), "a baseball game won by the home team", 2_029, 4_000),
    "mlb-rare": _baseball((8.0, INF), "a baseball game won by 8 runs at home", 2_029, 4_000),
    "mlb-close": _baseball((-2.0, 2.0), "a baseball game decided by 2 runs", 2_029, 4_000),
    "mlb-large": _baseball((0.5, INF), "a baseball game won by the home team", 25_420, 10_000),
}

# 110 more columns should cost at most a hundredth of the Brier score.
REAL |= {f"{name}-wide": replace(REAL[name], extra=110) for name in ("nfl", "sepsis-week")}


def real_questions(
    name: str, folder: Path, splits: int, *, part: float = 1.0
) -> Iterator[Question]:
    """The questions about one log of real episodes, one for each split.

    ``folder`` contains the file of the log.
    """
    log = REAL[name]
    frame = log.read(folder)
    for number in range(min(splits, log.splits)):
        yield log.split(name, frame, number, part)
