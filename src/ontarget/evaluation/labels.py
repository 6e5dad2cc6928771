"""Divides episodes or forecasts by the values of a column."""

from __future__ import annotations

import numpy as np
import polars as pl

from ontarget._typing import AnyArray, IndexArray
from ontarget.errors import Argument, InputError

_VALUES = 12  # a column with more different numbers is divided into four ranges of equal size
_MOST = 100


def labelled(values: AnyArray, name: str) -> tuple[list[str], IndexArray]:
    """The labels of a column's values in order, and for each row the index of its label.

    A column with many different numbers is divided into four ranges, with labels such as "0 to
    2.5".
    """
    column = pl.Series(values=values.tolist(), strict=False)
    if column.dtype.is_float():
        column = column.fill_nan(None)
    texts = column.cast(pl.String).fill_null("missing")
    if column.dtype.is_numeric() and column.n_unique() > _VALUES:
        ends = [float(column.quantile(q) or 0.0) for q in (0.25, 0.5, 0.75)]
        low, high = float(column.min() or 0.0), float(column.max() or 0.0)  # type: ignore[arg-type]
        edges = [low, *ends, high]
        texts = pl.Series(
            ["missing" if one is None else _quarter(float(one), edges) for one in column.to_list()]
        )
        column = column.fill_null(float("inf"))
    first = (
        pl.DataFrame({"text": texts, "value": column}).group_by("text").agg(pl.col("value").min())
    )
    order = first.sort("value", nulls_last=True)["text"].to_list()
    if len(order) > _MOST:
        raise InputError(
            Argument("by"),
            f" needs a column of numbers, or one with at most {_MOST} different texts; "
            f"{name!r} has {len(order):,} different texts",
        )
    place = {text: code for code, text in enumerate(order)}
    return order, np.array([place[text] for text in texts.to_list()], dtype=np.intp)


def _quarter(value: float, edges: list[float]) -> str:
    place = min(int(np.searchsorted(edges[1:-1], value, side="right")), len(edges) - 2)
    return f"{edges[place]:.4g} to {edges[place + 1]:.4g}"
