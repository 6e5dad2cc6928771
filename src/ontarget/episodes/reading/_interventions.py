"""Runs that somebody took over from the policy: they are cut off at that step, or left out."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from types import EllipsisType
from typing import NamedTuple

import numpy as np
import polars as pl

from ontarget._typing import AnyArray, IndexArray
from ontarget.episodes._censoring import all_taken_over, some_left_out
from ontarget.episodes.reading._columns import flags
from ontarget.episodes.reading._layout import Layout
from ontarget.errors import Argument, CensoredError, EpisodesError

_CUT = "truncated"
_USUAL = "intervened"


def named_column(layout: Layout, columns: Collection[str]) -> str | None:
    """The column that says where somebody acted in place of the policy.

    It is the column that was passed, or else the column ``intervened``. None if there is no such
    column, or if it is used for something else.
    """
    if not isinstance(layout.intervened, EllipsisType):
        return layout.intervened
    known = () if layout.schema is None else layout.schema.names
    used = {*known, *(layout.features or ()), *layout.drop}
    used |= {one for one in vars(layout).values() if isinstance(one, str)}
    return _USUAL if _USUAL in columns and _USUAL not in used else None


class LeftAlone(NamedTuple):
    """The rows before anybody acted in place of the policy, how to read them, and a remark."""

    table: pl.DataFrame
    layout: Layout
    note: str


def left_alone(
    table: pl.DataFrame, layout: Layout, keyed: Callable[[Layout], tuple[AnyArray, IndexArray]]
) -> LeftAlone:
    """The rows before somebody acted in place of the policy; a column says where that was.

    ``keyed`` returns the episode's id and the step of each row. By default, a run that somebody
    took over is left out. If the option ``censored`` says how to treat cut-off runs, the run is cut
    off at the first step at which somebody acted in place of the policy.
    """
    name = layout.intervened
    assert isinstance(name, str)
    if name not in table.columns:
        raise EpisodesError(
            Argument("intervened"), f" needs a column of the table ({', '.join(table.columns)}), "
            f"got {name!r}"
        )  # fmt: skip
    acted = flags(table.get_column(name), f"intervened (column {name!r})")
    rest = replace(layout, intervened=None, drop=(*layout.drop, name))
    ids, steps = keyed(rest)
    _, codes = np.unique(ids, return_inverse=True)
    first = np.full(int(codes.max(initial=-1)) + 1, np.iinfo(np.intp).max)
    np.minimum.at(first, codes[acted], steps[acted])
    taken = first < np.iinfo(np.intp).max
    n, whole = int(np.count_nonzero(taken)), taken.size
    if not n:
        return LeftAlone(table, rest, "")
    if n == whole and layout.censored in ("refuse", "drop"):
        raise CensoredError(all_taken_over(whole, name))
    if layout.censored == "refuse":
        kept = table.filter(pl.Series(~taken[codes]))
        return LeftAlone(kept, rest, some_left_out(n, whole))
    # A run that was taken over at once keeps a row, so that it counts as stopped.
    upto = np.maximum(first, 1)[codes]
    if rest.horizon is None:
        rest = replace(rest, horizon=int(steps.max()) + 1, declared=False)
    ends = pl.Series(taken[codes] & (steps == upto - 1))
    cut = rest.truncated if isinstance(rest.truncated, str) else _CUT
    flagged = table.get_column(cut) if cut in table.columns else pl.Series([False] * table.height)
    marked = table.with_columns((flagged.cast(pl.Boolean).fill_null(False) | ends).alias(cut))
    note = f"somebody took over {n:,} of {whole:,} runs, which are cut off there"
    kept = marked.filter(pl.Series(steps < upto))
    return LeftAlone(kept, replace(rest, truncated=cut), note)
