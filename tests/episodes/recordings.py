"""Recorded tables of every shape, for Hypothesis."""

from __future__ import annotations

import polars as pl
from hypothesis import strategies as st

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\x00\r"), min_size=1, max_size=6)
# Text that no reader takes for a number, a truth value or nothing.
NAMES = TEXT.map(lambda text: "name " + text.strip())
NUMBERS = st.floats(allow_nan=False, allow_infinity=False, width=64).filter(
    lambda v: abs(v) < 1e150
)
FEATURES = {
    "float64": (pl.Float64, NUMBERS | st.just(float("nan"))),
    "float32": (pl.Float32, st.floats(-1e6, 1e6, width=32)),
    "int64": (pl.Int64, st.integers(-(2**53), 2**53)),
    "int8": (pl.Int8, st.integers(-128, 127) | st.none()),
    "uint16": (pl.UInt16, st.integers(0, 2**16 - 1)),
    "bool": (pl.Boolean, st.booleans()),
    "text": (pl.String, NAMES | st.none()),
}


@st.composite
def recordings(draw: st.DrawFn) -> pl.DataFrame:
    """A table of a few episodes, its rows in any order."""
    lengths = draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    n, rows = len(lengths), sum(lengths)
    ids = draw(
        st.lists(st.integers(-(2**40), 2**40), min_size=n, max_size=n, unique=True)
        | st.lists(NAMES, min_size=n, max_size=n, unique=True)
    )
    columns: dict[str, pl.Series] = {
        "episode": pl.Series([i for i, t in zip(ids, lengths, strict=True) for _ in range(t)]),
        "step": pl.Series([t for length in lengths for t in range(length)], dtype=pl.Int64),
        "reward": pl.Series(draw(_values(NUMBERS, rows)), dtype=pl.Float64),
    }
    for kind in draw(st.lists(st.sampled_from(list(FEATURES)), unique=True, max_size=4)):
        dtype, values = FEATURES[kind]
        columns[kind] = pl.Series(draw(_values(values, rows)), dtype=dtype)
    if draw(st.booleans()):
        groups = draw(st.lists(NAMES, min_size=n, max_size=n))
        columns["group"] = pl.Series(
            [g for g, t in zip(groups, lengths, strict=True) for _ in range(t)]
        )
    if draw(st.booleans()):
        columns["terminated"] = pl.Series([t == k - 1 for k in lengths for t in range(k)])
    order = draw(st.permutations(range(rows)))
    return pl.DataFrame(columns)[list(order)]


def _values(values: st.SearchStrategy, rows: int) -> st.SearchStrategy:
    return st.lists(values, min_size=rows, max_size=rows)


def in_time_order(
    frame: pl.DataFrame, episode: str = "episode", step: str = "step"
) -> pl.DataFrame:
    """The rows as `Episodes` give them back: by step, then by the episodes' first rows."""
    first = frame.with_row_index("row").group_by(episode).agg(pl.col("row").min().alias("first"))
    return frame.join(first, on=episode, maintain_order="left").sort(step, "first").drop("first")
