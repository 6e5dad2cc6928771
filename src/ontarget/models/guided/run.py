"""`RunGuide`: a prediction of the mean outcome, learned from all steps of the runs at once.

Each block (range of steps) has its own models. What happens rarely at each step and alike at all of
them, such as a robot about to fall, shows only in all steps together. So the models of all blocks
read the run's guide as one more number. See method M30 in docs/methods.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from ontarget._arrays import read_only
from ontarget._kernel import kernel
from ontarget._typing import AnyArray, FloatArray, IndexArray, IntArray, KeyArray
from ontarget.models._stored import flat_array, require
from ontarget.models.base import TrainingRows
from ontarget.models.forest._growing import in_canonical_order
from ontarget.models.guided._boosting_kernel import BoostingRules
from ontarget.models.guided._guides import FoldGuides, GuidePlan, fit_guides
from ontarget.models.guided._guides_kernel import Guides, append_guides_of_rows
from ontarget.models.guided._store import guides_from_arrays, guides_to_arrays, width_of

_FOLDS = 5
# Boosting ends when 20 trees have not lowered the error in rows that they have not seen.
_BOOSTING = BoostingRules(
    n_trees=300, depth=5, rate=0.08, least_weight=20.0, penalty=1.0, patience=20
)


@dataclass(frozen=True, eq=False)
class RunGuide:
    """A model of the mean outcome for all steps of a run, whose prediction other models read.

    It reads no categories: a mean over the other runs of a rare category would tell a forest this
    run's own outcome (method M29). A run that it learned from gets the prediction of a fit without
    the run's fold (part of the runs).

    Attributes
    ----------
    columns
        The inputs that the guide reads: all but categories.
    guides
        The fitted models of the mean, for new runs.
    folds, keys
        The fits without each fold, and the ascending keys of the runs that they learned from; None
        in a monitor that was loaded from a file.
    """

    columns: IntArray
    guides: Guides
    folds: FoldGuides | None = None
    keys: KeyArray | None = None

    @classmethod
    def of(
        cls,
        X: FloatArray,
        y: FloatArray,
        weight: FloatArray,
        *,
        keys: KeyArray,
        categorical: Sequence[int],
        seed: int,
    ) -> Self:
        """The guide, learned from these rows; ``keys`` has the key of each row's run."""
        columns = np.setdiff1d(np.arange(X.shape[1]), categorical)
        rows = in_canonical_order(
            TrainingRows.of(np.take(X, columns, axis=1), y, weight, ids=keys, steps=None)
        )
        guides, folds = fit_guides(rows, GuidePlan(_FOLDS, (seed, _FOLDS), _BOOSTING), ())
        return cls(read_only(columns.astype(np.int64)), guides, folds, np.unique(keys))

    def appended(self, X: FloatArray, keys: KeyArray | None = None) -> FloatArray:
        """The rows with the guide's prediction as the last column.

        ``keys`` are the keys of the rows' runs, if the guide may have learned from some of them.
        """
        out = np.empty((X.shape[0], X.shape[1] + 1))
        out[:, :-1] = X
        self.fill(out)
        if keys is not None and self.folds is not None and self.keys is not None:
            place = np.searchsorted(self.keys, keys).clip(max=self.keys.size - 1)
            own = np.flatnonzero(self.keys[place] == keys)
            read = np.take(X[own], self.columns, axis=1)
            out[own, -1] = self.folds.guide_rows(read, place[own])[:, -1]
        return out

    def fill(self, rows: FloatArray) -> None:
        """Write the guide's prediction for each row into the row's last place."""
        _fill(self.guides, self.columns, rows)

    def to_arrays(self) -> dict[str, AnyArray]:
        """What the guide needs to answer about new runs, as flat read-only arrays by name."""
        return {"columns": self.columns, **guides_to_arrays(self.guides)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, AnyArray], width: int) -> Self:
        """The guide in these arrays, which reads rows of ``width`` numbers, after checks."""
        columns, guides = flat_array(arrays, "columns", np.int64), guides_from_arrays(arrays)
        inside = bool(((columns >= 0) & (columns < width)).all())
        require(inside, f"columns needs whole numbers from 0 to {width - 1}")
        require(columns.size == width_of(guides), "columns needs one number per feature")
        return cls(columns, guides)

    def __reduce__(self) -> tuple[Any, ...]:
        # Copies of arrays come back writable, and kernels would compile once more for them.
        folds = self.folds
        without = () if folds is None else tuple(map(guides_to_arrays, folds.without))
        fold: IndexArray | None = None if folds is None else folds.fold
        return _restored, (self.to_arrays(), without, fold, self.keys)


def _restored(
    arrays: Mapping[str, AnyArray],
    without: Sequence[Mapping[str, AnyArray]],
    fold: IndexArray | None,
    keys: KeyArray | None,
) -> RunGuide:
    folds = None if fold is None else FoldGuides(tuple(map(guides_from_arrays, without)), fold)
    return RunGuide(read_only(arrays["columns"]), guides_from_arrays(arrays), folds, keys)


@kernel
def _fill(guides: Guides, columns: IntArray, rows: FloatArray) -> None:
    n_rows, n_read = rows.shape[0], columns.size
    read, guided = np.empty((n_rows, n_read)), np.empty((n_rows, n_read + 2))
    for i in range(n_rows):
        for f in range(n_read):
            read[i, f] = rows[i, columns[f]]
    append_guides_of_rows(guides, read, guided)
    for i in range(n_rows):
        rows[i, rows.shape[1] - 1] = guided[i, n_read + 1]
